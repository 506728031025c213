/* B39: a reservation filled with mappings, handles released before the unmap, one unmap over four mappings. Left are one
 * handle, and one mapping whose handle was released, in a reservation of its own. */
#include "case.h"

enum { MIB = 1 << 20 };

int main(void)
{
    CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
    CUmemAccessDesc access = { .location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    CUmemGenericAllocationHandle handle[6];
    CUdeviceptr space = 0, left = 0;

    begin_case();
    SHOW(cuMemAddressReserve(&space, (size_t)1 << 30, 0, 0, 0));
    SHOW(cuMemAddressReserve(&left, 64 * MIB, 0, 0, 0));
    for (int i = 0; i < 4; i++) {
        SHOW(cuMemCreate(&handle[i], 2 * MIB, &properties, 0));
        SHOW(cuMemMap(space + (CUdeviceptr)i * 2 * MIB, 2 * MIB, 0, handle[i], 0));
    }
    SHOW(cuMemSetAccess(space, 8 * MIB, &access, 1));
    SHOW(cuMemCreate(&handle[4], 4 * MIB, &properties, 0));
    SHOW(cuMemCreate(&handle[5], 2 * MIB, &properties, 0));
    SHOW(cuMemMap(left, 2 * MIB, 0, handle[5], 0));
    SHOW(cuMemRelease(handle[5]));
    for (int i = 0; i < 4; i++)
        SHOW(cuMemRelease(handle[i]));
    SHOW(cuMemsetD8(space, 1, 8 * MIB));
    SHOW(cuMemUnmap(space, 8 * MIB));
    SHOW(cuMemAddressFree(space, (size_t)1 << 30));
    return 0;
}
