/* What captures forbid, and what ends them. */
#include "facts.h"

#include <dlfcn.h>
#include <stdio.h>

static CUstream capturing(CUstreamCaptureMode mode)
{
    CUstream s = new_stream();
    MUST(cuStreamBeginCapture(s, mode));
    return s;
}

/* Ends the capture: was it invalid? */
static int broken(CUstream s)
{
    CUgraph g;
    CUresult code = cuStreamEndCapture(s, &g);
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) unknown("cuStreamEndCapture", (int)code);
    return code == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

/* --- calls, each about objects made before the capture began ------------------------------------------------------- */

struct things {
    CUdeviceptr device;
    CUstream stream;
    CUevent event;
};

static struct things make_things(void)
{
    struct things t;
    MUST(cuMemAlloc(&t.device, 4096));
    t.stream = new_stream();
    MUST(cuEventCreate(&t.event, CU_EVENT_DISABLE_TIMING));
    MUST(cuEventRecord(t.event, t.stream));
    MUST(cuStreamSynchronize(t.stream));
    return t;
}

static CUresult alloc(void *arg)
{
    CUdeviceptr p;
    (void)arg;
    return cuMemAlloc(&p, 4096);
}

static CUresult release(void *t)
{
    return cuMemFree(((struct things *)t)->device);
}

static CUresult event_query(void *t)
{
    return cuEventQuery(((struct things *)t)->event);
}

static CUresult event_wait(void *t)
{
    return cuEventSynchronize(((struct things *)t)->event);
}

static CUresult stream_query(void *t)
{
    return cuStreamQuery(((struct things *)t)->stream);
}

static CUresult stream_wait(void *t)
{
    return cuStreamSynchronize(((struct things *)t)->stream);
}

static CUresult context_wait(void *t)
{
    (void)t;
    CUresult (*wait)(void) = (CUresult (*)(void))dlsym(RTLD_DEFAULT, "cuCtxSynchronize");
    return wait ? wait() : CUDA_ERROR_NOT_FOUND;
}

static CUresult context_record(void *t)
{
    CUcontext c;
    CUresult (*record)(CUcontext, CUevent) = (CUresult (*)(CUcontext, CUevent))dlsym(RTLD_DEFAULT, "cuCtxRecordEvent");
    if (!record) return CUDA_ERROR_NOT_FOUND;
    MUST(cuCtxGetCurrent(&c));
    return record(c, ((struct things *)t)->event);
}

static CUresult host_alloc(void *t)
{
    void *p;
    (void)t;
    return cuMemAllocHost(&p, 4096);
}

static CUresult async_alloc(void *t)
{
    CUdeviceptr p;
    return cuMemAllocAsync(&p, 4096, ((struct things *)t)->stream);
}

static CUresult legacy_query(void *t)
{
    (void)t;
    return cuStreamQuery(CU_STREAM_LEGACY);
}

/* --- the questions --------------------------------------------------------------------------------------------------- */

/* A global capture here; the call in another thread: is it refused? */
static int refused_elsewhere(CUresult (*call)(void *))
{
    struct things t = make_things();
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUresult code = elsewhere(call, &t);
    broken(s);
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) unknown("the call", (int)code);
    return code != CUDA_SUCCESS;
}

static int event_query_unsafe(void) { return refused_elsewhere(event_query); }
static int event_wait_unsafe(void) { return refused_elsewhere(event_wait); }
static int stream_query_unsafe(void) { return refused_elsewhere(stream_query); }
static int stream_wait_unsafe(void) { return refused_elsewhere(stream_wait); }

/* The call is refused: is the capture invalid for it? */
static int breaks(CUstreamCaptureMode mode, CUresult (*call)(void *))
{
    struct things t = make_things();
    CUstream s = capturing(mode);
    CUresult code = call(&t);
    if (code != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) unknown("the call was not refused as unsupported", (int)code);
    return broken(s);
}

static int unsafe_call_breaks(void) { return breaks(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, alloc); }
static int context_wait_breaks(void) { return breaks(CU_STREAM_CAPTURE_MODE_RELAXED, context_wait); }
static int context_record_breaks(void) { return breaks(CU_STREAM_CAPTURE_MODE_RELAXED, context_record); }

static int relaxed_forbids_unsafe(void)
{
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUresult code = alloc(NULL);
    broken(s);
    return code != CUDA_SUCCESS;
}

static int captured_free_breaks(void)
{
    struct things t = make_things();
    CUdeviceptr p;
    MUST(cuMemAllocAsync(&p, 4096, t.stream));
    MUST(cuStreamSynchronize(t.stream));
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUresult code = cuMemFreeAsync(p, s);
    if (code == CUDA_SUCCESS) unknown("the free was captured", 0);
    return broken(s);
}

static CUresult end_capture(void *s)
{
    CUgraph g;
    return cuStreamEndCapture((CUstream)s, &g);
}

static int wrong_end_breaks(void)
{
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    CUresult code = elsewhere(end_capture, s);
    if (code != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) unknown("another thread's cuStreamEndCapture", (int)code);
    return broken(s);
}

static int unjoined_end_ends(void)
{
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_RELAXED), b = new_stream();
    CUstreamCaptureStatus status;
    CUevent fork;
    CUgraph g;
    MUST(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    MUST(cuEventRecord(fork, a));
    MUST(cuStreamWaitEvent(b, fork, 0));
    MUST(cuMemsetD8Async(make_things().device, 0, 64, b));
    CUresult code = cuStreamEndCapture(a, &g);
    if (code != CUDA_ERROR_STREAM_CAPTURE_UNJOINED) unknown("cuStreamEndCapture", (int)code);
    MUST(cuStreamIsCapturing(a, &status));
    return status == CU_STREAM_CAPTURE_STATUS_NONE;
}

const struct question capture_questions[] = {
    { "unsafe_call_breaks", unsafe_call_breaks },
    { "event_query_unsafe", event_query_unsafe },
    { "event_wait_unsafe", event_wait_unsafe },
    { "stream_query_unsafe", stream_query_unsafe },
    { "stream_wait_unsafe", stream_wait_unsafe },
    { "context_wait_breaks", context_wait_breaks },
    { "context_record_breaks", context_record_breaks },
    { "relaxed_forbids_unsafe", relaxed_forbids_unsafe },
    { "captured_free_breaks", captured_free_breaks },
    { "wrong_end_breaks", wrong_end_breaks },
    { "unjoined_end_ends", unjoined_end_ends },
    { NULL, NULL },
};

/* --- every call in every mode, by both threads -------------------------------------------------------------------------- */

void capture_matrix(void)
{
    static const struct { const char *name; CUresult (*call)(void *); } calls[] = {
        { "alloc", alloc }, { "free", release }, { "host_alloc", host_alloc }, { "async_alloc", async_alloc },
        { "event_query", event_query }, { "event_wait", event_wait }, { "stream_query", stream_query },
        { "stream_wait", stream_wait }, { "legacy_query", legacy_query }, { "context_wait", context_wait },
        { "context_record", context_record },
    };
    static const char *const modes[] = { "global", "thread", "relaxed" };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int mode = 0; mode < 3; mode++)
            for (int other = 0; other < 2; other++) {
                struct things t = make_things();
                CUstream s = capturing((CUstreamCaptureMode)mode);
                CUresult code = other ? elsewhere(calls[i].call, &t) : calls[i].call(&t);
                printf("capture.%s.%s.%s: %d %s\n", calls[i].name, modes[mode], other ? "other" : "same", (int)code,
                       broken(s) ? "broken" : "intact");
            }
}
