/* CUDA arrays, as far as an allocation tool meets them: made, described by their channel format, destroyed. */
#include "state.h"

#include <stddef.h>

/* A channel description counts bits per component; the driver wants a format and a number of channels. */
static cudaError_t format_of(const struct cudaChannelFormatDesc *desc, CUDA_ARRAY3D_DESCRIPTOR *ret_descriptor)
{
    static const CUarray_format formats[3][3] = {
        {CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT16, CU_AD_FORMAT_SIGNED_INT32},
        {CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_UNSIGNED_INT32},
        {(CUarray_format)0, CU_AD_FORMAT_HALF, CU_AD_FORMAT_FLOAT},
    };
    int row = desc->f == cudaChannelFormatKindSigned ? 0 : desc->f == cudaChannelFormatKindUnsigned ? 1 : 2;
    int column = desc->x == 8 ? 0 : desc->x == 16 ? 1 : desc->x == 32 ? 2 : -1;

    if (column < 0 || desc->f > cudaChannelFormatKindFloat || (CUarray_format)0 == formats[row][column])
        return cudaErrorInvalidChannelDescriptor;
    ret_descriptor->Format = formats[row][column];
    ret_descriptor->NumChannels = desc->w ? 4 : desc->y ? 2 : 1;
    return cudaSuccess;
}

static cudaError_t create(cudaArray_t *ret_array, const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                          unsigned int flags)
{
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {extent.width, extent.height, extent.depth, CU_AD_FORMAT_FLOAT, 1, flags};
    CUarray array;
    cudaError_t error;

    if (!ret_array || !desc)
        return cudaErrorInvalidValue;
    error = format_of(desc, &descriptor);
    if (!error)
        error = rt_enter();
    if (!error)
        error = rt_error(DRV(cuArray3DCreate, 3020)(&array, &descriptor));
    if (!error)
        *ret_array = (cudaArray_t)array;
    return error;
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc, size_t width, size_t height,
                            unsigned int flags)
{
    return rt_record(create(array, desc, (struct cudaExtent){width, height, 0}, flags));
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                              unsigned int flags)
{
    return rt_record(create(array, desc, extent, flags));
}

cudaError_t cudaFreeArray(cudaArray_t array)
{
    cudaError_t error = rt_enter();

    if (!error && array)
        error = rt_error(DRV(cuArrayDestroy, 2000)((CUarray)array));
    return rt_record(error);
}

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind f)
{
    return (struct cudaChannelFormatDesc){x, y, z, w, f};
}
