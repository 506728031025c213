/* Graphs as a whole; their nodes are in graph_node.c, capture and launches in per_stream/. */
#include "state.h"

#include <stddef.h>

_Static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo), "one struct, two names");

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

cudaError_t cudaDeviceGraphMemTrim(int device)
{
    return RT_CALL_NO_CONTEXT(DRV(cuDeviceGraphMemTrim, 11040), device);
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr, void *value)
{
    return RT_CALL_NO_CONTEXT(DRV(cuDeviceGetGraphMemAttribute, 11040), device, (CUgraphMem_attribute)attr, value);
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr, void *value)
{
    return RT_CALL_NO_CONTEXT(DRV(cuDeviceSetGraphMemAttribute, 11040), device, (CUgraphMem_attribute)attr, value);
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graphExec, unsigned long long *flags)
{
    cuuint64_t native;
    cudaError_t error = rt_enter();

    if (!error && !flags)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_error(DRV(cuGraphExecGetFlags, 12000)(graphExec, &native));
    if (!error)
        *flags = native;
    return rt_record(error);
}

cudaError_t cudaGraphClone(cudaGraph_t *pGraphClone, cudaGraph_t originalGraph)
{
    return RT_CALL(DRV(cuGraphClone, 10000), pGraphClone, originalGraph);
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned int flags)
{
    return RT_CALL(DRV(cuGraphDebugDotPrint, 11030), graph, path, flags);
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t *object_out, void *ptr, cudaHostFn_t destroy,
                                 unsigned int initialRefcount, unsigned int flags)
{
    return RT_CALL(DRV(cuUserObjectCreate, 11030), object_out, ptr, destroy, initialRefcount, flags);
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count)
{
    return RT_CALL(DRV(cuUserObjectRetain, 11030), object, count);
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count)
{
    return RT_CALL(DRV(cuUserObjectRelease, 11030), object, count);
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count,
                                      unsigned int flags)
{
    return RT_CALL(DRV(cuGraphRetainUserObject, 11030), graph, object, count, flags);
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count)
{
    return RT_CALL(DRV(cuGraphReleaseUserObject, 11030), graph, object, count);
}
