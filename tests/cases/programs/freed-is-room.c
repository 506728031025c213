/* What was freed is room: for the next block, for every other kind of memory, and in the totals. The device has 64 MiB. */
#include "case.h"

#define USE_AND_FREE() (SHOW(cuMemAlloc(&p, BYTES)), SHOW(cuMemFree(p)))

int main(void)
{
    const size_t BYTES = (size_t)40 << 20;
    CUDA_ARRAY_DESCRIPTOR shape = { .Width = 4096, .Height = 10240, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1 };
    CUmemAllocationProp on_device = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p, q;
    CUarray array;
    size_t pitch, free_bytes, total;

    begin_case();
    for (int i = 0; i < 3; i++) {
        USE_AND_FREE();
        SHOW(cuMemGetInfo(&free_bytes, &total));
        FACT(total - free_bytes < BYTES);
    }
    USE_AND_FREE();
    SHOW(cuMemAllocPitch(&q, &pitch, 4096, 10240, 4));
    SHOW(cuMemFree(q));
    USE_AND_FREE();
    SHOW(cuMemAllocManaged(&q, BYTES, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuMemFree(q));
    USE_AND_FREE();
    SHOW(cuArrayCreate(&array, &shape));
    SHOW(cuArrayDestroy(array));
    USE_AND_FREE();
    SHOW(cuMemCreate(&handle, BYTES, &on_device, 0));
    return 0;
}
