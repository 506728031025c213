/* Per-thread default streams: each thread's stream 0 is its own, so threads that never name a stream overlap. */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "check.h"

#include <pthread.h>
#include <string.h>

enum { THREADS = 6, ROUNDS = 8, BYTES = 32 * 1024 };

static void *work(void *argument)
{
    int number = (int)(size_t)argument;
    unsigned char *pinned, *device, *ordered;
    unsigned long long own = 0, legacy = 0;

    CHECK(cudaMallocHost((void **)&pinned, BYTES));
    CHECK(cudaMalloc((void **)&device, BYTES));
    CHECK(cudaStreamGetId(cudaStreamPerThread, &own));
    CHECK(cudaStreamGetId(cudaStreamLegacy, &legacy));
    EXPECT(own != legacy);
    for (int round = 0; round < ROUNDS; round++) {
        int value = number * ROUNDS + round;

        memset(pinned, value, BYTES);
        CHECK(cudaMemcpyAsync(device, pinned, BYTES, cudaMemcpyHostToDevice, 0));
        CHECK(cudaMallocAsync((void **)&ordered, BYTES, 0));
        CHECK(cudaMemcpyAsync(ordered, device, BYTES, cudaMemcpyDeviceToDevice, 0));
        CHECK(cudaMemsetAsync(device, 255, BYTES, 0));
        CHECK(cudaMemcpyAsync(pinned, ordered, BYTES, cudaMemcpyDeviceToHost, 0));
        CHECK(cudaFreeAsync(ordered, 0));
        CHECK(cudaStreamSynchronize(0));
        EXPECT(pinned[0] == value && pinned[BYTES - 1] == value);
    }
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(pinned));
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];

    for (size_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    printf("per-thread: %d threads, %d rounds each\n", THREADS, ROUNDS);
    return 0;
}
