#include "capture.h"

#include <sched.h>

#include "calm.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/mem.h"
#include "real.h"
#include "thread.h"

_Atomic unsigned nxm_captures;
static _Atomic unsigned records, waits;

#define WAIT_SPINS 10000 /* until a wait that was let begin has surely reached the driver */

/* A capture that there was no memory to name stays counted for good: unknown means capturing. So there is some at hand. */
struct capturing {
    struct capturing *next;
    CUstream stream;
    CUcontext context;
    CUstreamCaptureMode mode;
    uint32_t thread; /* that began it */
};
static struct capturing at_hand[16];
static _Atomic bool in_use[16];

static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_CAPTURE);
static struct capturing *capturing;

void nxm_capture_announce(void)
{
    nxm_unrest_begin();
    atomic_fetch_add(&nxm_captures, 1);
    while (atomic_load(&records) != 0)
        sched_yield(); /* one driver call long: the record neither waits for the device nor for us */
    for (int spin = 0; spin < WAIT_SPINS && atomic_load(&waits) != 0; spin++)
        sched_yield();
}

static bool one_less(void)
{
    bool last = atomic_fetch_sub(&nxm_captures, 1) == 1;

    nxm_unrest_end();
    return last;
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

static struct capturing *new_record(void)
{
    struct capturing *record = nxm_mem_new(sizeof *record);

    for (size_t i = 0; i < sizeof at_hand / sizeof *at_hand && !record; i++)
        record = atomic_exchange(&in_use[i], true) ? NULL : &at_hand[i];
    return record;
}

static void free_record(struct capturing *record)
{
    if (record >= at_hand && record < at_hand + sizeof at_hand / sizeof *at_hand)
        atomic_store(&in_use[record - at_hand], false);
    else
        nxm_mem_free(record);
}

bool nxm_capture_begun(CUstream stream, bool per_thread, CUstreamCaptureMode mode, CUresult result)
{
    if (result != CUDA_SUCCESS)
        return one_less();
    struct capturing *begun = new_record();
    if (!begun) {
        static int once;
        nxm_log_once(&once, "no memory to follow a capture: from now on all is done as if one were open");
        return false;
    }
    begun->stream = canonical(stream, per_thread);
    begun->mode = mode;
    begun->thread = nxm_thread_number();
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
        free_record(taken);
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

/* --- what a capture forbids ------------------------------------------------------------------------------------------ */

/* Whether one of the captures is this thread's own, or forbids it something in this mode; or is one that nobody has named. A thread's own
 * relaxed one forbids nothing by the manual, which not every driver may keep to. */
static bool one_may_forbid(CUstreamCaptureMode mode)
{
    uint32_t thread = nxm_thread_number();
    unsigned named = 0;
    bool found = false;

    nxm_lock_acquire(&lock);
    for (struct capturing *c = capturing; c; c = c->next, named++)
        found = found || c->thread == thread ||
                (mode == CU_STREAM_CAPTURE_MODE_GLOBAL && c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
    nxm_lock_release(&lock);
    return found || named < atomic_load(&nxm_captures);
}

bool nxm_capture_one_may_forbid(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    if (!nxm_real.cuThreadExchangeStreamCaptureMode || nxm_real.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
        return true;
    nxm_capture_restore(mode);
    return mode != CU_STREAM_CAPTURE_MODE_RELAXED && one_may_forbid(mode);
}

/* A capture that begins meanwhile must not forbid it, nor a failure leave it. */
static void free_probe(CUdeviceptr probe)
{
    CUstreamCaptureMode mode = nxm_capture_relax();

    if (nxm_real.cuMemFree_v2(probe) != CUDA_SUCCESS && nxm_real.cuMemFree_v2(probe) != CUDA_SUCCESS)
        nxm_log(NXM_LOG_INFO, "the smallest block of the driver's, allocated to ask it, cannot be freed");
    nxm_capture_restore(mode);
}

/* The driver's own prohibition, asked with the smallest call of the same class. */
CUresult nxm_capture_forbids(CUcontext context)
{
    CUcontext current = NULL;
    CUdeviceptr probe = 0;
    if (!nxm_capture_may_forbid())
        return CUDA_SUCCESS;
    bool pushed = (nxm_real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != context) &&
                  nxm_real.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
    CUresult result = nxm_real.cuMemAlloc_v2(&probe, 1);

    if (result == CUDA_SUCCESS)
        free_probe(probe);
    if (pushed)
        nxm_real.cuCtxPopCurrent_v2(&current);
    return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result;
}
