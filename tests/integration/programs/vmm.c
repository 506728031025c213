/* The program's own virtual memory: one unmap over several maps, handles released before, retained, leaked at the end. */
#include "transcript.h"

int main(void)
{
    CUmemAllocationProp properties;
    CUmemAccessDesc access;
    CUmemGenericAllocationHandle handle[4], again, spare;
    CUdeviceptr base = 0, small = 0;
    size_t grain = 0, piece;

    begin();
    memset(&properties, 0, sizeof properties);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    SHOW(cuMemGetAllocationGranularity(&grain, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    piece = grain;
    SHOW(cuMemAddressReserve(&base, 8 * piece, 0, 0, 0));
    for (int i = 0; i < 4; i++) {
        SHOW(cuMemCreate(&handle[i], piece, &properties, 0));
        SHOW(cuMemMap(base + (size_t)i * piece, piece, 0, handle[i], 0));
    }
    memset(&access, 0, sizeof access);
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    SHOW(cuMemSetAccess(base, 4 * piece, &access, 1));
    SHOW(cuMemsetD8(base, 1, 4 * piece));
    SHOW(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)base));
    for (int i = 0; i < 4; i++)
        SHOW(cuMemRelease(handle[i]));
    SHOW(cuMemRelease(again));
    SHOW(cuMemUnmap(base, 4 * piece));
    SHOW(cuMemUnmap(base, 4 * piece));
    SHOW(cuMemCreate(&spare, 2 * piece, &properties, 0)); /* leaked, never mapped */
    SHOW(cuMemCreate(&spare, 0, &properties, 0));
    SHOW(cuMemCreate(&spare, piece, NULL, 0));
    SHOW(cuMemAddressReserve(&small, 2 * piece, 0, 0, 0)); /* leaked */
    SHOW(cuMemAddressFree(base, 8 * piece));
    return 0;
}
