#include "twelve.h"

#include <cuda_runtime_api.h>

int twelve_run(unsigned long bytes)
{
    void *block, *kept;
    int version;
    cudaError_t error = cudaRuntimeGetVersion(&version);

    if (!error)
        error = cudaMalloc(&block, bytes);
    if (!error)
        error = cudaFree(block);
    if (!error)
        error = cudaMalloc(&kept, bytes / 2);
    return error ? -(int)error : version;
}
