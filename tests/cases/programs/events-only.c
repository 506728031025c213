/* A program that waits by events alone. Memory it has freed, and whose work is done, is room again. The device, or the plugin,
 * has 64 MiB. */
#include "case.h"

enum { MIB = 1 << 20 };

int main(void)
{
    CUstream stream;
    CUevent done;
    CUdeviceptr p = 0;
    int failures = 0;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 40; i++)
        failures += cuMemAllocAsync(&p, 10 * MIB, stream) || cuMemsetD8Async(p, 1, 4096, stream) || cuMemFreeAsync(p, stream) ||
                    cuEventRecord(done, stream) || cuEventSynchronize(done);
    FACT(failures);
    FACT(sim_violations());
    return 0;
}
