/* Copies between devices, by ordinal. They have no per-thread form in the runtime: handle 0 is the legacy stream. */
#include "peer.h"

#include "address.h"

cudaError_t rt_peers_retain(int a, int b, CUcontext *ret_a, CUcontext *ret_b)
{
    cudaError_t error = rt_enter();

    if (!error)
        error = rt_error(DRV(cuDevicePrimaryCtxRetain, 7000)(ret_a, a));
    if (error)
        return error;
    error = rt_error(DRV(cuDevicePrimaryCtxRetain, 7000)(ret_b, b));
    if (error)
        (void)DRV(cuDevicePrimaryCtxRelease, 7000)(a);
    return error;
}

void rt_peers_release(int a, int b)
{
    (void)DRV(cuDevicePrimaryCtxRelease, 7000)(a);
    (void)DRV(cuDevicePrimaryCtxRelease, 7000)(b);
}

cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count)
{
    CUcontext to, from;
    cudaError_t error = rt_peers_retain(dstDevice, srcDevice, &to, &from);

    if (error)
        return rt_record(error);
    error = rt_error(DRV(cuMemcpyPeer, 4000)(rt_address(dst), to, rt_address(src), from, count));
    rt_peers_release(dstDevice, srcDevice);
    return rt_record(error);
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t count,
                                cudaStream_t stream)
{
    CUcontext to, from;
    cudaError_t error = rt_peers_retain(dstDevice, srcDevice, &to, &from);

    if (error)
        return rt_record(error);
    error = rt_error(DRV(cuMemcpyPeerAsync, 4000)(rt_address(dst), to, rt_address(src), from, count, stream));
    rt_peers_release(dstDevice, srcDevice);
    return rt_record(error);
}
