#include "exchange.h"

#include <cuda_runtime_api.h>

int exchange_fill(void *device, int value, size_t bytes)
{
    cudaError_t error = cudaMemset(device, value, bytes);

    return (int)(error ? error : cudaDeviceSynchronize());
}

int exchange_make(void **ret_device, size_t bytes)
{
    return (int)cudaMalloc(ret_device, bytes);
}

int exchange_free(void *device)
{
    return (int)cudaFree(device);
}

int exchange_version(void)
{
    int version = 0;

    return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : -1;
}
