/* B15: a destructor destroys the stream first, and then frees in it, as natively without success; then in another one. */
#include "case.h"

static CUdeviceptr p;
static CUstream stream, other;

__attribute__((destructor)) static void end(void)
{
    SHOW(cuStreamDestroy(stream));
    SHOW(cuMemFreeAsync(p, stream));
    SHOW(cuMemFreeAsync(p, other));
    SHOW(cuMemFreeAsync(p, other));
}

int main(void)
{
    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAllocAsync(&p, 1000, stream));
    SHOW(cuStreamSynchronize(stream));
    return 0;
}
