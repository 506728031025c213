#include "box.h"

#include "address.h"
#include "array.h"

static CUmemorytype side_type(cudaArray_t array, enum cudaMemcpyKind kind, enum cudaMemcpyKind host)
{
    if (array)
        return CU_MEMORYTYPE_ARRAY;
    return kind == host || kind == cudaMemcpyHostToHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
}

/* Bytes of what the copy's width and the positions in arrays count. */
static cudaError_t element_of(const struct cudaMemcpy3DParms *p, size_t *ret_bytes)
{
    size_t from = 1, to = 1;
    cudaError_t error = cudaSuccess;

    if (p->srcArray)
        error = rt_array_element(p->srcArray, &from);
    if (!error && p->dstArray)
        error = rt_array_element(p->dstArray, &to);
    if (!error && p->srcArray && p->dstArray && from != to)
        error = cudaErrorInvalidValue;
    if (!error)
        *ret_bytes = p->srcArray ? from : to;
    return error;
}

cudaError_t rt_box_describe(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *ret_copy)
{
    size_t element;
    cudaError_t error;

    if (!p || (p->srcArray && p->srcPtr.ptr) || (p->dstArray && p->dstPtr.ptr))
        return cudaErrorInvalidValue;
    if ((unsigned)p->kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    error = element_of(p, &element);
    if (error)
        return error;
    *ret_copy = (CUDA_MEMCPY3D){
        .srcXInBytes = p->srcPos.x * (p->srcArray ? element : 1),
        .srcY = p->srcPos.y,
        .srcZ = p->srcPos.z,
        .srcMemoryType = side_type(p->srcArray, p->kind, cudaMemcpyHostToDevice),
        .srcHost = p->srcPtr.ptr,
        .srcDevice = rt_address(p->srcPtr.ptr),
        .srcArray = (CUarray)p->srcArray,
        .srcPitch = p->srcPtr.pitch,
        .srcHeight = p->srcPtr.ysize,
        .dstXInBytes = p->dstPos.x * (p->dstArray ? element : 1),
        .dstY = p->dstPos.y,
        .dstZ = p->dstPos.z,
        .dstMemoryType = side_type(p->dstArray, p->kind, cudaMemcpyDeviceToHost),
        .dstHost = p->dstPtr.ptr,
        .dstDevice = rt_address(p->dstPtr.ptr),
        .dstArray = (CUarray)p->dstArray,
        .dstPitch = p->dstPtr.pitch,
        .dstHeight = p->dstPtr.ysize,
        .WidthInBytes = p->extent.width * element,
        .Height = p->extent.height,
        .Depth = p->extent.depth,
    };
    return cudaSuccess;
}
