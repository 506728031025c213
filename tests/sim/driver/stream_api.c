/* The entry points of streams; the queue itself is stream.c. */
#include "capture.h"
#include "context.h"
#include "device.h"
#include "event.h"
#include "facts.h"
#include "lost.h"
#include "pool.h"
#include "state.h"
#include "stream.h"

static struct sim_stream *per_thread(struct sim_context *c)
{
    unsigned number = sim_thread_number();
    for (struct sim_stream *s = c->streams; s; s = s->next)
        if (s->role == SIM_STREAM_PER_THREAD && s->thread == number) return s;
    struct sim_stream *s = sim_stream_new(c, SIM_STREAM_PER_THREAD, CU_STREAM_DEFAULT, 0);
    if (s) s->thread = number;
    return s;
}

CUresult sim_stream_get(CUstream handle, enum sim_default dflt, struct sim_stream **ret_stream)
{
    struct sim_context *c;
    struct sim_stream *s;
    CUresult result = sim_context_current(&c);
    if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
        s = sim_object_find(handle, SIM_STREAM);
        if (!s) return result == CUDA_SUCCESS ? CUDA_ERROR_INVALID_HANDLE : result;
    } else {
        if (result != CUDA_SUCCESS) return result;
        bool legacy = handle == CU_STREAM_LEGACY || (!handle && dflt == SIM_LEGACY);
        s = legacy ? c->legacy : per_thread(c);
        if (!s) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret_stream = s;
    return sim_lost_of(s->context);
}

static CUresult create(CUstream *ph, unsigned flags, int priority)
{
    struct sim_context *c;
    if (!ph || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING)) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_context_current(&c);
    if (result == CUDA_SUCCESS) {
        struct sim_stream *s = sim_stream_new(c, SIM_STREAM_CREATED, flags, priority);
        if (s) *ph = (CUstream)s;
        else result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return result;
}

CUresult cuStreamCreate(CUstream *ph, unsigned int flags)
{
    SIM_ENTER(cuStreamCreate);
    return create(ph, flags, 0);
}

enum { GREATEST_PRIORITY = -5, LEAST_PRIORITY = 0 };

CUresult cuStreamCreateWithPriority(CUstream *ph, unsigned int flags, int priority)
{
    SIM_ENTER(cuStreamCreateWithPriority);
    if (priority > LEAST_PRIORITY) priority = LEAST_PRIORITY;
    if (priority < GREATEST_PRIORITY) priority = GREATEST_PRIORITY;
    return create(ph, flags, priority);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    SIM_ENTER(cuCtxGetStreamPriorityRange);
    if (least) *least = LEAST_PRIORITY;
    if (greatest) *greatest = GREATEST_PRIORITY;
    return CUDA_SUCCESS;
}

static CUresult destroy(CUstream h)
{
    sim_lock();
    struct sim_stream *s = sim_object_find(h, SIM_STREAM);
    CUresult result = s && s->role == SIM_STREAM_CREATED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS) sim_stream_close(s);
    sim_unlock();
    return result;
}

CUresult cuStreamDestroy(CUstream h)
{
    SIM_ENTER(cuStreamDestroy);
    return destroy(h);
}

CUresult cuStreamDestroy_v2(CUstream h)
{
    SIM_ENTER(cuStreamDestroy_v2);
    return destroy(h);
}

static CUresult synchronize(CUstream h, enum sim_default dflt)
{
    struct sim_stream *s;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    if (result == CUDA_SUCCESS) result = sim_capture_check_stream(s);
    if (result == CUDA_SUCCESS && sim_fact(SIM_FACT_stream_wait_unsafe)) result = sim_capture_check_unsafe();
    if (result == CUDA_SUCCESS) {
        sim_stream_wait(s);
        sim_pool_trim_all();
    }
    sim_unlock();
    return result;
}

SIM_TWIN(cuStreamSynchronize, _ptsz, (CUstream h), synchronize(h, dflt))

static CUresult query(CUstream h, enum sim_default dflt)
{
    struct sim_stream *s;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    if (result == CUDA_SUCCESS) result = sim_capture_check_stream(s);
    if (result == CUDA_SUCCESS && sim_fact(SIM_FACT_stream_query_unsafe)) result = sim_capture_check_unsafe();
    if (result == CUDA_SUCCESS) {
        struct sim_deps deps = { 0 };
        sim_stream_position(s, &deps);
        result = sim_deps_passed(&deps) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
        if (result == CUDA_SUCCESS) sim_stream_observe(s);
        sim_deps_clear(&deps);
    }
    sim_unlock();
    return result;
}

SIM_TWIN(cuStreamQuery, _ptsz, (CUstream h), query(h, dflt))

/* --- what a stream is ----------------------------------------------------------------------------------- */

enum property { FLAGS, PRIORITY, ID, DEVICE, CONTEXT };

static CUresult get(CUstream h, enum sim_default dflt, enum property property, void *ret)
{
    struct sim_stream *s;
    if (!ret) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    if (result == CUDA_SUCCESS) {
        switch (property) {
        case FLAGS: *(unsigned *)ret = s->flags; break;
        case PRIORITY: *(int *)ret = s->priority; break;
        case ID: *(unsigned long long *)ret = s->object.id; break;
        case DEVICE: *(CUdevice *)ret = s->context->device->ordinal; break;
        case CONTEXT: *(CUcontext *)ret = (CUcontext)s->context; break;
        }
    }
    sim_unlock();
    return result;
}

SIM_TWIN(cuStreamGetFlags, _ptsz, (CUstream h, unsigned int *flags), get(h, dflt, FLAGS, flags))
SIM_TWIN(cuStreamGetPriority, _ptsz, (CUstream h, int *priority), get(h, dflt, PRIORITY, priority))
SIM_TWIN(cuStreamGetId, _ptsz, (CUstream h, unsigned long long *id), get(h, dflt, ID, id))
SIM_TWIN(cuStreamGetDevice, _ptsz, (CUstream h, CUdevice *device), get(h, dflt, DEVICE, device))
SIM_TWIN(cuStreamGetCtx, _ptsz, (CUstream h, CUcontext *context), get(h, dflt, CONTEXT, context))

static CUresult get_context_v2(CUstream h, enum sim_default dflt, CUcontext *context, CUgreenCtx *green)
{
    CUresult result = get(h, dflt, CONTEXT, context);
    if (result != CUDA_SUCCESS) return result;
    struct sim_context *c = (struct sim_context *)*context;
    bool is_green = c && c->green_of;
    if (green) *green = is_green ? (CUgreenCtx)c : NULL;
    if (is_green) *context = (CUcontext)c->green_of;
    return result;
}

SIM_TWIN(cuStreamGetCtx_v2, _ptsz, (CUstream h, CUcontext *context, CUgreenCtx *green),
         get_context_v2(h, dflt, context, green))
