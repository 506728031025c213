/* A small CUDA program of the ordinary kind: device memory, stream-ordered memory, pinned memory, an upload, a download.
 * Two of its functions forget what they allocated. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20 };

/* Global and kept out of line, so that each is a frame of its own in a stack trace. */
__attribute__((noinline)) void load_weights(void);
__attribute__((noinline)) void forget_cache(void);
__attribute__((noinline)) void forget_scratch(cudaStream_t stream);
__attribute__((noinline)) void process_batch(cudaStream_t stream);

static void check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "demo: %s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

void load_weights(void)
{
    char *host = malloc(4 * MIB);
    void *device;

    if (!host)
        exit(1);
    memset(host, 1, 4 * MIB);
    check(cudaMalloc(&device, 4 * MIB), "cudaMalloc");
    check(cudaMemcpy(device, host, 4 * MIB, cudaMemcpyHostToDevice), "cudaMemcpy");
    puts("demo: loaded 4 MiB of weights with cudaMalloc, freed them again");
    check(cudaFree(device), "cudaFree");
    free(host);
}

void process_batch(cudaStream_t stream)
{
    void *pinned, *device;

    check(cudaMallocHost(&pinned, MIB), "cudaMallocHost");
    memset(pinned, 2, MIB);
    for (int i = 0; i < 3; i++) {
        check(cudaMallocAsync(&device, MIB, stream), "cudaMallocAsync");
        check(cudaMemcpyAsync(device, pinned, MIB, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
        check(cudaMemsetAsync(device, 3, MIB / 2, stream), "cudaMemsetAsync");
        check(cudaMemcpyAsync(pinned, device, MIB, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
        check(cudaFreeAsync(device, stream), "cudaFreeAsync");
    }
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    if (((char *)pinned)[0] != 3 || ((char *)pinned)[MIB - 1] != 2) {
        fputs("demo: the batch came back wrong\n", stderr);
        exit(1);
    }
    check(cudaFreeHost(pinned), "cudaFreeHost");
    puts("demo: ran 3 batches through 1 MiB of stream-ordered and 1 MiB of pinned memory, freed them");
}

void forget_cache(void)
{
    void *cache;

    check(cudaMalloc(&cache, 2 * MIB), "cudaMalloc");
    puts("demo: forgot a 2 MiB cache (cudaMalloc in forget_cache)");
}

void forget_scratch(cudaStream_t stream)
{
    void *scratch;

    check(cudaMallocAsync(&scratch, 3 * 1024, stream), "cudaMallocAsync");
    puts("demo: forgot 3 KiB of scratch (cudaMallocAsync in forget_scratch)");
}

int main(void)
{
    cudaStream_t stream;
    int device;

    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaStreamCreate(&stream), "cudaStreamCreate");
    load_weights();
    process_batch(stream);
    forget_cache();
    forget_scratch(stream);
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    check(cudaStreamDestroy(stream), "cudaStreamDestroy");
    fflush(stdout);
    return 0;
}
