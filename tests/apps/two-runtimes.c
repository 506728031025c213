/* CUDA 13's runtime in the program and CUDA 12's in a library of it: each must keep calling its own. */
#include "twelve.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

int main(void)
{
    void *block, *kept;
    int thirteen = 0, twelve;
    cudaError_t error = cudaRuntimeGetVersion(&thirteen);

    if (!error)
        error = cudaMalloc(&block, 9000);
    if (!error)
        error = cudaMalloc(&kept, 4500);
    if (!error)
        error = cudaFree(block);
    twelve = twelve_run(12000);
    printf("two-runtimes: the program's is %d, the library's %d; kept 4500 and 6000 bytes\n", thirteen, twelve);
    return error || thirteen < 13000 || twelve < 12000 || twelve >= 13000;
}
