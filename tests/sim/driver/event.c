#include "event.h"

#include "capture.h"
#include "context.h"
#include "event_share.h"
#include "facts.h"
#include "pool.h"
#include "state.h"
#include "stream.h"

#include <stdlib.h>
#include <time.h>

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void destroy(struct sim_object *o)
{
    struct sim_event *e = (struct sim_event *)o;
    sim_deps_clear(&e->recorded);
    sim_points_clear(&e->known);
    sim_capture_event_forget(e);
    if (e->page) sim_event_page_close(e->page);
}

struct sim_event *sim_event_new(struct sim_context *c, unsigned flags)
{
    struct sim_event *e = sim_object_new(SIM_EVENT, sizeof *e, destroy);
    if (!e) return NULL;
    e->context = c;
    e->flags = flags;
    return e;
}

static struct sim_event *get(CUevent h)
{
    return sim_object_find(h, SIM_EVENT);
}

static void close_if_of(struct sim_object *o, void *context)
{
    struct sim_event *e = (struct sim_event *)o;
    if (e->context == context) e->context = NULL; /* the handle stays, and answers as destroyed */
}

void sim_event_close_context(struct sim_context *c)
{
    sim_object_each(SIM_EVENT, close_if_of, c);
}

CUresult cuEventCreate(CUevent *ph, unsigned int flags)
{
    SIM_ENTER(cuEventCreate);
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    struct sim_context *c;
    if (!ph || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_context_current(&c);
    if (result == CUDA_SUCCESS) {
        struct sim_event *e = sim_event_new(c, flags);
        bool whole = e && (!(flags & CU_EVENT_INTERPROCESS) || (e->page = sim_event_page_new()));
        if (whole) *ph = (CUevent)e;
        else result = CUDA_ERROR_OUT_OF_MEMORY;
        if (e && !whole) sim_object_close(&e->object);
    }
    sim_unlock();
    return result;
}

static CUresult destroy_event(CUevent h)
{
    sim_lock();
    struct sim_event *e = get(h);
    if (e) sim_object_close(&e->object);
    sim_unlock();
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventDestroy(CUevent h)
{
    SIM_ENTER(cuEventDestroy);
    return destroy_event(h);
}

CUresult cuEventDestroy_v2(CUevent h)
{
    SIM_ENTER(cuEventDestroy_v2);
    return destroy_event(h);
}

/* --- recording ------------------------------------------------------------------------------------------ */

/* The marker in the stream: stamps the event unless it was recorded again since. */
static void finish_record(struct sim_work *w)
{
    struct sim_event *e = w->u.mark.event;
    if (e->record == w->u.mark.record) e->time = now();
    if (w->u.mark.page_record) sim_event_page_done(e->page, w->u.mark.page_record);
    sim_object_unref(&e->object);
}

static CUresult record(CUevent h, CUstream stream, unsigned flags, enum sim_default dflt, enum sim_fn fn)
{
    struct sim_stream *s;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_event *e = get(h);
    CUresult result = sim_stream_get(stream, dflt, &s);
    if (!e) result = CUDA_ERROR_INVALID_HANDLE;
    else if (result == CUDA_SUCCESS && e->context != s->context) result = CUDA_ERROR_INVALID_HANDLE;
    else if (result == CUDA_SUCCESS && s->capture) result = sim_capture_record(s, e, (flags & CU_EVENT_RECORD_EXTERNAL) != 0);
    else if (result == CUDA_SUCCESS) result = sim_event_record(e, s, fn);
    sim_unlock();
    return result;
}

CUresult sim_event_record(struct sim_event *e, struct sim_stream *s, enum sim_fn fn)
{
    CUresult result = sim_capture_check_implicit(s);
    struct sim_work *w = result == CUDA_SUCCESS ? sim_work_new(fn) : NULL;
    if (!w) return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    w->u.mark.event = e;
    w->u.mark.record = ++e->record;
    if (e->page) w->u.mark.page_record = e->page_record = sim_event_page_record(e->page);
    w->finish = finish_record;
    sim_object_ref(&e->object);
    sim_capture_event_forget(e);
    sim_stream_queue(s, w);
    sim_deps_clear(&e->recorded);
    sim_deps_add(&e->recorded, s, s->submitted);
    sim_points_clear(&e->known);
    sim_order_gather(&e->known, s);
    if (e->page) sim_event_page_give(e->page, e->page_record, &e->known);
    return CUDA_SUCCESS;
}

SIM_TWIN(cuEventRecord, _ptsz, (CUevent h, CUstream stream), record(h, stream, 0, dflt, fn))
SIM_TWIN(cuEventRecordWithFlags, _ptsz, (CUevent h, CUstream stream, unsigned int flags),
         record(h, stream, flags, dflt, fn))

CUresult sim_event_record_context(struct sim_context *c, CUevent h)
{
    struct sim_event *e = get(h);
    if (!e || e->context != c) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = sim_capture_check_context(c, sim_fact(SIM_FACT_context_record_breaks) != 0);
    if (result != CUDA_SUCCESS) return result;
    sim_capture_event_forget(e);
    sim_deps_clear(&e->recorded);
    sim_context_position(c, &e->recorded);
    sim_points_clear(&e->known);
    sim_context_gather(c, &e->known);
    e->record++;
    e->time = now();
    return CUDA_SUCCESS;
}

CUresult cuCtxRecordEvent(CUcontext ctx, CUevent h)
{
    SIM_ENTER(cuCtxRecordEvent);
    struct sim_context *c;
    sim_lock();
    CUresult result = sim_context_get(ctx, &c);
    if (result == CUDA_SUCCESS) result = sim_event_record_context(c, h);
    sim_unlock();
    return result;
}

/* --- waiting -------------------------------------------------------------------------------------------- */

static CUresult wait_in_stream(struct sim_stream *s, const struct sim_event *e, enum sim_fn fn)
{
    CUresult result = sim_capture_check_implicit(s);
    struct sim_work *w = result == CUDA_SUCCESS ? sim_work_new(fn) : NULL;
    if (!w) return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    sim_deps_add_all(&w->deps, &e->recorded);
    sim_points_join(&s->known, &e->known);
    sim_stream_queue(s, w);
    return CUDA_SUCCESS;
}

/* Another process recorded it last: the stream waits by looking. */
static void run_remote_wait(struct sim_work *w)
{
    sim_event_page_wait(w->u.mark.event->page, w->u.mark.page_record);
}

static void finish_remote_wait(struct sim_work *w)
{
    sim_object_unref(&w->u.mark.event->object);
}

static CUresult wait_remote(struct sim_stream *s, struct sim_event *e, enum sim_fn fn)
{
    CUresult result = sim_capture_check_implicit(s);
    struct sim_work *w = result == CUDA_SUCCESS ? sim_work_new(fn) : NULL;
    if (!w) return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    w->u.mark.event = e;
    w->u.mark.page_record = sim_event_page_latest(e->page);
    w->run = run_remote_wait;
    w->calls_host = true; /* under a seed it must not hold up the program, for which the other process may wait */
    w->finish = finish_remote_wait;
    sim_object_ref(&e->object);
    sim_points_join(&s->known, sim_event_given());
    sim_stream_queue(s, w);
    return CUDA_SUCCESS;
}

CUresult sim_event_wait(struct sim_event *e, struct sim_stream *s, enum sim_fn fn)
{
    return sim_event_is_remote(e) ? wait_remote(s, e, fn) : wait_in_stream(s, e, fn);
}

struct sim_work *sim_event_node_work(const struct sim_event *e, CUgraphNodeType type, enum sim_fn fn)
{
    struct sim_work *w = sim_work_new(fn);
    if (!w) return NULL;
    w->type = type;
    w->u.mark.event = (struct sim_event *)(uintptr_t)e;
    w->u.mark.record = e->object.id; /* an address may be used again, an id never */
    return w;
}

CUresult sim_event_launch(const struct sim_work *node, struct sim_stream *s, enum sim_fn fn)
{
    struct sim_event *e = sim_object_find(node->u.mark.event, SIM_EVENT);
    if (!e || e->object.id != node->u.mark.record || e->context != s->context) return CUDA_ERROR_INVALID_HANDLE;
    return node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ? sim_event_record(e, s, fn) : sim_event_wait(e, s, fn);
}

static CUresult stream_wait(CUstream stream, CUevent h, unsigned flags, enum sim_default dflt, enum sim_fn fn)
{
    struct sim_stream *s;
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_stream_get(stream, dflt, &s);
    struct sim_event *e = get(h);
    if (result == CUDA_SUCCESS && !e) result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS) {
        if (s->capture || e->capture) result = sim_capture_wait(s, e, (flags & CU_EVENT_WAIT_EXTERNAL) != 0);
        else result = sim_event_wait(e, s, fn);
    }
    sim_unlock();
    return result;
}

SIM_TWIN(cuStreamWaitEvent, _ptsz, (CUstream stream, CUevent h, unsigned int flags),
         stream_wait(stream, h, flags, dflt, fn))

struct context_wait {
    struct sim_event *event;
    enum sim_fn fn;
    CUresult result;
};

/* Every stream of it, and those still to come. */
static void wait_in_context(struct sim_context *c, void *arg)
{
    struct context_wait *w = arg;
    for (struct sim_stream *s = c->streams; s && w->result == CUDA_SUCCESS; s = s->next)
        w->result = sim_event_wait(w->event, s, w->fn);
    sim_context_await(c, &w->event->recorded, sim_event_is_remote(w->event) ? sim_event_given() : &w->event->known);
}

CUresult sim_event_wait_context(struct sim_context *c, CUevent h, enum sim_fn fn)
{
    struct context_wait w = { get(h), fn, CUDA_SUCCESS };
    w.result = w.event ? sim_capture_check_context(c, true) : CUDA_ERROR_INVALID_HANDLE;
    if (w.result == CUDA_SUCCESS && w.event->capture) w.result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    if (w.result == CUDA_SUCCESS) sim_context_each(c, wait_in_context, &w);
    return w.result;
}

CUresult cuCtxWaitEvent(CUcontext ctx, CUevent h)
{
    SIM_ENTER(cuCtxWaitEvent);
    struct sim_context *c;
    sim_lock();
    CUresult result = sim_context_get(ctx, &c);
    if (result == CUDA_SUCCESS) result = sim_event_wait_context(c, h, SIM_FN_cuCtxWaitEvent);
    sim_unlock();
    return result;
}

static bool has_happened(const struct sim_event *e)
{
    return sim_event_is_remote(e) ? sim_event_page_passed(e->page, sim_event_page_latest(e->page))
                                  : sim_deps_passed(&e->recorded);
}

/* The lock is away while another process is waited for. */
static void wait_for(struct sim_event *e)
{
    if (!sim_event_is_remote(e)) {
        sim_deps_wait(&e->recorded);
        return;
    }
    sim_object_ref(&e->object);
    sim_unlock();
    sim_event_page_wait(e->page, sim_event_page_latest(e->page));
    sim_lock();
    sim_order_observe_done(sim_event_given());
    sim_object_unref(&e->object);
}

CUresult cuEventQuery(CUevent h)
{
    SIM_ENTER(cuEventQuery);
    sim_lock();
    struct sim_event *e = get(h);
    CUresult result = !e ? CUDA_ERROR_INVALID_HANDLE : e->context ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (result == CUDA_SUCCESS && e->capture) result = sim_capture_touch_event(e);
    if (result == CUDA_SUCCESS && sim_fact(SIM_FACT_event_query_unsafe)) result = sim_capture_check_unsafe();
    if (result == CUDA_SUCCESS && !has_happened(e)) result = CUDA_ERROR_NOT_READY;
    if (result == CUDA_SUCCESS && sim_event_is_remote(e)) sim_order_observe_done(sim_event_given());
    else if (result == CUDA_SUCCESS) sim_order_observe(&e->known);
    sim_unlock();
    return result;
}

CUresult cuEventSynchronize(CUevent h)
{
    SIM_ENTER(cuEventSynchronize);
    sim_lock();
    struct sim_event *e = get(h);
    CUresult result = !e ? CUDA_ERROR_INVALID_HANDLE : e->context ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (result == CUDA_SUCCESS && e->capture) result = sim_capture_touch_event(e);
    if (result == CUDA_SUCCESS && sim_fact(SIM_FACT_event_wait_unsafe)) result = sim_capture_check_unsafe();
    if (result == CUDA_SUCCESS) {
        if (!sim_event_is_remote(e)) sim_order_observe(&e->known);
        wait_for(e);
        sim_pool_trim_all();
    }
    sim_unlock();
    return result;
}

static CUresult elapsed(float *ms, CUevent start, CUevent end)
{
    if (!ms) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_event *a = get(start), *b = get(end);
    CUresult result = CUDA_SUCCESS;
    if (!a || !b || !a->record || !b->record || ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING))
        result = CUDA_ERROR_INVALID_HANDLE;
    else if (!sim_deps_passed(&a->recorded) || !sim_deps_passed(&b->recorded)) result = CUDA_ERROR_NOT_READY;
    else *ms = (float)((double)(int64_t)(b->time - a->time) / 1e6);
    if (result == CUDA_SUCCESS) {
        sim_order_observe(&a->known);
        sim_order_observe(&b->known);
    }
    sim_unlock();
    return result;
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    SIM_ENTER(cuEventElapsedTime);
    return elapsed(ms, start, end);
}

CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    SIM_ENTER(cuEventElapsedTime_v2);
    return elapsed(ms, start, end);
}
