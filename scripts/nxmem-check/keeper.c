#include "keeper.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PASSES = 2000 }; /* of a millisecond and more: what nobody can end must not keep the report back for ever */

static struct end *ended; /* shared with the keeper */

static _Noreturn void die(const char *what) {
    fprintf(stderr, "nxmem-check: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* --- what was left --- */

static pid_t parent_of(const char *pid) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, line, sizeof line - 1);
    close(file);
    line[length > 0 ? length : 0] = '\0';
    const char *name_end = strrchr(line, ')'); /* the name may hold anything */
    int parent = 0;
    return name_end && sscanf(name_end, ") %*c %d", &parent) == 1 ? parent : 0;
}

static void kill_children(void) {
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    if (!folder) return;
    while ((entry = readdir(folder)) != NULL)
        if (isdigit((unsigned char)entry->d_name[0]) && parent_of(entry->d_name) == getpid()) kill((pid_t)atol(entry->d_name), SIGKILL);
    closedir(folder);
}

/* Whose parent ends comes here, so in the end there is nobody; each pass ends one generation at least. */
static void end_all(void) {
    const struct timespec moment = {0, 1000000};
    for (unsigned pass = 0; pass < PASSES; pass++) {
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) continue;
        if (pid < 0) return;
        kill_children();
        nanosleep(&moment, NULL);
    }
}

/* --- the keeper --- */

/* Seen, and not yet reaped: its number stays its own until its group is ended, too. */
static bool has_ended(pid_t pid) {
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* Waits for the end of the child; false when it does not come in time, or somebody wants the keeper to end. */
static bool await(pid_t pid, unsigned seconds, const sigset_t *awaited) {
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += seconds;
    for (;;) {
        if (has_ended(pid)) return true;
        clock_gettime(CLOCK_MONOTONIC, &now);
        struct timespec left = {end.tv_sec - now.tv_sec, end.tv_nsec - now.tv_nsec};
        if (left.tv_nsec < 0) {
            left.tv_nsec += 1000000000;
            left.tv_sec--;
        }
        int signal = left.tv_sec >= 0 ? sigtimedwait(awaited, NULL, &left) : -1;
        if (signal == SIGCHLD || (signal < 0 && errno == EINTR && left.tv_sec >= 0)) continue;
        return has_ended(pid);
    }
}

/* The signals that end the tool are for the tool; its end is told by SIGTERM. */
static sigset_t awaited_signals(void) {
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD);
    sigaddset(&awaited, SIGTERM);
    return awaited;
}

static _Noreturn void keep(void (*body)(const void *, void *), const void *argument, void *page, unsigned seconds, pid_t tool,
                           const sigset_t *before) {
    const sigset_t awaited = awaited_signals();
    int status = 0;

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    setpgid(0, 0); /* out of the terminal's reach: it has to outlive what it keeps */
    if (getppid() != tool) _exit(0);
    pid_t pid = fork();
    if (pid < 0) _exit(2);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0);
        sigprocmask(SIG_SETMASK, before, NULL);
        body(argument, page);
        abort();
    }
    setpgid(pid, pid);
    ended->in_time = await(pid, seconds, &awaited);
    kill(-pid, SIGKILL); /* with what it started */
    waitpid(pid, &status, 0);
    ended->status = status;
    end_all();
    _exit(0);
}

struct end keeper_run(void (*body)(const void *argument, void *page), const void *argument, void *page, unsigned seconds) {
    const sigset_t awaited = awaited_signals();
    const pid_t tool = getpid();
    sigset_t before;
    int status = 0;

    signal(SIGCHLD, SIG_DFL); /* ignored, it would leave nobody to be waited for */
    if (!ended) ended = mmap(NULL, sizeof *ended, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ended == MAP_FAILED) die("mmap");
    *ended = (struct end){.in_time = true};
    sigprocmask(SIG_BLOCK, &awaited, &before);
    pid_t keeper = fork();
    if (keeper < 0) die("fork");
    if (keeper == 0) keep(body, argument, page, seconds, tool, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    while (waitpid(keeper, &status, 0) < 0 && errno == EINTR) continue;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "nxmem-check: the process that runs the rules was ended\n");
        exit(2);
    }
    return *ended;
}
