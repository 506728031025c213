#include "texture.h"

#include "array.h"
#include "block.h"
#include "context.h"
#include "device.h"
#include "state.h"

enum { PITCH_ALIGNMENT = 32, LINEAR_ELEMENTS = 1 << 28, SIDE_MAX = 131072, KNOWN_FLAGS = 0x3f };

struct texture { /* or surface */
    struct sim_object object;
    struct sim_context *context; /* whose handles they are; borrowed, for comparison */
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC sampler;
    CUDA_RESOURCE_VIEW_DESC view;
    bool has_view;
};

/* --- what they may name ---------------------------------------------------------------------------------------------- */

static CUresult check_memory(CUdeviceptr p, size_t bytes)
{
    struct sim_block *b = sim_block_containing(p);
    return b && bytes && bytes <= b->range.start + b->size - p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_linear(const CUDA_RESOURCE_DESC *d)
{
    size_t element = sim_array_element(d->res.linear.format, d->res.linear.numChannels);
    if (!element || d->res.linear.devPtr % SIM_ALIGNMENT || d->res.linear.sizeInBytes / element > LINEAR_ELEMENTS)
        return CUDA_ERROR_INVALID_VALUE;
    return check_memory(d->res.linear.devPtr, d->res.linear.sizeInBytes);
}

static CUresult check_pitched(const CUDA_RESOURCE_DESC *d)
{
    size_t element = sim_array_element(d->res.pitch2D.format, d->res.pitch2D.numChannels);
    size_t width = d->res.pitch2D.width, height = d->res.pitch2D.height, pitch = d->res.pitch2D.pitchInBytes;
    if (!element || d->res.pitch2D.devPtr % SIM_ALIGNMENT || pitch % PITCH_ALIGNMENT) return CUDA_ERROR_INVALID_VALUE;
    if (!width || !height || width > SIDE_MAX || height > SIDE_MAX || pitch < width * element) return CUDA_ERROR_INVALID_VALUE;
    return check_memory(d->res.pitch2D.devPtr, (height - 1) * pitch + width * element);
}

static CUresult check_resource(const CUDA_RESOURCE_DESC *d)
{
    if (d->flags) return CUDA_ERROR_INVALID_VALUE;
    switch (d->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        return sim_object_find(d->res.array.hArray, SIM_ARRAY) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        return sim_object_find(d->res.mipmap.hMipmappedArray, SIM_MIPMAP) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_RESOURCE_TYPE_LINEAR: return check_linear(d);
    case CU_RESOURCE_TYPE_PITCH2D: return check_pitched(d);
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

static bool is_array(const CUDA_RESOURCE_DESC *d)
{
    return d->resType == CU_RESOURCE_TYPE_ARRAY || d->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
}

static CUresult check_sampler(const CUDA_TEXTURE_DESC *t)
{
    bool known = !(t->flags & ~(unsigned)KNOWN_FLAGS) && (unsigned)t->filterMode <= CU_TR_FILTER_MODE_LINEAR;
    for (int i = 0; i < 3; i++) known &= (unsigned)t->addressMode[i] <= CU_TR_ADDRESS_MODE_BORDER;
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Surfaces are stored to: the array must have been made for that. */
static CUresult check_surface(const CUDA_RESOURCE_DESC *d)
{
    struct sim_array *a = d->resType == CU_RESOURCE_TYPE_ARRAY ? sim_object_find(d->res.array.hArray, SIM_ARRAY) : NULL;
    return a && !d->flags && (a->flags & CUDA_ARRAY3D_SURFACE_LDST) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- making and ending ----------------------------------------------------------------------------------------------------- */

static CUresult make(enum sim_kind kind, const CUDA_RESOURCE_DESC *d, unsigned long long *ret_handle, struct texture **ret)
{
    struct sim_context *c;
    CUresult result = sim_context_current(&c);
    if (result != CUDA_SUCCESS) return result;
    struct texture *t = sim_object_new(kind, sizeof *t, NULL);
    if (!t) return CUDA_ERROR_OUT_OF_MEMORY;
    t->context = c;
    t->resource = *d;
    *ret_handle = (unsigned long long)(uintptr_t)t;
    *ret = t;
    return CUDA_SUCCESS;
}

static struct texture *get(unsigned long long handle, enum sim_kind kind)
{
    return sim_object_find((const void *)(uintptr_t)handle, kind);
}

static CUresult end(unsigned long long handle, enum sim_kind kind)
{
    sim_lock();
    struct texture *t = get(handle, kind);
    if (t) sim_object_close(&t->object);
    sim_unlock();
    return t ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

struct search {
    struct sim_context *context;
    struct texture *found;
};

static void search_texture(struct sim_object *o, void *arg)
{
    struct search *s = arg;
    if (((struct texture *)o)->context == s->context) s->found = (struct texture *)o;
}

void sim_texture_close_context(struct sim_context *c)
{
    for (struct search s = { c, NULL };; s.found = NULL) {
        sim_object_each(SIM_TEXTURE, search_texture, &s);
        sim_object_each(SIM_SURFACE, search_texture, &s);
        if (!s.found) return;
        sim_object_close(&s.found->object);
    }
}

/* --- entry points ------------------------------------------------------------------------------------------------------------ */

CUresult cuTexObjectCreate(CUtexObject *object, const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *sampler,
                           const CUDA_RESOURCE_VIEW_DESC *view)
{
    SIM_ENTER(cuTexObjectCreate);
    struct texture *t = NULL;
    if (!object || !resource || !sampler || (view && !is_array(resource))) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = check_resource(resource);
    if (result == CUDA_SUCCESS) result = check_sampler(sampler);
    if (result == CUDA_SUCCESS) result = make(SIM_TEXTURE, resource, object, &t);
    if (t) {
        t->sampler = *sampler;
        t->has_view = view != NULL;
        if (view) t->view = *view;
    }
    sim_unlock();
    return result;
}

CUresult cuTexObjectDestroy(CUtexObject object)
{
    SIM_ENTER(cuTexObjectDestroy);
    return end(object, SIM_TEXTURE);
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *d, CUtexObject object)
{
    SIM_ENTER(cuTexObjectGetResourceDesc);
    if (!d) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct texture *t = get(object, SIM_TEXTURE);
    if (t) *d = t->resource;
    sim_unlock();
    return t ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *d, CUtexObject object)
{
    SIM_ENTER(cuTexObjectGetTextureDesc);
    if (!d) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct texture *t = get(object, SIM_TEXTURE);
    if (t) *d = t->sampler;
    sim_unlock();
    return t ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *d, CUtexObject object)
{
    SIM_ENTER(cuTexObjectGetResourceViewDesc);
    if (!d) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct texture *t = get(object, SIM_TEXTURE);
    bool has_view = t && t->has_view;
    if (has_view) *d = t->view;
    sim_unlock();
    return has_view ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuSurfObjectCreate(CUsurfObject *object, const CUDA_RESOURCE_DESC *resource)
{
    SIM_ENTER(cuSurfObjectCreate);
    struct texture *t = NULL;
    if (!object || !resource) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = check_surface(resource);
    if (result == CUDA_SUCCESS) result = make(SIM_SURFACE, resource, object, &t);
    sim_unlock();
    return result;
}

CUresult cuSurfObjectDestroy(CUsurfObject object)
{
    SIM_ENTER(cuSurfObjectDestroy);
    return end(object, SIM_SURFACE);
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *d, CUsurfObject object)
{
    SIM_ENTER(cuSurfObjectGetResourceDesc);
    if (!d) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct texture *t = get(object, SIM_SURFACE);
    if (t) *d = t->resource;
    sim_unlock();
    return t ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
