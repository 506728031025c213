#include "event.h"

#include "capture.h"
#include "core/lock.h"
#include "core/mem.h"
#include "real.h"
#include "tally.h"

struct idle {
    struct idle *next;
    CUcontext context;
    CUevent event;
};

static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_LANE);
static struct idle *idle_events;

static CUevent take_idle(CUcontext context)
{
    CUevent event = NULL;
    struct idle *found = NULL;

    nxm_lock_acquire(&lock);
    for (struct idle **link = &idle_events; *link; link = &(*link)->next) {
        if ((*link)->context != context)
            continue;
        found = *link;
        *link = found->next;
        break;
    }
    nxm_lock_release(&lock);
    if (found)
        event = found->event;
    nxm_mem_free(found);
    return event;
}

void nxm_event_give(CUcontext context, CUevent event)
{
    struct idle *idle = nxm_mem_new(sizeof *idle);

    if (!idle) {
        nxm_real.cuEventDestroy_v2(event);
        return;
    }
    idle->context = context;
    idle->event = event;
    nxm_lock_acquire(&lock);
    idle->next = idle_events;
    idle_events = idle;
    nxm_lock_release(&lock);
}

void nxm_event_context_gone(CUcontext context, bool alive)
{
    struct idle *gone = NULL;

    nxm_lock_acquire(&lock);
    for (struct idle **link = &idle_events; *link;) {
        struct idle *idle = *link;
        if (idle->context != context) {
            link = &idle->next;
            continue;
        }
        *link = idle->next;
        idle->next = gone;
        gone = idle;
    }
    nxm_lock_release(&lock);
    while (gone) {
        struct idle *next = gone->next;
        if (alive)
            nxm_real.cuEventDestroy_v2(gone->event);
        nxm_mem_free(gone);
        gone = next;
    }
}

/* Runs `record` with the context current. */
static CUresult in_context(CUcontext context, CUresult (*record)(CUevent event, void *argument), void *argument,
                           CUevent *ret_event)
{
    CUcontext current = NULL;
    CUevent event = take_idle(context);
    CUresult result = nxm_real.cuCtxGetCurrent(&current);
    bool pushed = false, was_idle = event != NULL;

    if (result == CUDA_SUCCESS && current != context) {
        result = nxm_real.cuCtxPushCurrent_v2(context);
        pushed = result == CUDA_SUCCESS;
    }
    if (result == CUDA_SUCCESS && !event)
        result = nxm_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        result = record(event, argument);
    if (result == CUDA_ERROR_INVALID_HANDLE && was_idle) {
        /* It went with a context of the same handle, and came back to the pool later than that: another one. */
        event = NULL;
        result = nxm_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
        if (result == CUDA_SUCCESS)
            result = record(event, argument);
    }
    if (pushed)
        nxm_real.cuCtxPopCurrent_v2(&current);
    if (result != CUDA_SUCCESS && event)
        nxm_event_give(context, event);
    else
        *ret_event = event;
    return result;
}

struct on_stream {
    CUstream stream;
    bool per_thread;
};

static CUresult record_on_stream(CUevent event, void *argument)
{
    const struct on_stream *where = argument;

    if (where->per_thread && nxm_real.cuEventRecord_ptsz)
        return nxm_real.cuEventRecord_ptsz(event, where->stream);
    return nxm_real.cuEventRecord(event, where->stream);
}

CUresult nxm_event_record_on_stream(CUcontext context, CUstream stream, bool per_thread, CUevent *ret_event)
{
    struct on_stream where = { stream, per_thread };

    return in_context(context, record_on_stream, &where, ret_event);
}

static CUresult record_on_context(CUevent event, void *argument)
{
    return nxm_real.cuCtxRecordEvent(argument, event);
}

/* Drivers before 12.5: the only way to know that a context's work has passed is to wait for it. */
static CUresult synchronise(CUcontext context)
{
    CUcontext current = NULL;
    CUresult result = nxm_real.cuCtxGetCurrent(&current);

    if (result != CUDA_SUCCESS || current == context)
        return result != CUDA_SUCCESS ? result : nxm_real.cuCtxSynchronize();
    if ((result = nxm_real.cuCtxPushCurrent_v2(context)) != CUDA_SUCCESS)
        return result;
    result = nxm_real.cuCtxSynchronize();
    nxm_real.cuCtxPopCurrent_v2(&current);
    return result;
}

/* After a wait an event that was never recorded says the right thing: it has passed. */
static CUresult record_nothing(CUevent event, void *argument)
{
    (void)event, (void)argument;
    return CUDA_SUCCESS;
}

static CUresult wait_for_context(CUcontext context, CUevent *ret_event)
{
    CUresult result;

    if (!nxm_capture_wait_begin())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if ((result = synchronise(context)) == CUDA_SUCCESS)
        result = in_context(context, record_nothing, NULL, ret_event);
    nxm_capture_wait_end();
    return result;
}

CUresult nxm_event_record_on_context(CUcontext context, CUevent *ret_event)
{
    if (!nxm_real.cuCtxRecordEvent)
        return wait_for_context(context, ret_event);
    if (!nxm_capture_record_begin())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    CUresult result = in_context(context, record_on_context, context, ret_event);
    nxm_capture_record_end();
    return result;
}

bool nxm_event_passed(CUevent event)
{
    CUresult result = nxm_real.cuEventQuery(event);

    if (result == CUDA_ERROR_CAPTURED_EVENT)
        nxm_tally_count(NXM_COUNT_CAPTURED_EVENTS);
    return result == CUDA_SUCCESS;
}

CUresult nxm_event_wait(CUevent event)
{
    CUstreamCaptureMode mode = nxm_capture_relax(); /* the free that waits began before any capture that begins now */
    CUresult result = nxm_real.cuEventSynchronize(event);

    nxm_capture_restore(mode);
    return result;
}
