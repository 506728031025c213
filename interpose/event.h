/* Events behind which blocks wait: a pool per context. Owns the idle events; any thread; takes a lock of its own
 * (NXM_RANK_LANE), never across a driver call. Events have timing disabled.
 */
#ifndef NXM_EVENT_H
#define NXM_EVENT_H

#include <stdbool.h>

#include "cuda_types.h"

/* Each hands a recorded event to the caller, who gives it back. The driver's code on failure. */
CUresult nxm_event_record_on_stream(CUcontext context, CUstream stream, bool per_thread, CUevent *ret_event);

/* Behind everything the context has in flight: cuCtxRecordEvent (12.5 and later); older drivers are waited for here, and
 * the event has passed. CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, with nothing asked of the driver, while a capture is open. */
CUresult nxm_event_record_on_context(CUcontext context, CUevent *ret_event);

bool nxm_event_passed(CUevent event); /* unanswered means no; a captured event never passes and is counted */
CUresult nxm_event_wait(CUevent event);
void nxm_event_give(CUcontext context, CUevent event);
void nxm_event_context_gone(CUcontext context, bool alive); /* its idle events go: by us while it is alive, else they went with it */

#endif
