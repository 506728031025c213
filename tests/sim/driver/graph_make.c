#include "graph_make.h"

#include "copy.h"

#include <stdlib.h>

enum { PARAMETERS = 64, PARAMETER_ROOM = 64 };

/* Takes the work back if it came to nothing. */
static CUresult give(struct sim_work *w, CUresult result, struct sim_work **ret_work)
{
    if (result == CUDA_SUCCESS) *ret_work = w;
    else sim_work_free(w);
    return result;
}

static CUresult begin(CUgraphNodeType type, enum sim_fn fn, struct sim_work **ret_work)
{
    struct sim_work *w = sim_work_new(fn);
    if (!w) return CUDA_ERROR_OUT_OF_MEMORY;
    w->type = type;
    *ret_work = w;
    return CUDA_SUCCESS;
}

static bool is_code(const void *handle)
{
    return sim_object_find(handle, SIM_FUNCTION) || sim_object_find(handle, SIM_KERNEL);
}

CUresult sim_make_kernel(const CUDA_KERNEL_NODE_PARAMS *p, enum sim_fn fn, struct sim_work **ret_work)
{
    struct sim_work *w;
    CUresult result = begin(CU_GRAPH_NODE_TYPE_KERNEL, fn, &w);
    if (result != CUDA_SUCCESS) return result;
    CUfunction code = p->func ? p->func : (CUfunction)(void *)p->kern;
    w->u.launch.function = code;
    w->u.launch.grid[0] = p->gridDimX, w->u.launch.grid[1] = p->gridDimY, w->u.launch.grid[2] = p->gridDimZ;
    w->u.launch.block[0] = p->blockDimX, w->u.launch.block[1] = p->blockDimY, w->u.launch.block[2] = p->blockDimZ;
    w->u.launch.shared = p->sharedMemBytes;
    return give(w, is_code(code) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, ret_work);
}

CUresult sim_make_copy(const struct sim_copy *copy, enum sim_fn fn, struct sim_work **ret_work)
{
    struct sim_work *w;
    CUresult result = begin(CU_GRAPH_NODE_TYPE_MEMCPY, fn, &w);
    if (result != CUDA_SUCCESS) return result;
    w->run = sim_run_copy;
    w->u.copy = *copy;
    return give(w, sim_copy_touch(w), ret_work);
}

CUresult sim_make_fill(const struct sim_fill *f, enum sim_fn fn, struct sim_work **ret_work)
{
    struct sim_work *w;
    if (f->element != 1 && f->element != 2 && f->element != 4) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = begin(CU_GRAPH_NODE_TYPE_MEMSET, fn, &w);
    if (result != CUDA_SUCCESS) return result;
    w->run = sim_run_fill;
    w->u.fill = *f;
    return give(w, sim_work_touch_box(w, f->dst, f->width * f->element, f->height, f->pitch, 1, 0), ret_work);
}

CUresult sim_make_host(CUhostFn call, void *arg, enum sim_fn fn, struct sim_work **ret_work)
{
    struct sim_work *w;
    if (!call) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = begin(CU_GRAPH_NODE_TYPE_HOST, fn, &w);
    if (result != CUDA_SUCCESS) return result;
    sim_work_call_host(w, call, arg);
    return give(w, CUDA_SUCCESS, ret_work);
}

/* --- telling ------------------------------------------------------------------------------------------------------- */

/* As many parameters as a kernel may have, each with room. */
static void **stand_ins(struct sim_work *w)
{
    struct room {
        void *pointers[PARAMETERS];
        uint64_t values[PARAMETERS][PARAMETER_ROOM / sizeof(uint64_t)];
    } *room = w->payload;
    if (!room && (room = calloc(1, sizeof *room)))
        for (int i = 0; i < PARAMETERS; i++) room->pointers[i] = room->values[i];
    w->payload = room;
    return room ? room->pointers : NULL;
}

CUresult sim_tell_kernel(struct sim_work *w, CUDA_KERNEL_NODE_PARAMS *ret_params)
{
    void **parameters = stand_ins(w);
    if (!parameters) return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_params = (CUDA_KERNEL_NODE_PARAMS){
        .func = w->u.launch.function,
        .gridDimX = w->u.launch.grid[0], .gridDimY = w->u.launch.grid[1], .gridDimZ = w->u.launch.grid[2],
        .blockDimX = w->u.launch.block[0], .blockDimY = w->u.launch.block[1], .blockDimZ = w->u.launch.block[2],
        .sharedMemBytes = w->u.launch.shared, .kernelParams = parameters,
    };
    return CUDA_SUCCESS;
}

/* Any memory has one kind of address; rows and slices as they lie. */
void sim_tell_copy(const struct sim_work *w, CUDA_MEMCPY3D *ret_params)
{
    const struct sim_copy *c = &w->u.copy;
    *ret_params = (CUDA_MEMCPY3D){
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = c->src, .srcPitch = c->src_pitch,
        .srcHeight = c->src_pitch ? c->src_slice / c->src_pitch : 0,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = c->dst, .dstPitch = c->dst_pitch,
        .dstHeight = c->dst_pitch ? c->dst_slice / c->dst_pitch : 0,
        .WidthInBytes = c->width, .Height = c->height, .Depth = c->depth,
    };
}

void sim_tell_fill(const struct sim_work *w, CUDA_MEMSET_NODE_PARAMS *ret_params)
{
    const struct sim_fill *f = &w->u.fill;
    *ret_params = (CUDA_MEMSET_NODE_PARAMS){ .dst = f->dst, .pitch = f->pitch, .value = f->value, .elementSize = f->element,
                                             .width = f->width, .height = f->height };
}
