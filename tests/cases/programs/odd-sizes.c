/* B52: sizes around the boundaries are aligned as promised; the last, of 300 bytes, stays. */
#include "case.h"

int main(void)
{
    static const size_t sizes[] = { 1, 255, 256, 257, 511, 512, 513, (2 << 20) - 1, 2 << 20, 300 };
    CUstream stream;
    CUdeviceptr p = 0;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        SHOW(cuMemAllocAsync(&p, sizes[i], stream));
        FACT(p % 256);
        SHOW(cuMemsetD8Async(p, 1, sizes[i], stream));
        SHOW(cuMemFreeAsync(p, stream));
        SHOW(cuMemAlloc(&p, sizes[i]));
        FACT(p % 256);
        SHOW(cuMemsetD8(p, 1, sizes[i]));
        if (i + 1 < sizeof sizes / sizeof *sizes)
            SHOW(cuMemFree(p));
    }
    SHOW(cuStreamSynchronize(stream));
    return 0;
}
