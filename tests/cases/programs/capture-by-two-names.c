/* A thread's own stream begins its capture under one name and ends it under another. */
#include "case.h"

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode);

int main(void)
{
    CUgraph graph = NULL;
    CUdeviceptr p = 0;

    begin_case();
    SHOW(cuStreamBeginCapture_v2_ptsz(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
    SHOW(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
    if (graph)
        SHOW(cuGraphDestroy(graph));
    SHOW(cuMemAlloc(&p, 1000));
    return 0;
}
