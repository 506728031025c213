/* Synchronous device memory: good calls, edges and misuse. */
#include "transcript.h"

int main(void)
{
    CUdeviceptr a = MARK, b = MARK, c = MARK;
    size_t used = 0, total = 0;
    unsigned char seen[64];

    SHOW(cuMemAlloc(&a, 4096)); /* before cuInit */
    FACT(a == MARK);
    begin();
    SHOW(cuMemAlloc(&a, 4096));
    FACT(a % 256);
    SHOW(cuMemAlloc(&b, 1));
    FACT(a == b);
    SHOW(cuMemAlloc(&c, 0));
    FACT(c == MARK);
    SHOW(cuMemAlloc(NULL, 16));
    SHOW(cuMemAlloc(&c, SIZE_MAX));
    FACT(c == MARK);
    SHOW(cuMemAlloc(&c, (size_t)1 << 50));
    FACT(c == MARK);
    SHOW(cuMemsetD8(a, 0x5A, 4096));
    SHOW(cuMemcpyDtoH(seen, a + 4032, 64));
    FACT(seen[63]);
    SHOW(cuMemGetInfo(&used, &total));
    FACT(used <= total);
    SHOW(cuMemGetInfo(NULL, &total));
    SHOW(cuMemGetInfo(&used, NULL));
    SHOW(cuMemFree(0));
    SHOW(cuMemFree(a));
    SHOW(cuMemFree(a));
    SHOW(cuMemFree(b + 1));
    SHOW(cuMemFree(0x1000));
    SHOW(cuMemFree((CUdeviceptr)(uintptr_t)seen));
    SHOW(cuMemFree(b));
    for (int i = 0; i < 200; i++) {
        CUdeviceptr many[8];
        for (int k = 0; k < 8; k++)
            if (cuMemAlloc(&many[k], (size_t)(1 + 97 * i + k)) != CUDA_SUCCESS)
                return 3;
        for (int k = 0; k < 8; k++)
            if (cuMemFree(many[(k + i) % 8]) != CUDA_SUCCESS)
                return 4;
    }
    return 0;
}
