/* Mipmapped arrays: an array for each level, half as wide as the one before. */
#include "array.h"
#include "block.h"
#include "capture.h"
#include "context.h"
#include "log.h"
#include "state.h"

enum { LEVELS = 16 };

struct mipmap {
    struct sim_object object;
    struct sim_context *context;
    unsigned count;
    struct sim_array *levels[LEVELS]; /* owned; their handles are the program's to use, not to destroy */
};

static void close_mipmap(struct mipmap *m, enum sim_fn fn)
{
    for (unsigned i = 0; i < m->count; i++) sim_array_close(m->levels[i], fn);
    sim_object_close(&m->object);
}

static size_t half(size_t n)
{
    return n > 1 ? n / 2 : n;
}

static CUresult fill(struct mipmap *m, CUDA_ARRAY3D_DESCRIPTOR d, unsigned levels)
{
    for (; m->count < levels; m->count++) {
        CUresult result = sim_array_new(m->context, &d, SIM_FN_cuMipmappedArrayCreate, &m->levels[m->count]);
        if (result != CUDA_SUCCESS) return result;
        m->levels[m->count]->is_level = true;
        d.Width = half(d.Width);
        d.Height = half(d.Height);
        d.Depth = half(d.Depth);
    }
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *handle, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
    SIM_ENTER(cuMipmappedArrayCreate);
    struct sim_context *c;
    struct mipmap *m = NULL;
    if (!handle || !d || !levels) return sim_log_refused(SIM_FN_cuMipmappedArrayCreate, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    CUresult result = sim_context_current(&c);
    if (result == CUDA_SUCCESS) result = sim_capture_check_unsafe();
    if (result == CUDA_SUCCESS && !(m = sim_object_new(SIM_MIPMAP, sizeof *m, NULL))) result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        m->context = c;
        result = fill(m, *d, levels < LEVELS ? levels : LEVELS);
        if (result == CUDA_SUCCESS) *handle = (CUmipmappedArray)m;
        else close_mipmap(m, SIM_FN_cuMipmappedArrayCreate);
    }
    sim_unlock();
    sim_log_call(SIM_FN_cuMipmappedArrayCreate, result, result ? 0 : (uint64_t)(uintptr_t)m, "levels", levels, NULL, 0);
    return result;
}

CUresult cuMipmappedArrayGetLevel(CUarray *array, CUmipmappedArray handle, unsigned int level)
{
    SIM_ENTER(cuMipmappedArrayGetLevel);
    if (!array) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct mipmap *m = sim_object_find(handle, SIM_MIPMAP);
    CUresult result = !m ? CUDA_ERROR_INVALID_HANDLE : level < m->count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) *array = (CUarray)m->levels[level];
    sim_unlock();
    return result;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle)
{
    SIM_ENTER(cuMipmappedArrayDestroy);
    sim_lock();
    struct mipmap *m = sim_object_find(handle, SIM_MIPMAP);
    CUresult result = m ? sim_capture_check_unsafe() : CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS) {
        sim_context_wait(m->context);
        close_mipmap(m, SIM_FN_cuMipmappedArrayDestroy);
    }
    sim_unlock();
    sim_log_plain(SIM_FN_cuMipmappedArrayDestroy, result, (uint64_t)(uintptr_t)handle);
    return result;
}

struct search {
    struct sim_context *context;
    struct mipmap *found;
};

static void search_mipmap(struct sim_object *o, void *arg)
{
    struct search *s = arg;
    if (((struct mipmap *)o)->context == s->context) s->found = (struct mipmap *)o;
}

void sim_mipmap_close_context(struct sim_context *c)
{
    for (struct search s = { c, NULL };; s.found = NULL) {
        sim_object_each(SIM_MIPMAP, search_mipmap, &s);
        if (!s.found) return;
        close_mipmap(s.found, SIM_FN_COUNT);
    }
}
