/* Forks while another thread makes the process' first allocation. Says whether the child came between the registrations for exit, which
 * are made then: libc's list has a lock (tests/integration/preload/slow_on_exit.c says when, where it is preloaded).
 *
 *   fork-in-first-use after|before     the fork begins after the first use did, or before and is not over yet */
#include "transcript.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static CUcontext context;
static int (*is_registering)(void);
static _Atomic int begin_now;

static void *use(void *unused)
{
    CUdeviceptr p = 0;

    while (!begin_now)
        usleep(1000);
    cuCtxSetCurrent(context);
    SHOW(cuMemAlloc(&p, 100));
    SHOW(cuMemFree(p));
    return unused;
}

static int now(void)
{
    return is_registering && is_registering();
}

static void let_begin(void)
{
    begin_now = 1;
    for (int i = 0; i < 300 && !now(); i++)
        usleep(1000);
}

int main(int argc, char **argv)
{
    CUstream stream;
    CUgraph graph = NULL;
    pthread_t thread;
    int status = -1;
    int before = argc > 1 && strcmp(argv[1], "before") == 0;

    *(void **)&is_registering = dlsym(RTLD_DEFAULT, "is_registering");
    if (before)
        pthread_atfork(let_begin, NULL, NULL); /* runs after the handlers that are registered later */
    context = begin();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)); /* the first moment at which the shim watches forks */
    SHOW(cuStreamEndCapture(stream, &graph));
    fflush(stdout);
    pthread_create(&thread, NULL, use, NULL);
    if (!before)
        let_begin();
    pid_t child = fork();
    if (child == 0)
        _exit(10 + now());
    waitpid(child, &status, 0);
    pthread_join(thread, NULL);
    FACT(WEXITSTATUS(status));
    return 0;
}
