/* B23: a stream is destroyed with work pending and its handle comes back for another; a free on a stream that is gone is
 * the driver's error and leaves the block live. */
#include "case.h"

enum { BYTES = 4096 };

int main(void)
{
    CUstream first, second = NULL, gate;
    CUevent opened, done;
    CUdeviceptr held = 0, later = 0, kept = 0;
    unsigned char seen[BYTES];
    int wrong = 0;

    begin_case();
    SHOW(cuMemAlloc(&kept, BYTES));
    SHOW(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAllocAsync(&held, BYTES, first));
    SHOW(cuStreamSynchronize(first));
    SHOW(cuStreamCreate(&gate, CU_STREAM_NON_BLOCKING)); /* what is held back must not be freed by the destroy */
    SHOW(cuEventCreate(&opened, CU_EVENT_DISABLE_TIMING));
    SHOW(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    sim_hold(gate);
    SHOW(cuMemsetD8Async(kept, 0, BYTES, gate));
    SHOW(cuEventRecord(opened, gate));
    SHOW(cuStreamWaitEvent(first, opened, 0));
    SHOW(cuMemsetD8Async(held, 0x5A, BYTES, first));
    SHOW(cuMemcpyDtoDAsync(kept, held, BYTES, first));
    SHOW(cuMemFreeAsync(held, first));
    SHOW(cuEventRecord(done, first));
    SHOW(cuStreamDestroy(first));
    for (int i = 0; i < 64 && second != first; i++)
        cuStreamCreate(&second, CU_STREAM_NON_BLOCKING);
    SHOW(cuMemAllocAsync(&later, BYTES, second));
    FACT(later == held);
    SHOW(cuMemsetD8Async(later, 0xEE, BYTES, second));
    SHOW(cuStreamSynchronize(second));
    sim_release(gate);
    SHOW(cuEventSynchronize(done));
    SHOW(cuMemcpyDtoH(seen, kept, BYTES));
    for (int i = 0; i < BYTES; i++)
        wrong += seen[i] != 0x5A;
    FACT(wrong);
    SHOW(cuMemFreeAsync(later, second));
    SHOW(cuStreamSynchronize(second));

    SHOW(cuMemAllocAsync(&later, 777, second)); /* the one that stays */
    SHOW(cuStreamSynchronize(second));
    SHOW(cuStreamDestroy(second));
    SHOW(cuMemFreeAsync(later, second));
    SHOW(cuMemFree(kept));
    FACT(sim_violations());
    return 0;
}
