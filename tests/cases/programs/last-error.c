/* B50: the program's own last error, before and after allocations that fail, and that succeed at the second try. */
#include "case.h"

int main(void)
{
    void *p = NULL;

    alarm(200);
    SHOW_RT(cudaFree(0));
    SHOW_RT(cudaSetDevice(77)); /* an error of the program's own */
    SHOW_RT(cudaMalloc(&p, 1000));
    SHOW_RT(cudaPeekAtLastError());
    SHOW_RT(cudaGetLastError());
    SHOW_RT(cudaGetLastError());
    SHOW_RT(cudaFree(p));
    p = (void *)(uintptr_t)MARK;
    SHOW_RT(cudaMalloc(&p, (size_t)1 << 50));
    FACT((uintptr_t)p == MARK);
    SHOW_RT(cudaPeekAtLastError());
    SHOW_RT(cudaGetLastError());
    SHOW_RT(cudaGetLastError());
    SHOW_RT(cudaMalloc(&p, 1000));
    SHOW_RT(cudaGetLastError());
    SHOW_RT(cudaFree(p));
    SHOW_RT(cudaFree(p));
    SHOW_RT(cudaGetLastError());
    return 0;
}
