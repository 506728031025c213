/* What nodes were asked to do, in a graph and in an executable one, told and changed. */
#include "context.h"
#include "copy.h"
#include "event.h"
#include "graph_make.h"
#include "memop.h"
#include "state.h"

/* A node of a graph (no executable), or what was made of it in an executable graph. */
struct target {
    enum sim_fn fn;
    bool in_exec;
    CUgraphExec exec;
    CUgraphNode node;
};

#define OF_NODE(symbol) (&(struct target){ SIM_FN_##symbol, false, NULL, node })
#define OF_EXEC(symbol) (&(struct target){ SIM_FN_##symbol, true, exec, node })

static struct sim_graph_node *get_node(CUgraphNode h, CUgraphNodeType type)
{
    struct sim_graph_node *n = sim_object_find(h, SIM_NODE);
    return n && n->type == type ? n : NULL;
}

/* The works in an executable graph that were made of the node; they lie side by side. */
static struct sim_work **find_works(struct sim_exec *x, const struct sim_graph_node *n, size_t *ret_count)
{
    size_t first = 0, end;
    while (first < x->works.count && x->works.items[first]->node != n->object.id) first++;
    for (end = first; end < x->works.count && x->works.items[end]->node == n->object.id;) end++;
    *ret_count = end - first;
    return end > first ? &x->works.items[first] : NULL;
}

/* The works to be replaced, one for one. */
static struct sim_work **find_target(const struct target *t, CUgraphNodeType type, size_t *ret_count)
{
    struct sim_graph_node *n = get_node(t->node, type);
    struct sim_exec *x = t->in_exec ? sim_object_find(t->exec, SIM_EXEC) : NULL;
    if (!n || (t->in_exec && !x)) return NULL;
    if (t->in_exec) return find_works(x, n, ret_count);
    *ret_count = n->works.count;
    return n->works.items;
}

static void swap(struct sim_work **place, struct sim_work **with)
{
    struct sim_work *old = *place;
    (*with)->node = old->node;
    (*with)->disabled = old->disabled;
    *place = *with;
    *with = old;
}

/* Puts new works in the place of the old; `works` has the old ones then. The same kinds in the same order. */
static CUresult replace(const struct target *t, CUgraphNodeType type, struct sim_templates *works)
{
    size_t count = 0;
    struct sim_work **places = find_target(t, type, &count);
    bool fits = places && count == works->count;
    for (size_t i = 0; i < count && fits; i++) fits = places[i]->type == works->items[i]->type;
    for (size_t i = 0; i < count && fits; i++) swap(&places[i], &works->items[i]);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Takes the work over, if making it came to anything. */
static CUresult replace_one(const struct target *t, CUgraphNodeType type, struct sim_work *w, CUresult so_far)
{
    if (so_far != CUDA_SUCCESS) return so_far;
    CUresult result = replace(t, type, &(struct sim_templates){ &w, 1 });
    sim_work_free(w);
    return result;
}

/* --- by kind --------------------------------------------------------------------------------------------------------- */

static CUresult set_kernel(const struct target *t, const CUDA_KERNEL_NODE_PARAMS *p)
{
    struct sim_work *w = NULL;
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_make_kernel(p, t->fn, &w);
    result = replace_one(t, CU_GRAPH_NODE_TYPE_KERNEL, w, result);
    sim_unlock();
    return result;
}

static CUresult set_copy(const struct target *t, const CUDA_MEMCPY3D *p)
{
    struct sim_work *w = NULL;
    struct sim_copy copy;
    CUresult result = p ? sim_copy_describe(p, &copy) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS) return result;
    sim_lock();
    result = sim_make_copy(&copy, t->fn, &w);
    result = replace_one(t, CU_GRAPH_NODE_TYPE_MEMCPY, w, result);
    sim_unlock();
    return result;
}

static CUresult set_fill(const struct target *t, const CUDA_MEMSET_NODE_PARAMS *p)
{
    struct sim_work *w = NULL;
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    const struct sim_fill f = { p->dst, p->width, p->height, p->pitch, p->value, p->elementSize };
    sim_lock();
    CUresult result = sim_make_fill(&f, t->fn, &w);
    result = replace_one(t, CU_GRAPH_NODE_TYPE_MEMSET, w, result);
    sim_unlock();
    return result;
}

static CUresult set_host(const struct target *t, CUhostFn call, void *arg)
{
    struct sim_work *w = NULL;
    sim_lock();
    CUresult result = sim_make_host(call, arg, t->fn, &w);
    result = replace_one(t, CU_GRAPH_NODE_TYPE_HOST, w, result);
    sim_unlock();
    return result;
}

static CUresult set_event(const struct target *t, CUgraphNodeType type, CUevent event)
{
    sim_lock();
    struct sim_event *e = sim_object_find(event, SIM_EVENT);
    struct sim_work *w = e ? sim_event_node_work(e, type, t->fn) : NULL;
    CUresult result = !e ? CUDA_ERROR_INVALID_HANDLE : w ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    result = replace_one(t, type, w, result);
    sim_unlock();
    return result;
}

static CUresult set_batch(const struct target *t, const CUstreamBatchMemOpParams *ops, unsigned count, unsigned flags)
{
    struct sim_templates works = { 0 };
    sim_lock();
    CUresult result = sim_memop_make(ops, count, flags, SIM_MEMOP_V2, t->fn, &works);
    if (result == CUDA_SUCCESS) result = replace(t, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, &works);
    sim_templates_clear(&works);
    sim_unlock();
    return result;
}

static CUresult set_child(const struct target *t, CUgraph child)
{
    struct sim_templates works = { 0 };
    sim_lock();
    struct sim_graph *g = sim_object_find(child, SIM_GRAPH);
    CUresult result = g && !g->has_memory ? sim_graph_flatten(g, &works) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) result = replace(t, CU_GRAPH_NODE_TYPE_GRAPH, &works);
    sim_templates_clear(&works);
    sim_unlock();
    return result;
}

static CUresult set_any(const struct target *t, const CUgraphNodeParams *p)
{
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
        const CUDA_KERNEL_NODE_PARAMS_v3 *k = &p->kernel;
        return set_kernel(t, &(CUDA_KERNEL_NODE_PARAMS){ k->func, k->gridDimX, k->gridDimY, k->gridDimZ, k->blockDimX,
                                                         k->blockDimY, k->blockDimZ, k->sharedMemBytes, k->kernelParams,
                                                         k->extra, k->kern, k->ctx });
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: return set_copy(t, &p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        const CUDA_MEMSET_NODE_PARAMS_v2 *m = &p->memset;
        return set_fill(t, &(CUDA_MEMSET_NODE_PARAMS){ m->dst, m->pitch, m->value, m->elementSize, m->width, m->height });
    }
    case CU_GRAPH_NODE_TYPE_HOST: return set_host(t, p->host.fn, p->host.userData);
    case CU_GRAPH_NODE_TYPE_GRAPH: return t->in_exec ? set_child(t, p->graph.graph) : CUDA_ERROR_NOT_SUPPORTED;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return set_event(t, CU_GRAPH_NODE_TYPE_EVENT_RECORD, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return set_event(t, CU_GRAPH_NODE_TYPE_WAIT_EVENT, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return set_batch(t, p->memOp.paramArray, p->memOp.count, p->memOp.flags);
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* --- changing: entry points ------------------------------------------------------------------------------------------ */

#define SET_BOTH(stem, suffix, params_type, set)                                                                     \
    CUresult cuGraph##stem##suffix(CUgraphNode node, const params_type *p)                                           \
    {                                                                                                                \
        SIM_ENTER(cuGraph##stem##suffix);                                                                            \
        return set(OF_NODE(cuGraph##stem##suffix), p);                                                               \
    }                                                                                                                \
    CUresult cuGraphExec##stem##suffix(CUgraphExec exec, CUgraphNode node, const params_type *p SET_BOTH_CONTEXT)     \
    {                                                                                                                \
        SIM_ENTER(cuGraphExec##stem##suffix);                                                                        \
        SET_BOTH_IGNORE;                                                                                             \
        return set(OF_EXEC(cuGraphExec##stem##suffix), p);                                                           \
    }

static CUresult set_host_params(const struct target *t, const CUDA_HOST_NODE_PARAMS *p)
{
    return p ? set_host(t, p->fn, p->userData) : CUDA_ERROR_INVALID_VALUE;
}

#define SET_BOTH_CONTEXT
#define SET_BOTH_IGNORE (void)0
SET_BOTH(KernelNodeSetParams, _v2, CUDA_KERNEL_NODE_PARAMS, set_kernel)
SET_BOTH(HostNodeSetParams, , CUDA_HOST_NODE_PARAMS, set_host_params)
#undef SET_BOTH_CONTEXT
#undef SET_BOTH_IGNORE
#define SET_BOTH_CONTEXT , CUcontext context
#define SET_BOTH_IGNORE (void)context
SET_BOTH(MemcpyNodeSetParams, , CUDA_MEMCPY3D, set_copy)
SET_BOTH(MemsetNodeSetParams, , CUDA_MEMSET_NODE_PARAMS, set_fill)

CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    SIM_ENTER(cuGraphExecBatchMemOpNodeSetParams);
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    return set_batch(OF_EXEC(cuGraphExecBatchMemOpNodeSetParams), p->paramArray, p->count, p->flags);
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    SIM_ENTER(cuGraphExecChildGraphNodeSetParams);
    return set_child(OF_EXEC(cuGraphExecChildGraphNodeSetParams), child);
}

#define SET_EVENT(symbol, params, target, type)   \
    CUresult symbol params                        \
    {                                             \
        SIM_ENTER(symbol);                        \
        return set_event(target(symbol), type, event); \
    }

SET_EVENT(cuGraphEventRecordNodeSetEvent, (CUgraphNode node, CUevent event), OF_NODE, CU_GRAPH_NODE_TYPE_EVENT_RECORD)
SET_EVENT(cuGraphEventWaitNodeSetEvent, (CUgraphNode node, CUevent event), OF_NODE, CU_GRAPH_NODE_TYPE_WAIT_EVENT)
SET_EVENT(cuGraphExecEventRecordNodeSetEvent, (CUgraphExec exec, CUgraphNode node, CUevent event), OF_EXEC,
          CU_GRAPH_NODE_TYPE_EVENT_RECORD)
SET_EVENT(cuGraphExecEventWaitNodeSetEvent, (CUgraphExec exec, CUgraphNode node, CUevent event), OF_EXEC,
          CU_GRAPH_NODE_TYPE_WAIT_EVENT)

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *p)
{
    SIM_ENTER(cuGraphNodeSetParams);
    return set_any(OF_NODE(cuGraphNodeSetParams), p);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p)
{
    SIM_ENTER(cuGraphExecNodeSetParams);
    return set_any(OF_EXEC(cuGraphExecNodeSetParams), p);
}

/* --- telling: entry points ------------------------------------------------------------------------------------------- */

static struct sim_work *only_work(CUgraphNode node, CUgraphNodeType type)
{
    struct sim_graph_node *n = get_node(node, type);
    return n && n->works.count ? n->works.items[0] : NULL;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p)
{
    SIM_ENTER(cuGraphKernelNodeGetParams_v2);
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_work *w = only_work(node, CU_GRAPH_NODE_TYPE_KERNEL);
    CUresult result = w ? sim_tell_kernel(w, p) : CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    return result;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *p)
{
    SIM_ENTER(cuGraphMemcpyNodeGetParams);
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_work *w = only_work(node, CU_GRAPH_NODE_TYPE_MEMCPY);
    if (w) sim_tell_copy(w, p);
    sim_unlock();
    return w ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *p)
{
    SIM_ENTER(cuGraphMemsetNodeGetParams);
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_work *w = only_work(node, CU_GRAPH_NODE_TYPE_MEMSET);
    if (w) sim_tell_fill(w, p);
    sim_unlock();
    return w ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *p)
{
    SIM_ENTER(cuGraphHostNodeGetParams);
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_work *w = only_work(node, CU_GRAPH_NODE_TYPE_HOST);
    if (w) *p = (CUDA_HOST_NODE_PARAMS){ .fn = w->u.host.call, .userData = w->u.host.arg };
    sim_unlock();
    return w ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- nodes that an executable graph leaves out --------------------------------------------------------------------------- */

static bool may_be_disabled(CUgraphNodeType type)
{
    return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_MEMSET;
}

static struct sim_work *work_of(CUgraphExec exec, CUgraphNode node)
{
    struct sim_exec *x = sim_object_find(exec, SIM_EXEC);
    struct sim_graph_node *n = sim_object_find(node, SIM_NODE);
    size_t count;
    struct sim_work **works = x && n && may_be_disabled(n->type) ? find_works(x, n, &count) : NULL;
    return works ? works[0] : NULL;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled)
{
    SIM_ENTER(cuGraphNodeSetEnabled);
    sim_lock();
    struct sim_work *w = work_of(exec, node);
    if (w) w->disabled = !enabled;
    sim_unlock();
    return w ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int *enabled)
{
    SIM_ENTER(cuGraphNodeGetEnabled);
    if (!enabled) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_work *w = work_of(exec, node);
    if (w) *enabled = !w->disabled;
    sim_unlock();
    return w ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
