/* The last release of a primary context, with memory in every state: live, freed behind work that has not run, and a stream's own. Who
 * holds the context is the driver's secret, so what belongs to it is handed back when it is gone. Another context goes on. */
#include "case.h"

#include <stdatomic.h>

static CUstream stream;
static _Atomic int going_in;

static void *let_work_go(void *unused)
{
    while (!going_in)
        usleep(1000);
    usleep(20000); /* the release waits for its context's work, natively too */
    sim_release(stream);
    return unused;
}

static void fill(CUcontext context)
{
    CUdeviceptr live, freed, ordered, ordered_freed;
    pthread_t thread;

    SHOW(cuCtxSetCurrent(context));
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAlloc(&live, 5000));
    SHOW(cuMemAlloc(&freed, 3000));
    SHOW(cuMemAllocAsync(&ordered, 2000, stream));
    SHOW(cuMemAllocAsync(&ordered_freed, 1000, stream));
    SHOW(cuMemFree(freed));
    sim_hold(stream);
    SHOW(cuMemsetD8Async(live, 1, 5000, stream));
    SHOW(cuMemsetD8Async(ordered_freed, 1, 1000, stream));
    SHOW(cuMemFreeAsync(ordered_freed, stream));
    pthread_create(&thread, NULL, let_work_go, NULL);
    SHOW(cuCtxSetCurrent(NULL));
    going_in = 1;
    SHOW(cuDevicePrimaryCtxRelease(0));
    pthread_join(thread, NULL);
    SHOW(cuMemFree(live)); /* it went with its context */
    SHOW(cuMemFree(ordered)); /* the device's pool is no context's */
}

int main(void)
{
    CUcontext primary = begin_case(), other;
    CUdeviceptr mine[8];

    SHOW(cuDevicePrimaryCtxRetain(&primary, 0));
    SHOW(cuDevicePrimaryCtxRelease(0)); /* not the last */
    SHOW(cuCtxCreate(&other, NULL, 0, 0));
    for (int round = 0; round < 2; round++) {
        going_in = 0;
        if (round)
            SHOW(cuDevicePrimaryCtxRetain(&primary, 0));
        fill(primary);
        SHOW(cuCtxSetCurrent(other));
        for (int i = 0; i < 8; i++) /* where the dead ones were, perhaps */
            SHOW(cuMemAlloc(&mine[i], 4096));
        for (int i = 0; i < 8; i++)
            SHOW(cuMemsetD8(mine[i], 7, 4096));
        for (int i = 0; i < 8; i++)
            SHOW(cuMemFree(mine[i]));
    }
    SHOW(cuDevicePrimaryCtxRelease(0));
    SHOW(cuCtxDestroy(other));
    FACT(sim_violations());
    FACT(sim_misuses());
    return 0;
}
