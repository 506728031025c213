/* Many copies, prefetches or discards in one call. Lists of pointers are lists of addresses to the driver. */
#include "../address.h"
#include "../state.h"

#include <stddef.h>

_Static_assert(sizeof(void *) == sizeof(CUdeviceptr), "one list, two names");
_Static_assert(sizeof(struct cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes), "one struct, two names");
_Static_assert(sizeof(struct cudaMemcpy3DBatchOp) == sizeof(CUDA_MEMCPY3D_BATCH_OP), "one struct, two names");
_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "one struct, two names");

/* The driver declares them writable and writes none. */
static CUdeviceptr *addresses(const void *list)
{
    return (CUdeviceptr *)(uintptr_t)list;
}

static size_t *lengths(const size_t *list)
{
    return (size_t *)(uintptr_t)list;
}

static CUmemcpyAttributes *native(struct cudaMemcpyAttributes *attributes)
{
    return (CUmemcpyAttributes *)(void *)attributes;
}

#if SIM_CUDART_VERSION >= 13000
cudaError_t cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,
                                 struct cudaMemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
                                 cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuMemcpyBatchAsync, 13000, 13000), addresses(dsts), addresses(srcs), lengths(sizes), count,
                   native(attrs), attrsIdxs, numAttrs, stream);
}

cudaError_t cudaMemcpy3DBatchAsync(size_t numOps, struct cudaMemcpy3DBatchOp *opList, unsigned long long flags,
                                   cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuMemcpy3DBatchAsync, 13000, 13000), numOps, (CUDA_MEMCPY3D_BATCH_OP *)(void *)opList, flags,
                   stream);
}

cudaError_t cudaMemPrefetchBatchAsync(void **dptrs, size_t *sizes, size_t count, struct cudaMemLocation *prefetchLocs,
                                      size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
                                      cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuMemPrefetchBatchAsync, 13000, 13000), addresses(dptrs), sizes, count,
                   (CUmemLocation *)(void *)prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, stream);
}

cudaError_t cudaMemDiscardBatchAsync(void **dptrs, size_t *sizes, size_t count, unsigned long long flags,
                                     cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuMemDiscardBatchAsync, 13000, 13000), addresses(dptrs), sizes, count, flags, stream);
}

cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void **dptrs, size_t *sizes, size_t count,
                                                struct cudaMemLocation *prefetchLocs, size_t *prefetchLocIdxs,
                                                size_t numPrefetchLocs, unsigned long long flags, cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuMemDiscardAndPrefetchBatchAsync, 13000, 13000), addresses(dptrs), sizes, count,
                   (CUmemLocation *)(void *)prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, stream);
}
#else
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define FORM "_ptsz"
#else
#define FORM ""
#endif

/* CUDA 12's form says which copy failed; it cannot be declared beside the header of CUDA 13. */
cudaError_t copy_batch(void **, void **, size_t *, size_t, struct cudaMemcpyAttributes *, size_t *, size_t, size_t *,
                       cudaStream_t) __asm__("cudaMemcpyBatchAsync" FORM);

cudaError_t copy_batch(void **dsts, void **srcs, size_t *sizes, size_t count, struct cudaMemcpyAttributes *attrs,
                       size_t *attrsIdxs, size_t numAttrs, size_t *failIdx, cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuMemcpyBatchAsync, 12080, 12080), addresses(dsts), addresses(srcs), lengths(sizes), count,
                   native(attrs), attrsIdxs, numAttrs, failIdx, stream);
}

cudaError_t copy_3d_batch(size_t, struct cudaMemcpy3DBatchOp *, size_t *, unsigned long long, cudaStream_t) __asm__(
    "cudaMemcpy3DBatchAsync" FORM);

cudaError_t copy_3d_batch(size_t count, struct cudaMemcpy3DBatchOp *ops, size_t *failIdx, unsigned long long flags,
                          cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuMemcpy3DBatchAsync, 12080, 12080), count, (CUDA_MEMCPY3D_BATCH_OP *)(void *)ops, failIdx, flags,
                   stream);
}
#endif
