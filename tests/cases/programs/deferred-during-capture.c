/* B33: memory freed before waits for its release while a capture is open; what is asked meanwhile leaves the capture alone,
 * and no free reaches the driver. */
#include "case.h"

int main(void)
{
    CUstream stream, other;
    CUgraph graph = NULL;
    CUdeviceptr p[4] = { 0 };
    size_t free_bytes = 0, total = 0;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 4; i++)
        SHOW(cuMemAlloc(&p[i], 1000));
    sim_hold(other);
    SHOW(cuMemsetD8Async(p[0], 1, 1000, other));
    if (getenv("NXMEM_FREE")) /* natively it would wait for what is held */
        for (int i = 0; i < 4; i++)
            cuMemFree(p[i]);
    SHOW(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    sim_release(other);
    while (sim_pending(other) != 0)
        usleep(1000);
    uint64_t before = sim_calls("cuMemFree_v2");
    SHOW(cuMemAllocAsync(&p[0], 16, other));
    SHOW(cuMemFreeAsync(p[0], other));
    SHOW(cuMemGetInfo(&free_bytes, &total));
    FACT(sim_calls("cuMemFree_v2") - before);
    SHOW(cuStreamEndCapture(stream, &graph));
    SHOW(cuStreamSynchronize(other));
    FACT(sim_violations());
    return 0;
}
