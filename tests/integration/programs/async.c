/* Stream-ordered memory, all four pairs of allocation and free, streams that are wrong or gone. */
#include "transcript.h"

int main(void)
{
    CUdeviceptr a = MARK, b = 0, c = 0, d = 0;
    CUstream s1, s2;
    CUmemoryPool pool, own;
    CUmemPoolProps properties;
    unsigned char byte = 0;

    begin();
    SHOW(cuStreamCreate(&s1, CU_STREAM_NON_BLOCKING));
    SHOW(cuStreamCreate(&s2, CU_STREAM_DEFAULT));
    SHOW(cuMemAllocAsync(&a, 0, s1));
    FACT(a == MARK);
    SHOW(cuMemAllocAsync(NULL, 16, s1));
    SHOW(cuMemAllocAsync(&a, 1 << 20, s1));
    SHOW(cuMemsetD8Async(a, 7, 1 << 20, s1));
    SHOW(cuMemcpyDtoHAsync(&byte, a, 1, s1));
    SHOW(cuStreamSynchronize(s1));
    FACT(byte);
    SHOW(cuMemFreeAsync(a, s1));
    SHOW(cuMemFreeAsync(a, s1));
    SHOW(cuStreamSynchronize(s1));
    SHOW(cuMemFreeAsync(a, s1));
    /* mixed pairs */
    for (int i = 0; i < 100; i++) {
        if (cuMemAlloc(&a, 5000) || cuMemAllocAsync(&b, 5000, s1) || cuMemAllocAsync(&c, 5000, s1) || cuMemAlloc(&d, 5000))
            return 3;
        if (cuMemsetD8Async(b, 1, 5000, s1) || cuMemsetD8Async(c, 1, 5000, s1) || cuMemsetD8Async(a, 1, 5000, s2))
            return 4;
        if (cuMemFreeAsync(a, s2) || cuStreamSynchronize(s1) || cuMemFree(b) || cuMemFreeAsync(c, s1) || cuMemFree(d))
            return 5;
    }
    SHOW(cuStreamSynchronize(s1));
    SHOW(cuStreamSynchronize(s2));
    /* null and legacy streams */
    SHOW(cuMemAllocAsync(&a, 64, NULL));
    SHOW(cuMemFreeAsync(a, NULL));
    SHOW(cuMemAllocAsync(&a, 64, CU_STREAM_LEGACY));
    SHOW(cuMemFreeAsync(a, CU_STREAM_PER_THREAD));
    SHOW(cuMemFreeAsync(0, s1));
    /* pools: the device's default one and one of the program's own */
    SHOW(cuDeviceGetDefaultMemPool(&pool, 0));
    SHOW(cuMemAllocFromPoolAsync(&a, 4096, pool, s1));
    SHOW(cuMemFreeAsync(a, s1));
    memset(&properties, 0, sizeof properties);
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    SHOW(cuMemPoolCreate(&own, &properties));
    SHOW(cuMemAllocFromPoolAsync(&a, 4096, own, s1));
    SHOW(cuMemAllocFromPoolAsync(&b, 4096, NULL, s1));
    SHOW(cuMemFreeAsync(a, s1));
    SHOW(cuDeviceSetMemPool(0, own));
    SHOW(cuMemAllocAsync(&a, 4096, s1));
    SHOW(cuMemFreeAsync(a, s1));
    SHOW(cuDeviceSetMemPool(0, pool));
    SHOW(cuStreamSynchronize(s1));
    SHOW(cuMemPoolDestroy(own));
    /* a stream that is gone */
    SHOW(cuMemAllocAsync(&a, 4096, s1));
    SHOW(cuStreamSynchronize(s1)); /* nothing else orders the free behind it */
    SHOW(cuStreamDestroy(s1));
    SHOW(cuMemFreeAsync(a, s2));
    SHOW(cuStreamDestroy(s2));
    SHOW(cuCtxSynchronize());
    return 0;
}
