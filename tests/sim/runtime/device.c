#include "state.h"

#include <stddef.h>

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (!version)
        return rt_record(cudaErrorInvalidValue);
    *version = SIM_CUDART_VERSION;
    return cudaSuccess;
}

/* Without a driver the answer is version 0 and no error. */
cudaError_t cudaDriverGetVersion(int *version)
{
    if (!version)
        return rt_record(cudaErrorInvalidValue);
    if (rt_driver_load() != cudaSuccess) {
        *version = 0;
        return cudaSuccess;
    }
    return rt_record(rt_error(DRV(cuDriverGetVersion, 2020)(version)));
}

cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t error = RT_CALL_NO_CONTEXT(DRV(cuDeviceGetCount, 2000), count);

    if (error == cudaSuccess && *count == 0)
        return rt_record(cudaErrorNoDevice);
    return error;
}

cudaError_t cudaGetDevice(int *device)
{
    cudaError_t error = rt_initialise();

    if (error)
        return rt_record(error);
    if (!device)
        return rt_record(cudaErrorInvalidValue);
    *device = rt_device();
    return cudaSuccess;
}

/* Since CUDA 12 choosing a device initialises it. */
cudaError_t cudaSetDevice(int device)
{
    return rt_record(rt_device_choose(device));
}

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
    (void)deviceFlags;
    if (flags)
        return rt_record(cudaErrorInvalidValue);
    return rt_record(rt_device_choose(device));
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    cudaError_t error = rt_initialise();

    if (!error)
        error = rt_error(DRV(cuDevicePrimaryCtxSetFlags, 11000)(rt_device(), flags));
    return rt_record(error);
}

cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
    int active;
    cudaError_t error = rt_initialise();

    if (!error)
        error = rt_error(DRV(cuDevicePrimaryCtxGetState, 7000)(rt_device(), flags, &active));
    return rt_record(error);
}

cudaError_t cudaDeviceReset(void)
{
    return rt_record(rt_device_reset());
}

cudaError_t cudaDeviceSynchronize(void)
{
    return RT_CALL(DRV(cuCtxSynchronize, 2000));
}

/* cudaDeviceAttr and CUdevice_attribute share their numbers. */
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    return RT_CALL_NO_CONTEXT(DRV(cuDeviceGetAttribute, 2000), value, (CUdevice_attribute)attr, device);
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int srcDevice, int dstDevice)
{
    return RT_CALL_NO_CONTEXT(DRV(cuDeviceGetP2PAttribute, 8000), value, (CUdevice_P2PAttribute)attr, srcDevice,
                              dstDevice);
}

cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
    return RT_CALL_NO_CONTEXT(DRV(cuDeviceGetPCIBusId, 4010), pciBusId, len, device);
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *pciBusId)
{
    return RT_CALL_NO_CONTEXT(DRV(cuDeviceGetByPCIBusId, 4010), device, pciBusId);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    return RT_CALL(DRV(cuCtxGetStreamPriorityRange, 5050), leastPriority, greatestPriority);
}

cudaError_t cudaDeviceGetLimit(size_t *pValue, enum cudaLimit limit)
{
    return RT_CALL(DRV(cuCtxGetLimit, 3010), pValue, (CUlimit)limit);
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    return RT_CALL(DRV(cuCtxSetLimit, 3010), (CUlimit)limit, value);
}

cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *pCacheConfig)
{
    return RT_CALL(DRV(cuCtxGetCacheConfig, 3020), (CUfunc_cache *)(void *)pCacheConfig);
}

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache cacheConfig)
{
    return RT_CALL(DRV(cuCtxSetCacheConfig, 3020), (CUfunc_cache)cacheConfig);
}

cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
    return RT_CALL_NO_CONTEXT(DRV(cuDeviceCanAccessPeer, 4000), canAccessPeer, device, peerDevice);
}

/* Peer access is between contexts; the runtime means the peer device's primary context. The reference taken to name it
 * is given back at once: enabled access does not keep the peer alive. */
static cudaError_t with_peer_context(int device, CUresult (*act)(CUcontext))
{
    CUcontext peer;
    cudaError_t error = rt_enter();

    if (!error)
        error = rt_error(DRV(cuDevicePrimaryCtxRetain, 7000)(&peer, device));
    if (error)
        return error;
    error = rt_error(act(peer));
    (void)DRV(cuDevicePrimaryCtxRelease, 7000)(device);
    return error;
}

static CUresult enable_peer(CUcontext peer)
{
    return DRV(cuCtxEnablePeerAccess, 4000)(peer, 0);
}

static CUresult disable_peer(CUcontext peer)
{
    return DRV(cuCtxDisablePeerAccess, 4000)(peer);
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
    if (flags)
        return rt_record(cudaErrorInvalidValue);
    return rt_record(with_peer_context(peerDevice, enable_peer));
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice)
{
    return rt_record(with_peer_context(peerDevice, disable_peer));
}
