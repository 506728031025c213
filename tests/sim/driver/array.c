#include "array.h"

#include "block.h"
#include "capture.h"
#include "context.h"
#include "log.h"
#include "memory.h"
#include "state.h"
#include "texture.h"

static size_t element_bytes(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4;
    default: return 0; /* compressed and video formats are not simulated */
    }
}

size_t sim_array_element(CUarray_format format, unsigned channels)
{
    return channels == 1 || channels == 2 || channels == 4 ? element_bytes(format) * channels : 0;
}

static CUresult check(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    if (!d || !d->Width || (d->NumChannels != 1 && d->NumChannels != 2 && d->NumChannels != 4))
        return CUDA_ERROR_INVALID_VALUE;
    return element_bytes(d->Format) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    size_t height = d->Height ? d->Height : 1, slices = d->Depth ? d->Depth : 1;
    return d->Width * element_bytes(d->Format) * d->NumChannels * height * slices;
}

CUresult sim_array_new(struct sim_context *c, const CUDA_ARRAY3D_DESCRIPTOR *d, enum sim_fn fn,
                       struct sim_array **ret_array)
{
    CUresult result = check(d);
    if (result != CUDA_SUCCESS) return result;
    struct sim_array *a = sim_object_new(SIM_ARRAY, sizeof *a, NULL);
    if (!a) return CUDA_ERROR_OUT_OF_MEMORY;
    result = sim_memory_new(c->device, sim_context_owner(c), SIM_BLOCK_ARRAY, bytes_of(d), fn, &a->block);
    if (result != CUDA_SUCCESS) {
        sim_object_close(&a->object);
        return result;
    }
    a->pitch = d->Width * element_bytes(d->Format) * d->NumChannels;
    a->height = d->Height ? d->Height : 1;
    a->width = d->Width;
    a->rows = (unsigned)d->Height;
    a->depth = d->Depth;
    a->format = d->Format;
    a->channels = d->NumChannels;
    a->flags = d->Flags;
    *ret_array = a;
    return CUDA_SUCCESS;
}

static CUresult create(CUarray *ret, const CUDA_ARRAY3D_DESCRIPTOR *d, enum sim_fn fn)
{
    struct sim_context *c;
    struct sim_array *a = NULL;
    if (!ret || !d) return sim_log_refused(fn, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    CUresult result = sim_context_current(&c);
    if (result == CUDA_SUCCESS) result = sim_capture_check_unsafe();
    if (result == CUDA_SUCCESS) result = sim_array_new(c, d, fn, &a);
    sim_unlock();
    if (result == CUDA_SUCCESS) *ret = (CUarray)a;
    sim_log_call(fn, result, (uint64_t)(uintptr_t)a, "size", bytes_of(d), NULL, 0);
    return result;
}

CUresult cuArrayCreate_v2(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR *d)
{
    SIM_ENTER(cuArrayCreate_v2);
    if (!d) return sim_log_refused(SIM_FN_cuArrayCreate_v2, CUDA_ERROR_INVALID_VALUE);
    CUDA_ARRAY3D_DESCRIPTOR flat = { .Width = d->Width, .Height = d->Height, .Format = d->Format,
                                     .NumChannels = d->NumChannels };
    return create(handle, &flat, SIM_FN_cuArrayCreate_v2);
}

CUresult cuArray3DCreate_v2(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    SIM_ENTER(cuArray3DCreate_v2);
    return create(handle, d, SIM_FN_cuArray3DCreate_v2);
}

void sim_array_close(struct sim_array *a, enum sim_fn fn)
{
    sim_memory_release(a->block, fn);
    sim_object_close(&a->object);
}

CUresult cuArrayDestroy(CUarray handle)
{
    SIM_ENTER(cuArrayDestroy);
    sim_lock();
    struct sim_array *a = sim_object_find(handle, SIM_ARRAY);
    CUresult result = a && !a->is_level ? sim_capture_check_unsafe() : CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS) {
        sim_context_wait(a->block->context);
        sim_array_close(a, SIM_FN_cuArrayDestroy);
    }
    sim_unlock();
    sim_log_plain(SIM_FN_cuArrayDestroy, result, (uint64_t)(uintptr_t)handle);
    return result;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *d, CUarray handle)
{
    SIM_ENTER(cuArray3DGetDescriptor_v2);
    if (!d) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_array *a = sim_object_find(handle, SIM_ARRAY);
    if (a)
        *d = (CUDA_ARRAY3D_DESCRIPTOR){ .Width = a->width, .Height = a->rows, .Depth = a->depth,
                                        .Format = (CUarray_format)a->format, .NumChannels = a->channels,
                                        .Flags = a->flags };
    sim_unlock();
    return a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *d, CUarray handle)
{
    SIM_ENTER(cuArrayGetDescriptor_v2);
    if (!d) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_array *a = sim_object_find(handle, SIM_ARRAY);
    if (a)
        *d = (CUDA_ARRAY_DESCRIPTOR){ .Width = a->width, .Height = a->rows, .Format = (CUarray_format)a->format,
                                      .NumChannels = a->channels };
    sim_unlock();
    return a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

struct search {
    struct sim_context *context;
    struct sim_array *found;
};

static void search_array(struct sim_object *o, void *arg)
{
    struct search *s = arg;
    if (((struct sim_array *)o)->block->context == s->context) s->found = (struct sim_array *)o;
}

void sim_array_close_context(struct sim_context *c)
{
    sim_texture_close_context(c);
    for (struct search s = { c, NULL };; s.found = NULL) {
        sim_object_each(SIM_ARRAY, search_array, &s);
        if (!s.found) return;
        sim_array_close(s.found, SIM_FN_COUNT);
    }
}
