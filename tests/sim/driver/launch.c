/* Launches: pieces of work that compute nothing and touch nothing the simulator could know, host functions, and the
 * questions about functions that a launcher asks. */
#include "api.h"
#include "capture.h"
#include "context.h"
#include "log.h"
#include "object.h"
#include "state.h"
#include "stream.h"

#include <string.h>

/* --- kernels --------------------------------------------------------------------------------------------- */

static bool is_code(const void *handle)
{
    /* a kernel handle may stand wherever a function is asked for */
    return sim_object_find(handle, SIM_FUNCTION) || sim_object_find(handle, SIM_KERNEL);
}

struct dims {
    unsigned grid[3], block[3], shared;
};

static CUresult launch(CUfunction f, const struct dims *d, CUstream h, enum sim_default dflt, enum sim_fn fn)
{
    bool empty = !d->grid[0] || !d->grid[1] || !d->grid[2];
    uint64_t threads = empty ? 0 : (uint64_t)d->block[0] * d->block[1] * d->block[2];
    struct sim_stream *s;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    if (result == CUDA_SUCCESS && !is_code(f)) result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS && (!threads || threads > 1024)) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && s->context) result = sim_context_launches(s->context);
    if (result == CUDA_SUCCESS) {
        struct sim_work *w = sim_work_new(fn);
        if (w) {
            w->u.launch.function = f;
            memcpy(w->u.launch.grid, d->grid, sizeof d->grid);
            memcpy(w->u.launch.block, d->block, sizeof d->block);
            w->u.launch.shared = d->shared;
        }
        result = w ? sim_stream_submit(s, w) : CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return result;
}

#define DIMS (&(struct dims){ { gx, gy, gz }, { bx, by, bz }, shared })

SIM_TWIN(cuLaunchKernel, _ptsz,
         (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
          CUstream h, void **params, void **extra),
         ((void)params, (void)extra, launch(f, DIMS, h, dflt, fn)))

SIM_TWIN(cuLaunchCooperativeKernel, _ptsz,
         (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
          CUstream h, void **params),
         ((void)params, launch(f, DIMS, h, dflt, fn)))

static CUresult launch_ex(const CUlaunchConfig *c, CUfunction f, enum sim_default dflt, enum sim_fn fn)
{
    if (!c) return CUDA_ERROR_INVALID_VALUE;
    const struct dims d = { { c->gridDimX, c->gridDimY, c->gridDimZ }, { c->blockDimX, c->blockDimY, c->blockDimZ }, c->sharedMemBytes };
    return launch(f, &d, c->hStream, dflt, fn);
}

SIM_TWIN(cuLaunchKernelEx, _ptsz, (const CUlaunchConfig *config, CUfunction f, void **params, void **extra),
         ((void)params, (void)extra, launch_ex(config, f, dflt, fn)))

/* --- host functions -------------------------------------------------------------------------------------- */

static void run_host(struct sim_work *w)
{
    sim_thread.in_callback = true;
    w->u.host.call(w->u.host.arg);
    sim_thread.in_callback = false;
}

void sim_work_call_host(struct sim_work *w, CUhostFn call, void *arg)
{
    w->type = CU_GRAPH_NODE_TYPE_HOST;
    w->calls_host = true;
    w->run = run_host;
    w->u.host.call = call;
    w->u.host.arg = arg;
}

static CUresult host_func(CUstream h, CUhostFn call, void *arg, enum sim_default dflt, enum sim_fn fn)
{
    struct sim_stream *s;
    if (!call) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    struct sim_work *w = result == CUDA_SUCCESS ? sim_work_new(fn) : NULL;
    if (w) {
        sim_work_call_host(w, call, arg);
        result = sim_stream_submit(s, w);
    } else if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return result;
}

SIM_TWIN(cuLaunchHostFunc, _ptsz, (CUstream h, CUhostFn call, void *arg), host_func(h, call, arg, dflt, fn))

static void run_callback(struct sim_work *w)
{
    sim_thread.in_callback = true;
    w->u.callback.call(w->u.callback.stream, CUDA_SUCCESS, w->u.callback.arg);
    sim_thread.in_callback = false;
}

static CUresult add_callback(CUstream h, CUstreamCallback call, void *arg, unsigned flags, enum sim_default dflt,
                             enum sim_fn fn)
{
    struct sim_stream *s;
    if (!call || flags) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    if (result == CUDA_SUCCESS) result = sim_capture_check_stream(s);
    struct sim_work *w = result == CUDA_SUCCESS ? sim_work_new(fn) : NULL;
    if (w) {
        w->run = run_callback;
        w->calls_host = true;
        w->u.callback.call = call;
        w->u.callback.stream = h;
        w->u.callback.arg = arg;
        result = sim_stream_submit(s, w);
    } else if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return result;
}

SIM_TWIN(cuStreamAddCallback, _ptsz, (CUstream h, CUstreamCallback call, void *arg, unsigned int flags),
         add_callback(h, call, arg, flags, dflt, fn))

/* --- what a launcher asks -------------------------------------------------------------------------------- */

static CUresult check_code(const void *handle)
{
    sim_lock();
    bool found = is_code(handle);
    sim_unlock();
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult get_attribute(int *value, CUfunction_attribute attribute, const void *handle)
{
    if (!value || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = check_code(handle);
    if (result != CUDA_SUCCESS) return result;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 90; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = 232448; break;
    default: *value = 0; break;
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f)
{
    SIM_ENTER(cuFuncGetAttribute);
    return get_attribute(value, attribute, f);
}

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value)
{
    SIM_ENTER(cuFuncSetAttribute);
    (void)attribute, (void)value;
    return check_code(f);
}

CUresult cuFuncSetCacheConfig(CUfunction f, CUfunc_cache config)
{
    SIM_ENTER(cuFuncSetCacheConfig);
    (void)config;
    return check_code(f);
}

CUresult cuFuncSetSharedMemConfig(CUfunction f, CUsharedconfig config)
{
    SIM_ENTER(cuFuncSetSharedMemConfig);
    (void)config;
    return check_code(f);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction f)
{
    SIM_ENTER(cuFuncIsLoaded);
    if (!state) return CUDA_ERROR_INVALID_VALUE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return check_code(f);
}

CUresult cuFuncLoad(CUfunction f)
{
    SIM_ENTER(cuFuncLoad);
    return check_code(f);
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice dev)
{
    SIM_ENTER(cuKernelGetAttribute);
    (void)dev;
    return get_attribute(value, attribute, kernel);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice dev)
{
    SIM_ENTER(cuKernelSetAttribute);
    (void)attribute, (void)value, (void)dev;
    return check_code(kernel);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    SIM_ENTER(cuKernelSetCacheConfig);
    (void)config, (void)dev;
    return check_code(kernel);
}

static CUresult blocks_per_multiprocessor(int *blocks, CUfunction f, int size)
{
    if (!blocks || size <= 0 || size > 1024) return CUDA_ERROR_INVALID_VALUE;
    *blocks = 2048 / size > 32 ? 32 : 2048 / size;
    return check_code(f);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int size, size_t shared)
{
    SIM_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    (void)shared;
    return blocks_per_multiprocessor(blocks, f, size);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction f, int size, size_t shared,
                                                              unsigned int flags)
{
    SIM_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags);
    (void)shared, (void)flags;
    return blocks_per_multiprocessor(blocks, f, size);
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction f, CUoccupancyB2DSize shared_of,
                                          size_t shared, int limit)
{
    SIM_ENTER(cuOccupancyMaxPotentialBlockSize);
    (void)shared_of, (void)shared;
    if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
    *block = limit > 0 && limit < 1024 ? limit : 1024;
    *grid = 128;
    return check_code(f);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction f, int blocks, int size)
{
    SIM_ENTER(cuOccupancyAvailableDynamicSMemPerBlock);
    (void)size;
    if (!bytes || blocks <= 0) return CUDA_ERROR_INVALID_VALUE;
    *bytes = 232448u / (unsigned)blocks;
    return check_code(f);
}
