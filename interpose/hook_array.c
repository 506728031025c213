/* Arrays and mipmapped arrays: a class of their own, keyed by handle. Sizes are what the descriptor asks for; the driver's
 * own padding is not known. */
#include "hook.h"
#include "observe.h"

static uint64_t element_bytes(CUarray_format format, unsigned channels)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2ull * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4ull * channels;
    default:
        return channels; /* block-compressed and planar formats: a lower bound */
    }
}

static uint64_t at_least_one(size_t extent)
{
    return extent ? extent : 1;
}

static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    return at_least_one(d->Width) * at_least_one(d->Height) * at_least_one(d->Depth) *
           element_bytes(d->Format, d->NumChannels);
}

CUresult hook_cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *descriptor)
{
    NXM_NEEDS(cuArrayCreate_v2);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, true);
    CUresult result = nxm_real.cuArrayCreate_v2(array, descriptor);

    if (nxm_observe_made_room(mode, result))
        result = nxm_real.cuArrayCreate_v2(array, descriptor);
    if (result == CUDA_SUCCESS && mode == NXM_MODE_SERVE) {
        CUDA_ARRAY3D_DESCRIPTOR d = { .Width = descriptor->Width, .Height = descriptor->Height,
                                      .Format = descriptor->Format, .NumChannels = descriptor->NumChannels };
        nxm_observe(NXM_TABLE_ARRAYS, NXM_CLASS_ARRAY, nxm_label_take(NXM_API_cuArrayCreate_v2, 0),
                    (uint64_t)(uintptr_t)*array, array_bytes(&d));
    }
    nxm_leave(mode);
    return result;
}

CUresult hook_cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    NXM_NEEDS(cuArray3DCreate_v2);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, true);
    CUresult result = nxm_real.cuArray3DCreate_v2(array, descriptor);

    if (nxm_observe_made_room(mode, result))
        result = nxm_real.cuArray3DCreate_v2(array, descriptor);
    if (result == CUDA_SUCCESS && mode == NXM_MODE_SERVE)
        nxm_observe(NXM_TABLE_ARRAYS, NXM_CLASS_ARRAY, nxm_label_take(NXM_API_cuArray3DCreate_v2, 0),
                    (uint64_t)(uintptr_t)*array, array_bytes(descriptor));
    nxm_leave(mode);
    return result;
}

CUresult hook_cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels)
{
    NXM_NEEDS(cuMipmappedArrayCreate);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, true);
    CUresult result = nxm_real.cuMipmappedArrayCreate(array, descriptor, levels);

    if (nxm_observe_made_room(mode, result))
        result = nxm_real.cuMipmappedArrayCreate(array, descriptor, levels);
    if (result == CUDA_SUCCESS && mode == NXM_MODE_SERVE) {
        CUDA_ARRAY3D_DESCRIPTOR level = *descriptor;
        uint64_t bytes = 0;
        for (unsigned i = 0; i < levels && i < 32; i++) {
            bytes += array_bytes(&level);
            level.Width /= 2;
            level.Height /= 2;
            level.Depth /= 2;
        }
        nxm_observe(NXM_TABLE_ARRAYS, NXM_CLASS_ARRAY, nxm_label_take(NXM_API_cuMipmappedArrayCreate, 0),
                    (uint64_t)(uintptr_t)*array, bytes);
    }
    nxm_leave(mode);
    return result;
}

static CUresult real_destroy(void *array)
{
    return nxm_real.cuArrayDestroy(array);
}

CUresult hook_cuArrayDestroy(CUarray array)
{
    NXM_NEEDS(cuArrayDestroy);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);

    nxm_label_take(NXM_API_cuArrayDestroy, 0);
    CUresult result = nxm_observe_free(mode, NXM_TABLE_ARRAYS, (uint64_t)(uintptr_t)array, real_destroy, array);
    nxm_leave(mode);
    return result;
}

static CUresult real_destroy_mipmapped(void *array)
{
    return nxm_real.cuMipmappedArrayDestroy(array);
}

CUresult hook_cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    NXM_NEEDS(cuMipmappedArrayDestroy);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);

    nxm_label_take(NXM_API_cuMipmappedArrayDestroy, 0);
    CUresult result =
        nxm_observe_free(mode, NXM_TABLE_ARRAYS, (uint64_t)(uintptr_t)array, real_destroy_mipmapped, array);
    nxm_leave(mode);
    return result;
}
