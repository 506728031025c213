/* Two-dimensional copies to and from arrays. Offsets and widths are bytes, rows are rows. */
#include "../address.h"
#include "../state.h"

#include <stdbool.h>
#include <stddef.h>

/* One end: an array, or pitched memory that the direction may say lies on the host. */
struct end {
    cudaArray_const_t array;
    const void *pointer;
    size_t pitch, x, y;
    bool host;
};

static cudaError_t describe(struct end dst, struct end src, size_t width, size_t height, CUDA_MEMCPY2D *ret_copy)
{
    if (!(dst.array || dst.pointer) || !(src.array || src.pointer))
        return cudaErrorInvalidValue;
    *ret_copy = (CUDA_MEMCPY2D){
        .srcXInBytes = src.x,
        .srcY = src.y,
        .srcMemoryType = src.array ? CU_MEMORYTYPE_ARRAY : src.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED,
        .srcHost = src.pointer,
        .srcDevice = rt_address(src.pointer),
        .srcArray = (CUarray)(uintptr_t)src.array,
        .srcPitch = src.pitch,
        .dstXInBytes = dst.x,
        .dstY = dst.y,
        .dstMemoryType = dst.array ? CU_MEMORYTYPE_ARRAY : dst.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED,
        .dstHost = (void *)(uintptr_t)dst.pointer,
        .dstDevice = rt_address(dst.pointer),
        .dstArray = (CUarray)(uintptr_t)dst.array,
        .dstPitch = dst.pitch,
        .WidthInBytes = width,
        .Height = height,
    };
    return cudaSuccess;
}

static cudaError_t copy(struct end dst, struct end src, size_t width, size_t height, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY2D box;
    cudaError_t error = rt_enter();

    if (!error && (unsigned)kind > cudaMemcpyDefault)
        error = cudaErrorInvalidMemcpyDirection;
    if (!error)
        error = describe(dst, src, width, height, &box);
    if (!error && width && height)
        error = rt_error(DRV_STREAM(cuMemcpy2DUnaligned, 3020, 7000)(&box));
    return rt_record(error);
}

static cudaError_t copy_async(struct end dst, struct end src, size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    CUDA_MEMCPY2D box;
    cudaError_t error = rt_enter();

    if (!error && (unsigned)kind > cudaMemcpyDefault)
        error = cudaErrorInvalidMemcpyDirection;
    if (!error)
        error = describe(dst, src, width, height, &box);
    if (!error && width && height)
        error = rt_error(DRV_STREAM(cuMemcpy2DAsync, 3020, 7000)(&box, stream));
    return rt_record(error);
}

static struct end in_array(cudaArray_const_t array, size_t x, size_t y)
{
    return (struct end){.array = array, .x = x, .y = y};
}

static struct end in_memory(const void *pointer, size_t pitch, bool host)
{
    return (struct end){.pointer = pointer, .pitch = pitch, .host = host};
}

cudaError_t cudaMemcpy2DToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
                                size_t width, size_t height, enum cudaMemcpyKind kind)
{
    return copy(in_array(dst, wOffset, hOffset), in_memory(src, spitch, kind == cudaMemcpyHostToDevice), width, height,
                kind);
}

cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
                                     size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy_async(in_array(dst, wOffset, hOffset), in_memory(src, spitch, kind == cudaMemcpyHostToDevice), width,
                      height, kind, stream);
}

cudaError_t cudaMemcpy2DFromArray(void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset,
                                  size_t width, size_t height, enum cudaMemcpyKind kind)
{
    return copy(in_memory(dst, dpitch, kind == cudaMemcpyDeviceToHost), in_array(src, wOffset, hOffset), width, height,
                kind);
}

cudaError_t cudaMemcpy2DFromArrayAsync(void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset,
                                       size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy_async(in_memory(dst, dpitch, kind == cudaMemcpyDeviceToHost), in_array(src, wOffset, hOffset), width,
                      height, kind, stream);
}

cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src,
                                     size_t wOffsetSrc, size_t hOffsetSrc, size_t width, size_t height,
                                     enum cudaMemcpyKind kind)
{
    return copy(in_array(dst, wOffsetDst, hOffsetDst), in_array(src, wOffsetSrc, hOffsetSrc), width, height, kind);
}
