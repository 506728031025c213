/* Adding nodes to a graph, by kind and by cuGraphAddNode. */
#include "block.h"
#include "context.h"
#include "copy.h"
#include "device.h"
#include "event.h"
#include "graph_make.h"
#include "log.h"
#include "memop.h"
#include "state.h"

/* The arguments that every one of these calls begins with. */
struct spot {
    enum sim_fn fn;
    CUgraphNode *node;
    CUgraph graph;
    const CUgraphNode *deps;
    size_t count;
};

#define SPOT(symbol) (&(struct spot){ SIM_FN_##symbol, node, graph, deps, count })

static struct sim_graph_node *get_node(CUgraphNode h)
{
    return sim_object_find(h, SIM_NODE);
}

/* Takes the work over, whatever happens: `so_far` is what making it came to. Lock held. */
static CUresult add(const struct spot *at, CUgraphNodeType type, struct sim_work *w, CUresult so_far)
{
    struct sim_graph *g = sim_object_find(at->graph, SIM_GRAPH);
    CUresult result = so_far;
    if (result == CUDA_SUCCESS && (!at->node || !g || (!at->deps && at->count))) result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; result == CUDA_SUCCESS && i < at->count; i++)
        if (!get_node(at->deps[i])) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        struct sim_graph_node *n = sim_graph_add(g, type, w, (struct sim_graph_node *const *)at->deps, at->count);
        if (n) {
            *at->node = (CUgraphNode)n;
            return CUDA_SUCCESS;
        }
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_work_free(w);
    return result;
}

static CUresult add_empty(const struct spot *at)
{
    sim_lock();
    CUresult result = add(at, CU_GRAPH_NODE_TYPE_EMPTY, NULL, CUDA_SUCCESS);
    sim_unlock();
    return result;
}

static CUresult add_kernel(const struct spot *at, const CUDA_KERNEL_NODE_PARAMS *p)
{
    struct sim_work *w = NULL;
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_make_kernel(p, at->fn, &w);
    result = add(at, CU_GRAPH_NODE_TYPE_KERNEL, w, result);
    sim_unlock();
    return result;
}

static CUresult add_copy(const struct spot *at, const CUDA_MEMCPY3D *params)
{
    struct sim_work *w = NULL;
    struct sim_copy copy;
    CUresult result = params ? sim_copy_describe(params, &copy) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS) return result;
    sim_lock();
    result = sim_make_copy(&copy, at->fn, &w);
    result = add(at, CU_GRAPH_NODE_TYPE_MEMCPY, w, result);
    sim_unlock();
    return result;
}

static CUresult add_fill(const struct spot *at, const struct sim_fill *f)
{
    struct sim_work *w = NULL;
    sim_lock();
    CUresult result = sim_make_fill(f, at->fn, &w);
    result = add(at, CU_GRAPH_NODE_TYPE_MEMSET, w, result);
    sim_unlock();
    return result;
}

static CUresult add_host(const struct spot *at, CUhostFn call, void *arg)
{
    struct sim_work *w = NULL;
    sim_lock();
    CUresult result = sim_make_host(call, arg, at->fn, &w);
    result = add(at, CU_GRAPH_NODE_TYPE_HOST, w, result);
    sim_unlock();
    return result;
}

static CUresult add_child(const struct spot *at, CUgraph child)
{
    struct sim_templates works = { 0 };
    sim_lock();
    struct sim_graph *c = sim_object_find(child, SIM_GRAPH);
    CUresult result = !c ? CUDA_ERROR_INVALID_VALUE : c->has_memory ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) result = sim_graph_flatten(c, &works);
    result = add(at, CU_GRAPH_NODE_TYPE_GRAPH, NULL, result);
    if (result == CUDA_SUCCESS) get_node(*at->node)->works = works;
    else sim_templates_clear(&works);
    sim_unlock();
    return result;
}

static CUresult add_batch(const struct spot *at, const CUstreamBatchMemOpParams *ops, unsigned count, unsigned flags)
{
    struct sim_templates works = { 0 };
    sim_lock();
    CUresult result = sim_memop_make(ops, count, flags, SIM_MEMOP_V2, at->fn, &works);
    result = add(at, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, NULL, result);
    if (result == CUDA_SUCCESS) get_node(*at->node)->works = works;
    else sim_templates_clear(&works);
    sim_unlock();
    return result;
}

static CUresult add_event(const struct spot *at, CUgraphNodeType type, CUevent event)
{
    sim_lock();
    struct sim_event *e = sim_object_find(event, SIM_EVENT);
    struct sim_work *w = e ? sim_event_node_work(e, type, at->fn) : NULL;
    CUresult result = !e ? CUDA_ERROR_INVALID_HANDLE : w ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    result = add(at, type, w, result);
    sim_unlock();
    return result;
}

static CUresult add_alloc(const struct spot *at, const CUmemPoolProps *props, size_t bytes, CUdeviceptr *ret_dptr)
{
    struct sim_work *w = NULL;
    uint64_t address = 0;
    struct sim_device *d = sim_device_get(props->location.id);
    if (!d || !bytes || props->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return sim_log_refused(at->fn, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    CUresult result = sim_graph_memory_new(d, bytes, at->fn, &w);
    if (w) address = w->u.block->range.start;
    result = add(at, CU_GRAPH_NODE_TYPE_MEM_ALLOC, w, result);
    sim_unlock();
    if (result == CUDA_SUCCESS) *ret_dptr = address;
    sim_log_call(at->fn, result, result ? 0 : address, "size", bytes, NULL, 0);
    return result;
}

static CUresult add_free(const struct spot *at, CUdeviceptr dptr)
{
    sim_lock();
    struct sim_block *b = sim_block_at(dptr);
    struct sim_graph *g = sim_object_find(at->graph, SIM_GRAPH);
    CUresult result = b && b->kind == SIM_BLOCK_GRAPH && g ? sim_graph_memory_check_free(g, b) : CUDA_ERROR_INVALID_VALUE;
    struct sim_work *w = result == CUDA_SUCCESS ? sim_graph_memory_free_work(b, at->fn) : NULL;
    if (result == CUDA_SUCCESS && !w) result = CUDA_ERROR_OUT_OF_MEMORY;
    result = add(at, CU_GRAPH_NODE_TYPE_MEM_FREE, w, result);
    sim_unlock();
    sim_log_plain(at->fn, result, dptr);
    return result;
}

/* --- entry points by kind ------------------------------------------------------------------------------------------ */

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count)
{
    SIM_ENTER(cuGraphAddEmptyNode);
    return add_empty(SPOT(cuGraphAddEmptyNode));
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS *params)
{
    SIM_ENTER(cuGraphAddKernelNode_v2);
    return add_kernel(SPOT(cuGraphAddKernelNode_v2), params);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                              const CUDA_MEMCPY3D *params, CUcontext ctx)
{
    SIM_ENTER(cuGraphAddMemcpyNode);
    (void)ctx;
    return add_copy(SPOT(cuGraphAddMemcpyNode), params);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx)
{
    SIM_ENTER(cuGraphAddMemsetNode);
    (void)ctx;
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    const struct sim_fill f = { p->dst, p->width, p->height, p->pitch, p->value, p->elementSize };
    return add_fill(SPOT(cuGraphAddMemsetNode), &f);
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                            const CUDA_HOST_NODE_PARAMS *p)
{
    SIM_ENTER(cuGraphAddHostNode);
    return p ? add_host(SPOT(cuGraphAddHostNode), p->fn, p->userData) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, CUgraph child)
{
    SIM_ENTER(cuGraphAddChildGraphNode);
    return add_child(SPOT(cuGraphAddChildGraphNode), child);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
    SIM_ENTER(cuGraphAddMemAllocNode);
    return p ? add_alloc(SPOT(cuGraphAddMemAllocNode), &p->poolProps, p->bytesize, &p->dptr) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, CUdeviceptr dptr)
{
    SIM_ENTER(cuGraphAddMemFreeNode);
    return add_free(SPOT(cuGraphAddMemFreeNode), dptr);
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    SIM_ENTER(cuGraphAddBatchMemOpNode);
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    return add_batch(SPOT(cuGraphAddBatchMemOpNode), p->paramArray, p->count, p->flags);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, CUevent event)
{
    SIM_ENTER(cuGraphAddEventRecordNode);
    return add_event(SPOT(cuGraphAddEventRecordNode), CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, CUevent event)
{
    SIM_ENTER(cuGraphAddEventWaitNode);
    return add_event(SPOT(cuGraphAddEventWaitNode), CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

/* --- entry points for any kind --------------------------------------------------------------------------------------- */

static CUresult add_any(const struct spot *at, CUgraphNodeParams *p)
{
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_EMPTY: return add_empty(at);
    case CU_GRAPH_NODE_TYPE_KERNEL: {
        const CUDA_KERNEL_NODE_PARAMS_v3 *k = &p->kernel;
        return add_kernel(at, &(CUDA_KERNEL_NODE_PARAMS){ k->func, k->gridDimX, k->gridDimY, k->gridDimZ, k->blockDimX,
                                                          k->blockDimY, k->blockDimZ, k->sharedMemBytes, k->kernelParams,
                                                          k->extra, k->kern, k->ctx });
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: return add_copy(at, &p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        const CUDA_MEMSET_NODE_PARAMS_v2 *m = &p->memset;
        const struct sim_fill f = { m->dst, m->width, m->height, m->pitch, m->value, m->elementSize };
        return add_fill(at, &f);
    }
    case CU_GRAPH_NODE_TYPE_HOST: return add_host(at, p->host.fn, p->host.userData);
    case CU_GRAPH_NODE_TYPE_GRAPH: return add_child(at, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return add_event(at, CU_GRAPH_NODE_TYPE_EVENT_RECORD, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return add_event(at, CU_GRAPH_NODE_TYPE_WAIT_EVENT, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return add_alloc(at, &p->alloc.poolProps, p->alloc.bytesize, &p->alloc.dptr);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return add_free(at, p->free.dptr);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return add_batch(at, p->memOp.paramArray, p->memOp.count, p->memOp.flags);
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, CUgraphNodeParams *params)
{
    SIM_ENTER(cuGraphAddNode);
    return add_any(SPOT(cuGraphAddNode), params);
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges,
                           size_t count, CUgraphNodeParams *params)
{
    SIM_ENTER(cuGraphAddNode_v2);
    (void)edges;
    return add_any(SPOT(cuGraphAddNode_v2), params);
}
