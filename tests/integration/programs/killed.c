/* Allocates and frees, then ends in the way that its argument names: `killed WAY`. With OLD_KERNEL in the environment no page is wiped
 * on a fork, as before Linux 4.14. */
#include "transcript.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int *volatile nowhere = (volatile int *)8;

/* In place of libc's, for everybody in the process. */
__attribute__((visibility("default"))) int madvise(void *address, size_t length, int advice)
{
    if (advice == MADV_WIPEONFORK && getenv("OLD_KERNEL")) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_madvise, address, length, advice);
}

static void end(const char *way)
{
    if (strcmp(way, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(way, "abort") == 0)
        abort();
    if (strcmp(way, "segv") == 0)
        *nowhere = 0;
    if (strcmp(way, "_exit") == 0)
        syscall(SYS_exit_group, 3); /* no handler of anybody's */
}

/* What children do is theirs: the parent's journal says nothing of it. */
static void have_children(CUdeviceptr p)
{
    CUdeviceptr q;

    for (int raw = 0; raw < 2; raw++) {
        pid_t child = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) : fork();
        if (child == 0) {
            (void)cuMemFree(p);
            (void)cuMemAlloc(&q, 1 << 20);
            syscall(SYS_exit_group, 0);
        }
        waitpid(child, NULL, 0);
    }
}

int main(int argc, char **argv)
{
    CUdeviceptr kept[3], gone;
    void *pinned;

    begin();
    for (int i = 0; i < 3; i++)
        SHOW(cuMemAlloc(&kept[i], 1000 * (size_t)(i + 1)));
    for (int i = 0; i < 5000; i++)
        if (cuMemAlloc(&gone, 64) || cuMemFree(gone))
            return 9;
    SHOW(cuMemAllocHost(&pinned, 500));
    SHOW(cuMemFree(kept[1]));
    SHOW(cuMemFree(kept[1]));
    have_children(kept[0]);
    if (argc > 1)
        end(argv[1]);
    return 0;
}
