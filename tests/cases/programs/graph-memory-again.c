/* A graph's own memory is captured, launched, and destroyed with its graph, over and over: it is nobody's leak and nothing
 * was freed out of sight. */
#include "case.h"

int main(void)
{
    CUstream stream;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 3; i++) {
        CUgraph graph = NULL;
        CUgraphExec exec = NULL;
        CUdeviceptr p = 0;
        SHOW(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        SHOW(cuMemAllocAsync(&p, 4096, stream));
        SHOW(cuMemsetD8Async(p, 1, 4096, stream));
        SHOW(cuStreamEndCapture(stream, &graph));
        SHOW(cuGraphInstantiate(&exec, graph, 0));
        SHOW(cuGraphLaunch(exec, stream));
        SHOW(cuStreamSynchronize(stream));
        SHOW(cuMemFree(p));
        SHOW(cuGraphExecDestroy(exec));
        SHOW(cuGraphDestroy(graph));
        SHOW(cuDeviceGraphMemTrim(0));
    }
    FACT(sim_violations());
    return 0;
}
