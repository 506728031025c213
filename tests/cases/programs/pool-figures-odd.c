/* What the default pool says is used, of sizes that it rounds. */
#include "case.h"

static unsigned long long used(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    cuuint64_t value = 0;

    return cuMemPoolGetAttribute(pool, attribute, &value) == CUDA_SUCCESS ? value : MARK;
}

int main(void)
{
    static const size_t sizes[] = { 1, 511, 512, 513, 3000 };
    CUdeviceptr p[5];
    CUmemoryPool pool = NULL;
    CUstream stream;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuDeviceGetDefaultMemPool(&pool, 0));
    for (int i = 0; i < 5; i++) {
        SHOW(cuMemAllocAsync(&p[i], sizes[i], stream));
        SHOW(cuStreamSynchronize(stream));
        FACT(used(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    }
    for (int i = 0; i < 5; i++) {
        SHOW(cuMemFreeAsync(p[i], stream));
        SHOW(cuStreamSynchronize(stream));
        FACT(used(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
        FACT(used(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
    }
    return 0;
}
