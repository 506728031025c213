/* Texture and surface objects: the driver's, described in the runtime's words. */
#include "address.h"
#include "array.h"

#include <stdbool.h>
#include <string.h>

_Static_assert(sizeof(struct cudaResourceViewDesc) == sizeof(CUDA_RESOURCE_VIEW_DESC), "one struct, two names");
_Static_assert(sizeof(cudaTextureObject_t) == sizeof(CUtexObject), "one handle, two names");

static cudaError_t native_format(const struct cudaChannelFormatDesc *desc, CUarray_format *ret_format, unsigned *ret_channels)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    cudaError_t error = rt_array_format(desc, &d);

    if (error)
        return error;
    *ret_format = d.Format;
    *ret_channels = d.NumChannels;
    return cudaSuccess;
}

static cudaError_t native_resource(const struct cudaResourceDesc *r, CUDA_RESOURCE_DESC *ret)
{
    memset(ret, 0, sizeof *ret);
    switch (r->resType) {
    case cudaResourceTypeArray:
        ret->resType = CU_RESOURCE_TYPE_ARRAY;
        ret->res.array.hArray = (CUarray)r->res.array.array;
        return cudaSuccess;
    case cudaResourceTypeMipmappedArray:
        ret->resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
        ret->res.mipmap.hMipmappedArray = (CUmipmappedArray)r->res.mipmap.mipmap;
        return cudaSuccess;
    case cudaResourceTypeLinear:
        ret->resType = CU_RESOURCE_TYPE_LINEAR;
        ret->res.linear.devPtr = rt_address(r->res.linear.devPtr);
        ret->res.linear.sizeInBytes = r->res.linear.sizeInBytes;
        return native_format(&r->res.linear.desc, &ret->res.linear.format, &ret->res.linear.numChannels);
    case cudaResourceTypePitch2D:
        ret->resType = CU_RESOURCE_TYPE_PITCH2D;
        ret->res.pitch2D.devPtr = rt_address(r->res.pitch2D.devPtr);
        ret->res.pitch2D.width = r->res.pitch2D.width;
        ret->res.pitch2D.height = r->res.pitch2D.height;
        ret->res.pitch2D.pitchInBytes = r->res.pitch2D.pitchInBytes;
        return native_format(&r->res.pitch2D.desc, &ret->res.pitch2D.format, &ret->res.pitch2D.numChannels);
    default:
        return cudaErrorInvalidValue;
    }
}

static void *pointer(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

static void told_resource(const CUDA_RESOURCE_DESC *d, struct cudaResourceDesc *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->resType = (enum cudaResourceType)d->resType;
    switch (d->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        ret->res.array.array = (cudaArray_t)d->res.array.hArray;
        break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        ret->res.mipmap.mipmap = (cudaMipmappedArray_t)d->res.mipmap.hMipmappedArray;
        break;
    case CU_RESOURCE_TYPE_LINEAR:
        ret->res.linear.devPtr = pointer(d->res.linear.devPtr);
        ret->res.linear.sizeInBytes = d->res.linear.sizeInBytes;
        ret->res.linear.desc = rt_array_channels(d->res.linear.format, d->res.linear.numChannels);
        break;
    default:
        ret->res.pitch2D.devPtr = pointer(d->res.pitch2D.devPtr);
        ret->res.pitch2D.width = d->res.pitch2D.width;
        ret->res.pitch2D.height = d->res.pitch2D.height;
        ret->res.pitch2D.pitchInBytes = d->res.pitch2D.pitchInBytes;
        ret->res.pitch2D.desc = rt_array_channels(d->res.pitch2D.format, d->res.pitch2D.numChannels);
    }
}

static CUDA_TEXTURE_DESC native_sampler(const struct cudaTextureDesc *t)
{
    CUDA_TEXTURE_DESC d = {.filterMode = (CUfilter_mode)t->filterMode,
                           .maxAnisotropy = t->maxAnisotropy,
                           .mipmapFilterMode = (CUfilter_mode)t->mipmapFilterMode,
                           .mipmapLevelBias = t->mipmapLevelBias,
                           .minMipmapLevelClamp = t->minMipmapLevelClamp,
                           .maxMipmapLevelClamp = t->maxMipmapLevelClamp};

    for (int i = 0; i < 3; i++)
        d.addressMode[i] = (CUaddress_mode)t->addressMode[i];
    memcpy(d.borderColor, t->borderColor, sizeof d.borderColor);
    d.flags = (t->readMode == cudaReadModeElementType ? CU_TRSF_READ_AS_INTEGER : 0u) | (t->sRGB ? CU_TRSF_SRGB : 0u) |
              (t->normalizedCoords ? CU_TRSF_NORMALIZED_COORDINATES : 0u) |
              (t->disableTrilinearOptimization ? CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION : 0u) |
              (t->seamlessCubemap ? CU_TRSF_SEAMLESS_CUBEMAP : 0u);
    return d;
}

static void told_sampler(const CUDA_TEXTURE_DESC *d, struct cudaTextureDesc *ret)
{
    *ret = (struct cudaTextureDesc){
        .filterMode = (enum cudaTextureFilterMode)d->filterMode,
        .readMode = d->flags & CU_TRSF_READ_AS_INTEGER ? cudaReadModeElementType : cudaReadModeNormalizedFloat,
        .sRGB = (d->flags & CU_TRSF_SRGB) != 0,
        .normalizedCoords = (d->flags & CU_TRSF_NORMALIZED_COORDINATES) != 0,
        .maxAnisotropy = d->maxAnisotropy,
        .mipmapFilterMode = (enum cudaTextureFilterMode)d->mipmapFilterMode,
        .mipmapLevelBias = d->mipmapLevelBias,
        .minMipmapLevelClamp = d->minMipmapLevelClamp,
        .maxMipmapLevelClamp = d->maxMipmapLevelClamp,
        .disableTrilinearOptimization = (d->flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION) != 0,
        .seamlessCubemap = (d->flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0,
    };
    for (int i = 0; i < 3; i++)
        ret->addressMode[i] = (enum cudaTextureAddressMode)d->addressMode[i];
    memcpy(ret->borderColor, d->borderColor, sizeof ret->borderColor);
}

cudaError_t cudaCreateTextureObject(cudaTextureObject_t *pTexObject, const struct cudaResourceDesc *pResDesc,
                                    const struct cudaTextureDesc *pTexDesc, const struct cudaResourceViewDesc *pResViewDesc)
{
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC sampler;
    cudaError_t error = rt_enter();

    if (!error && (!pResDesc || !pTexDesc))
        error = cudaErrorInvalidValue;
    if (!error)
        error = native_resource(pResDesc, &resource);
    if (error)
        return rt_record(error);
    sampler = native_sampler(pTexDesc);
    return rt_record(rt_error(DRV(cuTexObjectCreate, 5000)(
        pTexObject, &resource, &sampler, (const CUDA_RESOURCE_VIEW_DESC *)(const void *)pResViewDesc)));
}

/* Nothing to destroy is no error to the runtime. */
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t texObject)
{
    return texObject ? RT_CALL(DRV(cuTexObjectDestroy, 5000), texObject) : cudaSuccess;
}

cudaError_t cudaGetTextureObjectResourceDesc(struct cudaResourceDesc *pResDesc, cudaTextureObject_t texObject)
{
    CUDA_RESOURCE_DESC d;
    cudaError_t error = rt_enter();

    if (!error && !pResDesc)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_error(DRV(cuTexObjectGetResourceDesc, 5000)(&d, texObject));
    if (!error)
        told_resource(&d, pResDesc);
    return rt_record(error);
}

cudaError_t cudaGetTextureObjectTextureDesc(struct cudaTextureDesc *pTexDesc, cudaTextureObject_t texObject)
{
    CUDA_TEXTURE_DESC d;
    cudaError_t error = rt_enter();

    if (!error && !pTexDesc)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_error(DRV(cuTexObjectGetTextureDesc, 5000)(&d, texObject));
    if (!error)
        told_sampler(&d, pTexDesc);
    return rt_record(error);
}

cudaError_t cudaGetTextureObjectResourceViewDesc(struct cudaResourceViewDesc *pResViewDesc, cudaTextureObject_t texObject)
{
    return RT_CALL(DRV(cuTexObjectGetResourceViewDesc, 5000), (CUDA_RESOURCE_VIEW_DESC *)(void *)pResViewDesc, texObject);
}

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *pSurfObject, const struct cudaResourceDesc *pResDesc)
{
    CUDA_RESOURCE_DESC resource;
    cudaError_t error = rt_enter();

    if (!error)
        error = pResDesc ? native_resource(pResDesc, &resource) : cudaErrorInvalidValue;
    if (!error)
        error = rt_error(DRV(cuSurfObjectCreate, 5000)(pSurfObject, &resource));
    return rt_record(error);
}

cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t surfObject)
{
    return surfObject ? RT_CALL(DRV(cuSurfObjectDestroy, 5000), surfObject) : cudaSuccess;
}

cudaError_t cudaGetSurfaceObjectResourceDesc(struct cudaResourceDesc *pResDesc, cudaSurfaceObject_t surfObject)
{
    CUDA_RESOURCE_DESC d;
    cudaError_t error = rt_enter();

    if (!error && !pResDesc)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_error(DRV(cuSurfObjectGetResourceDesc, 5000)(&d, surfObject));
    if (!error)
        told_resource(&d, pResDesc);
    return rt_record(error);
}
