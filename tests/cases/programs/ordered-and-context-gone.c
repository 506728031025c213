/* Stream-ordered memory outlives the context whose stream it was freed on: it goes back to its owner. */
#include "case.h"

int main(void)
{
    CUcontext primary = begin_case(), own = NULL;
    CUstream stream;
    CUdeviceptr p[4] = { 0 };

    SHOW(cuCtxCreate(&own, NULL, 0, 0));
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 4; i++)
        SHOW(cuMemAllocAsync(&p[i], 1000, stream));
    for (int i = 0; i < 4; i++) {
        SHOW(cuMemsetD8Async(p[i], 1, 1000, stream));
        SHOW(cuMemFreeAsync(p[i], stream));
    }
    SHOW(cuCtxDestroy(own));
    SHOW(cuCtxSetCurrent(primary));
    SHOW(cuMemAllocAsync(&p[0], 1000, NULL));
    SHOW(cuMemFreeAsync(p[0], NULL));
    SHOW(cuStreamSynchronize(NULL));
    SHOW(cuCtxSynchronize());
    FACT(sim_violations());
    return 0;
}
