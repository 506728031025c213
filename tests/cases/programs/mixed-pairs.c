/* B25: every pairing of synchronous and stream-ordered calls, with and without work pending, a hundred times each. */
#include <stdbool.h>

#include "case.h"

enum { TIMES = 100, BYTES = 3000 };

static int pair(int ordered_allocation, int ordered_free, int pending, CUstream stream)
{
    CUdeviceptr p = 0;
    bool failed = ordered_allocation ? cuMemAllocAsync(&p, BYTES, stream) : cuMemAlloc(&p, BYTES);

    if (pending && ordered_free)
        sim_hold(stream);
    if (pending)
        failed |= (cuMemsetD8Async(p, 1, BYTES, stream)) != CUDA_SUCCESS;
    if (pending && ordered_allocation && !ordered_free)
        failed |= (cuStreamSynchronize(stream)) != CUDA_SUCCESS; /* a synchronous free of such memory waits for nothing */
    failed |= (ordered_free ? cuMemFreeAsync(p, stream) : cuMemFree(p)) != CUDA_SUCCESS;
    if (pending && ordered_free)
        sim_release(stream);
    return failed;
}

int main(void)
{
    CUstream stream;
    int failures = 0;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int kind = 0; kind < 8; kind++) {
        for (int i = 0; i < TIMES; i++)
            failures += pair(kind & 1, kind & 2, kind & 4, stream);
        FACT(failures);
    }
    SHOW(cuStreamSynchronize(stream));
    FACT(sim_violations());
    return 0;
}
