/* Stream capture and graph launches. */
#include "../state.h"

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    return RT_CALL(DRV_STREAM(cuStreamBeginCapture, 10010, 10010), stream, (CUstreamCaptureMode)mode);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)
{
    return RT_CALL(DRV_STREAM(cuStreamEndCapture, 10000, 10000), stream, pGraph);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus)
{
    return RT_CALL(DRV_STREAM(cuStreamIsCapturing, 10000, 10000), stream,
                   (CUstreamCaptureStatus *)(void *)pCaptureStatus);
}

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define FORM "_ptsz"
#else
#define FORM ""
#endif

/* What CUDA 13 knows without a suffix; CUDA 12 has older forms under the plain name, which cannot be declared beside the
 * header of CUDA 13 and are named for the linker only. */
#if SIM_CUDART_VERSION >= 13000
#define GET_CAPTURE_INFO "cudaStreamGetCaptureInfo" FORM
#define UPDATE_DEPENDENCIES "cudaStreamUpdateCaptureDependencies" FORM
#else
#define GET_CAPTURE_INFO "cudaStreamGetCaptureInfo_v3" FORM
#define UPDATE_DEPENDENCIES "cudaStreamUpdateCaptureDependencies_v2" FORM
#endif

cudaError_t get_capture_info(cudaStream_t, enum cudaStreamCaptureStatus *, unsigned long long *, cudaGraph_t *,
                             const cudaGraphNode_t **, const cudaGraphEdgeData **, size_t *) __asm__(GET_CAPTURE_INFO);

cudaError_t get_capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
                             unsigned long long *id_out, cudaGraph_t *graph_out,
                             const cudaGraphNode_t **dependencies_out, const cudaGraphEdgeData **edgeData_out,
                             size_t *numDependencies_out)
{
    cuuint64_t id;
    cudaError_t error = rt_enter();

    if (!error)
        error = rt_error(DRV_STREAM(cuStreamGetCaptureInfo, 12030, 12030)(
            stream, (CUstreamCaptureStatus *)(void *)captureStatus_out, id_out ? &id : NULL, graph_out,
            dependencies_out, (const CUgraphEdgeData **)(void *)edgeData_out, numDependencies_out));
    if (!error && id_out && *captureStatus_out == cudaStreamCaptureStatusActive)
        *id_out = id;
    return rt_record(error);
}

cudaError_t update_dependencies(cudaStream_t, cudaGraphNode_t *, const cudaGraphEdgeData *, size_t,
                                unsigned int) __asm__(UPDATE_DEPENDENCIES);

cudaError_t update_dependencies(cudaStream_t stream, cudaGraphNode_t *dependencies,
                                const cudaGraphEdgeData *dependencyData, size_t numDependencies, unsigned int flags)
{
    return RT_CALL(DRV_STREAM(cuStreamUpdateCaptureDependencies, 12030, 12030), stream, dependencies,
                   (const CUgraphEdgeData *)(const void *)dependencyData, numDependencies, flags);
}

#if SIM_CUDART_VERSION < 13000
cudaError_t get_capture_id(cudaStream_t, enum cudaStreamCaptureStatus *,
                           unsigned long long *) __asm__("cudaStreamGetCaptureInfo" FORM);

cudaError_t get_capture_id(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
                           unsigned long long *id_out)
{
    return get_capture_info(stream, captureStatus_out, id_out, NULL, NULL, NULL, NULL);
}

cudaError_t get_capture_graph(cudaStream_t, enum cudaStreamCaptureStatus *, unsigned long long *, cudaGraph_t *,
                              const cudaGraphNode_t **, size_t *) __asm__("cudaStreamGetCaptureInfo_v2" FORM);

cudaError_t get_capture_graph(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
                              unsigned long long *id_out, cudaGraph_t *graph_out,
                              const cudaGraphNode_t **dependencies_out, size_t *numDependencies_out)
{
    cuuint64_t id;
    cudaError_t error = rt_enter();

    if (!error)
        error = rt_error(DRV_STREAM(cuStreamGetCaptureInfo, 11030, 11030)(
            stream, (CUstreamCaptureStatus *)(void *)captureStatus_out, id_out ? &id : NULL, graph_out,
            dependencies_out, numDependencies_out));
    if (!error && id_out && *captureStatus_out == cudaStreamCaptureStatusActive)
        *id_out = id;
    return rt_record(error);
}

cudaError_t update_plain_dependencies(cudaStream_t, cudaGraphNode_t *, size_t,
                                      unsigned int) __asm__("cudaStreamUpdateCaptureDependencies" FORM);

cudaError_t update_plain_dependencies(cudaStream_t stream, cudaGraphNode_t *dependencies, size_t numDependencies,
                                      unsigned int flags)
{
    return RT_CALL(DRV_STREAM(cuStreamUpdateCaptureDependencies, 11030, 11030), stream, dependencies, numDependencies,
                   flags);
}
#endif

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                          const cudaGraphEdgeData *dependencyData, size_t numDependencies,
                                          enum cudaStreamCaptureMode mode)
{
    return RT_CALL(DRV_STREAM(cuStreamBeginCaptureToGraph, 12030, 12030), stream, graph, dependencies,
                   (const CUgraphEdgeData *)(const void *)dependencyData, numDependencies, (CUstreamCaptureMode)mode);
}

_Static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS), "one struct, two names");

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams *instantiateParams)
{
    return RT_CALL(DRV_STREAM(cuGraphInstantiateWithParams, 12000, 12000), pGraphExec, graph,
                   (CUDA_GRAPH_INSTANTIATE_PARAMS *)(void *)instantiateParams);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuGraphLaunch, 10000, 10000), graphExec, stream);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuGraphUpload, 11010, 11010), graphExec, stream);
}
