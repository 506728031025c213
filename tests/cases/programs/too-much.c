/* B51: requests that nobody can serve are out of memory, write nothing and leave nothing behind. */
#include "case.h"

int main(void)
{
    static const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 255, SIZE_MAX - 511, SIZE_MAX - 4095,
                                    SIZE_MAX / 2 + 1, (size_t)1 << 50, (size_t)1 << 47 };
    CUstream stream;
    CUmemoryPool pool;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuDeviceGetDefaultMemPool(&pool, 0));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CUdeviceptr p = MARK;
        FACT(sizes[i]);
        SHOW(cuMemAlloc(&p, sizes[i]));
        SHOW(cuMemAllocAsync(&p, sizes[i], stream));
        SHOW(cuMemAllocFromPoolAsync(&p, sizes[i], pool, stream));
        SHOW(cuMemAllocManaged(&p, sizes[i], CU_MEM_ATTACH_GLOBAL));
        FACT(p == MARK);
    }
    FACT(sim_live_bytes("device"));
    FACT(sim_live_bytes("async"));
    return 0;
}
