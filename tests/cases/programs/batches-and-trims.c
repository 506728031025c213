/* What is passed on and yet meets memory of a plugin's: pools trimmed with and without live blocks, batches of copies between
 * blocks, of hints for managed memory and for memory that is not, and memory for several devices. */
#include <string.h>

#include "case.h"

enum { BYTES = 1 << 20 };

static CUstream stream;

static unsigned long long figure(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    cuuint64_t value = 0;

    return cuMemPoolGetAttribute(pool, attribute, &value) == CUDA_SUCCESS ? value : MARK;
}

static void trim(CUmemoryPool pool)
{
    CUdeviceptr p = 0, q = 0;
    cuuint64_t keep = UINT64_MAX;

    SHOW(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    SHOW(cuMemAllocFromPoolAsync(&p, BYTES, pool, stream));
    SHOW(cuMemAllocFromPoolAsync(&q, BYTES, pool, stream));
    SHOW(cuMemFreeAsync(q, stream));
    SHOW(cuStreamSynchronize(stream));
    SHOW(cuMemPoolTrimTo(pool, 0));
    FACT(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= BYTES);
    FACT(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= BYTES);
    SHOW(cuMemsetD8Async(p, 7, BYTES, stream));
    SHOW(cuMemFreeAsync(p, stream));
    SHOW(cuStreamSynchronize(stream));
    SHOW(cuMemPoolTrimTo(pool, 0));
    FACT(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    FACT(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
}

static void copy_batch(CUdeviceptr *blocks)
{
    CUmemcpyAttributes how = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
    CUdeviceptr to[2] = { blocks[1], blocks[2] }, from[2] = { blocks[0], blocks[0] };
    size_t bytes[2] = { 4096, 64 }, start = 0;
    unsigned char seen[64];

    SHOW(cuMemsetD8(blocks[0], 0x5A, BYTES));
    SHOW(cuMemcpyBatchAsync(to, from, bytes, 2, &how, &start, 1, stream));
    SHOW(cuStreamSynchronize(stream));
    SHOW(cuMemcpyDtoH(seen, blocks[2], sizeof seen));
    FACT(seen[0] == 0x5A && seen[63] == 0x5A);
    to[1] = 0;
    SHOW(cuMemcpyBatchAsync(to, from, bytes, 2, &how, &start, 1, stream));
}

static void hint_batch(CUdeviceptr managed, CUdeviceptr block)
{
    CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };
    size_t bytes[2] = { BYTES, BYTES }, start = 0;
    CUdeviceptr both[2] = { managed, block };

    for (size_t count = 1; count <= 2; count++) {
        SHOW(cuMemPrefetchBatchAsync(both, bytes, count, &here, &start, 1, 0, stream));
        SHOW(cuMemDiscardBatchAsync(both, bytes, count, 0, stream));
        SHOW(cuMemDiscardAndPrefetchBatchAsync(both, bytes, count, &here, &start, 1, 0, stream));
    }
    SHOW(cuStreamSynchronize(stream));
}

int main(void)
{
    CUmemoryPool own = NULL, usual = NULL;
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
    CUmulticastObjectProp several = { .numDevices = 1, .size = 2 << 20 };
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr blocks[3] = { 0 }, managed = 0;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemPoolCreate(&own, &properties));
    SHOW(cuDeviceGetDefaultMemPool(&usual, 0));
    trim(own);
    trim(usual);
    SHOW(cuMemPoolTrimTo(NULL, 0));
    for (int i = 0; i < 3; i++)
        SHOW(cuMemAlloc_v2(&blocks[i], BYTES));
    SHOW(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    copy_batch(blocks);
    hint_batch(managed, blocks[0]);
    SHOW(cuMulticastCreate(&handle, &several));
    SHOW(cuMulticastBindAddr(handle, 0, blocks[0], BYTES, 0));
    for (int i = 0; i < 3; i++)
        SHOW(cuMemFree_v2(blocks[i]));
    SHOW(cuMemFree_v2(managed));
    SHOW(cuMemPoolDestroy(own));
    return 0;
}
