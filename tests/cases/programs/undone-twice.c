/* B40: unmap, release and address free twice: the driver's code for the bad call, and a clean call after it. */
#include "case.h"

enum { MIB = 1 << 20 };

int main(void)
{
    CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr space = 0, p = 0;

    begin_case();
    for (int i = 0; i < 2; i++) {
        SHOW(cuMemAddressReserve(&space, 8 * MIB, 0, 0, 0));
        SHOW(cuMemCreate(&handle, 2 * MIB, &properties, 0));
        SHOW(cuMemMap(space, 2 * MIB, 0, handle, 0));
        SHOW(cuMemMap(space, 2 * MIB, 0, handle, 0));
        SHOW(cuMemUnmap(space, MIB)); /* half a mapping */
        SHOW(cuMemUnmap(space, 2 * MIB));
        SHOW(cuMemUnmap(space, 2 * MIB));
        SHOW(cuMemRelease(handle));
        SHOW(cuMemRelease(handle));
        SHOW(cuMemAlloc(&p, 1000));
        SHOW(cuMemFree(p));
        SHOW(cuMemAddressFree(space, 8 * MIB));
        SHOW(cuMemAddressFree(space, 8 * MIB));
    }
    return 0;
}
