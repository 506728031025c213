/* Copies of boxes between pitched memory. Copies that touch an array are refused: the simulated arrays hold no data. */
#include "../address.h"
#include "../state.h"

static CUmemorytype side_type(enum cudaMemcpyKind kind, enum cudaMemcpyKind host_to, enum cudaMemcpyKind host_from)
{
    return kind == host_to || kind == host_from ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
}

static cudaError_t describe(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *ret_copy)
{
    if (!p || (unsigned)p->kind > cudaMemcpyDefault || p->srcArray || p->dstArray)
        return cudaErrorInvalidValue;
    *ret_copy = (CUDA_MEMCPY3D){
        .srcXInBytes = p->srcPos.x,
        .srcY = p->srcPos.y,
        .srcZ = p->srcPos.z,
        .srcMemoryType = side_type(p->kind, cudaMemcpyHostToDevice, cudaMemcpyHostToHost),
        .srcHost = p->srcPtr.ptr,
        .srcDevice = rt_address(p->srcPtr.ptr),
        .srcPitch = p->srcPtr.pitch,
        .srcHeight = p->srcPtr.ysize,
        .dstXInBytes = p->dstPos.x,
        .dstY = p->dstPos.y,
        .dstZ = p->dstPos.z,
        .dstMemoryType = side_type(p->kind, cudaMemcpyDeviceToHost, cudaMemcpyHostToHost),
        .dstHost = p->dstPtr.ptr,
        .dstDevice = rt_address(p->dstPtr.ptr),
        .dstPitch = p->dstPtr.pitch,
        .dstHeight = p->dstPtr.ysize,
        .WidthInBytes = p->extent.width,
        .Height = p->extent.height,
        .Depth = p->extent.depth,
    };
    return cudaSuccess;
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = rt_enter();

    if (!error)
        error = describe(p, &copy);
    if (!error)
        error = rt_error(DRV_STREAM(cuMemcpy3D, 3020, 7000)(&copy));
    return rt_record(error);
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = rt_enter();

    if (!error)
        error = describe(p, &copy);
    if (!error)
        error = rt_error(DRV_STREAM(cuMemcpy3DAsync, 3020, 7000)(&copy, stream));
    return rt_record(error);
}
