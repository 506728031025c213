/* What dies with a context: a reset, a destroyed context, frees afterwards, and life after that. */
#include "transcript.h"

int main(void)
{
    CUcontext primary = begin(), own = NULL;
    CUdeviceptr a = 0, b = 0, c = 0;
    CUstream stream;

    SHOW(cuMemAlloc(&a, 1000));
    SHOW(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    SHOW(cuMemAllocAsync(&b, 2000, stream));
    SHOW(cuStreamSynchronize(stream));
    SHOW(cuDevicePrimaryCtxReset(0));
    SHOW(cuCtxSetCurrent(NULL));
    SHOW(cuDevicePrimaryCtxRelease(0));
    SHOW(cuDevicePrimaryCtxRetain(&primary, 0));
    SHOW(cuCtxSetCurrent(primary));
    SHOW(cuMemAlloc(&c, 3000));
    SHOW(cuMemFree(c));
    SHOW(cuCtxCreate(&own, NULL, 0, 0));
    SHOW(cuMemAlloc(&c, 4000));
    SHOW(cuCtxDestroy(primary)); /* refused, or not: as the driver says */
    SHOW(cuCtxDestroy(own));
    SHOW(cuCtxDestroy((CUcontext)(uintptr_t)0x1230));
    SHOW(cuCtxSetCurrent(primary));
    SHOW(cuMemAlloc(&c, 5000));
    SHOW(cuMemFree(c));
    return 0;
}
