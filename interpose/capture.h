/* Stream captures that are open. Owns the list of capturing streams; any thread; NXM_RANK_CAPTURE inside.
 *
 * cuCtxRecordEvent *invalidates* a capture of its context, so a record and a beginning capture exclude each other: the
 * beginning announces itself first, then waits for records in flight; a record that finds an announcement steps back.
 */
#ifndef NXM_CAPTURE_H
#define NXM_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/here.h"
#include "cuda_types.h"

extern NXM_HERE _Atomic unsigned nxm_captures; /* announced or open */

/* One load. False means: no driver question about captures is needed. */
static inline bool nxm_capture_open(void)
{
    return atomic_load_explicit(&nxm_captures, memory_order_seq_cst) != 0;
}

void nxm_capture_announce(void); /* before the real begin */

/* After the real begin; after a real end; after a stream was destroyed; before a context is. Each answers whether this closed
 * the last capture: then what was parked is the caller's to wake (nxm_lane_captures_closed). */
bool nxm_capture_begun(CUstream stream, bool per_thread, CUstreamCaptureMode mode, CUresult result);
bool nxm_capture_ended(CUstream stream, bool per_thread);
bool nxm_capture_stream_gone(CUstream stream);
/* Ends what captures in this context, whose own end is near: the driver would do it then. */
void nxm_capture_end_all(CUcontext context);
bool nxm_capture_context_gone(CUcontext context);

/* Brackets a context record: false when a capture is open or announced (do not record). */
bool nxm_capture_record_begin(void);
void nxm_capture_record_end(void);

/* The same around a wait for a whole context, which may take as long as the device does: a beginning capture gives it some
 * time to be on its way, and then goes on. */
bool nxm_capture_wait_begin(void);
void nxm_capture_wait_end(void);

/* Whether an open capture may forbid this thread calls like cuMemAlloc: by the documented rule, of the captures that are known. Asks
 * the driver for the thread's mode, no more. */
bool nxm_capture_one_may_forbid(void); /* of those that are open */
static inline bool nxm_capture_may_forbid(void)
{
    return __builtin_expect(nxm_capture_open(), 0) && nxm_capture_one_may_forbid();
}

/* Whether an open capture forbids this thread to make calls like cuMemAlloc in this context: asked of the driver with the smallest
 * such call, whose code and effect are then those of the program's. CUDA_SUCCESS: it forbids nothing. */
CUresult nxm_capture_forbids(CUcontext context);

/* The shim's own calls, which a capture, open now or begun meanwhile, must not forbid: relaxed mode for this thread,
 * restored by the other. They nest. */
CUstreamCaptureMode nxm_capture_relax(void);
void nxm_capture_restore(CUstreamCaptureMode mode);

#endif
