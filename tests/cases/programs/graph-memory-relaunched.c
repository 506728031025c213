/* B25, B32: memory before, in and after a capture, in each mode: what a graph allocates is freed outside of it, twice, and comes back with
 * the next launch; what was allocated outside is not freed inside. */
#include "case.h"

enum { LAUNCHES = 3 };

static CUstream stream, other;

static CUgraphExec captured(CUstreamCaptureMode mode, unsigned long long flags, CUdeviceptr *ret_kept)
{
    CUdeviceptr inside = 0, beside = 0;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUevent forked, joined;

    SHOW(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    SHOW(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    SHOW(cuStreamBeginCapture(stream, mode));
    SHOW(cuMemAllocAsync(&inside, 2000, stream));
    SHOW(cuMemAllocAsync(ret_kept, 3000, stream));
    SHOW(cuMemFreeAsync(inside, stream));
    SHOW(cuEventRecord(forked, stream));
    SHOW(cuStreamWaitEvent(other, forked, 0));
    SHOW(cuMemAllocAsync(&beside, 4000, other));
    SHOW(cuMemsetD8Async(beside, 1, 4000, other));
    SHOW(cuMemFreeAsync(beside, other));
    SHOW(cuEventRecord(joined, other));
    SHOW(cuStreamWaitEvent(stream, joined, 0));
    SHOW(cuStreamEndCapture(stream, &graph));
    SHOW(cuGraphInstantiate(&exec, graph, flags));
    SHOW(cuGraphDestroy(graph));
    SHOW(cuEventDestroy(forked));
    SHOW(cuEventDestroy(joined));
    return exec;
}

static void free_between_launches(CUstreamCaptureMode mode)
{
    CUdeviceptr kept = 0;
    CUgraphExec exec = captured(mode, 0, &kept);

    for (int i = 0; i < LAUNCHES; i++) {
        SHOW(cuGraphLaunch(exec, stream));
        SHOW(cuMemsetD8Async(kept, 2, 3000, stream));
        SHOW(cuStreamSynchronize(stream));
        SHOW(i % 2 ? cuMemFree(kept) : cuMemFreeAsync(kept, stream));
        SHOW(cuStreamSynchronize(stream));
        SHOW(i % 2 ? cuMemFreeAsync(kept, stream) : cuMemFree(kept));
    }
    SHOW(cuGraphExecDestroy(exec));
}

static void freed_by_the_launch(CUstreamCaptureMode mode)
{
    CUdeviceptr kept = 0, base = 0;
    CUgraphExec exec = captured(mode, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH, &kept);
    size_t bytes = 0;

    SHOW(cuGraphLaunch(exec, stream));
    SHOW(cuGraphLaunch(exec, stream));
    SHOW(cuStreamSynchronize(stream));
    SHOW(cuMemGetAddressRange_v2(&base, &bytes, kept + 5));
    FACT(base == kept);
    SHOW(cuGraphExecDestroy(exec));
    SHOW(cuMemFree(kept));
}

static void outside_freed_inside(CUstreamCaptureMode mode)
{
    CUdeviceptr ordered = 0, synchronous = 0, p = MARK;
    CUgraph graph = NULL;

    SHOW(cuMemAllocAsync(&ordered, 1000, stream));
    SHOW(cuMemAlloc(&synchronous, 1000));
    SHOW(cuStreamSynchronize(stream));
    SHOW(cuStreamBeginCapture(stream, mode));
    SHOW(cuMemFreeAsync(0, stream));
    SHOW(cuMemAllocAsync(&p, 0, stream));
    SHOW(cuMemAllocAsync(NULL, 10, stream));
    SHOW(cuMemAllocAsync(&p, SIZE_MAX, stream));
    SHOW(cuMemFreeAsync(ordered, stream));
    SHOW(cuMemFreeAsync(synchronous, stream));
    SHOW(cuMemFree(ordered));
    SHOW(cuStreamEndCapture(stream, &graph));
    FACT(graph != NULL);
    if (graph)
        SHOW(cuGraphDestroy(graph));
    SHOW(cuMemFreeAsync(ordered, stream));
    SHOW(cuMemFree(synchronous));
    SHOW(cuMemFree(ordered));
}

int main(void)
{
    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (int mode = CU_STREAM_CAPTURE_MODE_GLOBAL; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
        FACT(mode);
        free_between_launches((CUstreamCaptureMode)mode);
        freed_by_the_launch((CUstreamCaptureMode)mode);
        outside_freed_inside((CUstreamCaptureMode)mode);
    }
    return 0;
}
