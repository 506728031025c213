/* The entry points of graphs. */
#include "block.h"
#include "capture.h"
#include "context.h"
#include "copy.h"
#include "device.h"
#include "graph.h"
#include "log.h"
#include "state.h"
#include "stream.h"

static struct sim_graph *get(CUgraph h)
{
    return sim_object_find(h, SIM_GRAPH);
}

static struct sim_graph_node *get_node(CUgraphNode h)
{
    return sim_object_find(h, SIM_NODE);
}

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    SIM_ENTER(cuGraphCreate);
    if (!graph || flags) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph *g = sim_graph_new();
    if (g) *graph = (CUgraph)g;
    sim_unlock();
    return g ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    SIM_ENTER(cuGraphDestroy);
    sim_lock();
    struct sim_graph *g = get(graph);
    if (g) sim_graph_close(g);
    sim_unlock();
    return g ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- nodes ------------------------------------------------------------------------------------------------- */

/* Takes the work over, whatever happens. Lock held. */
static CUresult add(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, CUgraphNodeType type,
                    struct sim_work *w)
{
    struct sim_graph *g = get(graph);
    CUresult result = node && g && (deps || !count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++)
        if (!get_node(deps[i])) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        struct sim_graph_node *n = sim_graph_add(g, type, w, (struct sim_graph_node *const *)deps, count);
        if (n) {
            *node = (CUgraphNode)n;
            return CUDA_SUCCESS;
        }
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_work_free(w);
    return result;
}

static CUresult add_plain(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, CUgraphNodeType type,
                          enum sim_fn fn)
{
    sim_lock();
    struct sim_work *w = type == CU_GRAPH_NODE_TYPE_EMPTY ? NULL : sim_work_new(fn);
    CUresult result = w || type == CU_GRAPH_NODE_TYPE_EMPTY ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (w) w->type = type;
    if (result == CUDA_SUCCESS) result = add(node, graph, deps, count, type, w);
    sim_unlock();
    return result;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count)
{
    SIM_ENTER(cuGraphAddEmptyNode);
    return add_plain(node, graph, deps, count, CU_GRAPH_NODE_TYPE_EMPTY, SIM_FN_cuGraphAddEmptyNode);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS *params)
{
    SIM_ENTER(cuGraphAddKernelNode_v2);
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    return add_plain(node, graph, deps, count, CU_GRAPH_NODE_TYPE_KERNEL, SIM_FN_cuGraphAddKernelNode_v2);
}

static CUresult add_box(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, struct sim_work *w,
                        CUresult named)
{
    if (named == CUDA_SUCCESS) return add(node, graph, deps, count, w->type, w);
    sim_work_free(w);
    return named;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                              const CUDA_MEMCPY3D *params, CUcontext ctx)
{
    SIM_ENTER(cuGraphAddMemcpyNode);
    (void)ctx;
    struct sim_copy copy;
    CUresult result = params ? sim_copy_describe(params, &copy) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS) return result;
    sim_lock();
    struct sim_work *w = sim_work_new(SIM_FN_cuGraphAddMemcpyNode);
    if (w) {
        w->type = CU_GRAPH_NODE_TYPE_MEMCPY;
        w->run = sim_run_copy;
        w->u.copy = copy;
        result = add_box(node, graph, deps, count, w, sim_copy_touch(w));
    } else {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return result;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx)
{
    SIM_ENTER(cuGraphAddMemsetNode);
    (void)ctx;
    if (!p || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4)) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_work *w = sim_work_new(SIM_FN_cuGraphAddMemsetNode);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (w) {
        w->type = CU_GRAPH_NODE_TYPE_MEMSET;
        w->run = sim_run_fill;
        w->u.fill = (struct sim_fill){ p->dst, p->width, p->height, p->pitch, p->value, p->elementSize };
        result = sim_work_touch_box(w, p->dst, p->width * p->elementSize, p->height, p->pitch, 1, 0);
        result = add_box(node, graph, deps, count, w, result);
    }
    sim_unlock();
    return result;
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                            const CUDA_HOST_NODE_PARAMS *params)
{
    SIM_ENTER(cuGraphAddHostNode);
    if (!params || !params->fn) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_work *w = sim_work_new(SIM_FN_cuGraphAddHostNode);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (w) {
        sim_work_call_host(w, params->fn, params->userData);
        result = add(node, graph, deps, count, w->type, w);
    }
    sim_unlock();
    return result;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    SIM_ENTER(cuGraphAddMemAllocNode);
    struct sim_work *w = NULL;
    struct sim_device *d = params ? sim_device_get(params->poolProps.location.id) : NULL;
    if (!d || !params->bytesize || params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_graph_memory_new(d, params->bytesize, SIM_FN_cuGraphAddMemAllocNode, &w);
    uint64_t address = result == CUDA_SUCCESS ? w->u.block->range.start : 0;
    if (result == CUDA_SUCCESS) result = add(node, graph, deps, count, w->type, w);
    if (result == CUDA_SUCCESS) params->dptr = address;
    sim_unlock();
    sim_log_call(SIM_FN_cuGraphAddMemAllocNode, result, result ? 0 : address, "size", params->bytesize,
                 NULL, 0);
    return result;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, CUdeviceptr dptr)
{
    SIM_ENTER(cuGraphAddMemFreeNode);
    sim_lock();
    struct sim_block *b = sim_block_at(dptr);
    CUresult result = b && b->kind == SIM_BLOCK_GRAPH ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    struct sim_work *w = result == CUDA_SUCCESS ? sim_graph_memory_free_work(b, SIM_FN_cuGraphAddMemFreeNode) : NULL;
    if (w) result = add(node, graph, deps, count, w->type, w);
    else if (result == CUDA_SUCCESS) result = CUDA_ERROR_OUT_OF_MEMORY;
    sim_unlock();
    sim_log_plain(SIM_FN_cuGraphAddMemFreeNode, result, dptr);
    return result;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, CUgraph child)
{
    SIM_ENTER(cuGraphAddChildGraphNode);
    struct sim_templates works = { 0 };
    sim_lock();
    struct sim_graph *c = get(child);
    CUresult result = c ? sim_graph_flatten(c, &works) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) result = add(node, graph, deps, count, CU_GRAPH_NODE_TYPE_GRAPH, NULL);
    if (result == CUDA_SUCCESS) get_node(*node)->works = works;
    else sim_templates_clear(&works);
    sim_unlock();
    return result;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    SIM_ENTER(cuGraphNodeGetType);
    if (!type) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph_node *n = get_node(node);
    if (n) *type = n->type;
    sim_unlock();
    return n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDestroyNode(CUgraphNode node)
{
    SIM_ENTER(cuGraphDestroyNode);
    sim_lock();
    struct sim_graph_node *n = get_node(node);
    bool removable = n && n->graph;
    if (removable) sim_node_remove(n);
    sim_unlock();
    return removable ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult add_dependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    sim_lock();
    CUresult result = get(graph) && (!count || (from && to)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
        struct sim_graph_node *before = get_node(from[i]), *after = get_node(to[i]);
        if (!before || !after) result = CUDA_ERROR_INVALID_VALUE;
        else if (!sim_node_depend(after, before)) result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return result;
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    SIM_ENTER(cuGraphAddDependencies);
    return add_dependencies(graph, from, to, count);
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *edges, size_t count)
{
    SIM_ENTER(cuGraphAddDependencies_v2);
    (void)edges;
    return add_dependencies(graph, from, to, count);
}

static CUresult list(CUgraph graph, CUgraphNode *nodes, size_t *count, bool roots_only)
{
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph *g = get(graph);
    size_t found = 0;
    for (struct sim_graph_node *n = g ? g->first : NULL; n; n = n->next) {
        if (roots_only && n->dep_count) continue;
        if (nodes && found < *count) nodes[found] = (CUgraphNode)n;
        found++;
    }
    if (g && nodes) /* what the caller asked for beyond the end reads as none */
        for (size_t i = found; i < *count; i++) nodes[i] = NULL;
    if (g && (!nodes || found < *count)) *count = found;
    sim_unlock();
    return g ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    SIM_ENTER(cuGraphGetNodes);
    return list(graph, nodes, count, false);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    SIM_ENTER(cuGraphGetRootNodes);
    return list(graph, nodes, count, true);
}
