/* Memory that graphs allocate by nodes of their own. Its address is known when the node is added; freeing it through
 * cuMemFree or cuMemFreeAsync is as good as through another node. */
#include "hook.h"
#include "serve.h"

static void added(enum nxm_mode mode, enum nxm_api own, CUdeviceptr address, size_t bytes, const CUmemPoolProps *properties)
{
    bool on_device = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    struct nxm_block block = { .address = address, .bytes = bytes, .class_ = NXM_CLASS_GRAPH,
                               .device = on_device ? properties->location.id : -1 };

    if (mode != NXM_MODE_SERVE || address == 0)
        return;
    block.api = (uint16_t)nxm_label_take(own, 0);
    nxm_record(nxm_table(NXM_TABLE_MEMORY), &block);
}

/* From here on it is the graph that frees it. */
static void freed(enum nxm_mode mode, CUdeviceptr address)
{
    struct nxm_block block;

    if (mode != NXM_MODE_SERVE || nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &block) != NXM_OK || block.allocator)
        return;
    nxm_record_free_begin(nxm_table(NXM_TABLE_MEMORY), address, &block);
    nxm_record_free_end(nxm_table(NXM_TABLE_MEMORY), &block, true);
}

CUresult hook_cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                     CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
    NXM_NEEDS(cuGraphAddMemAllocNode);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, true);
    CUresult result = nxm_real.cuGraphAddMemAllocNode(node, graph, dependencies, count, parameters);

    if (result == CUDA_SUCCESS)
        added(mode, NXM_API_cuGraphAddMemAllocNode, parameters->dptr, parameters->bytesize, &parameters->poolProps);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                    CUdeviceptr address)
{
    NXM_NEEDS(cuGraphAddMemFreeNode);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    CUresult result = nxm_real.cuGraphAddMemFreeNode(node, graph, dependencies, count, address);

    if (result == CUDA_SUCCESS)
        freed(mode, address);
    nxm_leave(mode);
    return result;
}

static bool allocates(const CUgraphNodeParams *parameters)
{
    return parameters && parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
}

static CUresult node_added(enum nxm_mode mode, enum nxm_api own, const CUgraphNodeParams *parameters, CUresult result)
{
    if (result == CUDA_SUCCESS && allocates(parameters))
        added(mode, own, parameters->alloc.dptr, parameters->alloc.bytesize, &parameters->alloc.poolProps);
    else if (result == CUDA_SUCCESS && parameters->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        freed(mode, parameters->free.dptr);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                             CUgraphNodeParams *parameters)
{
    NXM_NEEDS(cuGraphAddNode);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, allocates(parameters));

    return node_added(mode, NXM_API_cuGraphAddNode, parameters,
                      nxm_real.cuGraphAddNode(node, graph, dependencies, count, parameters));
}

CUresult hook_cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *parameters)
{
    NXM_NEEDS(cuGraphAddNode_v2);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, allocates(parameters));

    return node_added(mode, NXM_API_cuGraphAddNode_v2, parameters,
                      nxm_real.cuGraphAddNode_v2(node, graph, dependencies, edges, count, parameters));
}
