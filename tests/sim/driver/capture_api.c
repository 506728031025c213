/* The entry points of stream capture; the rules are in capture.c. */
#include "capture.h"
#include "capture_state.h"
#include "context.h"
#include "graph.h"
#include "state.h"
#include "stream.h"

static bool valid_mode(CUstreamCaptureMode mode)
{
    return mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
           mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

static CUresult begin(CUstream h, CUgraph into, const CUgraphNode *deps, size_t count, CUstreamCaptureMode mode,
                      enum sim_default dflt)
{
    struct sim_stream *s;
    if (!valid_mode(mode)) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    struct sim_graph *g = into ? sim_object_find(into, SIM_GRAPH) : NULL;
    if (result == CUDA_SUCCESS && into && !g) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && s->role == SIM_STREAM_LEGACY) result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (result == CUDA_SUCCESS && s->capture) result = CUDA_ERROR_ILLEGAL_STATE;
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++)
        if (!sim_object_find(deps[i], SIM_NODE)) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) result = sim_capture_begin(s, mode, g, (struct sim_graph_node *const *)deps, count);
    sim_unlock();
    return result;
}

SIM_TWIN(cuStreamBeginCapture_v2, _ptsz, (CUstream h, CUstreamCaptureMode mode), begin(h, NULL, NULL, 0, mode, dflt))
SIM_TWIN(cuStreamBeginCapture, _ptsz, (CUstream h), begin(h, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL, dflt))
SIM_TWIN(cuStreamBeginCaptureToGraph, _ptsz,
         (CUstream h, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count,
          CUstreamCaptureMode mode),
         ((void)edges, graph ? begin(h, graph, deps, count, mode, dflt) : CUDA_ERROR_INVALID_VALUE))

static CUresult end(CUstream h, CUgraph *graph, enum sim_default dflt)
{
    struct sim_stream *s;
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    if (result == CUDA_SUCCESS) result = sim_capture_end(s, graph);
    sim_unlock();
    return result;
}

SIM_TWIN(cuStreamEndCapture, _ptsz, (CUstream h, CUgraph *graph), end(h, graph, dflt))

static CUstreamCaptureStatus status_of(const struct sim_stream *s)
{
    if (!s->capture) return CU_STREAM_CAPTURE_STATUS_NONE;
    return s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

struct info {
    CUstreamCaptureStatus *status;
    cuuint64_t *id;
    CUgraph *graph;
    const CUgraphNode **deps;
    const CUgraphEdgeData **edges;
    size_t *count;
};

static CUresult get_info(CUstream h, struct info out, enum sim_default dflt)
{
    struct sim_stream *s;
    if (!out.status) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    /* asking the legacy stream does no harm to the captures that would make it wait */
    if (result == CUDA_SUCCESS && sim_capture_blocks_legacy(s, false)) result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (result == CUDA_SUCCESS) {
        *out.status = status_of(s);
        if (*out.status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
            if (out.id) *out.id = s->capture->id;
            if (out.graph) *out.graph = (CUgraph)s->capture->graph;
            if (out.deps) *out.deps = (const CUgraphNode *)s->capture_tail;
            if (out.edges) *out.edges = NULL;
            if (out.count) *out.count = s->capture_tail_count;
        }
    }
    sim_unlock();
    return result;
}

SIM_TWIN(cuStreamIsCapturing, _ptsz, (CUstream h, CUstreamCaptureStatus *status),
         get_info(h, (struct info){ .status = status }, dflt))
SIM_TWIN(cuStreamGetCaptureInfo, _ptsz, (CUstream h, CUstreamCaptureStatus *status, cuuint64_t *id),
         get_info(h, (struct info){ .status = status, .id = id }, dflt))
SIM_TWIN(cuStreamGetCaptureInfo_v2, _ptsz,
         (CUstream h, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps,
          size_t *count),
         get_info(h, (struct info){ status, id, graph, deps, NULL, count }, dflt))
SIM_TWIN(cuStreamGetCaptureInfo_v3, _ptsz,
         (CUstream h, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps,
          const CUgraphEdgeData **edges, size_t *count),
         get_info(h, (struct info){ status, id, graph, deps, edges, count }, dflt))

static CUresult update_dependencies(CUstream h, CUgraphNode *deps, size_t count, unsigned flags, enum sim_default dflt)
{
    struct sim_stream *s;
    if ((count && !deps) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    if (result == CUDA_SUCCESS && !s->capture) result = CUDA_ERROR_ILLEGAL_STATE;
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
        struct sim_graph_node *n = sim_object_find(deps[i], SIM_NODE);
        if (!n || n->graph != s->capture->graph) result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS)
        result = sim_capture_depend(s, (struct sim_graph_node *const *)deps, count,
                                    flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES);
    sim_unlock();
    return result;
}

SIM_TWIN(cuStreamUpdateCaptureDependencies, _ptsz,
         (CUstream h, CUgraphNode *deps, size_t count, unsigned int flags),
         update_dependencies(h, deps, count, flags, dflt))
SIM_TWIN(cuStreamUpdateCaptureDependencies_v2, _ptsz,
         (CUstream h, CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count, unsigned int flags),
         ((void)edges, update_dependencies(h, deps, count, flags, dflt)))

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    SIM_ENTER(cuThreadExchangeStreamCaptureMode);
    if (!mode || !valid_mode(*mode)) return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode old = sim_thread.capture_mode;
    sim_thread.capture_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}
