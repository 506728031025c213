/* CUDA arrays, as far as an allocation tool meets them: made, described by their channel format, destroyed. */
#include "array.h"

/* A channel description counts bits per component; the driver wants a format and a number of channels. */
cudaError_t rt_array_format(const struct cudaChannelFormatDesc *desc, CUDA_ARRAY3D_DESCRIPTOR *ret_descriptor)
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
    error = rt_array_format(desc, &descriptor);
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

/* --- mipmaps ----------------------------------------------------------------------------------------------- */

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *mipmappedArray, const struct cudaChannelFormatDesc *desc,
                                     struct cudaExtent extent, unsigned int numLevels, unsigned int flags)
{
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {extent.width, extent.height, extent.depth, CU_AD_FORMAT_FLOAT, 1, flags};
    cudaError_t error = mipmappedArray && desc ? rt_array_format(desc, &descriptor) : cudaErrorInvalidValue;

    if (!error)
        error = rt_enter();
    if (!error)
        error = rt_error(DRV(cuMipmappedArrayCreate, 5000)((CUmipmappedArray *)(void *)mipmappedArray, &descriptor,
                                                           numLevels));
    return rt_record(error);
}

/* The level belongs to its mipmap. */
cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *levelArray, cudaMipmappedArray_const_t mipmappedArray,
                                       unsigned int level)
{
    return RT_CALL(DRV(cuMipmappedArrayGetLevel, 5000), (CUarray *)(void *)levelArray,
                   (CUmipmappedArray)(uintptr_t)mipmappedArray, level);
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t mipmappedArray)
{
    cudaError_t error = rt_enter();

    if (!error && mipmappedArray)
        error = rt_error(DRV(cuMipmappedArrayDestroy, 5000)((CUmipmappedArray)mipmappedArray));
    return rt_record(error);
}

/* --- what an array is ------------------------------------------------------------------------------------ */

static int bits_of(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_UNSIGNED_INT8:
        return 8;
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 16;
    default:
        return 32;
    }
}

static enum cudaChannelFormatKind kind_of(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_FLOAT:
        return cudaChannelFormatKindFloat;
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT32:
        return cudaChannelFormatKindSigned;
    default:
        return cudaChannelFormatKindUnsigned;
    }
}

static cudaError_t description_of(cudaArray_const_t array, CUDA_ARRAY3D_DESCRIPTOR *ret_descriptor)
{
    return rt_error(DRV(cuArray3DGetDescriptor, 3020)(ret_descriptor, (CUarray)(uintptr_t)array));
}

cudaError_t rt_array_element(cudaArray_const_t array, size_t *ret_bytes)
{
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    cudaError_t error = description_of(array, &descriptor);

    if (!error)
        *ret_bytes = (size_t)bits_of(descriptor.Format) / 8 * descriptor.NumChannels;
    return error;
}

struct cudaChannelFormatDesc rt_array_channels(CUarray_format format, unsigned channels)
{
    int bits = bits_of(format);

    return (struct cudaChannelFormatDesc){bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0, channels > 3 ? bits : 0,
                                          kind_of(format)};
}

cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *desc, cudaArray_const_t array)
{
    return cudaArrayGetInfo(desc, NULL, NULL, (cudaArray_t)(uintptr_t)array);
}

cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent, unsigned int *flags,
                             cudaArray_t array)
{
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    cudaError_t error = rt_enter();

    if (!error)
        error = description_of(array, &descriptor);
    if (error)
        return rt_record(error);
    if (desc)
        *desc = rt_array_channels(descriptor.Format, descriptor.NumChannels);
    if (extent)
        *extent = (struct cudaExtent){descriptor.Width, descriptor.Height, descriptor.Depth};
    if (flags)
        *flags = descriptor.Flags;
    return cudaSuccess;
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
