/* What was freed before the end of main is freed again by a destructor: refused, as natively. */
#include "case.h"

static CUdeviceptr p;
static CUresult again = CUDA_SUCCESS;

__attribute__((destructor)) static void free_again(void)
{
    again = cuMemFree(p);
    FACT(again);
}

int main(void)
{
    CUstream stream;
    CUdeviceptr busy = 0;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAllocAsync(&busy, 100, stream));
    SHOW(cuMemAlloc(&p, 4096));
    SHOW(cuStreamSynchronize(stream));
    SHOW(cuMemFree(p));
    return 0;
}
