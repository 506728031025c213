#include "exit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/journal.h"
#include "core/log.h"
#include "core/report.h"
#include "coverage.h"
#include "door.h"
#include "lane.h"
#include "process.h"
#include "scope.h"
#include "summary.h"
#include "thread.h"

extern int __cxa_atexit(void (*function)(void *), void *argument, void *dso);
/* Weak: musl has neither, and must still load us. */
extern int __cxa_at_quick_exit(void (*function)(void *), void *dso) __attribute__((weak));
#pragma weak on_exit

static _Atomic bool x1_done, x2_done;
static _Atomic int program_status = -1; /* what the program ends with; negative: not known */
static _Atomic int owner_pid; /* 0: nothing began */
static pid_t loaded_in;
static struct nxm_gate gate;
static bool gate_asked;
static const char *gate_extra;

static bool is_ours(void)
{
    return atomic_load(&owner_pid) == getpid() && !nxm_is_child();
}

/* --- X1: the door, the gate, the plugin ------------------------------------------------------------------------ */

static bool count_plugin_block(void *argument, const struct nxm_block *block)
{
    *(uint64_t *)argument += block->allocator != NULL;
    return true;
}

static void drain_queued(struct nxm_scope *scope, void *argument)
{
    (void)argument;
    nxm_foreign_begin();
    nxm_allocator_drain(scope->allocator, UINT64_MAX);
    nxm_foreign_end();
}

/* Whether anything of the plugin's is still in the program's hands, or on its way back. */
static bool nothing_is_left(void)
{
    struct nxm_allocator_totals totals;
    uint64_t blocks = 0, waiting = 0, waiting_bytes = 0;

    nxm_scope_each(drain_queued, NULL);
    nxm_blocks_each(nxm_table(NXM_TABLE_MEMORY), count_plugin_block, &blocks);
    nxm_scope_totals(&totals);
    nxm_lane_amount(&waiting, &waiting_bytes);
    return blocks == 0 && totals.views == 0 && waiting == 0;
}

static void ask_gate(unsigned inside)
{
    struct nxm_module *unloadable = NULL;

    gate_asked = true;
    if (nxm_thread.inside != 0) { /* a signal handler that leaves: what its thread holds of the plugin's, it holds for good */
        gate_extra = "a thread was inside the shim";
        return;
    }
    nxm_foreign_begin();
    if (inside != 0) {
        gate_extra = "a thread was inside the shim";
    } else if (nothing_is_left()) {
        nxm_scope_close_all();
        unloadable = nxm_plugin_take();
    }
    if (unloadable && nxm_module_unload(unloadable, &gate) != NXM_OK && gate.handle_kept)
        nxm_plugin_put_back(unloadable);
    else if (!unloadable)
        nxm_module_query_gate(nxm_plugin(), &gate);
    nxm_foreign_end();
}

/* _exit may be called where nothing of ours or the plugin's can be entered: from a signal handler that interrupted malloc, say.
 * The door is shut, and that is all. */
static void x1_without_gate(void)
{
    if (is_ours() && !atomic_exchange(&x1_done, true))
        nxm_door_close();
}

static void x1(void)
{
    if (!is_ours() || atomic_exchange(&x1_done, true))
        return;
    nxm_door_close();
    unsigned inside = nxm_door_wait();
    if (nxm_plugin()) {
        ask_gate(inside);
        nxm_journal_gate(&gate, gate_extra);
    }
}

/* --- X2: the report -------------------------------------------------------------------------------------------- */

static bool is_same_file(int a, int b)
{
    struct stat of_a, of_b;

    return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

/* What the program itself writes to is appended to, not emptied. A pipe that nobody reads is no place for a report. */
static int open_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);

    if (fd < 0)
        return -1;
    if (is_same_file(fd, STDOUT_FILENO) || is_same_file(fd, STDERR_FILENO))
        lseek(fd, 0, SEEK_END);
    else if (ftruncate(fd, 0) != 0 && errno != EINVAL) /* EINVAL: no regular file */
        nxm_log(NXM_LOG_INFO, "cannot empty %s: the report overwrites its beginning", path);
    return fd;
}

static int open_report(const char *pattern)
{
    char path[PATH_MAX];

    if (strcmp(pattern, "stderr") == 0)
        return STDERR_FILENO;
    nxm_report_path(pattern, path, sizeof path);
    const char *refusal = !path[0]                    ? "the path is too long"
                          : nxm_journal_is_at(path) ? "it is a journal, which a process may be writing"
                                                    : NULL;
    int fd = refusal ? -1 : open_file(path);
    if (fd >= 0)
        return fd;
    nxm_log(NXM_LOG_WARNING, "cannot write the report to %s: %s; it goes to standard error", path[0] ? path : pattern,
            refusal ? refusal : strerror(errno));
    return STDERR_FILENO;
}

/* Returns how many blocks leaked. */
static uint64_t write_report(void)
{
    struct nxm_report report;

    memset(&report, 0, sizeof report);
    nxm_summary_fill(&report);
    report.gate = gate;
    report.gate_known = gate_asked;
    report.gate_extra = gate_extra;
    if (nxm_report_empty(&report))
        return 0;
    if (strcmp(nxm_options()->report, "none") != 0) {
        int fd = open_report(nxm_options()->report);
        nxm_report_write(fd, &report, (enum nxm_report_format)nxm_options()->report_format);
        if (fd != STDERR_FILENO)
            close(fd);
    }
    return nxm_report_leaks(&report);
}

/* Never returns when a leak changes the program's status. `flush`: this way out flushes what stdio holds. */
static void x2(bool flush)
{
    if (!is_ours() || atomic_exchange(&x2_done, true))
        return;
    if (nxm_thread.inside != 0) {
        if (strcmp(nxm_options()->report, "none") != 0)
            nxm_log(NXM_LOG_WARNING, "the process ends inside an allocation call: no report");
        return;
    }
    uint64_t leaks = write_report();
    nxm_journal_ended();
    unsigned code = nxm_options()->leak_exit_code;
    if (leaks > 0 && code != 0 && atomic_load(&program_status) == 0) {
        if (flush)
            fflush(NULL); /* what exit itself would do next */
        syscall(SYS_exit_group, (int)code);
    }
}

/* A process that only looked around may have been asked what it found. */
static void begin_for_coverage(void)
{
    if (atomic_load(&owner_pid) == 0 && loaded_in == getpid() && nxm_coverage_is_due() && nxm_process_prepare())
        atomic_store(&owner_pid, getpid());
}

static void x2_at_exit(void *unused)
{
    (void)unused;
    begin_for_coverage();
    x1(); /* when the plugin was loaded by a handler of exit itself */
    x2(true);
}

static void at_quick_exit_too(void *unused)
{
    (void)unused;
    x1();
    x2(false);
}

/* X2 itself is not told: on_exit, which tells, cannot be registered in front of the loader's own destructor run. */
static void note_status(int status, void *unused)
{
    (void)unused;
    atomic_store(&program_status, status & 0xFF);
}

void nxm_exit_register(void)
{
    atomic_store(&owner_pid, getpid());
    if (on_exit)
        on_exit(note_status, NULL);
    atexit(x1);
    if (__cxa_at_quick_exit)
        __cxa_at_quick_exit(at_quick_exit_too, NULL);
}

__attribute__((constructor)) static void register_report(void)
{
    loaded_in = getpid();
    __cxa_atexit(x2_at_exit, NULL, NULL);
}

/* --- the ways out that run no handlers -------------------------------------------------------------------------- */

static void end_now(int status) __attribute__((noreturn));
static void end_now(int status)
{
    if (is_ours()) {
        atomic_store(&program_status, status & 0xFF);
        x1_without_gate();
        x2(false);
    }
    for (;;)
        syscall(SYS_exit_group, status);
}

__attribute__((visibility("default"), noreturn)) void _exit(int status)
{
    end_now(status);
}

__attribute__((visibility("default"), noreturn)) void _Exit(int status)
{
    end_now(status);
}
