/* A picture of a graph: its nodes by type and id, and its edges. */
#include "context.h"
#include "graph.h"
#include "state.h"

#include <stdio.h>

static const char *name_of(CUgraphNodeType type)
{
    switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY: return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET: return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST: return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH: return "GRAPH";
    case CU_GRAPH_NODE_TYPE_EMPTY: return "EMPTY";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return "WAIT_EVENT";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return "MEM_ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return "MEM_FREE";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return "BATCH_MEM_OP";
    default: return "OTHER";
    }
}

static void draw(FILE *f, const struct sim_graph *g)
{
    fprintf(f, "digraph dot {\n");
    for (const struct sim_graph_node *n = g->first; n; n = n->next)
        fprintf(f, "  \"node_%llu\" [label=\"%s\\n%llu\"];\n", (unsigned long long)n->object.id, name_of(n->type),
                (unsigned long long)n->object.id);
    for (const struct sim_graph_node *n = g->first; n; n = n->next)
        for (size_t i = 0; i < n->dep_count; i++)
            fprintf(f, "  \"node_%llu\" -> \"node_%llu\";\n", (unsigned long long)n->deps[i]->object.id,
                    (unsigned long long)n->object.id);
    fprintf(f, "}\n");
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags)
{
    SIM_ENTER(cuGraphDebugDotPrint);
    (void)flags; /* more detail than there is */
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph *g = sim_object_find(graph, SIM_GRAPH);
    FILE *f = g ? fopen(path, "we") : NULL;
    CUresult result = !g ? CUDA_ERROR_INVALID_VALUE : f ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
    if (f) draw(f, g);
    if (f && fclose(f) != 0) result = CUDA_ERROR_OPERATING_SYSTEM;
    sim_unlock();
    return result;
}
