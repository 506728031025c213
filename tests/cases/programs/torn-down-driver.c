/* B15: a destructor frees plugin memory through the driver, which has been torn down. */
#include "case.h"

static CUdeviceptr synchronous, ordered;
static CUstream stream;

__attribute__((destructor)) static void free_everything(void)
{
    sim_deinitialise();
    SHOW(cuMemFree(synchronous));
    SHOW(cuMemFreeAsync(ordered, stream));
    SHOW(cuMemFree(0));
    SHOW(cuStreamDestroy(stream));
}

int main(void)
{
    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAlloc(&synchronous, 1000));
    SHOW(cuMemAllocAsync(&ordered, 1000, stream));
    SHOW(cuStreamSynchronize(stream));
    return 0;
}
