/* Two-dimensional copies to and from arrays. Offsets and widths are bytes, rows are rows. */
#include "../address.h"
#include "../array.h"
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

/* --- by number of bytes: on to the next row where one ends ------------------------------------------------------------- */

/* The first row from where the copy begins, whole rows, and what is left: at most three boxes. */
struct part {
    size_t x, y, width, height, done;
};

static cudaError_t row_bytes(cudaArray_const_t array, size_t *ret_bytes)
{
    struct cudaExtent extent;
    size_t element;
    cudaError_t error = cudaArrayGetInfo(NULL, &extent, NULL, (cudaArray_t)(uintptr_t)array);

    if (!error)
        error = rt_array_element(array, &element);
    if (!error)
        *ret_bytes = extent.width * element;
    return error;
}

static int split(size_t row, size_t x, size_t y, size_t count, struct part *ret_parts)
{
    int n = 0;
    size_t done = 0;

    while (done < count) {
        size_t left = count - done, here = row - x;
        bool whole = !x && left >= row;
        struct part p = {x, y, whole ? row : left < here ? left : here, whole ? left / row : 1, done};

        ret_parts[n++] = p;
        done += p.width * p.height;
        y += p.height;
        x = 0;
    }
    return n;
}

static cudaError_t copy_bytes(cudaArray_const_t array, size_t x, size_t y, char *memory, size_t count,
                              enum cudaMemcpyKind kind, bool into, const cudaStream_t *stream)
{
    struct part parts[3];
    size_t row = 0;
    int n = 0;
    cudaError_t error = rt_enter();

    if (!error)
        error = row_bytes(array, &row);
    if (!error && x >= row)
        error = cudaErrorInvalidValue;
    if (!error)
        n = split(row, x, y, count, parts);
    for (int i = 0; i < n && !error; i++) {
        const struct part *p = &parts[i];
        struct end there = in_array(array, p->x, p->y);
        struct end here = in_memory(memory + p->done, p->width,
                                    kind == (into ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost));

        error = stream ? copy_async(into ? there : here, into ? here : there, p->width, p->height, kind, *stream)
                       : copy(into ? there : here, into ? here : there, p->width, p->height, kind);
    }
    return rt_record(error);
}

cudaError_t cudaMemcpyToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t count,
                              enum cudaMemcpyKind kind)
{
    return copy_bytes(dst, wOffset, hOffset, (char *)(uintptr_t)src, count, kind, true, NULL);
}

cudaError_t cudaMemcpyToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t count,
                                   enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy_bytes(dst, wOffset, hOffset, (char *)(uintptr_t)src, count, kind, true, &stream);
}

cudaError_t cudaMemcpyFromArray(void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
                                enum cudaMemcpyKind kind)
{
    return copy_bytes(src, wOffset, hOffset, dst, count, kind, false, NULL);
}

cudaError_t cudaMemcpyFromArrayAsync(void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
                                     enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy_bytes(src, wOffset, hOffset, dst, count, kind, false, &stream);
}

/* Arrays of one width: rows end at the same places if both begin at the same one. */
cudaError_t cudaMemcpyArrayToArray(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src,
                                   size_t wOffsetSrc, size_t hOffsetSrc, size_t count, enum cudaMemcpyKind kind)
{
    struct part parts[3];
    size_t to = 0, from = 0;
    int n = 0;
    cudaError_t error = rt_enter();

    if (!error)
        error = row_bytes(dst, &to);
    if (!error)
        error = row_bytes(src, &from);
    if (!error && (to != from || wOffsetDst != wOffsetSrc || wOffsetDst >= to))
        error = cudaErrorInvalidValue;
    if (!error)
        n = split(to, wOffsetDst, 0, count, parts);
    for (int i = 0; i < n && !error; i++)
        error = copy(in_array(dst, parts[i].x, hOffsetDst + parts[i].y), in_array(src, parts[i].x, hOffsetSrc + parts[i].y),
                     parts[i].width, parts[i].height, kind);
    return rt_record(error);
}

cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src,
                                     size_t wOffsetSrc, size_t hOffsetSrc, size_t width, size_t height,
                                     enum cudaMemcpyKind kind)
{
    return copy(in_array(dst, wOffsetDst, hOffsetDst), in_array(src, wOffsetSrc, hOffsetSrc), width, height, kind);
}
