#include "process.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/journal.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/program.h"
#include "core/report.h"
#include "core/stack.h"
#include "core/trace.h"
#include "door.h"
#include "forks.h"
#include "label.h"
#include "route_names.h"
#include "thread.h"

static _Atomic uint32_t mark[NXM_MARK_WORDS] = { NXM_OURS };
_Atomic uint32_t *_Atomic nxm_process_mark = mark; /* or in a page that is zero in a child, however that was made */
struct nxm_options nxm_process_options;
struct nxm_blocks *nxm_process_tables[NXM_TABLE_COUNT];
static struct nxm_suppressions *suppressions;
struct nxm_module *_Atomic nxm_process_plugin;
struct nxm_code nxm_process_plugin_code;
static char plugin_path[PATH_MAX]; /* kept after the plugin is gone, for the report */

/* What pthread_atfork comes down to in glibc. Weak: musl has it not, and must still load us. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child_)(void), void *dso)
    __attribute__((weak));

static void pass_through(void)
{
    _Atomic uint32_t *at = atomic_load(&nxm_process_mark);

    atomic_store(&at[NXM_MARK], NXM_NOT_OURS);
    atomic_store(&at[NXM_MARK_CALM], false);
    nxm_names_keep_in(NULL, NULL); /* a journal is the parent's */
}

/* A child that no handler is told of (a raw clone, say) would go on writing into tables that a journal shares with it. The kernel
 * knows such pages from 4.14 on; before that the pid is asked, and only with a journal, for it costs a system call. */
static void mark_as_ours(void)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    _Atomic uint32_t *page = nxm_mem_map(bytes);

    if (page && madvise((void *)page, bytes, MADV_WIPEONFORK) == 0) {
        atomic_store(page, NXM_OURS);
        atomic_store_explicit(&nxm_process_mark, page, memory_order_release);
        return;
    }
    nxm_mem_unmap((void *)page, page ? bytes : 0);
    if (nxm_journal())
        atomic_store(&mark[NXM_MARK], NXM_ASK_PID);
}

static void in_child(void)
{
    nxm_forks_in_child();
    pass_through();
}

bool nxm_process_ask_pid(void)
{
    return nxm_journal() && nxm_journal()->pid != getpid();
}

void nxm_process_watch_forks(void)
{
    static _Atomic bool watched;

    if (__register_atfork && !atomic_exchange(&watched, true))
        __register_atfork(nxm_forks_before, nxm_forks_in_parent, in_child, NULL);
}

/* --- the journal -------------------------------------------------------------------------------------------- */

static void fill_journal(struct nxm_journal *journal)
{
    nxm_program_path(journal->program, sizeof journal->program);
    nxm_names_keep_in(&journal->unknown, &journal->uncovered);
    journal->api_count = NXM_API_COUNT;
    for (int i = 0; i < NXM_API_COUNT; i++)
        nxm_journal_text(journal->apis[i], sizeof journal->apis[i], nxm_api_names[i]);
}

static void begin_journal(void)
{
    static char path[PATH_MAX];
    struct nxm_error error = { 0 };

    nxm_report_path(nxm_process_options.journal, path, sizeof path);
    if (nxm_journal_begin(path, (uint64_t)nxm_process_options.journal_size << 20, &error) == NXM_OK)
        fill_journal(nxm_journal());
    else
        nxm_log(NXM_LOG_WARNING, "no journal: %s", path[0] ? error.text : "the path is too long");
}

static void put_tables_in_journal(void)
{
    struct nxm_journal *journal = nxm_journal();

    if (!journal)
        return;
    _Static_assert(NXM_TABLE_COUNT <= NXM_JOURNAL_TABLES && NXM_API_COUNT <= NXM_JOURNAL_APIS, "the journal has room");
    for (int i = 0; i < NXM_TABLE_COUNT; i++)
        journal->tables[i] = nxm_process_tables[i];
    journal->imports = NXM_TABLE_IMPORTED;
    atomic_store(&journal->table_count, NXM_TABLE_COUNT);
}

bool nxm_process_prepare(void)
{
    nxm_options_read(&nxm_process_options);
    nxm_log_set_level((enum nxm_log_level)nxm_process_options.verbose);
    if (nxm_process_options.journal[0])
        begin_journal();
    mark_as_ours();
    for (int i = 0; i < NXM_TABLE_COUNT; i++) {
        if (nxm_blocks_new(&nxm_process_tables[i]) == NXM_OK)
            continue;
        nxm_log(NXM_LOG_WARNING, "no memory for the block tables: nothing is redirected or reported");
        pass_through();
        return false;
    }
    put_tables_in_journal();
    /* Now, not at exit: the program may change its working directory, and a mistake is told before the work begins. */
    if (nxm_process_options.suppressions[0])
        nxm_suppressions_load(nxm_process_options.suppressions, &suppressions);
    nxm_trace_use((enum nxm_unwinder)nxm_process_options.unwinder);
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
    if (nxm_module_find_path(nxm_process_options.plugin, directory, plugin_path, sizeof plugin_path, &error) == NXM_OK) {
        nxm_foreign_begin();
        struct nxm_module *loaded = NULL;
        int result = nxm_module_load(plugin_path, NULL, &loaded, &error);
        nxm_foreign_end();
        if (result == NXM_OK) {
            nxm_process_plugin_code = nxm_module_code(loaded);
            atomic_store(&nxm_process_plugin, loaded);
            if (nxm_journal())
                nxm_journal_text(nxm_journal()->plugin, sizeof nxm_journal()->plugin, plugin_path);
            return;
        }
    }
    plugin_path[0] = '\0';
    nxm_log(NXM_LOG_WARNING, "%s (%s)", error.text,
            nxm_process_options.on_error == NXM_ON_ERROR_FAIL ? "NXMEM_ON_ERROR=fail: device allocations will fail"
                                                  : "going on without a plugin: the driver serves");
}

struct nxm_module *nxm_plugin_take(void)
{
    struct nxm_module *taken = atomic_exchange(&nxm_process_plugin, NULL);

    if (nxm_door_wait() == 0)
        return taken;
    nxm_plugin_put_back(taken);
    return NULL;
}

void nxm_plugin_put_back(struct nxm_module *plugin)
{
    atomic_store(&nxm_process_plugin, plugin);
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
    return nxm_process_options.on_error == NXM_ON_ERROR_FAIL;
}
