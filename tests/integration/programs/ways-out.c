/* Leaves the process in the way named by its argument, with one block leaked and one freed on the way. */
#include "transcript.h"

#include <pthread.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static CUdeviceptr late;

static void free_late(void)
{
    SHOW(cuMemFree(late));
}

__attribute__((destructor)) static void free_in_destructor(void)
{
    if (late && getenv("FREE_IN_DESTRUCTOR"))
        SHOW(cuMemFree(late));
}

static void *leave(void *unused)
{
    (void)unused;
    exit(5);
}

static int wait_for(pid_t child)
{
    int status = -1;

    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "return";
    CUdeviceptr leaked = 0;
    pthread_t thread;

    if (strcmp(way, "early-atexit") == 0)
        atexit(free_late);
    if (strcmp(way, "early-fork") == 0) { /* the child is the one that uses CUDA */
        pid_t child = fork();
        if (child != 0)
            return wait_for(child);
    }
    begin();
    SHOW(cuMemAlloc(&leaked, 1 << 20));
    SHOW(cuMemAlloc(&late, 4096));
    if (strcmp(way, "late-atexit") == 0)
        atexit(free_late);
    if (strcmp(way, "exit") == 0)
        exit(3);
    if (strcmp(way, "_exit") == 0)
        _exit(4);
    if (strcmp(way, "quick_exit") == 0)
        quick_exit(6);
    if (strcmp(way, "thread") == 0 && pthread_create(&thread, NULL, leave, NULL) == 0)
        pthread_join(thread, NULL);
    if (strcmp(way, "abort") == 0)
        abort();
    if (strcmp(way, "fork") == 0) {
        pid_t child = fork();
        if (child == 0)
            exit(cuMemFree(leaked) == CUDA_SUCCESS ? 8 : 7); /* what CUDA says in a child is the driver's business */
        FACT(wait_for(child) >= 0);
    }
    if (strcmp(way, "raw-clone") == 0) {
        pid_t child = (pid_t)syscall(SYS_clone, 17 /* SIGCHLD */, 0, 0, 0, 0);
        if (child == 0)
            exit(9);
        FACT(wait_for(child));
    }
    if (strcmp(way, "vfork") == 0) {
        pid_t child = vfork();
        if (child == 0)
            _exit(11);
        FACT(wait_for(child));
    }
    if (strcmp(way, "exec") == 0)
        execl("/bin/true", "true", (char *)NULL);
    return 0;
}
