#include "capture.h"

#include <sched.h>

#include "core/lock.h"
#include "core/log.h"
#include "core/mem.h"
#include "real.h"

_Atomic unsigned nxm_captures;
static _Atomic unsigned records, waits;

#define WAIT_SPINS 10000 /* until a wait that was let begin has surely reached the driver */

/* A capture that there was no memory to name stays counted for good: unknown means capturing. */
struct capturing {
    struct capturing *next;
    CUstream stream;
    CUcontext context;
};
static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_CAPTURE);
static struct capturing *capturing;

void nxm_capture_announce(void)
{
    atomic_fetch_add(&nxm_captures, 1);
    while (atomic_load(&records) != 0)
        sched_yield(); /* one driver call long: the record neither waits for the device nor for us */
    for (int spin = 0; spin < WAIT_SPINS && atomic_load(&waits) != 0; spin++)
        sched_yield();
}

static bool one_less(void)
{
    return atomic_fetch_sub(&nxm_captures, 1) == 1;
}

/* A thread's own default stream has two names. */
static CUstream canonical(CUstream stream, bool per_thread)
{
    return per_thread && stream == NULL ? CU_STREAM_PER_THREAD : stream;
}

static CUcontext context_of(CUstream stream)
{
    CUcontext context = NULL;
    bool special = stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;

    if (!special && nxm_real.cuStreamGetCtx)
        nxm_real.cuStreamGetCtx(stream, &context);
    else if (nxm_real.cuCtxGetCurrent)
        nxm_real.cuCtxGetCurrent(&context);
    return context;
}

bool nxm_capture_begun(CUstream stream, bool per_thread, CUresult result)
{
    if (result != CUDA_SUCCESS)
        return one_less();
    struct capturing *begun = nxm_mem_new(sizeof *begun);
    if (!begun) {
        static int once;
        nxm_log_once(&once, "no memory to follow a capture: from now on all is done as if one were open");
        return false;
    }
    begun->stream = canonical(stream, per_thread);
    begun->context = context_of(begun->stream);
    nxm_lock_acquire(&lock);
    begun->next = capturing;
    capturing = begun;
    nxm_lock_release(&lock);
    return false;
}

/* Takes the captures that match off the list; whether the last one open was among them. */
static bool take(bool (*matches)(const struct capturing *capture, const void *handle), const void *handle)
{
    struct capturing *taken = NULL;
    bool last = false;

    if (!nxm_capture_open())
        return false;
    nxm_lock_acquire(&lock);
    for (struct capturing **link = &capturing; *link;) {
        struct capturing *capture = *link;
        if (!matches(capture, handle)) {
            link = &capture->next;
            continue;
        }
        *link = capture->next;
        capture->next = taken;
        taken = capture;
        last = one_less();
    }
    nxm_lock_release(&lock);
    while (taken) {
        struct capturing *next = taken->next;
        nxm_mem_free(taken);
        taken = next;
    }
    return last;
}

static bool is_of_stream(const struct capturing *capture, const void *handle)
{
    return capture->stream == handle;
}

static bool is_of_context(const struct capturing *capture, const void *handle)
{
    return capture->context == handle;
}

static bool still_capturing(CUstream stream, bool per_thread)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    __typeof__(nxm_real.cuStreamIsCapturing) ask =
        per_thread && nxm_real.cuStreamIsCapturing_ptsz ? nxm_real.cuStreamIsCapturing_ptsz : nxm_real.cuStreamIsCapturing;

    return ask && ask(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool nxm_capture_stream_gone(CUstream stream)
{
    return take(is_of_stream, stream);
}

bool nxm_capture_ended(CUstream stream, bool per_thread)
{
    if (!nxm_capture_open() || still_capturing(stream, per_thread))
        return false;
    return nxm_capture_stream_gone(canonical(stream, per_thread));
}

/* One stream of the context after the other, in the order of their handles. */
static CUstream next_capturing(CUcontext context, CUstream after)
{
    CUstream next = NULL;

    nxm_lock_acquire(&lock);
    for (struct capturing *c = capturing; c; c = c->next) {
        if (c->context == context && (uintptr_t)c->stream > (uintptr_t)after && (!next || c->stream < next))
            next = c->stream;
    }
    nxm_lock_release(&lock);
    return next;
}

void nxm_capture_end_all(CUcontext context)
{
    CUstream stream = NULL;

    while (nxm_real.cuStreamEndCapture && (stream = next_capturing(context, stream)) != NULL) {
        CUgraph graph = NULL;
        if (nxm_real.cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS && graph && nxm_real.cuGraphDestroy)
            nxm_real.cuGraphDestroy(graph);
    }
}

bool nxm_capture_context_gone(CUcontext context)
{
    return take(is_of_context, context);
}

/* Counted first and looked at second, as an announcement is: one of the two sees the other. */
static bool begin(_Atomic unsigned *count)
{
    atomic_fetch_add(count, 1);
    if (!nxm_capture_open())
        return true;
    atomic_fetch_sub(count, 1);
    return false;
}

bool nxm_capture_record_begin(void)
{
    return begin(&records);
}

void nxm_capture_record_end(void)
{
    atomic_fetch_sub(&records, 1);
}

bool nxm_capture_wait_begin(void)
{
    return begin(&waits);
}

void nxm_capture_wait_end(void)
{
    atomic_fetch_sub(&waits, 1);
}

/* Whether or not a capture is open: one may begin before the call that this is for. */
CUstreamCaptureMode nxm_capture_relax(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    if (nxm_real.cuThreadExchangeStreamCaptureMode && nxm_real.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS)
        return mode;
    return CU_STREAM_CAPTURE_MODE_RELAXED; /* nothing to restore */
}

void nxm_capture_restore(CUstreamCaptureMode mode)
{
    if (mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        nxm_real.cuThreadExchangeStreamCaptureMode(&mode);
}
