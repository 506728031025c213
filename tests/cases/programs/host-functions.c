/* B21: a thousand frees behind work and host functions on four streams; nothing of CUDA is called from a host function. */
#include "case.h"

static void CUDA_CB nothing(void *unused)
{
    (void)unused;
}

int main(void)
{
    CUstream stream[4];
    int failures = 0;

    begin_case();
    for (int i = 0; i < 4; i++) {
        SHOW(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
        sim_hold(stream[i]);
    }
    for (int i = 0; i < 1000; i++) {
        CUdeviceptr p = 0;
        CUstream s = stream[i % 4];
        failures += cuMemAllocAsync(&p, 256, s) || cuMemsetD8Async(p, 1, 256, s) || cuLaunchHostFunc(s, nothing, NULL) ||
                    cuMemFreeAsync(p, s) || cuLaunchHostFunc(s, nothing, NULL);
    }
    FACT(failures);
    for (int i = 0; i < 4; i++)
        sim_release(stream[i]);
    for (int i = 0; i < 4; i++)
        SHOW(cuStreamSynchronize(stream[i]));
    FACT(sim_misuses());
    FACT(sim_violations());
    return 0;
}
