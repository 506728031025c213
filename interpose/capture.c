#include "capture.h"

#include <sched.h>

#include "core/lock.h"
#include "core/log.h"
#include "real.h"

_Atomic unsigned nxm_captures;
static _Atomic unsigned records;

/* More captures at once than this are counted but not named: they only close when their stream ends one. */
#define NAMED 64
static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_CAPTURE);
static CUstream capturing[NAMED];
static unsigned named;

void nxm_capture_announce(void)
{
    atomic_fetch_add(&nxm_captures, 1);
    while (atomic_load(&records) != 0)
        sched_yield(); /* one driver call long: the record neither waits for the device nor for us */
}

void nxm_capture_begun(CUstream stream, bool per_thread, CUresult result)
{
    (void)per_thread;
    bool kept = false;

    if (result == CUDA_SUCCESS) {
        nxm_lock_acquire(&lock);
        if (named < NAMED) {
            capturing[named++] = stream;
            kept = true;
        }
        nxm_lock_release(&lock);
    }
    if (!kept)
        atomic_fetch_sub(&nxm_captures, 1);
    if (!kept && result == CUDA_SUCCESS) {
        static int once;
        nxm_log_once(&once, "more than %d captures at once: further ones are not followed", NAMED);
    }
}

static bool still_capturing(CUstream stream, bool per_thread)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    __typeof__(nxm_real.cuStreamIsCapturing) ask =
        per_thread && nxm_real.cuStreamIsCapturing_ptsz ? nxm_real.cuStreamIsCapturing_ptsz : nxm_real.cuStreamIsCapturing;

    return ask && ask(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool nxm_capture_ended(CUstream stream, bool per_thread)
{
    bool last = false;

    if (!nxm_capture_open() || still_capturing(stream, per_thread))
        return false;
    nxm_lock_acquire(&lock);
    for (unsigned i = 0; i < named; i++) {
        if (capturing[i] == stream) {
            capturing[i] = capturing[--named];
            last = atomic_fetch_sub(&nxm_captures, 1) == 1;
            break;
        }
    }
    nxm_lock_release(&lock);
    return last;
}

bool nxm_capture_record_begin(void)
{
    atomic_fetch_add(&records, 1);
    if (!nxm_capture_open())
        return true;
    atomic_fetch_sub(&records, 1);
    return false;
}

void nxm_capture_record_end(void)
{
    atomic_fetch_sub(&records, 1);
}

CUstreamCaptureMode nxm_capture_relax(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    if (nxm_capture_open() && nxm_real.cuThreadExchangeStreamCaptureMode &&
        nxm_real.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS)
        return mode;
    return CU_STREAM_CAPTURE_MODE_RELAXED; /* nothing to restore */
}

void nxm_capture_restore(CUstreamCaptureMode mode)
{
    if (mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        nxm_real.cuThreadExchangeStreamCaptureMode(&mode);
}
