#include "address.h"
#include "state.h"

#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo), "one struct, two names");
_Static_assert(sizeof(struct cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS), "one struct, two names");

cudaError_t cudaGraphCreate(cudaGraph_t *pGraph, unsigned int flags)
{
    return RT_CALL(DRV(cuGraphCreate, 10000), pGraph, flags);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    return RT_CALL(DRV(cuGraphDestroy, 10000), graph);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)
{
    return RT_CALL(DRV(cuGraphInstantiateWithFlags, 11040), pGraphExec, graph, flags);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)
{
    return RT_CALL(DRV(cuGraphInstantiateWithFlags, 11040), pGraphExec, graph, flags);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec)
{
    return RT_CALL(DRV(cuGraphExecDestroy, 10000), graphExec);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
                                cudaGraphExecUpdateResultInfo *resultInfo)
{
    return RT_CALL(DRV(cuGraphExecUpdate, 12000), hGraphExec, hGraph,
                   (CUgraphExecUpdateResultInfo *)(void *)resultInfo);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes)
{
    return RT_CALL(DRV(cuGraphGetNodes, 10000), graph, nodes, numNodes);
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
                                  size_t numDependencies)
{
    return RT_CALL(DRV(cuGraphAddEmptyNode, 10000), pGraphNode, graph, pDependencies, numDependencies);
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                     const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                     struct cudaMemAllocNodeParams *nodeParams)
{
    return RT_CALL(DRV(cuGraphAddMemAllocNode, 11040), pGraphNode, graph, pDependencies, numDependencies,
                   (CUDA_MEM_ALLOC_NODE_PARAMS *)(void *)nodeParams);
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                    const cudaGraphNode_t *pDependencies, size_t numDependencies, void *dptr)
{
    return RT_CALL(DRV(cuGraphAddMemFreeNode, 11040), pGraphNode, graph, pDependencies, numDependencies,
                   rt_address(dptr));
}

cudaError_t cudaDeviceGraphMemTrim(int device)
{
    return RT_CALL_NO_CONTEXT(DRV(cuDeviceGraphMemTrim, 11040), device);
}
