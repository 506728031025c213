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

#if SIM_CUDART_VERSION >= 13000 /* under this name CUDA 12 has fewer parameters */
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
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
#endif

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuGraphLaunch, 10000, 10000), graphExec, stream);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuGraphUpload, 11010, 11010), graphExec, stream);
}
