/* B56: a process forks while its threads are inside the shim; each child tries an allocation and exits. */
#include "case.h"

#include <stdatomic.h>
#include <sys/wait.h>

static CUcontext context;
static atomic_int stop;

static void *churn(void *unused)
{
    cuCtxSetCurrent(context);
    while (!stop) {
        CUdeviceptr p = 0;
        if (cuMemAlloc(&p, 100) == CUDA_SUCCESS)
            cuMemFree(p);
    }
    return unused;
}

int main(void)
{
    pthread_t thread[3];
    CUdeviceptr leaked = 0;
    int bad = 0;

    context = begin_case();
    SHOW(cuMemAlloc(&leaked, 5000));
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, churn, NULL);
    for (int i = 0; i < 40; i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) {
            alarm(200);
            CUdeviceptr p = 0;
            (void)cuMemFree(leaked);
            exit(cuMemAlloc(&p, 16) == CUDA_ERROR_NOT_INITIALIZED ? 7 : 8);
        }
        waitpid(child, &status, 0);
        bad += !WIFEXITED(status) || WEXITSTATUS(status) != 7;
    }
    stop = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    FACT(bad);
    return 0;
}
