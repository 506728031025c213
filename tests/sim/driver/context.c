#include "context.h"

#include "array.h"
#include "block.h"
#include "capture.h"
#include "device.h"
#include "event.h"
#include "facts.h"
#include "lost.h"
#include "memory.h"
#include "module.h"
#include "pool.h"
#include "state.h"
#include "stream.h"

#include <stdatomic.h>

_Thread_local struct sim_thread_state sim_thread = { .call = SIM_FN_COUNT, .capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL };

/* --- threads ------------------------------------------------------------------------------------------- */

static pthread_key_t thread_end;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static atomic_uint last_thread;

static void close_streams_of(struct sim_object *o, void *number)
{
    struct sim_context *c = (struct sim_context *)o;
    for (struct sim_stream *s = c->streams, *next; s; s = next) {
        next = s->next;
        if (s->role == SIM_STREAM_PER_THREAD && s->thread == *(unsigned *)number) s->thread = 0;
    }
}

/* The thread's own streams are nobody's now; they go with their context. */
static void end_thread(void *number)
{
    unsigned n = (unsigned)(uintptr_t)number;
    sim_lock();
    sim_object_each(SIM_CONTEXT, close_streams_of, &n);
    sim_unlock();
}

static void make_key(void)
{
    pthread_key_create(&thread_end, end_thread);
}

unsigned sim_thread_number(void)
{
    if (sim_thread.number) return sim_thread.number;
    pthread_once(&thread_once, make_key);
    sim_thread.number = atomic_fetch_add(&last_thread, 1) + 1;
    pthread_setspecific(thread_end, (void *)(uintptr_t)sim_thread.number);
    return sim_thread.number;
}

/* --- the stack ----------------------------------------------------------------------------------------- */

static struct sim_context *open_context(CUcontext handle)
{
    struct sim_context *c = sim_object_find(handle, SIM_CONTEXT);
    return c && c->active ? c : NULL;
}

static bool push(struct sim_context *c)
{
    struct sim_thread_state *t = &sim_thread;
    if (t->depth == SIM_CONTEXT_DEPTH) return false;
    t->stack[t->depth] = c;
    t->ids[t->depth++] = c ? c->object.id : 0;
    return true;
}

CUresult sim_context_current(struct sim_context **ret_context)
{
    struct sim_thread_state *t = &sim_thread;
    if (!t->depth || !t->stack[t->depth - 1]) return CUDA_ERROR_INVALID_CONTEXT;
    struct sim_context *c = sim_object_find(t->stack[t->depth - 1], SIM_CONTEXT);
    if (!c || !c->active || c->object.id != t->ids[t->depth - 1]) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *ret_context = c;
    return CUDA_SUCCESS;
}

CUresult sim_context_get(CUcontext handle, struct sim_context **ret_context)
{
    if (!handle) return sim_context_current(ret_context);
    struct sim_context *c = open_context(handle);
    if (!c) return CUDA_ERROR_INVALID_CONTEXT;
    *ret_context = c;
    return CUDA_SUCCESS;
}

/* --- life ---------------------------------------------------------------------------------------------- */

bool sim_context_charge(struct sim_context *c, uint64_t bytes)
{
    if (!sim_device_charge(c->device, bytes)) return false;
    c->overhead += bytes;
    return true;
}

void sim_context_refund(struct sim_context *c, uint64_t bytes)
{
    sim_device_refund(c->device, bytes);
    c->overhead -= bytes;
}

CUresult sim_context_launches(struct sim_context *c)
{
    if (c->has_local_memory || !sim_settings.local_memory) return CUDA_SUCCESS;
    if (!sim_context_charge(c, sim_settings.local_memory)) return CUDA_ERROR_OUT_OF_MEMORY;
    c->has_local_memory = true;
    return CUDA_SUCCESS;
}

static bool activate(struct sim_context *c)
{
    if (!sim_context_charge(c, sim_settings.context_overhead)) return false;
    c->legacy = sim_stream_new(c, SIM_STREAM_LEGACY, CU_STREAM_DEFAULT, 0);
    c->active = c->legacy != NULL;
    if (!c->active) sim_context_refund(c, sim_settings.context_overhead);
    return c->active;
}

struct sim_context *sim_context_owner(struct sim_context *c)
{
    return c->green_of ? c->green_of : c;
}

static struct sim_context *context_new(struct sim_device *d, bool primary, unsigned flags, struct sim_context *green_of)
{
    struct sim_context *c = sim_object_new(SIM_CONTEXT, sizeof *c, NULL);
    if (!c) return NULL;
    c->green_of = green_of;
    if (green_of) sim_context_await(c, &green_of->awaited, &green_of->awaited_known);
    c->device = d;
    c->primary = primary;
    c->flags = flags;
    c->peers = 1u << d->ordinal;
    c->limits[CU_LIMIT_STACK_SIZE] = 1024;
    c->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 7 << 20;
    c->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    c->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    c->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    if (activate(c)) return c;
    sim_deps_clear(&c->awaited);
    sim_points_clear(&c->awaited_known);
    sim_object_close(&c->object);
    return NULL;
}

struct sim_context *sim_context_new(struct sim_device *d, struct sim_context *green_of)
{
    return context_new(d, false, green_of ? green_of->flags : 0, green_of);
}

struct green_search {
    struct sim_context *primary, *found;
};

static void find_green(struct sim_object *o, void *arg)
{
    struct green_search *s = arg;
    struct sim_context *c = (struct sim_context *)o;
    if (c->green_of == s->primary && c->active) s->found = c;
}

/* What is left of the green contexts of a primary one that goes: their handles answer as destroyed. */
static void empty_green(struct sim_context *primary, enum sim_fn fn)
{
    struct green_search s = { primary, NULL };
    sim_object_each(SIM_CONTEXT, find_green, &s);
    while (s.found) {
        sim_context_empty(s.found, fn);
        s.found = NULL;
        sim_object_each(SIM_CONTEXT, find_green, &s);
    }
}

void sim_context_empty(struct sim_context *c, enum sim_fn fn)
{
    if (c->primary) empty_green(c, fn);
    sim_lost_forget(c);
    c->active = false; /* first: nothing new is submitted while the lock is away */
    sim_context_wait(c);
    sim_memory_judge_context(c);
    sim_module_forget_context(c);
    sim_mipmap_close_context(c);
    sim_array_close_context(c);
    sim_memory_release_context(c, fn);
    sim_event_close_context(c);
    sim_module_close_context(c);
    while (c->streams) sim_stream_close(c->streams);
    sim_deps_clear(&c->orphans);
    sim_points_clear(&c->orphans_known);
    sim_deps_clear(&c->blocking_orphans);
    sim_points_clear(&c->blocking_orphans_known);
    sim_deps_clear(&c->awaited);
    sim_points_clear(&c->awaited_known);
    c->legacy = NULL;
    sim_context_refund(c, c->overhead);
    c->has_local_memory = false;
    c->peers = 1u << c->device->ordinal;
}

/* --- primary contexts ---------------------------------------------------------------------------------- */

CUresult sim_primary_retain(struct sim_device *d)
{
    if (!d->primary && !(d->primary = context_new(d, true, d->primary_flags, NULL))) return CUDA_ERROR_OUT_OF_MEMORY;
    if (!d->primary->active && !activate(d->primary)) return CUDA_ERROR_OUT_OF_MEMORY;
    d->primary->flags = d->primary_flags;
    d->primary_refs++;
    return CUDA_SUCCESS;
}

void sim_primary_release(struct sim_device *d, enum sim_fn fn)
{
    if (--d->primary_refs == 0) sim_context_empty(d->primary, fn);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    SIM_ENTER(cuDevicePrimaryCtxRetain);
    struct sim_device *d = sim_device_get(dev);
    if (!d) return CUDA_ERROR_INVALID_DEVICE;
    if (!pctx) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_primary_retain(d);
    if (result == CUDA_SUCCESS) *pctx = (CUcontext)d->primary;
    sim_unlock();
    return result;
}

static CUresult release_primary(int dev, enum sim_fn fn, bool reset)
{
    struct sim_device *d = sim_device_get(dev);
    if (!d) return CUDA_ERROR_INVALID_DEVICE;
    CUresult result = CUDA_SUCCESS;
    sim_lock();
    if (!reset && !d->primary_refs) {
        result = CUDA_ERROR_INVALID_CONTEXT;
    } else if (d->primary && d->primary->active) {
        if (reset) d->primary_refs = 1;
        sim_primary_release(d, fn);
        if (reset && !sim_fact(SIM_FACT_reset_keeps_pools)) sim_pool_release_device(d, fn);
    }
    sim_unlock();
    return result;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    SIM_ENTER(cuDevicePrimaryCtxRelease);
    return release_primary(dev, SIM_FN_cuDevicePrimaryCtxRelease, false);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    SIM_ENTER(cuDevicePrimaryCtxRelease_v2);
    return release_primary(dev, SIM_FN_cuDevicePrimaryCtxRelease_v2, false);
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    SIM_ENTER(cuDevicePrimaryCtxReset);
    return release_primary(dev, SIM_FN_cuDevicePrimaryCtxReset, true);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    SIM_ENTER(cuDevicePrimaryCtxReset_v2);
    return release_primary(dev, SIM_FN_cuDevicePrimaryCtxReset_v2, true);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    SIM_ENTER(cuDevicePrimaryCtxGetState);
    struct sim_device *d = sim_device_get(dev);
    if (!d) return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    *flags = d->primary_flags;
    *active = d->primary && d->primary->active;
    sim_unlock();
    return CUDA_SUCCESS;
}

static CUresult set_primary_flags(int dev, unsigned flags)
{
    struct sim_device *d = sim_device_get(dev);
    if (!d) return CUDA_ERROR_INVALID_DEVICE;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    d->primary_flags = flags;
    if (d->primary) d->primary->flags = flags;
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
    SIM_ENTER(cuDevicePrimaryCtxSetFlags);
    return set_primary_flags(dev, flags);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    SIM_ENTER(cuDevicePrimaryCtxSetFlags_v2);
    return set_primary_flags(dev, flags);
}

/* --- created contexts ---------------------------------------------------------------------------------- */

static CUresult create(CUcontext *pctx, unsigned flags, int dev)
{
    struct sim_device *d = sim_device_get(dev);
    if (!d) return CUDA_ERROR_INVALID_DEVICE;
    if (!pctx || (flags & ~(unsigned)CU_CTX_FLAGS_MASK)) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_context *c = context_new(d, false, flags, NULL);
    CUresult result = c && push(c) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        *pctx = (CUcontext)c;
    } else if (c) { /* the thread's stack is full */
        sim_context_empty(c, SIM_FN_cuCtxCreate_v2);
        sim_object_close(&c->object);
    }
    sim_unlock();
    return result;
}

CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    SIM_ENTER(cuCtxCreate);
    return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    SIM_ENTER(cuCtxCreate_v2);
    return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *params, int count, unsigned int flags, CUdevice dev)
{
    SIM_ENTER(cuCtxCreate_v3);
    return params && count ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : create(pctx, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *params, unsigned int flags, CUdevice dev)
{
    SIM_ENTER(cuCtxCreate_v4);
    return params && params->numExecAffinityParams ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : create(pctx, flags, dev);
}

CUresult sim_context_destroy(CUcontext ctx, enum sim_fn fn)
{
    struct sim_context *c = open_context(ctx);
    CUresult result = c && !c->primary && !c->green_of ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS) {
        struct sim_thread_state *t = &sim_thread;
        sim_context_empty(c, fn);
        if (t->depth && t->stack[t->depth - 1] == c) t->depth--;
        sim_object_close(&c->object);
    }
    return result;
}

static CUresult destroy(CUcontext ctx, enum sim_fn fn)
{
    sim_lock();
    CUresult result = sim_context_destroy(ctx, fn);
    sim_unlock();
    return result;
}

CUresult cuCtxDestroy(CUcontext ctx)
{
    SIM_ENTER(cuCtxDestroy);
    return destroy(ctx, SIM_FN_cuCtxDestroy);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    SIM_ENTER(cuCtxDestroy_v2);
    return destroy(ctx, SIM_FN_cuCtxDestroy_v2);
}

/* --- the current context ------------------------------------------------------------------------------- */

CUresult cuCtxSetCurrent(CUcontext ctx)
{
    SIM_ENTER(cuCtxSetCurrent);
    struct sim_thread_state *t = &sim_thread;
    CUresult result = CUDA_SUCCESS;
    sim_lock();
    struct sim_context *c = open_context(ctx);
    if (ctx && !c) {
        result = CUDA_ERROR_INVALID_CONTEXT;
    } else {
        if (t->depth) t->depth--;
        if (c) push(c);
    }
    sim_unlock();
    return result;
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
    SIM_ENTER(cuCtxGetCurrent);
    if (!pctx) return CUDA_ERROR_INVALID_VALUE;
    *pctx = sim_thread.depth ? (CUcontext)sim_thread.stack[sim_thread.depth - 1] : NULL;
    return CUDA_SUCCESS;
}

static CUresult push_current(CUcontext ctx)
{
    sim_lock();
    struct sim_context *c = open_context(ctx);
    CUresult result = c && push(c) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    sim_unlock();
    return result;
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
    SIM_ENTER(cuCtxPushCurrent);
    return push_current(ctx);
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    SIM_ENTER(cuCtxPushCurrent_v2);
    return push_current(ctx);
}

static CUresult pop_current(CUcontext *pctx)
{
    struct sim_thread_state *t = &sim_thread;
    if (!t->depth) return CUDA_ERROR_INVALID_CONTEXT;
    t->depth--;
    if (pctx) *pctx = (CUcontext)t->stack[t->depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *pctx)
{
    SIM_ENTER(cuCtxPopCurrent);
    return pop_current(pctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
    SIM_ENTER(cuCtxPopCurrent_v2);
    return pop_current(pctx);
}

static CUresult synchronize(CUcontext ctx)
{
    struct sim_context *c;
    sim_lock();
    CUresult result = sim_context_get(ctx, &c);
    if (result == CUDA_SUCCESS) result = sim_capture_check_context(c, sim_fact(SIM_FACT_context_wait_breaks) != 0);
    if (result == CUDA_SUCCESS) {
        sim_context_wait(c);
        sim_pool_trim_all();
    }
    sim_unlock();
    return result;
}

CUresult cuCtxSynchronize(void)
{
    SIM_ENTER(cuCtxSynchronize);
    return synchronize(NULL);
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    SIM_ENTER(cuCtxSynchronize_v2);
    return synchronize(ctx);
}
