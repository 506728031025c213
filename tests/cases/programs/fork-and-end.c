/* Children are forked while other threads take contexts, or capture; each ends what it can name, and exits at once. */
#include "case.h"

#include <stdatomic.h>
#include <sys/wait.h>

static CUcontext context;
static atomic_int stop;

static void *contexts(void *unused)
{
    CUcontext again;

    while (!stop) {
        cuDevicePrimaryCtxRetain(&again, 0);
        cuDevicePrimaryCtxRelease(0);
    }
    return unused;
}

static void *captures(void *unused)
{
    cuCtxSetCurrent(context);
    while (!stop) {
        CUstream stream;
        CUgraph graph = NULL;
        cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
        cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
        cuStreamEndCapture(stream, &graph);
        cuGraphDestroy(graph);
        cuStreamDestroy(stream);
    }
    return unused;
}

static void child(void)
{
    CUcontext again;
    CUgraph graph;

    alarm(200);
    cuDevicePrimaryCtxReset(0);
    cuDevicePrimaryCtxRetain(&again, 0);
    cuStreamEndCapture(NULL, &graph);
    cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL);
    _exit(0);
}

int main(int argc, char **argv)
{
    void *(*work)(void *) = argc > 1 && strcmp(argv[1], "captures") == 0 ? captures : contexts;
    pthread_t thread[2];
    int hung = 0;

    context = begin_case(); /* no allocation: what follows captures and contexts was there before it */
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, work, NULL);
    for (int i = 0; i < 300 && hung < 2; i++) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0)
            child();
        waitpid(pid, &status, 0);
        hung += WIFSIGNALED(status) != 0;
    }
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    FACT(hung);
    return 0;
}
