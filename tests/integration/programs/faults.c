/* A fixed sequence of allocations and frees whose codes are shown: what a misbehaving plugin makes of them. */
#include "transcript.h"

int main(void)
{
    CUdeviceptr a = MARK, b = MARK, c = MARK, d = MARK;
    CUstream stream;

    begin();
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    SHOW(cuMemAlloc(&a, 4096));
    SHOW(cuMemAlloc(&b, 8192));
    FACT(a == MARK);
    FACT(b == MARK);
    if (a != MARK)
        SHOW(cuMemFree(a));
    if (b != MARK)
        SHOW(cuMemFree(b));
    SHOW(cuMemAllocAsync(&c, 4096, stream));
    FACT(c == MARK);
    if (c != MARK)
        SHOW(cuMemFreeAsync(c, stream));
    SHOW(cuStreamSynchronize(stream));
    if (cuMemAlloc(&d, 100) == CUDA_SUCCESS)
        cuMemFree(d);
    SHOW(cuStreamDestroy(stream));
    return 0;
}
