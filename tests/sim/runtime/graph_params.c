/* What graph nodes are asked to do, told and changed, in graphs and in what was made of them. */
#include "address.h"
#include "box.h"
#include "registry.h"

#include <string.h>

_Static_assert(sizeof(struct cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS), "one struct, two names");

/* --- kernels: the program knows them by their stubs ------------------------------------------------------------- */

static cudaError_t native_kernel(const struct cudaKernelNodeParams *p, CUDA_KERNEL_NODE_PARAMS *ret)
{
    CUkernel kernel;
    cudaError_t error = p ? rt_kernel_find(p->func, &kernel) : cudaErrorInvalidValue;

    if (error)
        return error;
    *ret = (CUDA_KERNEL_NODE_PARAMS){.func = (CUfunction)kernel,
                                     .gridDimX = p->gridDim.x,
                                     .gridDimY = p->gridDim.y,
                                     .gridDimZ = p->gridDim.z,
                                     .blockDimX = p->blockDim.x,
                                     .blockDimY = p->blockDim.y,
                                     .blockDimZ = p->blockDim.z,
                                     .sharedMemBytes = p->sharedMemBytes,
                                     .kernelParams = p->kernelParams,
                                     .extra = p->extra};
    return cudaSuccess;
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS p;
    cudaError_t error = rt_enter();

    if (!error && !pNodeParams)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_error(DRV(cuGraphKernelNodeGetParams, 12000)(node, &p));
    if (!error)
        *pNodeParams = (struct cudaKernelNodeParams){.func = rt_kernel_symbol(p.func),
                                                     .gridDim = {p.gridDimX, p.gridDimY, p.gridDimZ},
                                                     .blockDim = {p.blockDimX, p.blockDimY, p.blockDimZ},
                                                     .sharedMemBytes = p.sharedMemBytes,
                                                     .kernelParams = p.kernelParams,
                                                     .extra = p.extra};
    return rt_record(error);
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS p;
    cudaError_t error = rt_enter();

    if (!error)
        error = native_kernel(pNodeParams, &p);
    if (!error)
        error = rt_error(DRV(cuGraphKernelNodeSetParams, 12000)(node, &p));
    return rt_record(error);
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS p;
    cudaError_t error = rt_enter();

    if (!error)
        error = native_kernel(pNodeParams, &p);
    if (!error)
        error = rt_error(DRV(cuGraphExecKernelNodeSetParams, 12000)(hGraphExec, node, &p));
    return rt_record(error);
}

/* --- copies -------------------------------------------------------------------------------------------------------- */

static cudaError_t here(CUcontext *ret_context)
{
    return rt_error(DRV(cuCtxGetCurrent, 4000)(ret_context));
}

static struct cudaMemcpy3DParms line_of(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
    return (struct cudaMemcpy3DParms){.srcPtr = {(void *)(uintptr_t)src, count, count, 1},
                                      .dstPtr = {dst, count, count, 1},
                                      .extent = {count, 1, 1},
                                      .kind = kind};
}

/* Memory of any kind has one address; where it lies the program knows. */
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *pNodeParams)
{
    CUDA_MEMCPY3D c;
    cudaError_t error = rt_enter();

    if (!error && !pNodeParams)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_error(DRV(cuGraphMemcpyNodeGetParams, 10000)(node, &c));
    if (!error)
        *pNodeParams = (struct cudaMemcpy3DParms){
            .srcPtr = {(void *)(uintptr_t)c.srcDevice, c.srcPitch, c.WidthInBytes, c.srcHeight},
            .dstPtr = {(void *)(uintptr_t)c.dstDevice, c.dstPitch, c.WidthInBytes, c.dstHeight},
            .extent = {c.WidthInBytes, c.Height, c.Depth},
            .kind = cudaMemcpyDefault};
    return rt_record(error);
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const struct cudaMemcpy3DParms *pNodeParams)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = rt_enter();

    if (!error)
        error = rt_box_describe(pNodeParams, &copy);
    if (!error)
        error = rt_error(DRV(cuGraphMemcpyNodeSetParams, 10000)(node, &copy));
    return rt_record(error);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const struct cudaMemcpy3DParms *pNodeParams)
{
    CUDA_MEMCPY3D copy;
    CUcontext context;
    cudaError_t error = rt_enter();

    if (!error)
        error = rt_box_describe(pNodeParams, &copy);
    if (!error)
        error = here(&context);
    if (!error)
        error = rt_error(DRV(cuGraphExecMemcpyNodeSetParams, 10020)(hGraphExec, node, &copy, context));
    return rt_record(error);
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *dst, const void *src, size_t count,
                                           enum cudaMemcpyKind kind)
{
    struct cudaMemcpy3DParms line = line_of(dst, src, count, kind);

    return cudaGraphMemcpyNodeSetParams(node, &line);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, void *dst, const void *src,
                                               size_t count, enum cudaMemcpyKind kind)
{
    struct cudaMemcpy3DParms line = line_of(dst, src, count, kind);

    return cudaGraphExecMemcpyNodeSetParams(hGraphExec, node, &line);
}

/* --- fills --------------------------------------------------------------------------------------------------------- */

static CUDA_MEMSET_NODE_PARAMS native_fill(const struct cudaMemsetParams *p)
{
    return (CUDA_MEMSET_NODE_PARAMS){.dst = rt_address(p->dst),
                                     .pitch = p->pitch,
                                     .value = p->value,
                                     .elementSize = p->elementSize,
                                     .width = p->width,
                                     .height = p->height};
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *pNodeParams)
{
    CUDA_MEMSET_NODE_PARAMS p;
    cudaError_t error = rt_enter();

    if (!error && !pNodeParams)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_error(DRV(cuGraphMemsetNodeGetParams, 10000)(node, &p));
    if (!error)
        *pNodeParams = (struct cudaMemsetParams){(void *)(uintptr_t)p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
    return rt_record(error);
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const struct cudaMemsetParams *pNodeParams)
{
    CUDA_MEMSET_NODE_PARAMS p;

    if (!pNodeParams)
        return rt_record(cudaErrorInvalidValue);
    p = native_fill(pNodeParams);
    return RT_CALL(DRV(cuGraphMemsetNodeSetParams, 10000), node, &p);
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const struct cudaMemsetParams *pNodeParams)
{
    CUDA_MEMSET_NODE_PARAMS p;
    CUcontext context;
    cudaError_t error = rt_enter();

    if (!error && !pNodeParams)
        error = cudaErrorInvalidValue;
    if (!error)
        error = here(&context);
    if (error)
        return rt_record(error);
    p = native_fill(pNodeParams);
    return rt_record(rt_error(DRV(cuGraphExecMemsetNodeSetParams, 10020)(hGraphExec, node, &p, context)));
}

/* --- host functions, child graphs, events ---------------------------------------------------------------------------- */

static const CUDA_HOST_NODE_PARAMS *native_host(const struct cudaHostNodeParams *p)
{
    return (const CUDA_HOST_NODE_PARAMS *)(const void *)p;
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *pNodeParams)
{
    return RT_CALL(DRV(cuGraphHostNodeGetParams, 10000), node, (CUDA_HOST_NODE_PARAMS *)(void *)pNodeParams);
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const struct cudaHostNodeParams *pNodeParams)
{
    return RT_CALL(DRV(cuGraphHostNodeSetParams, 10000), node, native_host(pNodeParams));
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                           const struct cudaHostNodeParams *pNodeParams)
{
    return RT_CALL(DRV(cuGraphExecHostNodeSetParams, 10020), hGraphExec, node, native_host(pNodeParams));
}

cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, cudaGraph_t childGraph)
{
    return RT_CALL(DRV(cuGraphExecChildGraphNodeSetParams, 11010), hGraphExec, node, childGraph);
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out)
{
    return RT_CALL(DRV(cuGraphEventRecordNodeGetEvent, 11010), node, event_out);
}

cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    return RT_CALL(DRV(cuGraphEventRecordNodeSetEvent, 11010), node, event);
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out)
{
    return RT_CALL(DRV(cuGraphEventWaitNodeGetEvent, 11010), node, event_out);
}

cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    return RT_CALL(DRV(cuGraphEventWaitNodeSetEvent, 11010), node, event);
}

cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, cudaEvent_t event)
{
    return RT_CALL(DRV(cuGraphExecEventRecordNodeSetEvent, 11010), hGraphExec, hNode, event);
}

cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, cudaEvent_t event)
{
    return RT_CALL(DRV(cuGraphExecEventWaitNodeSetEvent, 11010), hGraphExec, hNode, event);
}

/* --- any node ---------------------------------------------------------------------------------------------------------- */

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int isEnabled)
{
    return RT_CALL(DRV(cuGraphNodeSetEnabled, 11060), hGraphExec, hNode, isEnabled);
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int *isEnabled)
{
    return RT_CALL(DRV(cuGraphNodeGetEnabled, 11060), hGraphExec, hNode, isEnabled);
}

/* Copies, fills and kernels name contexts and functions in the driver's union: they go by the calls of their kind. */
cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *nodeParams)
{
    const void *of_kind = nodeParams ? &nodeParams->memcpy : NULL;

    if (!nodeParams)
        return rt_record(cudaErrorInvalidValue);
    switch (nodeParams->type) {
    case cudaGraphNodeTypeMemcpy:
        return cudaGraphMemcpyNodeSetParams(node, &nodeParams->memcpy.copyParams);
    case cudaGraphNodeTypeMemset:
        return cudaGraphMemsetNodeSetParams(node, of_kind);
    case cudaGraphNodeTypeKernel:
        return cudaGraphKernelNodeSetParams(node, of_kind);
    default:
        return RT_CALL(DRV(cuGraphNodeSetParams, 12020), node, (CUgraphNodeParams *)(void *)nodeParams);
    }
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node, struct cudaGraphNodeParams *nodeParams)
{
    const void *of_kind = nodeParams ? &nodeParams->memcpy : NULL;

    if (!nodeParams)
        return rt_record(cudaErrorInvalidValue);
    switch (nodeParams->type) {
    case cudaGraphNodeTypeMemcpy:
        return cudaGraphExecMemcpyNodeSetParams(graphExec, node, &nodeParams->memcpy.copyParams);
    case cudaGraphNodeTypeMemset:
        return cudaGraphExecMemsetNodeSetParams(graphExec, node, of_kind);
    case cudaGraphNodeTypeKernel:
        return cudaGraphExecKernelNodeSetParams(graphExec, node, of_kind);
    default:
        return RT_CALL(DRV(cuGraphExecNodeSetParams, 12020), graphExec, node, (CUgraphNodeParams *)(void *)nodeParams);
    }
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *pNode, cudaGraphNode_t originalNode, cudaGraph_t clonedGraph)
{
    return RT_CALL(DRV(cuGraphNodeFindInClone, 10000), pNode, originalNode, clonedGraph);
}

#if SIM_CUDART_VERSION >= 13000 /* under these names CUDA 12 has no data on edges */
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes, cudaGraphEdgeData *edgeData,
                                           size_t *pNumDependentNodes)
{
    return RT_CALL(DRV(cuGraphNodeGetDependentNodes, 12030), node, pDependentNodes, (CUgraphEdgeData *)(void *)edgeData,
                   pNumDependentNodes);
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                        const cudaGraphEdgeData *edgeData, size_t numDependencies)
{
    return RT_CALL(DRV(cuGraphRemoveDependencies, 12030), graph, from, to, (const CUgraphEdgeData *)(const void *)edgeData,
                   numDependencies);
}
#endif
