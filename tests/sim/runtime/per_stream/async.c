/* Stream-ordered memory. */
#include "../address.h"
#include "../state.h"

/* Size 0 is as for cudaMalloc: success and NULL. */
cudaError_t cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream)
{
    CUdeviceptr address = 0;
    cudaError_t error = rt_enter();

    if (!error && !devPtr)
        error = cudaErrorInvalidValue;
    if (!error && size)
        error = rt_error(DRV_STREAM(cuMemAllocAsync, 11020, 11020)(&address, size, hStream));
    if (!error)
        *devPtr = rt_pointer(address);
    return rt_record(error);
}

cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream)
{
    CUdeviceptr address = 0;
    cudaError_t error = rt_enter();

    if (!error && !ptr)
        error = cudaErrorInvalidValue;
    if (!error && size)
        error = rt_error(DRV_STREAM(cuMemAllocFromPoolAsync, 11020, 11020)(&address, size, memPool, stream));
    if (!error)
        *ptr = rt_pointer(address);
    return rt_record(error);
}

cudaError_t cudaFreeAsync(void *devPtr, cudaStream_t hStream)
{
    cudaError_t error = rt_enter();

    if (!error && devPtr)
        error = rt_error(DRV_STREAM(cuMemFreeAsync, 11020, 11020)(rt_address(devPtr), hStream));
    return rt_record(error);
}
