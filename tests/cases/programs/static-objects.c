/* B15: destructors free what the program left, after the driver has been torn down. */
#include "case.h"

static void *device, *ordered, *host;
static cudaStream_t stream;

__attribute__((destructor)) static void free_everything(void)
{
    if (getenv("TORN_DOWN"))
        sim_deinitialise();
    SHOW_RT(cudaFree(device));
    SHOW_RT(cudaFreeHost(host));
    SHOW_RT(cudaFreeAsync(ordered, stream));
    SHOW_RT(cudaStreamDestroy(stream));
    SHOW_RT(cudaFree(NULL));
}

int main(void)
{
    alarm(200);
    SHOW_RT(cudaMalloc(&device, 1000));
    SHOW_RT(cudaMallocHost(&host, 2000));
    SHOW_RT(cudaStreamCreate(&stream));
    SHOW_RT(cudaMallocAsync(&ordered, 4000, stream));
    SHOW_RT(cudaStreamSynchronize(stream));
    return 0;
}
