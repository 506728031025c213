/* B32: a blocking stream captures; the legacy stream may not be used meanwhile, by an allocation or by a free. */
#include "case.h"

int main(void)
{
    CUstream stream;
    CUgraph graph = NULL;
    CUdeviceptr p = 0, ordered = 0, synchronous = 0;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    SHOW(cuMemAllocAsync(&ordered, 1000, stream));
    SHOW(cuMemAlloc(&synchronous, 1000));
    SHOW(cuStreamSynchronize(stream));
    for (int i = 0; i < 4; i++) {
        SHOW(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        if (i == 0)
            SHOW(cuMemAllocAsync(&p, 1000, NULL));
        if (i == 1)
            SHOW(cuMemFreeAsync(ordered, NULL));
        if (i == 2)
            SHOW(cuMemFreeAsync(synchronous, CU_STREAM_LEGACY));
        if (i == 3)
            SHOW(cuMemFree(ordered));
        SHOW(cuStreamEndCapture(stream, &graph));
    }
    SHOW(cuMemFree(synchronous));
    SHOW(cuCtxSynchronize());
    return 0;
}
