/* Streams: moments at which something may have passed, streams that end, captures that begin and end. */
#include "capture.h"
#include "hook.h"
#include "lane.h"
#include "order.h"
#include "owes.h"
#include "scope.h"
#include "thread.h"

/* --- waits ------------------------------------------------------------------------------------------------------
 *
 * With nothing owed each is the driver's function, called in its place: no frame, no count. Otherwise the work that has passed may
 * be what something waits for.
 */
#define OR_THE_DRIVER(symbol, ...) \
    do { \
        if (__builtin_expect(nxm_owes_nothing(), 1)) \
            return nxm_real.symbol(__VA_ARGS__); \
    } while (0)

typedef CUresult stream_call(CUstream stream);

static CUresult left(enum nxm_mode mode, CUresult result)
{
    nxm_lane_look_round();
    nxm_leave(mode);
    return result;
}

static __attribute__((noinline)) CUresult wait_for(const void *caller, CUstream stream, stream_call *real)
{
    enum nxm_mode mode = nxm_enter(caller, false);
    CUresult result = real(stream);

    if (mode == NXM_MODE_SERVE && result == CUDA_SUCCESS) {
        nxm_lane_poll(NXM_MOMENT_WAIT);
        nxm_lane_keep_limit();
    }
    return left(mode, result);
}

CUresult hook_cuStreamSynchronize(CUstream stream)
{
    OR_THE_DRIVER(cuStreamSynchronize, stream);
    NXM_NEEDS(cuStreamSynchronize);
    return wait_for(NXM_CALLER, stream, nxm_real.cuStreamSynchronize);
}

CUresult hook_cuStreamSynchronize_ptsz(CUstream stream)
{
    OR_THE_DRIVER(cuStreamSynchronize_ptsz, stream);
    NXM_NEEDS(cuStreamSynchronize_ptsz);
    return wait_for(NXM_CALLER, stream, nxm_real.cuStreamSynchronize_ptsz);
}

/* The work has passed, but the program did not wait: only releases that cannot wait either. */
static __attribute__((noinline)) CUresult query(const void *caller, CUstream stream, stream_call *real)
{
    enum nxm_mode mode = nxm_enter(caller, false);
    CUresult result = real(stream);

    if (mode == NXM_MODE_SERVE && result == CUDA_SUCCESS)
        nxm_lane_poll(NXM_MOMENT_ANY);
    return left(mode, result);
}

CUresult hook_cuStreamQuery(CUstream stream)
{
    OR_THE_DRIVER(cuStreamQuery, stream);
    NXM_NEEDS(cuStreamQuery);
    return query(NXM_CALLER, stream, nxm_real.cuStreamQuery);
}

CUresult hook_cuStreamQuery_ptsz(CUstream stream)
{
    OR_THE_DRIVER(cuStreamQuery_ptsz, stream);
    NXM_NEEDS(cuStreamQuery_ptsz);
    return query(NXM_CALLER, stream, nxm_real.cuStreamQuery_ptsz);
}

static CUresult waited_for_context(enum nxm_mode mode, CUcontext context, CUresult result)
{
    if (mode == NXM_MODE_SERVE && result == CUDA_SUCCESS) {
        nxm_lane_poll_context(context);
        nxm_lane_keep_limit(); /* of what waits in other contexts */
    }
    return left(mode, result);
}

CUresult hook_cuCtxSynchronize(void)
{
    OR_THE_DRIVER(cuCtxSynchronize);
    NXM_NEEDS(cuCtxSynchronize);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);

    return waited_for_context(mode, NULL, nxm_real.cuCtxSynchronize());
}

CUresult hook_cuCtxSynchronize_v2(CUcontext context)
{
    NXM_NEEDS(cuCtxSynchronize_v2);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);

    return waited_for_context(mode, context, nxm_real.cuCtxSynchronize_v2(context));
}

/* --- the end of a stream ------------------------------------------------------------------------------------------ */

static void tell_gone(struct nxm_scope *scope, void *key)
{
    if (!scope->companion.vtable.order_gone)
        return;
    nxm_foreign_begin();
    scope->companion.vtable.order_gone(scope->companion.vtable.ctx, *(uint64_t *)key);
    nxm_foreign_end();
}

/* Every waiting block has an event of its own, so nothing hangs on the handle once the key is retired. */
static CUresult destroy(const void *caller, CUstream stream, __typeof__(nxm_real.cuStreamDestroy_v2) real)
{
    enum nxm_mode mode = nxm_enter(caller, false);
    bool ours = mode == NXM_MODE_SERVE && stream != NULL;
    uint64_t key = ours && nxm_plugin() ? nxm_stream_key(stream, false) : 0;

    if (ours)
        nxm_stream_key_retire(stream); /* before its handle may come back; if the destroy fails, a key changed early */
    CUresult result = real(stream);
    /* Captures are followed from the start of the process, and so is their end. */
    bool last_capture = result == CUDA_SUCCESS && !nxm_is_child() && nxm_capture_stream_gone(stream);
    if (ours && result == CUDA_SUCCESS) {
        if (last_capture)
            nxm_lane_captures_closed();
        if (key != 0)
            nxm_scope_each(tell_gone, &key);
        nxm_lane_poll(NXM_MOMENT_ANY);
    }
    nxm_leave(mode);
    return result;
}

CUresult hook_cuStreamDestroy(CUstream stream)
{
    NXM_NEEDS(cuStreamDestroy);
    return destroy(NXM_CALLER, stream, nxm_real.cuStreamDestroy);
}

CUresult hook_cuStreamDestroy_v2(CUstream stream)
{
    NXM_NEEDS(cuStreamDestroy_v2);
    return destroy(NXM_CALLER, stream, nxm_real.cuStreamDestroy_v2);
}

/* --- capture ------------------------------------------------------------------------------------------------------ */

static void captures_closed(const void *caller)
{
    enum nxm_mode mode = nxm_enter(caller, false);

    if (mode == NXM_MODE_SERVE)
        nxm_lane_captures_closed();
    nxm_leave(mode);
}

/* The announcement stands between two calls: it must be made before the real begin and settled after it. A forked child
 * announces nothing: the thread whose record it would wait for stayed behind. */
#define BEGIN_CAPTURE(symbol, per_thread, mode, ...) \
    NXM_NEEDS(symbol); \
    if (nxm_is_child()) \
        return nxm_real.symbol(__VA_ARGS__); \
    nxm_process_watch_forks(); \
    nxm_capture_announce(); \
    CUresult result = nxm_real.symbol(__VA_ARGS__); \
    if (nxm_capture_begun(stream, per_thread, mode, result)) \
        captures_closed(NXM_CALLER); \
    return result

CUresult hook_cuStreamBeginCapture(CUstream stream)
{
    BEGIN_CAPTURE(cuStreamBeginCapture, false, CU_STREAM_CAPTURE_MODE_GLOBAL, stream);
}

CUresult hook_cuStreamBeginCapture_ptsz(CUstream stream)
{
    BEGIN_CAPTURE(cuStreamBeginCapture_ptsz, true, CU_STREAM_CAPTURE_MODE_GLOBAL, stream);
}

CUresult hook_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    BEGIN_CAPTURE(cuStreamBeginCapture_v2, false, mode, stream, mode);
}

CUresult hook_cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
    BEGIN_CAPTURE(cuStreamBeginCapture_v2_ptsz, true, mode, stream, mode);
}

CUresult hook_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
                                          const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
    BEGIN_CAPTURE(cuStreamBeginCaptureToGraph, false, mode, stream, graph, dependencies, edges, count, mode);
}

CUresult hook_cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
                                               const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
    BEGIN_CAPTURE(cuStreamBeginCaptureToGraph_ptsz, true, mode, stream, graph, dependencies, edges, count, mode);
}

static CUresult ended(CUstream stream, bool per_thread, const void *caller, CUresult result)
{
    if (!nxm_is_child() && nxm_capture_ended(stream, per_thread))
        captures_closed(caller);
    return result;
}

CUresult hook_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    NXM_NEEDS(cuStreamEndCapture);
    return ended(stream, false, NXM_CALLER, nxm_real.cuStreamEndCapture(stream, graph));
}

CUresult hook_cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
    NXM_NEEDS(cuStreamEndCapture_ptsz);
    return ended(stream, true, NXM_CALLER, nxm_real.cuStreamEndCapture_ptsz(stream, graph));
}
