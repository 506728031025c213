/* Linear and pitched copies. A kind that names host and device picks the entry point of that direction, as the direction
 * decides what the driver may assume about the host side; anything else goes by address. */
#include "../address.h"
#include "../state.h"

#include <stddef.h>

static CUresult copy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
    if (count == 0)
        return CUDA_SUCCESS;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return DRV_STREAM(cuMemcpyHtoD, 3020, 7000)(rt_address(dst), src, count);
    case cudaMemcpyDeviceToHost:
        return DRV_STREAM(cuMemcpyDtoH, 3020, 7000)(dst, rt_address(src), count);
    case cudaMemcpyDeviceToDevice:
        return DRV_STREAM(cuMemcpyDtoD, 3020, 7000)(rt_address(dst), rt_address(src), count);
    default:
        return DRV_STREAM(cuMemcpy, 4000, 7000)(rt_address(dst), rt_address(src), count);
    }
}

static CUresult copy_async(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, CUstream stream)
{
    if (count == 0)
        return CUDA_SUCCESS;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return DRV_STREAM(cuMemcpyHtoDAsync, 3020, 7000)(rt_address(dst), src, count, stream);
    case cudaMemcpyDeviceToHost:
        return DRV_STREAM(cuMemcpyDtoHAsync, 3020, 7000)(dst, rt_address(src), count, stream);
    case cudaMemcpyDeviceToDevice:
        return DRV_STREAM(cuMemcpyDtoDAsync, 3020, 7000)(rt_address(dst), rt_address(src), count, stream);
    default:
        return DRV_STREAM(cuMemcpyAsync, 4000, 7000)(rt_address(dst), rt_address(src), count, stream);
    }
}

static cudaError_t check_kind(enum cudaMemcpyKind kind)
{
    return (unsigned)kind > cudaMemcpyDefault ? cudaErrorInvalidMemcpyDirection : cudaSuccess;
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
    cudaError_t error = rt_enter();

    if (!error)
        error = check_kind(kind);
    if (!error)
        error = rt_error(copy(dst, src, count, kind));
    return rt_record(error);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    cudaError_t error = rt_enter();

    if (!error)
        error = check_kind(kind);
    if (!error)
        error = rt_error(copy_async(dst, src, count, kind, stream));
    return rt_record(error);
}

/* A side is host memory when the kind says so; without a kind, unified addressing finds out. */
static void describe(CUDA_MEMCPY2D *copy2d, void *dst, size_t dpitch, const void *src, size_t spitch,
                     enum cudaMemcpyKind kind)
{
    copy2d->srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy2d->dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost)
        copy2d->srcMemoryType = CU_MEMORYTYPE_HOST;
    if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost)
        copy2d->dstMemoryType = CU_MEMORYTYPE_HOST;
    copy2d->srcHost = src;
    copy2d->srcDevice = rt_address(src);
    copy2d->srcPitch = spitch;
    copy2d->dstHost = dst;
    copy2d->dstDevice = rt_address(dst);
    copy2d->dstPitch = dpitch;
}

cudaError_t cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY2D copy2d = {.WidthInBytes = width, .Height = height};
    cudaError_t error = rt_enter();

    if (!error)
        error = check_kind(kind);
    describe(&copy2d, dst, dpitch, src, spitch, kind);
    if (!error && width && height)
        error = rt_error(DRV_STREAM(cuMemcpy2DUnaligned, 3020, 7000)(&copy2d));
    return rt_record(error);
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    CUDA_MEMCPY2D copy2d = {.WidthInBytes = width, .Height = height};
    cudaError_t error = rt_enter();

    if (!error)
        error = check_kind(kind);
    describe(&copy2d, dst, dpitch, src, spitch, kind);
    if (!error && width && height)
        error = rt_error(DRV_STREAM(cuMemcpy2DAsync, 3020, 7000)(&copy2d, stream));
    return rt_record(error);
}
