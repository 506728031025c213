/* Copies of boxes between pitched memory and arrays. */
#include "../box.h"

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
