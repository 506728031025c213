/* B47: nothing is allocated, nothing is recorded, and the output is what the driver or the runtime made of it. */
#include "case.h"

static void *const marker = (void *)(uintptr_t)MARK;

int main(void)
{
    cudaStream_t stream;
    CUdeviceptr d = MARK, e = MARK;
    void *p;

    begin_case();
    SHOW_RT(cudaStreamCreate(&stream));
    for (int i = 0; i < 2; i++) {
        p = marker;
        SHOW_RT(cudaMalloc(&p, 0));
        FACT(p == marker);
        FACT(p == NULL);
        SHOW_RT(cudaFree(p == marker ? NULL : p));
        p = marker;
        SHOW_RT(cudaMallocHost(&p, 0));
        FACT(p == marker);
        FACT(p == NULL);
        SHOW_RT(cudaFreeHost(p == marker ? NULL : p));
        p = marker;
        SHOW_RT(cudaMallocAsync(&p, 0, stream));
        FACT(p == marker);
        FACT(p == NULL);
        SHOW(cuMemAlloc(&d, 0));
        FACT(d == MARK);
        SHOW(cuMemAllocAsync(&e, 0, stream));
        FACT(e == MARK);
    }
    SHOW(cuMemFree(0));
    SHOW_RT(cudaGetLastError());
    return 0;
}
