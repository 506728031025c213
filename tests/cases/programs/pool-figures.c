/* What a device's default pool says of itself while a program uses it: by both ways in, over frees, and after a reset of the
 * highest figure. Figures are the driver's own up to its rounding. */
#include "case.h"

static CUmemoryPool pool;

static unsigned long long figure(CUmemPool_attribute attribute)
{
    cuuint64_t value = 0;

    return cuMemPoolGetAttribute(pool, attribute, &value) == CUDA_SUCCESS ? value : MARK;
}

static long long blocks(unsigned long long bytes) /* of 1 MiB, rounded */
{
    return (long long)((bytes + (1 << 19)) >> 20);
}

static void figures(const char *when)
{
    printf("-- %s\n", when);
    FACT(blocks(figure(CU_MEMPOOL_ATTR_USED_MEM_CURRENT)));
    FACT(blocks(figure(CU_MEMPOOL_ATTR_USED_MEM_HIGH)));
    FACT(figure(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= figure(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    FACT(figure(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= figure(CU_MEMPOOL_ATTR_USED_MEM_HIGH));
}

int main(void)
{
    CUdeviceptr p[3] = { 0 };
    CUmemoryPool own = NULL;
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
    CUstream stream;
    cuuint64_t zero = 0, one = 1;
    int flag = 0;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuDeviceGetDefaultMemPool(&pool, 0));
    figures("nothing");
    SHOW(cuMemAllocAsync(&p[0], 1 << 20, stream));
    SHOW(cuMemAllocFromPoolAsync(&p[1], 2 << 20, pool, stream));
    SHOW(cuMemAlloc_v2(&p[2], 4 << 20)); /* not of the pool */
    SHOW(cuStreamSynchronize(stream));
    figures("two blocks");
    SHOW(cuMemFreeAsync(p[1], stream));
    SHOW(cuStreamSynchronize(stream));
    figures("one block");
    SHOW(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one));
    figures("the highest is not 1");
    SHOW(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    figures("the highest is that of now");
    SHOW(cuMemFree_v2(p[0]));
    SHOW(cuMemFree_v2(p[2]));
    figures("no block");
    SHOW(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &flag));
    FACT(flag);
    SHOW(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, NULL));
    SHOW(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &zero));
    SHOW(cuMemPoolCreate(&own, &properties));
    pool = own;
    SHOW(cuMemAllocFromPoolAsync(&p[0], 1 << 20, own, stream));
    SHOW(cuStreamSynchronize(stream));
    figures("a pool of its own");
    SHOW(cuMemFreeAsync(p[0], stream));
    SHOW(cuStreamSynchronize(stream));
    SHOW(cuMemPoolDestroy(own));
    return 0;
}
