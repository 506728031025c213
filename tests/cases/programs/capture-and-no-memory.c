/* B33: one thread captures, another runs out of memory while frees of its own wait: the capture goes on, and the answer is
 * out of memory. Wants little device memory. */
#include "case.h"

enum { MIB = 1 << 20 };

static CUcontext context;
static CUstream busy;

static void CUDA_CB nothing(void *unused)
{
    (void)unused;
}

static void *exhaust(void *unused)
{
    CUdeviceptr p = 0, last = 0;
    CUresult result = CUDA_SUCCESS;
    int failures = 0;

    (void)unused;
    failures += cuCtxSetCurrent(context) != CUDA_SUCCESS;
    for (int i = 0; i < 4096 && result == CUDA_SUCCESS; i++) {
        result = cuMemAllocAsync(&p, MIB, busy);
        last = result == CUDA_SUCCESS ? p : last;
        if (result == CUDA_SUCCESS && i < 8)
            failures += cuMemFreeAsync(p, busy) != CUDA_SUCCESS; /* behind held work: of no help */
    }
    FACT(result);
    FACT(failures);
    return NULL;
}

int main(void)
{
    CUstream stream;
    CUstreamCaptureStatus status;
    CUgraph graph = NULL;
    CUdeviceptr p = 0;
    size_t nodes = 0;

    context = begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAllocAsync(&p, MIB, busy));
    SHOW(cuStreamSynchronize(busy));
    sim_hold(busy);
    SHOW(cuMemsetD8Async(p, 1, MIB, busy));
    SHOW(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    on_another_thread(exhaust, NULL);
    SHOW(cuStreamIsCapturing(stream, &status));
    FACT(status);
    SHOW(cuLaunchHostFunc(stream, nothing, NULL));
    SHOW(cuStreamEndCapture(stream, &graph));
    SHOW(cuGraphGetNodes(graph, NULL, &nodes));
    FACT(nodes);
    sim_release(busy);
    SHOW(cuStreamSynchronize(busy));
    FACT(sim_violations());
    return 0;
}
