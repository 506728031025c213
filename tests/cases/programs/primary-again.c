/* Two threads take the primary context, use it and let it go, again and again: whoever comes next gets it back under the same
 * handle, and its memory is never that of the one before. */
#include "case.h"

#include <sched.h>
#include <stdatomic.h>

enum { TIMES = 150, OTHERS = 10000 };
static atomic_int failures;

static void *take_and_let_go(void *unused)
{
    for (int i = 0; i < TIMES; i++) {
        CUcontext context;
        CUdeviceptr p = 0;
        failures += cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS;
        failures += cuMemAlloc(&p, 4096) != CUDA_SUCCESS || cuMemsetD8(p, 1, 4096) != CUDA_SUCCESS;
        for (int k = 0; k < 20; k++)
            sched_yield();
        failures += cuMemsetD8(p, 2, 4096) != CUDA_SUCCESS || cuMemFree(p) != CUDA_SUCCESS;
        failures += cuCtxSetCurrent(NULL) != CUDA_SUCCESS || cuDevicePrimaryCtxRelease(0) != CUDA_SUCCESS;
        sched_yield();
    }
    return unused;
}

int main(void)
{
    pthread_t thread[2];
    CUcontext other;
    CUdeviceptr p;

    if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate(&other, NULL, 0, 0) != CUDA_SUCCESS)
        return 99;
    alarm(200);
    for (int i = 0; i < OTHERS; i++)
        failures += cuMemAlloc(&p, 512) != CUDA_SUCCESS; /* another context's: what walks all blocks takes its time */
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, take_and_let_go, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    FACT(failures);
    return 0;
}
