/* B22: a free waits for a host function, which waits for another thread's allocations: nobody holds what the other needs. */
#include "case.h"

#include <stdatomic.h>

static CUcontext context;
static CUstream other;
static atomic_int allocated, freeing, failures;

static void CUDA_CB wait_for_allocations(void *unused)
{
    (void)unused;
    while (!allocated)
        usleep(1000);
}

static void *allocate(void *unused)
{
    (void)unused;
    while (!freeing)
        usleep(1000);
    usleep(50000); /* the free is most likely inside by now; if not, the case is only weaker */
    failures += cuCtxSetCurrent(context) != CUDA_SUCCESS;
    for (int i = 0; i < 100; i++) {
        CUdeviceptr p = 0, q = 0;
        size_t free_bytes = 0, total = 0;
        failures += cuMemAlloc(&p, 4096) || cuMemAllocAsync(&q, 4096, other) || cuMemFreeAsync(q, other) ||
                    cuMemFreeAsync(p, other) || cuMemGetInfo(&free_bytes, &total);
    }
    failures += cuStreamSynchronize(other) != CUDA_SUCCESS;
    allocated = 1;
    return NULL;
}

int main(void)
{
    CUstream busy;
    CUdeviceptr p = 0;
    pthread_t thread;

    context = begin_case();
    SHOW(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    SHOW(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAlloc(&p, 4096));
    pthread_create(&thread, NULL, allocate, NULL);
    SHOW(cuLaunchHostFunc(busy, wait_for_allocations, NULL));
    SHOW(cuMemsetD8Async(p, 1, 4096, busy));
    freeing = 1;
    SHOW(cuMemFree(p));
    pthread_join(thread, NULL);
    SHOW(cuStreamSynchronize(busy));
    FACT(failures);
    FACT(sim_violations());
    FACT(sim_misuses());
    return 0;
}
