/* B26: memory was freed while the device was idle; then a kernel starts that never ends. No later call may come to wait for it. */
#include "case.h"

enum { BYTES = 4096 };

int main(int argc, char **argv)
{
    const char *call = argc > 1 ? argv[1] : "";
    CUstream endless, other;
    CUdeviceptr busy = 0, p = 0;
    size_t free_bytes = 0, total = 0;

    begin_case();
    SHOW(cuStreamCreate(&endless, CU_STREAM_NON_BLOCKING));
    SHOW(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAllocAsync(&busy, BYTES, endless));
    SHOW(cuStreamSynchronize(endless));
    SHOW(cuMemAlloc(&p, BYTES));
    SHOW(cuMemFree(p));
    sim_hold(endless);
    SHOW(cuMemsetD8Async(busy, 1, BYTES, endless));
    if (strcmp(call, "synchronize") == 0)
        SHOW(cuStreamSynchronize(other));
    if (strcmp(call, "info") == 0)
        SHOW(cuMemGetInfo(&free_bytes, &total));
    if (strcmp(call, "allocate") == 0)
        SHOW(cuMemAlloc(&p, BYTES));
    if (strcmp(call, "unknown") == 0)
        SHOW(cuMemFree(0x1230));
    if (strcmp(call, "ordered") == 0) {
        SHOW(cuMemAllocAsync(&p, BYTES, other));
        SHOW(cuMemFreeAsync(p, other));
    }
    return 0;
}
