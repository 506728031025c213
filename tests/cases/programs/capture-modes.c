/* B32: what is allowed and forbidden during a capture, by its own thread and by another, in each mode. */
#include "case.h"

static CUcontext context;
static CUstream stream, other;
static CUdeviceptr synchronous, ordered, node;

static void *calls(void *unused)
{
    CUdeviceptr p = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

    (void)unused;
    SHOW(cuCtxSetCurrent(context));
    SHOW(cuMemAllocAsync(&p, 256, other));
    SHOW(cuMemFreeAsync(p, other));
    SHOW(cuMemFreeAsync(ordered, other));
    if (SHOW(cuMemAlloc(&p, 256)) == CUDA_SUCCESS)
        SHOW(cuMemFree(p));
    SHOW(cuMemFree(synchronous));
    SHOW(cuThreadExchangeStreamCaptureMode(&mode));
    FACT(mode);
    SHOW(cuThreadExchangeStreamCaptureMode(&mode));
    return NULL;
}

static void one(CUstreamCaptureMode mode, int by_another)
{
    CUgraph graph = NULL;
    CUstreamCaptureStatus status;

    FACT(mode);
    FACT(by_another);
    SHOW(cuMemAlloc(&synchronous, 1000));
    SHOW(cuMemAllocAsync(&ordered, 1000, other));
    SHOW(cuStreamSynchronize(other));
    SHOW(cuStreamBeginCapture(stream, mode));
    SHOW(cuMemAllocAsync(&node, 512, stream));
    if (by_another)
        on_another_thread(calls, NULL);
    else
        calls(NULL);
    SHOW(cuStreamIsCapturing(stream, &status));
    FACT(status);
    SHOW(cuMemFreeAsync(node, stream));
    SHOW(cuStreamEndCapture(stream, &graph));
    if (graph)
        SHOW(cuGraphDestroy(graph));
    SHOW(cuMemFree(synchronous)); /* again where it was forbidden, twice where it was not */
    SHOW(cuStreamSynchronize(other));
}

int main(void)
{
    context = begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (int by_another = 0; by_another < 2; by_another++) {
        one(CU_STREAM_CAPTURE_MODE_GLOBAL, by_another);
        one(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, by_another);
        one(CU_STREAM_CAPTURE_MODE_RELAXED, by_another);
    }
    FACT(sim_violations());
    return 0;
}
