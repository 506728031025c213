/* B16: handlers registered before and after the first use free blocks, and another thread allocates and frees all the while. */
#include "case.h"

static CUcontext context;
static CUdeviceptr first, second;

static void free_first(void)
{
    SHOW(cuMemFree(first));
}

static void free_second(void)
{
    SHOW(cuMemFree(second));
}

static void *churn(void *unused)
{
    if (cuCtxSetCurrent(context) == CUDA_SUCCESS)
        for (;;) {
            CUdeviceptr p = 0;
            if (cuMemAlloc(&p, 100) != CUDA_SUCCESS || cuMemFree(p) != CUDA_SUCCESS)
                break;
        }
    return unused;
}

int main(void)
{
    pthread_t thread;

    atexit(free_first);
    context = begin_case();
    SHOW(cuMemAlloc(&first, 1000));
    SHOW(cuMemAlloc(&second, 2000));
    atexit(free_second);
    pthread_create(&thread, NULL, churn, NULL);
    usleep(20000);
    return 0;
}
