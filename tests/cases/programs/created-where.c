/* B41: physical memory created from a thread without a context, in other places, and in none. */
#include "case.h"

static void create(int type, int id)
{
    CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };
    CUmemGenericAllocationHandle handle = MARK;

    properties.location.type = (CUmemLocationType)type;
    properties.location.id = id;
    FACT(type);
    FACT(id);
    if (SHOW(cuMemCreate(&handle, 2 << 20, &properties, 0)) == CUDA_SUCCESS)
        SHOW(cuMemRelease(handle));
    else
        FACT(handle == MARK);
}

static void *work(void *unused)
{
    CUmemGenericAllocationHandle handle = MARK;
    CUdeviceptr space = 0;

    create(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    create(CU_MEM_LOCATION_TYPE_DEVICE, 99);
    create(CU_MEM_LOCATION_TYPE_DEVICE, -1);
    create(CU_MEM_LOCATION_TYPE_HOST, 0);
    create(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
    create(CU_MEM_LOCATION_TYPE_INVALID, 0);
    SHOW(cuMemCreate(&handle, 2 << 20, NULL, 0));
    SHOW(cuMemAddressReserve(&space, 2 << 20, 0, 0, 0));
    SHOW(cuMemAddressFree(space, 2 << 20));
    return unused;
}

int main(void)
{
    begin_case();
    on_another_thread(work, NULL);
    work(NULL);
    return 0;
}
