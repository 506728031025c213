/* Copies of boxes between pitched memory and arrays. */
#include "../box.h"
#include "../peer.h"

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = rt_enter();

    if (!error)
        error = rt_box_describe(p, &copy);
    if (!error)
        error = rt_error(DRV_STREAM(cuMemcpy3D, 3020, 7000)(&copy));
    return rt_record(error);
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = rt_enter();

    if (!error)
        error = rt_box_describe(p, &copy);
    if (!error)
        error = rt_error(DRV_STREAM(cuMemcpy3DAsync, 3020, 7000)(&copy, stream));
    return rt_record(error);
}

/* --- between devices -------------------------------------------------------------------------------------- */

static cudaError_t describe_peer(const struct cudaMemcpy3DPeerParms *p, CUcontext to, CUcontext from, CUDA_MEMCPY3D_PEER *ret)
{
    CUDA_MEMCPY3D c;
    const struct cudaMemcpy3DParms box = {.srcArray = p->srcArray,
                                          .srcPos = p->srcPos,
                                          .srcPtr = p->srcPtr,
                                          .dstArray = p->dstArray,
                                          .dstPos = p->dstPos,
                                          .dstPtr = p->dstPtr,
                                          .extent = p->extent,
                                          .kind = cudaMemcpyDefault};
    cudaError_t error = rt_box_describe(&box, &c);

    if (!error)
        *ret = (CUDA_MEMCPY3D_PEER){.srcXInBytes = c.srcXInBytes,
                                    .srcY = c.srcY,
                                    .srcZ = c.srcZ,
                                    .srcMemoryType = c.srcMemoryType,
                                    .srcDevice = c.srcDevice,
                                    .srcArray = c.srcArray,
                                    .srcContext = from,
                                    .srcPitch = c.srcPitch,
                                    .srcHeight = c.srcHeight,
                                    .dstXInBytes = c.dstXInBytes,
                                    .dstY = c.dstY,
                                    .dstZ = c.dstZ,
                                    .dstMemoryType = c.dstMemoryType,
                                    .dstDevice = c.dstDevice,
                                    .dstArray = c.dstArray,
                                    .dstContext = to,
                                    .dstPitch = c.dstPitch,
                                    .dstHeight = c.dstHeight,
                                    .WidthInBytes = c.WidthInBytes,
                                    .Height = c.Height,
                                    .Depth = c.Depth};
    return error;
}

static cudaError_t copy_peer(const struct cudaMemcpy3DPeerParms *p, const cudaStream_t *stream)
{
    CUDA_MEMCPY3D_PEER copy;
    CUcontext to, from;
    cudaError_t error = p ? rt_peers_retain(p->dstDevice, p->srcDevice, &to, &from) : cudaErrorInvalidValue;

    if (error)
        return rt_record(error);
    error = describe_peer(p, to, from, &copy);
    if (!error)
        error = rt_error(stream ? DRV_STREAM(cuMemcpy3DPeerAsync, 4000, 7000)(&copy, *stream)
                                : DRV_STREAM(cuMemcpy3DPeer, 4000, 7000)(&copy));
    rt_peers_release(p->dstDevice, p->srcDevice);
    return rt_record(error);
}

cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p)
{
    return copy_peer(p, NULL);
}

cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
    return copy_peer(p, &stream);
}
