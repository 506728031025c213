/* Two devices, in whatever order the program sees them: streams and memory of one while the other is current, frees from either side, and
 * what a pointer and the totals say. */
#include "case.h"

static CUcontext contexts[2];
static CUstream streams[2];

static void show_device(CUdeviceptr p)
{
    int ordinal = -1;

    SHOW(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    FACT(ordinal);
}

static void across(int mine, int current)
{
    CUdeviceptr sync = 0, ordered = 0;
    size_t free_bytes = 0, total = 0;

    FACT(mine);
    FACT(current);
    SHOW(cuCtxSetCurrent(contexts[mine]));
    SHOW(cuMemAlloc(&sync, 4000));
    SHOW(cuCtxSetCurrent(contexts[current]));
    SHOW(cuMemAllocAsync(&ordered, 8000, streams[mine]));
    show_device(sync);
    show_device(ordered);
    SHOW(cuMemsetD8Async(ordered, 1, 8000, streams[mine]));
    SHOW(cuMemFreeAsync(ordered, streams[mine]));
    SHOW(cuMemAllocAsync(&ordered, 8000, streams[mine]));
    SHOW(cuStreamSynchronize(streams[mine]));
    SHOW(cuMemFree(ordered));
    SHOW(cuMemGetInfo(&free_bytes, &total));
    SHOW(cuMemFree(sync));
    SHOW(cuMemFree(sync));
    SHOW(cuCtxSetCurrent(NULL));
    SHOW(cuMemAllocAsync(&ordered, 100, streams[mine])); /* a stream knows its context */
    SHOW(cuMemFreeAsync(ordered, streams[mine]));
    SHOW(cuStreamSynchronize(streams[mine]));
}

int main(void)
{
    CUdeviceptr left = 0;
    int count = 0;

    alarm(200);
    SHOW(cuInit(0));
    SHOW(cuDeviceGetCount(&count));
    FACT(count);
    for (int i = 0; i < count && i < 2; i++) {
        SHOW(cuDevicePrimaryCtxRetain(&contexts[i], i));
        SHOW(cuCtxSetCurrent(contexts[i]));
        SHOW(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    }
    for (int i = 0; i < 2 * count && count <= 2; i++)
        across(i % count, i / 2 % count);
    SHOW(cuCtxSetCurrent(contexts[count - 1]));
    SHOW(cuMemAlloc(&left, 6000)); /* of the last one */
    SHOW(cuDevicePrimaryCtxReset(0));
    SHOW(cuMemFree(left)); /* or, of one device, it went */
    FACT(sim_violations());
    return 0;
}
