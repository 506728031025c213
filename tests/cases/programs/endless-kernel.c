/* B26: one stream's work never ends. Everything else goes on, a free behind that work waits for ever, and so the process
 * exits with it. */
#include "case.h"

enum { BYTES = 4096 };

int main(void)
{
    CUstream endless, other;
    CUdeviceptr busy = 0, behind = 0, p = 0, q = 0;
    size_t free_bytes = 0, total = 0;
    int failures = 0;

    begin_case();
    SHOW(cuStreamCreate(&endless, CU_STREAM_NON_BLOCKING));
    SHOW(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAllocAsync(&busy, BYTES, endless));
    SHOW(cuMemAllocAsync(&behind, 5000, endless));
    SHOW(cuMemAllocAsync(&q, BYTES, other));
    SHOW(cuStreamSynchronize(endless));
    sim_hold(endless);
    SHOW(cuMemsetD8Async(busy, 1, BYTES, endless));
    SHOW(cuMemFreeAsync(behind, endless));
    SHOW(cuMemFreeAsync(q, other));
    for (int i = 0; i < 1000; i++)
        failures += cuMemAllocAsync(&p, BYTES, other) || cuMemsetD8Async(p, 2, BYTES, other) || cuMemFreeAsync(p, other);
    FACT(failures);
    SHOW(cuStreamSynchronize(other));
    SHOW(cuMemGetInfo(&free_bytes, &total));
    SHOW(cuMemAlloc(&p, BYTES));
    SHOW(cuMemFreeAsync(p, other));
    SHOW(cuStreamSynchronize(other));
    SHOW(cuStreamDestroy(other));
    return 0;
}
