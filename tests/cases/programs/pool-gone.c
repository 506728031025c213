/* A pool of the program's own that was the device's current one is destroyed: the default pool is current again. */
#include "case.h"

int main(void)
{
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
    CUmemoryPool pool, now = NULL, standard = NULL;
    CUstream stream;
    CUdeviceptr p = 0;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemPoolCreate(&pool, &properties));
    SHOW(cuDeviceSetMemPool(0, pool));
    SHOW(cuMemAllocAsync(&p, 100, stream));
    SHOW(cuMemFreeAsync(p, stream));
    SHOW(cuStreamSynchronize(stream));
    SHOW(cuMemPoolDestroy(pool));
    SHOW(cuDeviceGetMemPool(&now, 0));
    SHOW(cuDeviceGetDefaultMemPool(&standard, 0));
    FACT(now == standard);
    SHOW(cuMemAllocAsync(&p, 1000, stream)); /* stays */
    SHOW(cuStreamSynchronize(stream));
    return 0;
}
