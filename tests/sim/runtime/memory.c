/* Device, managed and host memory that no stream orders. */
#include "address.h"
#include "state.h"

/* The runtime accepts size 0 and answers NULL, where the driver calls it invalid. */
cudaError_t cudaMalloc(void **devPtr, size_t size)
{
    CUdeviceptr address = 0;
    cudaError_t error = rt_enter();

    if (!error && !devPtr)
        error = cudaErrorInvalidValue;
    if (!error && size)
        error = rt_error(DRV(cuMemAlloc, 3020)(&address, size));
    if (!error)
        *devPtr = rt_pointer(address);
    return rt_record(error);
}

/* cudaFree(NULL) does nothing but initialise: programs use it for that. */
cudaError_t cudaFree(void *devPtr)
{
    cudaError_t error = rt_enter();

    if (!error && devPtr)
        error = rt_error(DRV(cuMemFree, 3020)(rt_address(devPtr)));
    return rt_record(error);
}

cudaError_t cudaMallocManaged(void **devPtr, size_t size, unsigned int flags)
{
    CUdeviceptr address;
    cudaError_t error = rt_enter();

    if (!error && !devPtr)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_error(DRV(cuMemAllocManaged, 6000)(&address, size, flags));
    if (!error)
        *devPtr = rt_pointer(address);
    return rt_record(error);
}

/* Rows are aligned for elements of any size up to 16 bytes. */
static cudaError_t alloc_pitch(void **ret_pointer, size_t *ret_pitch, size_t width, size_t rows)
{
    CUdeviceptr address = 0;
    size_t pitch = 0;
    cudaError_t error = rt_enter();

    if (!error && width && rows)
        error = rt_error(DRV(cuMemAllocPitch, 3020)(&address, &pitch, width, rows, 16));
    if (error)
        return error;
    *ret_pointer = rt_pointer(address);
    *ret_pitch = pitch;
    return cudaSuccess;
}

cudaError_t cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height)
{
    if (!devPtr || !pitch)
        return rt_record(cudaErrorInvalidValue);
    return rt_record(alloc_pitch(devPtr, pitch, width, height));
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent)
{
    struct cudaPitchedPtr made = {NULL, 0, extent.width, extent.height};
    cudaError_t error;

    if (!pitchedDevPtr)
        return rt_record(cudaErrorInvalidValue);
    error = alloc_pitch(&made.ptr, &made.pitch, extent.width, extent.height * extent.depth);
    if (!error)
        *pitchedDevPtr = made;
    return rt_record(error);
}

/* Both host allocators reach the driver by cuMemHostAlloc. */
static cudaError_t host_alloc(void **ret_pointer, size_t size, unsigned int flags)
{
    void *pointer = NULL;
    cudaError_t error = rt_enter();

    if (!error && !ret_pointer)
        error = cudaErrorInvalidValue;
    if (!error && size)
        error = rt_error(DRV(cuMemHostAlloc, 2020)(&pointer, size, flags));
    if (!error)
        *ret_pointer = pointer;
    return error;
}

cudaError_t cudaMallocHost(void **ptr, size_t size)
{
    return rt_record(host_alloc(ptr, size, 0));
}

cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
    return rt_record(host_alloc(pHost, size, flags));
}

cudaError_t cudaFreeHost(void *ptr)
{
    cudaError_t error = rt_enter();

    if (!error && ptr)
        error = rt_error(DRV(cuMemFreeHost, 2000)(ptr));
    return rt_record(error);
}

cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags)
{
    return RT_CALL(DRV(cuMemHostRegister, 6050), ptr, size, flags);
}

cudaError_t cudaHostUnregister(void *ptr)
{
    return RT_CALL(DRV(cuMemHostUnregister, 4000), ptr);
}

cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags)
{
    CUdeviceptr address;
    cudaError_t error = rt_enter();

    if (!error && !pDevice)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_error(DRV(cuMemHostGetDevicePointer, 3020)(&address, pHost, flags));
    if (!error)
        *pDevice = rt_pointer(address);
    return rt_record(error);
}

cudaError_t cudaHostGetFlags(unsigned int *pFlags, void *pHost)
{
    return RT_CALL(DRV(cuMemHostGetFlags, 2030), pFlags, pHost);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    return RT_CALL(DRV(cuMemGetInfo, 3020), free, total);
}

cudaError_t cudaMemRangeGetAttribute(void *data, size_t dataSize, enum cudaMemRangeAttribute attribute,
                                     const void *devPtr, size_t count)
{
    return RT_CALL(DRV(cuMemRangeGetAttribute, 8000), data, dataSize, (CUmem_range_attribute)attribute,
                   rt_address(devPtr), count);
}

cudaError_t cudaMemRangeGetAttributes(void **data, size_t *dataSizes, enum cudaMemRangeAttribute *attributes,
                                      size_t numAttributes, const void *devPtr, size_t count)
{
    return RT_CALL(DRV(cuMemRangeGetAttributes, 8000), data, dataSizes, (CUmem_range_attribute *)(void *)attributes,
                   numAttributes, rt_address(devPtr), count);
}
