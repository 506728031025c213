/* What few programs ask or set: clusters that fit, widths of textures, banks of shared memory. */
#include "registry.h"

_Static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute), "one struct, two names");

static CUlaunchConfig native_config(const cudaLaunchConfig_t *c)
{
    return (CUlaunchConfig){.gridDimX = c->gridDim.x,
                            .gridDimY = c->gridDim.y,
                            .gridDimZ = c->gridDim.z,
                            .blockDimX = c->blockDim.x,
                            .blockDimY = c->blockDim.y,
                            .blockDimZ = c->blockDim.z,
                            .sharedMemBytes = (unsigned)c->dynamicSmemBytes,
                            .hStream = c->stream,
                            .attrs = (CUlaunchAttribute *)(void *)c->attrs,
                            .numAttrs = c->numAttrs};
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int *clusterSize, const void *func, const cudaLaunchConfig_t *launchConfig)
{
    CUlaunchConfig config;
    CUfunction function;
    cudaError_t error = rt_enter();

    if (!error)
        error = launchConfig ? rt_function_find(func, &function) : cudaErrorInvalidValue;
    if (error)
        return rt_record(error);
    config = native_config(launchConfig);
    return rt_record(rt_error(DRV(cuOccupancyMaxPotentialClusterSize, 11070)(clusterSize, function, &config)));
}

cudaError_t cudaOccupancyMaxActiveClusters(int *numClusters, const void *func, const cudaLaunchConfig_t *launchConfig)
{
    CUlaunchConfig config;
    CUfunction function;
    cudaError_t error = rt_enter();

    if (!error)
        error = launchConfig ? rt_function_find(func, &function) : cudaErrorInvalidValue;
    if (error)
        return rt_record(error);
    config = native_config(launchConfig);
    return rt_record(rt_error(DRV(cuOccupancyMaxActiveClusters, 11070)(numClusters, function, &config)));
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attr, int value, int device)
{
    return RT_CALL(DRV(cuKernelSetAttribute, 12000), (CUfunction_attribute)attr, value, kernel, device);
}

/* The devices are alike; the first that has as much memory will do. */
cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *prop)
{
    int count = 0;
    cudaError_t error = device && prop ? cudaGetDeviceCount(&count) : cudaErrorInvalidValue;

    for (int i = 0; i < count && !error; i++) {
        size_t bytes;

        error = rt_error(DRV(cuDeviceTotalMem, 3020)(&bytes, i));
        if (!error && bytes >= prop->totalGlobalMem) {
            *device = i;
            return cudaSuccess;
        }
    }
    if (!error)
        *device = 0;
    return rt_record(error);
}

cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, const struct cudaChannelFormatDesc *fmtDesc,
                                                 int device)
{
    if (!fmtDesc)
        return rt_record(cudaErrorInvalidValue);
    return RT_CALL_NO_CONTEXT(DRV(cuDeviceGetTexture1DLinearMaxWidth, 11010), maxWidthInElements, CU_AD_FORMAT_FLOAT,
                              fmtDesc->w ? 4u : fmtDesc->y ? 2u : 1u, device);
}

cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target,
                                               enum cudaFlushGPUDirectRDMAWritesScope scope)
{
    return RT_CALL(DRV(cuFlushGPUDirectRDMAWrites, 11030), (CUflushGPUDirectRDMAWritesTarget)target,
                   (CUflushGPUDirectRDMAWritesScope)scope);
}

cudaError_t cudaCtxResetPersistingL2Cache(void)
{
    return RT_CALL(DRV(cuCtxResetPersistingL2Cache, 11000));
}

cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *pConfig)
{
    return RT_CALL(DRV(cuCtxGetSharedMemConfig, 4020), (CUsharedconfig *)(void *)pConfig);
}

cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config)
{
    return RT_CALL(DRV(cuCtxSetSharedMemConfig, 4020), (CUsharedconfig)config);
}

cudaError_t cudaFuncSetSharedMemConfig(const void *func, enum cudaSharedMemConfig config)
{
    CUfunction function;
    cudaError_t error = rt_enter();

    if (!error)
        error = rt_function_find(func, &function);
    if (!error)
        error = rt_error(DRV(cuFuncSetSharedMemConfig, 4020)(function, (CUsharedconfig)config));
    return rt_record(error);
}
