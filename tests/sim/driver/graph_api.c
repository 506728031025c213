/* The entry points of graphs. */
#include "context.h"
#include "graph.h"
#include "state.h"

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

/* --- nodes: adding them is graph_node.c ------------------------------------------------------------------------- */

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
    CUresult result = !n || !n->graph ? CUDA_ERROR_INVALID_VALUE
                      : n->graph->has_memory ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) sim_node_remove(n);
    sim_unlock();
    return result;
}

static CUresult add_dependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    sim_lock();
    CUresult result = get(graph) && (!count || (from && to)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
        struct sim_graph_node *before = get_node(from[i]), *after = get_node(to[i]);
        if (!before || !after || before == after || sim_node_depends(after, before)) result = CUDA_ERROR_INVALID_VALUE;
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
