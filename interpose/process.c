#include "process.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include "core/log.h"
#include "core/stack.h"
#include "door.h"
#include "thread.h"

static _Atomic bool passing_through;
static struct nxm_options options;
static struct nxm_blocks *tables[NXM_TABLE_COUNT];
static struct nxm_suppressions *suppressions;
static struct nxm_module *_Atomic module;
static char plugin_path[PATH_MAX]; /* kept after the plugin is gone, for the report */

/* What pthread_atfork comes down to in glibc. Weak: musl has it not, and must still load us. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child_)(void), void *dso)
    __attribute__((weak));

static void in_child(void)
{
    atomic_store(&passing_through, true);
}

void nxm_process_watch_forks(void)
{
    static _Atomic bool watched;

    if (__register_atfork && !atomic_exchange(&watched, true))
        __register_atfork(NULL, NULL, in_child, NULL);
}

bool nxm_process_prepare(void)
{
    nxm_options_read(&options);
    nxm_log_set_level((enum nxm_log_level)options.verbose);
    for (int i = 0; i < NXM_TABLE_COUNT; i++) {
        if (nxm_blocks_new(&tables[i]) == NXM_OK)
            continue;
        nxm_log(NXM_LOG_WARNING, "no memory for the block tables: nothing is redirected or reported");
        atomic_store(&passing_through, true);
        return false;
    }
    /* Now, not at exit: the program may change its working directory, and a mistake is told before the work begins. */
    if (options.suppressions[0])
        nxm_suppressions_load(options.suppressions, &suppressions);
    nxm_foreign_begin();
    nxm_stack_prepare();
    nxm_foreign_end();
    nxm_process_watch_forks();
    return true;
}

static void own_directory(char *ret_directory, size_t capacity)
{
    Dl_info info;
    const char *slash = NULL;

    if (dladdr((const void *)(uintptr_t)nxm_process_prepare, &info) && info.dli_fname)
        slash = strrchr(info.dli_fname, '/');
    size_t length = slash ? (size_t)(slash - info.dli_fname) : 1;
    if (length >= capacity)
        length = 0;
    memcpy(ret_directory, slash ? info.dli_fname : ".", length);
    ret_directory[length] = '\0';
}

void nxm_process_load_plugin(void)
{
    struct nxm_error error = { 0 };
    static char directory[PATH_MAX]; /* this runs once, perhaps on a small stack */

    own_directory(directory, sizeof directory);
    if (nxm_module_find_path(options.plugin, directory, plugin_path, sizeof plugin_path, &error) == NXM_OK) {
        nxm_foreign_begin();
        struct nxm_module *loaded = NULL;
        int result = nxm_module_load(plugin_path, NULL, &loaded, &error);
        nxm_foreign_end();
        if (result == NXM_OK) {
            atomic_store(&module, loaded);
            return;
        }
    }
    plugin_path[0] = '\0';
    nxm_log(NXM_LOG_WARNING, "%s (%s)", error.text,
            options.on_error == NXM_ON_ERROR_FAIL ? "NXMEM_ON_ERROR=fail: device allocations will fail"
                                                  : "going on without a plugin: the driver serves");
}

struct nxm_blocks *nxm_table(enum nxm_table which)
{
    return tables[which];
}

const struct nxm_options *nxm_options(void)
{
    return &options;
}

struct nxm_module *nxm_plugin(void)
{
    return atomic_load_explicit(&module, memory_order_acquire);
}

struct nxm_module *nxm_plugin_take(void)
{
    struct nxm_module *taken = atomic_exchange(&module, NULL);

    if (nxm_door_wait() == 0)
        return taken;
    nxm_plugin_put_back(taken);
    return NULL;
}

void nxm_plugin_put_back(struct nxm_module *plugin)
{
    atomic_store(&module, plugin);
}

const char *nxm_plugin_path(void)
{
    return plugin_path[0] ? plugin_path : NULL;
}

const struct nxm_suppressions *nxm_suppressions_in_force(void)
{
    return suppressions;
}

bool nxm_refuse_instead(void)
{
    return options.on_error == NXM_ON_ERROR_FAIL;
}

bool nxm_is_child(void)
{
    return atomic_load(&passing_through);
}
