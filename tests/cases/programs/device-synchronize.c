/* A program that waits by cudaDeviceSynchronize: what it freed before has gone back to its owner after it. */
#include "case.h"

int main(void)
{
    cudaStream_t stream;
    void *p = NULL;

    alarm(200);
    SHOW_RT(cudaStreamCreate(&stream));
    SHOW_RT(cudaMallocAsync(&p, 1000, stream));
    SHOW_RT(cudaMemsetAsync(p, 1, 1000, stream));
    SHOW_RT(cudaFreeAsync(p, stream));
    SHOW_RT(cudaDeviceSynchronize());
    return 0;
}
