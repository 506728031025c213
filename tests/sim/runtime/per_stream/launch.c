/* Kernel launches, all by the driver's kernel handle cast to a function, as the driver allows since CUDA 12. */
#include "../registry.h"

#include <stddef.h>

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define LAUNCH_KERNEL __cudaLaunchKernel_ptsz
#else
#define LAUNCH_KERNEL __cudaLaunchKernel
#endif

cudaError_t LAUNCH_KERNEL(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream);

static CUresult launch(CUkernel kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream)
{
    return DRV_STREAM(cuLaunchKernel, 4000, 7000)((CUfunction)kernel, grid.x, grid.y, grid.z, block.x, block.y,
                                                  block.z, (unsigned)shared, stream, args, NULL);
}

/* What CUDA 13's generated code calls, with the handle that __cudaGetKernel gave it. */
cudaError_t LAUNCH_KERNEL(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream)
{
    cudaError_t error = rt_enter();

    if (!error && !kernel)
        error = cudaErrorInvalidDeviceFunction;
    if (!error)
        error = rt_error(launch(kernel, grid, block, args, shared, stream));
    return rt_record(error);
}

cudaError_t cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
                             cudaStream_t stream)
{
    CUkernel kernel;
    cudaError_t error = rt_enter();

    if (!error)
        error = rt_kernel_find(func, &kernel);
    if (!error)
        error = rt_error(launch(kernel, gridDim, blockDim, args, sharedMem, stream));
    return rt_record(error);
}

cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
                                        cudaStream_t stream)
{
    CUkernel kernel;
    cudaError_t error = rt_enter();

    if (!error)
        error = rt_kernel_find(func, &kernel);
    if (!error)
        error = rt_error(DRV_STREAM(cuLaunchCooperativeKernel, 9000, 9000)(
            (CUfunction)kernel, gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z,
            (unsigned)sharedMem, stream, args));
    return rt_record(error);
}

/* Launch attributes have one layout in both APIs, so the list is handed on as it is. */
_Static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute), "one struct, two names");

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
    CUlaunchConfig native;
    CUkernel kernel;
    cudaError_t error = rt_enter();

    if (!error && !config)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_kernel_find(func, &kernel);
    if (error)
        return rt_record(error);
    native = (CUlaunchConfig){.gridDimX = config->gridDim.x,
                              .gridDimY = config->gridDim.y,
                              .gridDimZ = config->gridDim.z,
                              .blockDimX = config->blockDim.x,
                              .blockDimY = config->blockDim.y,
                              .blockDimZ = config->blockDim.z,
                              .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
                              .hStream = config->stream,
                              .attrs = (CUlaunchAttribute *)(void *)config->attrs,
                              .numAttrs = config->numAttrs};
    return rt_record(
        rt_error(DRV_STREAM(cuLaunchKernelEx, 11060, 11060)(&native, (CUfunction)kernel, args, NULL)));
}
