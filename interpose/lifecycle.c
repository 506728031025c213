#include "lifecycle.h"

#include <dlfcn.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "core/stack.h"
#include "exit.h"
#include "thread.h"
#include "turn.h"

#define CLOSE_SPINS 10000
#define INSIDE_SHARDS 64

static struct nxm_turn first_use;
static _Atomic int starting_pid; /* who has the turn */
static _Atomic bool closed, child;
static struct nxm_options options;
static struct nxm_blocks *tables[NXM_TABLE_COUNT];
static struct nxm_suppressions *suppressions;
static struct nxm_module *_Atomic module;
static char plugin_path[PATH_MAX]; /* kept after the plugin is gone, for the report */

/* Threads inside a hook, spread so that they do not share a line. The door is closed first and counted second; a thread
 * counts itself first and looks at the door second: one of the two always sees the other. */
static struct {
    _Alignas(64) _Atomic unsigned threads;
} inside[INSIDE_SHARDS];

static _Atomic unsigned *inside_shard(void)
{
    return &inside[nxm_thread_number() % INSIDE_SHARDS].threads;
}

/* --- first use ------------------------------------------------------------------------------------------------ */

static void own_directory(char *ret_directory, size_t capacity)
{
    Dl_info info;
    const char *slash = NULL;

    if (dladdr((const void *)(uintptr_t)nxm_enter, &info) && info.dli_fname)
        slash = strrchr(info.dli_fname, '/');
    size_t length = slash ? (size_t)(slash - info.dli_fname) : 1;
    if (length >= capacity)
        length = 0;
    memcpy(ret_directory, slash ? info.dli_fname : ".", length);
    ret_directory[length] = '\0';
}

static void load_plugin(void)
{
    struct nxm_error error = { 0 };
    char directory[PATH_MAX];

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

/* What pthread_atfork comes down to in glibc. Weak: musl has it not, and must still load us. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child_)(void), void *dso)
    __attribute__((weak));

static void in_child(void)
{
    atomic_store(&child, true);
}

static void start(void)
{
    nxm_options_read(&options);
    nxm_log_set_level((enum nxm_log_level)options.verbose);
    for (int i = 0; i < NXM_TABLE_COUNT; i++) {
        if (nxm_blocks_new(&tables[i]) == NXM_OK)
            continue;
        nxm_log(NXM_LOG_WARNING, "no memory for the block tables: nothing is redirected or reported");
        atomic_store(&child, true); /* every hook passes through, as after a fork */
        return;
    }
    /* Now, not at exit: the program may change its working directory, and a mistake is told before the work begins. */
    if (options.suppressions[0])
        nxm_suppressions_load(options.suppressions, &suppressions);
    nxm_foreign_begin();
    nxm_stack_prepare();
    nxm_foreign_end();
    if (__register_atfork)
        __register_atfork(NULL, NULL, in_child, NULL);
    load_plugin();
    nxm_exit_register(); /* after the plugin, so that X1 runs before the plugin's own exit handlers */
    nxm_log(NXM_LOG_INFO, "version %s, plugin %s", NXM_VERSION, nxm_plugin() ? plugin_path : "none");
}

static bool begin_once(void)
{
    int starter = atomic_load(&starting_pid);

    if (nxm_turn_is_done(&first_use))
        return true;
    if (starter != 0 && starter != getpid())
        return false; /* forked meanwhile: the thread that would finish is not in this process */
    if (nxm_turn_take(&first_use) == NXM_TURN_YOURS) {
        atomic_store(&starting_pid, getpid());
        start();
        nxm_turn_finish(&first_use);
    }
    return nxm_turn_is_done(&first_use);
}

/* --- entering and leaving -------------------------------------------------------------------------------------- */

enum nxm_mode nxm_enter(const void *caller, bool begin)
{
    if (nxm_thread.foreign != 0)
        return NXM_MODE_NESTED;
    if (atomic_load_explicit(&child, memory_order_relaxed))
        return NXM_MODE_NATIVE;
    if (!nxm_turn_is_done(&first_use) && (!begin || !begin_once()))
        return NXM_MODE_NATIVE;
    if (atomic_load_explicit(&child, memory_order_relaxed))
        return NXM_MODE_NATIVE;
    atomic_fetch_add(inside_shard(), 1);
    /* Looked at while counted: whoever unloads the plugin takes the handle first and waits for this to be over. */
    struct nxm_module *plugin = nxm_plugin();
    bool nested = plugin && nxm_module_contains(plugin, caller);
    if (nested || atomic_load(&closed)) {
        atomic_fetch_sub(inside_shard(), 1);
        return nested ? NXM_MODE_NESTED : NXM_MODE_LATE;
    }
    nxm_thread.inside++;
    return NXM_MODE_SERVE;
}

void nxm_leave(enum nxm_mode mode)
{
    if (mode != NXM_MODE_SERVE)
        return;
    nxm_thread.inside--;
    atomic_fetch_sub(inside_shard(), 1);
}

/* Waits, within bounds, until nobody is inside; not for itself. */
static unsigned wait_for_others(void)
{
    unsigned others = 0;

    for (int spin = 0; spin < CLOSE_SPINS; spin++) {
        others = 0;
        for (int i = 0; i < INSIDE_SHARDS; i++)
            others += atomic_load(&inside[i].threads);
        if (others == 0 || nxm_thread.inside != 0)
            break;
        sched_yield();
    }
    return others;
}

unsigned nxm_close_door(void)
{
    atomic_store(&closed, true);
    return wait_for_others();
}

bool nxm_door_closed(void)
{
    return atomic_load(&closed);
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

    if (wait_for_others() == 0)
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
    return atomic_load(&child);
}

bool nxm_began(void)
{
    return nxm_turn_is_done(&first_use);
}
