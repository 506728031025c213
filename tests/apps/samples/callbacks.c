/* Host functions in stream order: they see what the copies before them brought, and what comes after them waits. */
#include "check.h"

#include <stdatomic.h>
#include <string.h>

enum { STEPS = 12, BYTES = 1024 };

struct step {
    unsigned char *host;
    int number;
    atomic_int *next; /* the number whose turn it is */
    atomic_int *wrong;
};

static void CUDART_CB host_function(void *argument)
{
    struct step *s = argument;

    if (atomic_fetch_add(s->next, 1) != s->number || s->host[0] != s->number || s->host[BYTES - 1] != s->number)
        atomic_fetch_add(s->wrong, 1);
    memset(s->host, s->number + 100, BYTES); /* what the next copy takes */
}

static void CUDART_CB stream_callback(cudaStream_t stream, cudaError_t error, void *argument)
{
    (void)stream;
    if (error != cudaSuccess)
        atomic_fetch_add((atomic_int *)argument, 1000);
    atomic_fetch_add((atomic_int *)argument, 1);
}

int main(void)
{
    atomic_int next = 0, wrong = 0, called = 0;
    struct step steps[STEPS];
    unsigned char *host, *device, *kept, *back;
    cudaStream_t stream;

    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMallocHost((void **)&host, BYTES));
    CHECK(cudaMallocHost((void **)&back, STEPS * BYTES));
    CHECK(cudaMalloc((void **)&device, BYTES));
    CHECK(cudaMalloc((void **)&kept, STEPS * BYTES));
    for (int i = 0; i < STEPS; i++) {
        steps[i] = (struct step){host, i, &next, &wrong};
        CHECK(cudaMemsetAsync(device, i, BYTES, stream));
        CHECK(cudaMemcpyAsync(host, device, BYTES, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaLaunchHostFunc(stream, host_function, &steps[i]));
        CHECK(cudaMemcpyAsync(kept + i * BYTES, host, BYTES, cudaMemcpyHostToDevice, stream));
        CHECK(cudaStreamAddCallback(stream, stream_callback, &called, 0));
    }
    CHECK(cudaMemcpyAsync(back, kept, STEPS * BYTES, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < STEPS; i++)
        EXPECT(back[i * BYTES] == i + 100 && back[(i + 1) * BYTES - 1] == i + 100);
    CHECK(cudaFree(device));
    CHECK(cudaFree(kept));
    CHECK(cudaFreeHost(host));
    CHECK(cudaFreeHost(back));
    CHECK(cudaStreamDestroy(stream));
    printf("callbacks: %d in order, %d wrong, %d called back\n", (int)next, (int)wrong, (int)called);
    return wrong != 0 || called != STEPS;
}
