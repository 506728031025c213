#include "graph.h"

#include "block.h"
#include "capture.h"
#include "event.h"
#include "finding.h"
#include "memory.h"
#include "state.h"
#include "stream.h"
#include "user_object.h"

#include <stdlib.h>

/* --- memory: a block exists for its nodes, and is there while the work says so ----------------------------- */

static void finish_alloc(struct sim_work *w)
{
    w->u.block->state = SIM_LIVE;
}

static void settle(struct sim_block *b, enum sim_fn fn)
{
    if (!b->owners && b->state != SIM_LIVE) sim_memory_release(b, fn);
}

void sim_graph_memory_disown(struct sim_block *b, enum sim_fn fn)
{
    b->owners--;
    settle(b, fn);
}

static void finish_free(struct sim_work *w)
{
    struct sim_block *b = w->u.block;
    if (b->state != SIM_LIVE) sim_find_work(SIM_FINDING_graph_double_free, w, b);
    b->state = SIM_GONE_BLOCK;
}

static void own(struct sim_work *w, struct sim_block *b)
{
    w->u.block = w->owned = b;
    b->owners++;
}

CUresult sim_graph_memory_new(struct sim_device *d, uint64_t size, enum sim_fn fn, struct sim_work **ret_work)
{
    struct sim_block *b;
    struct sim_work *w = sim_work_new(fn);
    CUresult result = w ? sim_memory_new(d, NULL, SIM_BLOCK_GRAPH, size, fn, &b) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        sim_work_free(w);
        return result;
    }
    b->state = SIM_UNBORN;
    w->type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    w->finish = finish_alloc;
    w->effect = SIM_ALLOCATES;
    own(w, b);
    *ret_work = w;
    return CUDA_SUCCESS;
}

struct sim_work *sim_graph_memory_free_work(struct sim_block *b, enum sim_fn fn)
{
    struct sim_work *w = sim_work_new(fn);
    if (!w) return NULL;
    w->type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    w->finish = finish_free;
    w->effect = SIM_RELEASES;
    own(w, b);
    return w;
}

/* --- templates ------------------------------------------------------------------------------------------- */

CUresult sim_templates_append(struct sim_templates *t, const struct sim_templates *more)
{
    if (!more->count) return CUDA_SUCCESS;
    struct sim_work **items = realloc(t->items, (t->count + more->count) * sizeof(struct sim_work *));
    if (!items) return CUDA_ERROR_OUT_OF_MEMORY;
    t->items = items;
    for (size_t i = 0; i < more->count; i++) {
        if (!(items[t->count] = sim_work_clone(more->items[i]))) return CUDA_ERROR_OUT_OF_MEMORY;
        t->count++;
    }
    return CUDA_SUCCESS;
}

void sim_templates_clear(struct sim_templates *t)
{
    for (size_t i = 0; i < t->count; i++) sim_work_free(t->items[i]);
    free(t->items);
    *t = (struct sim_templates){ 0 };
}

/* --- nodes ----------------------------------------------------------------------------------------------- */

static void forget_deps(struct sim_graph_node *n)
{
    for (size_t i = 0; i < n->dep_count; i++) sim_object_unref(&n->deps[i]->object);
    free(n->deps);
    n->deps = NULL;
    n->dep_count = 0;
}

static void node_destroy(struct sim_object *o)
{
    struct sim_graph_node *n = (struct sim_graph_node *)o;
    forget_deps(n);
    sim_templates_clear(&n->works);
}

bool sim_node_depend(struct sim_graph_node *n, struct sim_graph_node *on)
{
    struct sim_graph_node **deps = realloc(n->deps, (n->dep_count + 1) * sizeof(struct sim_graph_node *));
    if (!deps) return false;
    n->deps = deps;
    deps[n->dep_count++] = on;
    sim_object_ref(&on->object);
    return true;
}

bool sim_node_depends(const struct sim_graph_node *n, const struct sim_graph_node *on)
{
    for (size_t i = 0; i < n->dep_count; i++)
        if (n->deps[i] == on) return true;
    return false;
}

bool sim_node_independ(struct sim_graph_node *n, struct sim_graph_node *on)
{
    for (size_t i = 0; i < n->dep_count; i++)
        if (n->deps[i] == on) {
            n->deps[i] = n->deps[--n->dep_count];
            sim_object_unref(&on->object);
            return true;
        }
    return false;
}

/* The graph has memory of its own, or frees another's. */
static void note_memory(struct sim_graph *g, CUgraphNodeType type, const struct sim_work *w)
{
    struct sim_block *b = w ? w->owned : NULL;
    if (!b) return;
    g->has_memory = true;
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) b->made_in = g->object.id;
    else if (b->made_in == g->object.id) b->freed_inside = true;
    else b->freed_outside = true;
}

CUresult sim_graph_memory_check_free(const struct sim_graph *g, const struct sim_block *b)
{
    bool own = b->made_in == g->object.id;
    return b->freed_inside || (own && b->freed_outside) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

struct sim_graph_node *sim_graph_add(struct sim_graph *g, CUgraphNodeType type, struct sim_work *work,
                                     struct sim_graph_node *const *deps, size_t count)
{
    struct sim_graph_node *n = sim_object_new(SIM_NODE, sizeof *n, node_destroy);
    if (!n) return NULL;
    bool complete = true;
    for (size_t i = 0; i < count && complete; i++) complete = sim_node_depend(n, deps[i]);
    if (complete && work) complete = (n->works.items = malloc(sizeof(struct sim_work *))) != NULL;
    if (!complete) {
        sim_object_close(&n->object);
        return NULL;
    }
    if (work) n->works.items[n->works.count++] = work;
    n->type = type;
    n->graph = g;
    note_memory(g, type, work);
    *g->tail = n;
    g->tail = &n->next;
    g->count++;
    return n;
}

void sim_node_remove(struct sim_graph_node *n)
{
    struct sim_graph *g = n->graph;
    struct sim_graph_node **link = &g->first;
    while (*link != n) link = &(*link)->next;
    *link = n->next;
    if (g->tail == &n->next) g->tail = link;
    g->count--;
    for (struct sim_graph_node *o = g->first; o; o = o->next)
        for (size_t i = 0; i < o->dep_count;)
            if (o->deps[i] == n) {
                o->deps[i] = o->deps[--o->dep_count];
                sim_object_unref(&n->object);
            } else {
                i++;
            }
    n->graph = NULL;
    sim_object_close(&n->object);
}

/* --- graphs ---------------------------------------------------------------------------------------------- */

struct sim_graph *sim_graph_new(void)
{
    struct sim_graph *g = sim_object_new(SIM_GRAPH, sizeof *g, NULL);
    if (g) g->tail = &g->first;
    return g;
}

void sim_graph_close(struct sim_graph *g)
{
    sim_user_objects_drop(g->object.id, NULL);
    /* the edges first: a circle of them would keep its nodes, a long chain would end by recursion */
    for (struct sim_graph_node *n = g->first; n; n = n->next) forget_deps(n);
    while (g->first) {
        struct sim_graph_node *n = g->first;
        g->first = n->next;
        n->graph = NULL;
        sim_object_close(&n->object);
    }
    sim_object_close(&g->object);
}

bool sim_graph_mark(struct sim_graph *g, struct sim_graph_node *const *nodes, size_t count)
{
    struct sim_graph_node **stack = malloc((g->count + 1) * sizeof(struct sim_graph_node *));
    size_t depth = 0;
    if (!stack) return false;
    for (struct sim_graph_node *n = g->first; n; n = n->next) n->mark = false;
    for (size_t i = 0; i < count; i++)
        if (!nodes[i]->mark) {
            nodes[i]->mark = true;
            stack[depth++] = nodes[i];
        }
    while (depth) {
        struct sim_graph_node *n = stack[--depth];
        for (size_t i = 0; i < n->dep_count; i++)
            if (!n->deps[i]->mark) {
                n->deps[i]->mark = true;
                stack[depth++] = n->deps[i];
            }
    }
    free(stack);
    return true;
}

static bool ready(const struct sim_graph_node *n)
{
    for (size_t i = 0; i < n->dep_count; i++)
        if (!n->deps[i]->mark) return false;
    return true;
}

CUresult sim_graph_flatten(struct sim_graph *g, struct sim_templates *ret_works)
{
    struct sim_templates works = { 0 };
    CUresult result = CUDA_SUCCESS;
    size_t left = g->count;
    for (struct sim_graph_node *n = g->first; n; n = n->next) n->mark = false;
    while (left && result == CUDA_SUCCESS) {
        size_t before = left;
        for (struct sim_graph_node *n = g->first; n && result == CUDA_SUCCESS; n = n->next) {
            if (n->mark || !ready(n)) continue;
            n->mark = true;
            left--;
            size_t first = works.count;
            result = sim_templates_append(&works, &n->works);
            for (size_t i = first; i < works.count; i++) works.items[i]->node = n->object.id;
        }
        if (left == before) result = CUDA_ERROR_INVALID_VALUE; /* a cycle */
    }
    if (result == CUDA_SUCCESS) *ret_works = works;
    else sim_templates_clear(&works);
    return result;
}

/* --- launch ---------------------------------------------------------------------------------------------- */

/* The stream's next piece is behind the launches so far. */
static CUresult follow_launches(const struct sim_exec *x, struct sim_stream *s, enum sim_fn fn)
{
    struct sim_work *w = sim_work_new(fn);
    if (!w) return CUDA_ERROR_OUT_OF_MEMORY;
    sim_deps_add_all(&w->deps, &x->launched);
    sim_points_join(&s->known, &x->launched_known);
    sim_stream_queue(s, w);
    return CUDA_SUCCESS;
}

static void note_launch(struct sim_exec *x, struct sim_stream *s)
{
    sim_deps_clear(&x->launched);
    sim_deps_add(&x->launched, s, s->submitted);
    sim_points_clear(&x->launched_known);
    sim_order_gather(&x->launched_known, s);
}

static bool left_by_launch(const struct sim_work *w)
{
    return w->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && w->u.block->promised;
}

/* Memory of an earlier launch that nothing submitted since frees: an error, or freed now, as the graph was made. */
static CUresult settle_earlier_launch(struct sim_exec *x, struct sim_stream *s, enum sim_fn fn)
{
    bool frees = (x->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
    for (size_t i = 0; i < x->works.count && !frees; i++)
        if (left_by_launch(x->works.items[i])) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = x->launched_known.count ? follow_launches(x, s, fn) : CUDA_SUCCESS;
    for (size_t i = 0; i < x->works.count && result == CUDA_SUCCESS; i++) {
        struct sim_work *w = x->works.items[i];
        if (!left_by_launch(w)) continue;
        struct sim_work *free_work = sim_graph_memory_free_work(w->u.block, fn);
        if (!free_work) return CUDA_ERROR_OUT_OF_MEMORY;
        w->u.block->promised = false;
        sim_stream_queue(s, free_work);
    }
    return result;
}

static CUresult capture_launch(struct sim_exec *x, struct sim_stream *s)
{
    struct sim_graph_node *n = sim_capture_node(s, CU_GRAPH_NODE_TYPE_GRAPH, NULL);
    return n ? sim_templates_append(&n->works, &x->works) : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

static bool is_event_node(const struct sim_work *w)
{
    return w->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD || w->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT;
}

CUresult sim_exec_launch(struct sim_exec *x, struct sim_stream *s, enum sim_fn fn)
{
    if (s->capture) return capture_launch(x, s);
    CUresult result = sim_capture_check_implicit(s);
    if (result == CUDA_SUCCESS) result = settle_earlier_launch(x, s, fn);
    for (size_t i = 0; i < x->works.count && result == CUDA_SUCCESS; i++) {
        if (x->works.items[i]->disabled) continue;
        if (is_event_node(x->works.items[i])) {
            result = sim_event_launch(x->works.items[i], s, fn);
            continue;
        }
        struct sim_work *w = sim_work_clone(x->works.items[i]);
        if (!w) {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        } else {
            if (w->owned) w->owned->promised = w->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
            sim_stream_queue(s, w);
        }
    }
    struct sim_work *end = result == CUDA_SUCCESS ? sim_work_new(fn) : NULL;
    if (end) sim_stream_queue(s, end);
    if (end) note_launch(x, s);
    return result;
}

CUresult sim_exec_upload(const struct sim_exec *x, struct sim_stream *s, enum sim_fn fn)
{
    if (s->capture) return CUDA_SUCCESS;
    CUresult result = sim_capture_check_implicit(s);
    return result == CUDA_SUCCESS ? follow_launches(x, s, fn) : result;
}

/* --- graph memory through the stream-ordered calls --------------------------------------------------------- */

CUresult sim_graph_capture_alloc(struct sim_stream *s, struct sim_device *d, uint64_t size, enum sim_fn fn,
                                 CUdeviceptr *dptr)
{
    struct sim_work *w;
    CUresult result = sim_graph_memory_new(d, size, fn, &w);
    if (result != CUDA_SUCCESS) return result;
    uint64_t address = w->u.block->range.start;
    if (!sim_capture_node(s, w->type, w)) {
        sim_work_free(w);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    *dptr = address;
    return CUDA_SUCCESS;
}

CUresult sim_graph_free_async(struct sim_stream *s, struct sim_block *b, enum sim_fn fn)
{
    CUresult allowed = s->capture     ? sim_graph_memory_check_free(sim_capture_graph(s), b)
                       : b->freed_inside ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (allowed != CUDA_SUCCESS) return allowed;
    struct sim_work *w = sim_graph_memory_free_work(b, fn);
    if (!w) return CUDA_ERROR_OUT_OF_MEMORY;
    if (!s->capture) {
        b->promised = false;
        return sim_stream_submit(s, w);
    }
    if (sim_capture_node(s, w->type, w)) return CUDA_SUCCESS;
    sim_work_free(w);
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult sim_graph_free_now(struct sim_block *b, enum sim_fn fn)
{
    if (b->state != SIM_LIVE || b->freed_inside) return CUDA_ERROR_INVALID_VALUE;
    sim_order_released(b);
    b->state = SIM_GONE_BLOCK;
    b->promised = false;
    settle(b, fn);
    return CUDA_SUCCESS;
}
