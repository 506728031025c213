/* A program that takes what it can get: allocates until the device is full, gives some back, and goes on. */
#include "check.h"

#include <string.h>

enum { MOST = 4096 };

int main(void)
{
    static void *blocks[MOST];
    size_t free_bytes, total, piece, after;
    int count = 0, again = 0;
    cudaStream_t stream;
    void *p;

    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    piece = total / 64 & ~(size_t)0xfffff;
    while (count < MOST && cudaMalloc(&blocks[count], piece) == cudaSuccess)
        count++;
    printf("until-full: last error %d", (int)cudaGetLastError());
    printf(", then %d\n", (int)cudaGetLastError());
    EXPECT(cudaMallocAsync(&p, piece, stream) == cudaErrorMemoryAllocation);
    (void)cudaGetLastError();
    for (int i = 0; i < count; i += 2) {
        CHECK(cudaFree(blocks[i]));
        blocks[i] = NULL;
    }
    while (cudaMallocAsync(&p, piece, stream) == cudaSuccess) {
        CHECK(cudaFreeAsync(p, stream));
        CHECK(cudaStreamSynchronize(stream));
        if (++again == 5)
            break;
    }
    for (int i = 0; i < count; i++)
        CHECK(cudaFree(blocks[i]));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaMemGetInfo(&after, &total));
    printf("until-full: %d blocks, then %d more, %zu bytes not given back\n", count, again, free_bytes - after);
    return 0;
}
