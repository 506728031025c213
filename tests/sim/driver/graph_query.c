/* What graphs answer about themselves, their edges, and copies of them. */
#include "block.h"
#include "device.h"
#include "graph.h"
#include "state.h"
#include "user_object.h"

#include <string.h>

static struct sim_graph *get(CUgraph h)
{
    return sim_object_find(h, SIM_GRAPH);
}

static struct sim_graph_node *get_node(CUgraphNode h)
{
    return sim_object_find(h, SIM_NODE);
}

/* --- edges: all are plain ones --------------------------------------------------------------------------------- */

/* Two lists of nodes that a caller may have given room for; counts what there is. */
struct list {
    CUgraphNode *first, *second;
    CUgraphEdgeData *edges;
    size_t room, count;
};

static void put(struct list *l, struct sim_graph_node *first, struct sim_graph_node *second)
{
    if (l->count < l->room) {
        if (l->first) l->first[l->count] = (CUgraphNode)first;
        if (l->second) l->second[l->count] = (CUgraphNode)second;
        if (l->edges) memset(&l->edges[l->count], 0, sizeof *l->edges);
    }
    l->count++;
}

/* Without room the number alone is wanted; room beyond the end reads as none. */
static void end_list(const struct list *l, size_t *count)
{
    for (size_t i = l->count; i < l->room; i++) {
        if (l->first) l->first[i] = NULL;
        if (l->second) l->second[i] = NULL;
    }
    if (!l->room || l->count < l->room) *count = l->count;
}

static CUresult get_edges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t *count)
{
    if (!count || !from != !to) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph *g = get(graph);
    struct list l = { from, to, edges, from ? *count : 0, 0 };
    for (struct sim_graph_node *n = g ? g->first : NULL; n; n = n->next)
        for (size_t i = 0; i < n->dep_count; i++) put(&l, n->deps[i], n);
    if (g) end_list(&l, count);
    sim_unlock();
    return g ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    SIM_ENTER(cuGraphGetEdges);
    return get_edges(graph, from, to, NULL, count);
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t *count)
{
    SIM_ENTER(cuGraphGetEdges_v2);
    return get_edges(graph, from, to, edges, count);
}

static CUresult get_dependencies(CUgraphNode node, CUgraphNode *deps, CUgraphEdgeData *edges, size_t *count)
{
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph_node *n = get_node(node);
    struct list l = { deps, NULL, edges, deps ? *count : 0, 0 };
    for (size_t i = 0; n && i < n->dep_count; i++) put(&l, n->deps[i], NULL);
    if (n) end_list(&l, count);
    sim_unlock();
    return n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *deps, size_t *count)
{
    SIM_ENTER(cuGraphNodeGetDependencies);
    return get_dependencies(node, deps, NULL, count);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *deps, CUgraphEdgeData *edges, size_t *count)
{
    SIM_ENTER(cuGraphNodeGetDependencies_v2);
    return get_dependencies(node, deps, edges, count);
}

static CUresult get_dependents(CUgraphNode node, CUgraphNode *dependents, CUgraphEdgeData *edges, size_t *count)
{
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph_node *n = get_node(node);
    struct list l = { dependents, NULL, edges, dependents ? *count : 0, 0 };
    for (struct sim_graph_node *o = n && n->graph ? n->graph->first : NULL; o; o = o->next)
        for (size_t i = 0; i < o->dep_count; i++)
            if (o->deps[i] == n) put(&l, o, NULL);
    if (n) end_list(&l, count);
    sim_unlock();
    return n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *dependents, size_t *count)
{
    SIM_ENTER(cuGraphNodeGetDependentNodes);
    return get_dependents(node, dependents, NULL, count);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *dependents, CUgraphEdgeData *edges, size_t *count)
{
    SIM_ENTER(cuGraphNodeGetDependentNodes_v2);
    return get_dependents(node, dependents, edges, count);
}

static CUresult remove_dependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    sim_lock();
    struct sim_graph *g = get(graph);
    CUresult result = g && (!count || (from && to)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (g && g->has_memory) result = CUDA_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
        struct sim_graph_node *before = get_node(from[i]), *after = get_node(to[i]);
        if (!before || !after || !sim_node_independ(after, before)) result = CUDA_ERROR_INVALID_VALUE;
    }
    sim_unlock();
    return result;
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    SIM_ENTER(cuGraphRemoveDependencies);
    return remove_dependencies(graph, from, to, count);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *edges, size_t count)
{
    SIM_ENTER(cuGraphRemoveDependencies_v2);
    (void)edges;
    return remove_dependencies(graph, from, to, count);
}

/* --- copies ---------------------------------------------------------------------------------------------------------- */

static struct sim_graph_node *clone_of(struct sim_graph *clone, const struct sim_graph_node *original)
{
    for (struct sim_graph_node *n = clone->first; n; n = n->next)
        if (n->clone_of == original->object.id) return n;
    return NULL;
}

static CUresult copy_nodes(struct sim_graph *to, const struct sim_graph *from)
{
    CUresult result = CUDA_SUCCESS;
    for (const struct sim_graph_node *n = from->first; n && result == CUDA_SUCCESS; n = n->next) {
        struct sim_graph_node *copy = sim_graph_add(to, n->type, NULL, NULL, 0);
        result = copy ? sim_templates_append(&copy->works, &n->works) : CUDA_ERROR_OUT_OF_MEMORY;
        if (copy) copy->clone_of = n->object.id;
    }
    for (const struct sim_graph_node *n = from->first; n && result == CUDA_SUCCESS; n = n->next)
        for (size_t i = 0; i < n->dep_count; i++)
            if (!sim_node_depend(clone_of(to, n), clone_of(to, n->deps[i]))) result = CUDA_ERROR_OUT_OF_MEMORY;
    return result;
}

CUresult cuGraphClone(CUgraph *clone, CUgraph original)
{
    SIM_ENTER(cuGraphClone);
    if (!clone) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph *from = get(original);
    CUresult result = !from ? CUDA_ERROR_INVALID_VALUE : from->has_memory ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
    struct sim_graph *to = result == CUDA_SUCCESS ? sim_graph_new() : NULL;
    if (result == CUDA_SUCCESS) result = to ? copy_nodes(to, from) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) sim_user_objects_copy(from->object.id, to->object.id);
    if (result == CUDA_SUCCESS) *clone = (CUgraph)to;
    else if (to) sim_graph_close(to);
    sim_unlock();
    return result;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *node, CUgraphNode original, CUgraph clone)
{
    SIM_ENTER(cuGraphNodeFindInClone);
    if (!node) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph *g = get(clone);
    struct sim_graph_node *n = get_node(original), *found = g && n ? clone_of(g, n) : NULL;
    if (found) *node = (CUgraphNode)found;
    sim_unlock();
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- event nodes ----------------------------------------------------------------------------------------------------------- */

static CUresult event_of(CUgraphNode node, CUgraphNodeType type, CUevent *ret_event)
{
    if (!ret_event) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph_node *n = get_node(node);
    bool fits = n && n->type == type && n->works.count;
    if (fits) *ret_event = (CUevent)n->works.items[0]->u.mark.event;
    sim_unlock();
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event)
{
    SIM_ENTER(cuGraphEventRecordNodeGetEvent);
    return event_of(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event)
{
    SIM_ENTER(cuGraphEventWaitNodeGetEvent);
    return event_of(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

/* --- memory nodes ------------------------------------------------------------------------------------------------------ */

static struct sim_block *block_of(CUgraphNode node, CUgraphNodeType type)
{
    struct sim_graph_node *n = get_node(node);
    return n && n->type == type && n->works.count ? n->works.items[0]->u.block : NULL;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    SIM_ENTER(cuGraphMemAllocNodeGetParams);
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_block *b = block_of(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    if (b) {
        *params = (CUDA_MEM_ALLOC_NODE_PARAMS){ .bytesize = b->size, .dptr = b->range.start };
        params->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        params->poolProps.location = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = b->device->ordinal };
    }
    sim_unlock();
    return b ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *ptr)
{
    SIM_ENTER(cuGraphMemFreeNodeGetParams);
    if (!ptr) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_block *b = block_of(node, CU_GRAPH_NODE_TYPE_MEM_FREE);
    if (b) *ptr = b->range.start;
    sim_unlock();
    return b ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
