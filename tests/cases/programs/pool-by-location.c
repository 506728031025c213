/* CUDA 13's way to choose a device's pool: its allocations are the program's own pool's; that of the host chooses nothing. */
#include "case.h"

int main(void)
{
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
    CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 }, nowhere = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 99 };
    CUmemoryPool pool, standard = NULL;
    CUdeviceptr p = 0;
    CUstream stream;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemGetDefaultMemPool(&standard, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
    SHOW(cuMemPoolCreate(&pool, &properties));
    SHOW(cuMemSetMemPool(&nowhere, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
    SHOW(cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
    SHOW(cuMemAllocAsync(&p, 1000, stream)); /* stays, in the program's pool */
    SHOW(cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, standard));
    SHOW(cuMemAllocAsync(&p, 2000, stream)); /* stays, in the default one */
    SHOW(cuStreamSynchronize(stream));
    return 0;
}
