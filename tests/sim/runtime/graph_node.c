/* The nodes of graphs: made by kind, asked about, destroyed. Nodes that copy or fill carry the context that is current when
 * they are made. */
#include "address.h"
#include "box.h"
#include "registry.h"

#include <string.h>

_Static_assert(sizeof(struct cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS), "one struct, two names");
_Static_assert(sizeof(struct cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS), "one struct, two names");
_Static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData), "one struct, two names");
_Static_assert(sizeof(struct cudaGraphNodeParams) == sizeof(CUgraphNodeParams), "one union, two names");

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

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, struct cudaMemAllocNodeParams *params_out)
{
    return RT_CALL(DRV(cuGraphMemAllocNodeGetParams, 11040), node, (CUDA_MEM_ALLOC_NODE_PARAMS *)(void *)params_out);
}

cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *dptr_out)
{
    return RT_CALL(DRV(cuGraphMemFreeNodeGetParams, 11040), node, (CUdeviceptr *)dptr_out);
}

static cudaError_t here(CUcontext *ret_context)
{
    return rt_error(DRV(cuCtxGetCurrent, 4000)(ret_context));
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
                                   size_t numDependencies, const struct cudaMemcpy3DParms *pCopyParams)
{
    CUDA_MEMCPY3D copy;
    CUcontext context;
    cudaError_t error = rt_enter();

    if (!error)
        error = rt_box_describe(pCopyParams, &copy);
    if (!error)
        error = here(&context);
    if (!error)
        error = rt_error(DRV(cuGraphAddMemcpyNode, 10000)(pGraphNode, graph, pDependencies, numDependencies, &copy,
                                                          context));
    return rt_record(error);
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                     const cudaGraphNode_t *pDependencies, size_t numDependencies, void *dst,
                                     const void *src, size_t count, enum cudaMemcpyKind kind)
{
    struct cudaMemcpy3DParms line = {
        .srcPtr = {(void *)(uintptr_t)src, count, count, 1},
        .dstPtr = {dst, count, count, 1},
        .extent = {count, 1, 1},
        .kind = kind,
    };

    return cudaGraphAddMemcpyNode(pGraphNode, graph, pDependencies, numDependencies, &line);
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
                                   size_t numDependencies, const struct cudaMemsetParams *pMemsetParams)
{
    CUDA_MEMSET_NODE_PARAMS fill;
    CUcontext context;
    cudaError_t error = rt_enter();

    if (!error && !pMemsetParams)
        error = cudaErrorInvalidValue;
    if (!error)
        error = here(&context);
    if (error)
        return rt_record(error);
    fill = (CUDA_MEMSET_NODE_PARAMS){.dst = rt_address(pMemsetParams->dst),
                                     .pitch = pMemsetParams->pitch,
                                     .value = pMemsetParams->value,
                                     .elementSize = pMemsetParams->elementSize,
                                     .width = pMemsetParams->width,
                                     .height = pMemsetParams->height};
    return rt_record(rt_error(
        DRV(cuGraphAddMemsetNode, 10000)(pGraphNode, graph, pDependencies, numDependencies, &fill, context)));
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
                                 size_t numDependencies, const struct cudaHostNodeParams *pNodeParams)
{
    return RT_CALL(DRV(cuGraphAddHostNode, 10000), pGraphNode, graph, pDependencies, numDependencies,
                   (const CUDA_HOST_NODE_PARAMS *)(const void *)pNodeParams);
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
                                   size_t numDependencies, const struct cudaKernelNodeParams *p)
{
    CUDA_KERNEL_NODE_PARAMS native;
    CUkernel kernel;
    cudaError_t error = rt_enter();

    if (!error && !p)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_kernel_find(p->func, &kernel);
    if (error)
        return rt_record(error);
    native = (CUDA_KERNEL_NODE_PARAMS){.func = (CUfunction)kernel, /* as a launch does */
                                       .gridDimX = p->gridDim.x,
                                       .gridDimY = p->gridDim.y,
                                       .gridDimZ = p->gridDim.z,
                                       .blockDimX = p->blockDim.x,
                                       .blockDimY = p->blockDim.y,
                                       .blockDimZ = p->blockDim.z,
                                       .sharedMemBytes = p->sharedMemBytes,
                                       .kernelParams = p->kernelParams,
                                       .extra = p->extra};
    return rt_record(rt_error(
        DRV(cuGraphAddKernelNode, 12000)(pGraphNode, graph, pDependencies, numDependencies, &native)));
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                       const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                       cudaGraph_t childGraph)
{
    return RT_CALL(DRV(cuGraphAddChildGraphNode, 10000), pGraphNode, graph, pDependencies, numDependencies, childGraph);
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                        const cudaGraphNode_t *pDependencies, size_t numDependencies, cudaEvent_t event)
{
    return RT_CALL(DRV(cuGraphAddEventRecordNode, 11010), pGraphNode, graph, pDependencies, numDependencies, event);
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                      const cudaGraphNode_t *pDependencies, size_t numDependencies, cudaEvent_t event)
{
    return RT_CALL(DRV(cuGraphAddEventWaitNode, 11010), pGraphNode, graph, pDependencies, numDependencies, event);
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *pType)
{
    return RT_CALL(DRV(cuGraphNodeGetType, 10000), node, (CUgraphNodeType *)(void *)pType);
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *pRootNodes, size_t *pNumRootNodes)
{
    return RT_CALL(DRV(cuGraphGetRootNodes, 10000), graph, pRootNodes, pNumRootNodes);
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node)
{
    return RT_CALL(DRV(cuGraphDestroyNode, 10000), node);
}

#if SIM_CUDART_VERSION >= 13000 /* under these names CUDA 12 has no data on edges */
static const CUgraphEdgeData *native_edges(const cudaGraphEdgeData *edges)
{
    return (const CUgraphEdgeData *)(const void *)edges;
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                     const cudaGraphEdgeData *edgeData, size_t numDependencies)
{
    return RT_CALL(DRV(cuGraphAddDependencies, 12030), graph, from, to, native_edges(edgeData), numDependencies);
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                              cudaGraphEdgeData *edgeData, size_t *numEdges)
{
    return RT_CALL(DRV(cuGraphGetEdges, 12030), graph, from, to, (CUgraphEdgeData *)(void *)edgeData, numEdges);
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *pDependencies,
                                         cudaGraphEdgeData *edgeData, size_t *pNumDependencies)
{
    return RT_CALL(DRV(cuGraphNodeGetDependencies, 12030), node, pDependencies, (CUgraphEdgeData *)(void *)edgeData,
                   pNumDependencies);
}

/* The struct has the kinds of the driver's for allocations, frees, host functions and nothing; copies, fills and kernels
 * name contexts and functions there, so they go by the calls of their kind. */
cudaError_t cudaGraphAddNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
                             const cudaGraphEdgeData *dependencyData, size_t numDependencies,
                             struct cudaGraphNodeParams *nodeParams)
{
    const void *of_kind = nodeParams ? &nodeParams->memcpy : NULL;

    if (!nodeParams)
        return rt_record(cudaErrorInvalidValue);
    switch (nodeParams->type) {
    case cudaGraphNodeTypeMemcpy:
        return cudaGraphAddMemcpyNode(pGraphNode, graph, pDependencies, numDependencies, &nodeParams->memcpy.copyParams);
    case cudaGraphNodeTypeMemset:
        return cudaGraphAddMemsetNode(pGraphNode, graph, pDependencies, numDependencies, of_kind);
    case cudaGraphNodeTypeKernel:
        return cudaGraphAddKernelNode(pGraphNode, graph, pDependencies, numDependencies, of_kind);
    default:
        return RT_CALL(DRV(cuGraphAddNode, 12030), pGraphNode, graph, pDependencies, native_edges(dependencyData),
                       numDependencies, (CUgraphNodeParams *)(void *)nodeParams);
    }
}
#endif
