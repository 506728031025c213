#include "capture.h"

#include "capture_state.h"
#include "context.h"
#include "event.h"
#include "finding.h"
#include "facts.h"
#include "graph.h"
#include "state.h"
#include "stream.h"

#include <stdlib.h>

static struct sim_capture *open_captures;
static uint64_t last_id;

/* --- the sequence ------------------------------------------------------------------------------------------ */

static void unref(struct sim_capture *c)
{
    if (--c->refs == 0) free(c);
}

static void invalidate(struct sim_capture *c)
{
    if (!c->invalid) sim_find_call(SIM_FINDING_capture_invalidated, NULL, 0);
    c->invalid = true;
}

bool sim_capture_builds(const struct sim_graph *g)
{
    for (struct sim_capture *c = open_captures; c; c = c->next)
        if (c->graph == g) return true;
    return false;
}

static bool set_tail(struct sim_stream *s, struct sim_graph_node *const *nodes, size_t count)
{
    struct sim_graph_node **tail = malloc((count + 1) * sizeof(struct sim_graph_node *));
    if (!tail) return false;
    for (size_t i = 0; i < count; i++) {
        tail[i] = nodes[i];
        sim_object_ref(&nodes[i]->object);
    }
    for (size_t i = 0; i < s->capture_tail_count; i++) sim_object_unref(&s->capture_tail[i]->object);
    free(s->capture_tail);
    s->capture_tail = tail;
    s->capture_tail_count = count;
    return true;
}

static void leave(struct sim_stream *s)
{
    struct sim_capture *c = s->capture;
    struct sim_stream **link = &c->streams;
    while (*link != s) link = &(*link)->capture_next;
    *link = s->capture_next;
    s->capture_next = NULL;
    for (size_t i = 0; i < s->capture_tail_count; i++) sim_object_unref(&s->capture_tail[i]->object);
    free(s->capture_tail);
    s->capture_tail = NULL;
    s->capture_tail_count = 0;
    s->capture = NULL;
    unref(c);
}

static bool join(struct sim_stream *s, struct sim_capture *c, struct sim_graph_node *const *nodes, size_t count)
{
    if (!set_tail(s, nodes, count)) return false;
    s->capture = c;
    s->capture_next = c->streams;
    c->streams = s;
    c->refs++;
    return true;
}

CUresult sim_capture_begin(struct sim_stream *s, CUstreamCaptureMode mode, struct sim_graph *into,
                           struct sim_graph_node *const *deps, size_t count)
{
    struct sim_capture *c = calloc(1, sizeof *c);
    struct sim_graph *g = into ? into : sim_graph_new();
    if (!c || !g || !join(s, c, deps, count)) {
        free(c);
        if (g && !into) sim_graph_close(g);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    c->refs++; /* the list's */
    c->id = ++last_id;
    c->mode = mode;
    c->graph = g;
    c->given_graph = into != NULL;
    c->origin = s;
    c->thread = sim_thread_number();
    c->next = open_captures;
    open_captures = c;
    return CUDA_SUCCESS;
}

/* Every stream leaves; the graph is the caller's. */
static void close_capture(struct sim_capture *c)
{
    struct sim_capture **link = &open_captures;
    while (*link != c) link = &(*link)->next;
    *link = c->next;
    c->closed = true;
    while (c->streams) leave(c->streams);
    unref(c);
}

static void discard(struct sim_capture *c)
{
    struct sim_graph *g = c->given_graph ? NULL : c->graph;
    close_capture(c);
    if (g) sim_graph_close(g);
}

/* What a stream that joined did must lead back to the origin. */
static bool all_joined(struct sim_capture *c)
{
    if (!sim_graph_mark(c->graph, c->origin->capture_tail, c->origin->capture_tail_count)) return false;
    for (struct sim_stream *s = c->streams; s; s = s->capture_next)
        for (size_t i = 0; i < s->capture_tail_count; i++)
            if (!s->capture_tail[i]->mark) return false;
    return true;
}

static CUresult refuse_end(struct sim_capture *c, CUresult code)
{
    if (sim_fact(SIM_FACT_wrong_end_breaks)) invalidate(c);
    return code;
}

CUresult sim_capture_end(struct sim_stream *s, CUgraph *ret_graph)
{
    struct sim_capture *c = s->capture;
    if (!c) return CUDA_ERROR_ILLEGAL_STATE;
    if (c->origin != s) return refuse_end(c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != sim_thread_number())
        return refuse_end(c, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    CUresult result = c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                      : !all_joined(c) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED : CUDA_SUCCESS;
    if (result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED && !sim_fact(SIM_FACT_unjoined_end_ends)) return result;
    struct sim_graph *g = c->graph;
    if (result == CUDA_SUCCESS) close_capture(c);
    else discard(c);
    *ret_graph = result == CUDA_SUCCESS ? (CUgraph)g : NULL;
    return result;
}

void sim_capture_abandon(struct sim_stream *s)
{
    if (!s->capture) return;
    invalidate(s->capture);
    if (s->capture->origin == s) discard(s->capture);
    else leave(s);
}

/* --- work ---------------------------------------------------------------------------------------------------- */

struct sim_graph_node *sim_capture_node(struct sim_stream *s, CUgraphNodeType type, struct sim_work *w)
{
    if (s->capture->invalid) return NULL;
    struct sim_graph_node *n = sim_graph_add(s->capture->graph, type, w, s->capture_tail, s->capture_tail_count);
    if (n && set_tail(s, &n, 1)) return n;
    invalidate(s->capture);
    if (n && w) n->works.count = 0; /* the caller keeps the work */
    return NULL;
}

CUresult sim_capture_add(struct sim_stream *s, struct sim_work *w)
{
    if (sim_capture_node(s, w->type, w)) return CUDA_SUCCESS;
    sim_work_free(w);
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

struct sim_graph *sim_capture_graph(const struct sim_stream *s)
{
    return s->capture->graph;
}

/* --- events -------------------------------------------------------------------------------------------------- */

void sim_capture_event_forget(struct sim_event *e)
{
    for (size_t i = 0; i < e->node_count; i++) sim_object_unref(&e->nodes[i]->object);
    free(e->nodes);
    e->nodes = NULL;
    e->node_count = 0;
    if (e->capture) unref(e->capture);
    e->capture = NULL;
}

/* An event outside: recorded, or waited for, by each launch. */
static CUresult event_node(struct sim_stream *s, const struct sim_event *e, CUgraphNodeType type)
{
    struct sim_work *w = sim_event_node_work(e, type, SIM_FN_cuEventRecordWithFlags);
    return w ? sim_capture_add(s, w) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_capture_record(struct sim_stream *s, struct sim_event *e, bool external)
{
    struct sim_capture *c = s->capture;
    if (c->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (external) return event_node(s, e, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    struct sim_graph_node **nodes = malloc((s->capture_tail_count + 1) * sizeof(struct sim_graph_node *));
    if (!nodes) return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < s->capture_tail_count; i++) {
        nodes[i] = s->capture_tail[i];
        sim_object_ref(&nodes[i]->object);
    }
    c->refs++;
    sim_capture_event_forget(e);
    e->nodes = nodes;
    e->node_count = s->capture_tail_count;
    e->capture = c;
    return CUDA_SUCCESS;
}

/* The stream's next node depends on these, too. */
static bool add_to_tail(struct sim_stream *s, struct sim_graph_node *const *more, size_t more_count)
{
    size_t count = s->capture_tail_count, room = count + more_count + 1;
    struct sim_graph_node **nodes = malloc(room * sizeof(struct sim_graph_node *));
    if (!nodes) return false;
    for (size_t i = 0; i < count; i++) nodes[i] = s->capture_tail[i];
    for (size_t i = 0; i < more_count; i++) {
        bool known = false;
        for (size_t k = 0; k < s->capture_tail_count; k++) known |= nodes[k] == more[i];
        if (!known) nodes[count++] = more[i];
    }
    bool done = set_tail(s, nodes, count);
    free(nodes);
    return done;
}

CUresult sim_capture_depend(struct sim_stream *s, struct sim_graph_node *const *nodes, size_t count, bool set)
{
    if (s->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    bool done = set ? set_tail(s, nodes, count) : add_to_tail(s, nodes, count);
    return done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult join_by_event(struct sim_stream *s, struct sim_event *e)
{
    if (e->capture->closed) return CUDA_ERROR_CAPTURED_EVENT;
    if (s->role == SIM_STREAM_LEGACY) {
        invalidate(e->capture);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    return join(s, e->capture, e->nodes, e->node_count) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_capture_wait(struct sim_stream *s, struct sim_event *e, bool external)
{
    if (!s->capture) return join_by_event(s, e);
    if (s->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (external) return event_node(s, e, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    if (!e->capture) {
        if (!e->record) return CUDA_SUCCESS; /* never recorded: nothing to wait for */
        invalidate(s->capture);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (e->capture == s->capture) return add_to_tail(s, e->nodes, e->node_count) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    invalidate(s->capture);
    if (e->capture->closed) return CUDA_ERROR_CAPTURED_EVENT;
    invalidate(e->capture);
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
}

CUresult sim_capture_touch_event(struct sim_event *e)
{
    if (!e->capture->closed) invalidate(e->capture);
    return CUDA_ERROR_CAPTURED_EVENT;
}

/* --- what captures forbid -------------------------------------------------------------------------------------- */

static bool forbids(const struct sim_capture *c)
{
    CUstreamCaptureMode mine = sim_thread.capture_mode;
    if (mine == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
    if (c->thread == sim_thread.number)
        return c->mode != CU_STREAM_CAPTURE_MODE_RELAXED || sim_fact(SIM_FACT_relaxed_forbids_unsafe);
    return mine == CU_STREAM_CAPTURE_MODE_GLOBAL && c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sim_capture_check_unsafe(void)
{
    CUresult result = CUDA_SUCCESS;
    for (struct sim_capture *c = open_captures; c; c = c->next)
        if (forbids(c)) {
            if (sim_fact(SIM_FACT_unsafe_call_breaks)) invalidate(c);
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result;
}

bool sim_capture_blocks_legacy(const struct sim_stream *legacy, bool invalidating)
{
    bool blocked = false;
    if (!open_captures || legacy->role != SIM_STREAM_LEGACY) return false;
    for (struct sim_stream *s = legacy->context->streams; s; s = s->next)
        if (s->capture && !(s->flags & CU_STREAM_NON_BLOCKING)) {
            blocked = true;
            if (invalidating) invalidate(s->capture);
        }
    return blocked;
}

CUresult sim_capture_check_implicit(struct sim_stream *s)
{
    return sim_capture_blocks_legacy(s, true) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult sim_capture_check_stream(struct sim_stream *s)
{
    if (!s->capture) return sim_capture_check_implicit(s);
    invalidate(s->capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult sim_capture_refuse_free(struct sim_stream *s)
{
    if (sim_fact(SIM_FACT_captured_free_breaks)) invalidate(s->capture);
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_capture_check_context(struct sim_context *c, bool invalidating)
{
    CUresult result = CUDA_SUCCESS;
    for (struct sim_stream *s = open_captures ? c->streams : NULL; s; s = s->next)
        if (s->capture) {
            if (invalidating) invalidate(s->capture);
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result;
}

size_t sim_capture_count(void)
{
    size_t n = 0;
    for (struct sim_capture *c = open_captures; c; c = c->next) n++;
    return n;
}
