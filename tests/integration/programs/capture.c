/* Captures: what is forbidden stays forbidden with the driver's code, what is captured stays captured. */
#include "transcript.h"

static void one(CUstreamCaptureMode mode, CUstream stream, CUstream other, CUdeviceptr live)
{
    CUdeviceptr node = 0, fresh = 0;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUstreamCaptureStatus status;

    FACT(mode);
    SHOW(cuStreamBeginCapture(stream, mode));
    SHOW(cuMemAllocAsync(&node, 4096, stream));
    SHOW(cuMemsetD8Async(node, 1, 4096, stream));
    SHOW(cuMemFreeAsync(node, stream));
    SHOW(cuStreamIsCapturing(stream, &status));
    FACT(status);
    SHOW(cuStreamEndCapture(stream, &graph));
    SHOW(cuGraphInstantiate(&exec, graph, 0));
    SHOW(cuGraphLaunch(exec, stream));
    SHOW(cuStreamSynchronize(stream));
    SHOW(cuGraphExecDestroy(exec));
    SHOW(cuGraphDestroy(graph));

    /* the program's own unsafe calls during a capture */
    SHOW(cuStreamBeginCapture(stream, mode));
    if (SHOW(cuMemAlloc(&fresh, 100)) == CUDA_SUCCESS)
        SHOW(cuMemFree(fresh));
    SHOW(cuStreamEndCapture(stream, &graph));
    if (graph)
        cuGraphDestroy(graph);
    graph = NULL;
    SHOW(cuStreamBeginCapture(stream, mode));
    SHOW(cuMemFreeAsync(live, stream)); /* not graph memory */
    SHOW(cuStreamEndCapture(stream, &graph));
    if (graph)
        cuGraphDestroy(graph);
    SHOW(cuMemAllocAsync(&fresh, 100, other));
    SHOW(cuMemFreeAsync(fresh, other));
    SHOW(cuStreamSynchronize(other));
}

int main(void)
{
    CUstream stream, other;
    CUdeviceptr live = 0;

    begin();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAllocAsync(&live, 4096, other));
    SHOW(cuStreamSynchronize(other));
    one(CU_STREAM_CAPTURE_MODE_GLOBAL, stream, other, live);
    one(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, stream, other, live);
    one(CU_STREAM_CAPTURE_MODE_RELAXED, stream, other, live);
    SHOW(cuMemFreeAsync(live, other));
    SHOW(cuStreamSynchronize(other));
    return 0;
}
