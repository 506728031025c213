#include "../address.h"
#include "../state.h"

#include <stddef.h>

cudaError_t cudaMemset(void *devPtr, int value, size_t count)
{
    cudaError_t error = rt_enter();

    if (!error && count)
        error = rt_error(DRV_STREAM(cuMemsetD8, 3020, 7000)(rt_address(devPtr), (unsigned char)value, count));
    return rt_record(error);
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream)
{
    cudaError_t error = rt_enter();

    if (!error && count)
        error = rt_error(
            DRV_STREAM(cuMemsetD8Async, 3020, 7000)(rt_address(devPtr), (unsigned char)value, count, stream));
    return rt_record(error);
}

cudaError_t cudaMemset2D(void *devPtr, size_t pitch, int value, size_t width, size_t height)
{
    cudaError_t error = rt_enter();

    if (!error && width && height)
        error = rt_error(DRV_STREAM(cuMemsetD2D8, 3020, 7000)(rt_address(devPtr), pitch, (unsigned char)value, width,
                                                              height));
    return rt_record(error);
}

cudaError_t cudaMemset2DAsync(void *devPtr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
    cudaError_t error = rt_enter();

    if (!error && width && height)
        error = rt_error(DRV_STREAM(cuMemsetD2D8Async, 3020, 7000)(rt_address(devPtr), pitch, (unsigned char)value,
                                                                   width, height, stream));
    return rt_record(error);
}

/* One row block per slice: between slices lie the rows that the extent leaves out. */
cudaError_t cudaMemset3D(struct cudaPitchedPtr pitched, int value, struct cudaExtent extent)
{
    cudaError_t error = rt_enter();

    if (!extent.width || !extent.height)
        return rt_record(error);
    for (size_t z = 0; z < extent.depth && !error; z++) {
        CUdeviceptr slice = rt_address(pitched.ptr) + z * pitched.pitch * pitched.ysize;

        error = rt_error(DRV_STREAM(cuMemsetD2D8, 3020, 7000)(slice, pitched.pitch, (unsigned char)value, extent.width,
                                                              extent.height));
    }
    return rt_record(error);
}

cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr pitched, int value, struct cudaExtent extent, cudaStream_t stream)
{
    cudaError_t error = rt_enter();

    if (!extent.width || !extent.height)
        return rt_record(error);
    for (size_t z = 0; z < extent.depth && !error; z++) {
        CUdeviceptr slice = rt_address(pitched.ptr) + z * pitched.pitch * pitched.ysize;

        error = rt_error(DRV_STREAM(cuMemsetD2D8Async, 3020, 7000)(slice, pitched.pitch, (unsigned char)value,
                                                                   extent.width, extent.height, stream));
    }
    return rt_record(error);
}
