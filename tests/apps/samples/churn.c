/* A batched allocator at work: every round allocates a batch of odd sizes in one stream, writes each block, uses it in
 * another stream behind an event, and frees the batch in another order than it came. */
#include "check.h"

#include <stdint.h>

enum { ROUNDS = 30, BATCH = 24, WORD = 8 };

static uint32_t seed = 12345;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

int main(void)
{
    unsigned char *blocks[BATCH], *seen;
    unsigned long long bytes = 0, sum = 0;
    size_t sizes[BATCH];
    uint64_t used = 1;
    cudaEvent_t written, read;
    cudaStream_t a, b;
    cudaMemPool_t pool;

    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&read, cudaEventDisableTiming));
    CHECK(cudaMallocHost((void **)&seen, BATCH * WORD));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BATCH; i++) {
            sizes[i] = WORD + draw(1 << (4 + draw(14)));
            bytes += sizes[i];
            CHECK(cudaMallocAsync((void **)&blocks[i], sizes[i], a));
            CHECK(cudaMemsetAsync(blocks[i], round + i, sizes[i], a));
        }
        CHECK(cudaEventRecord(written, a));
        CHECK(cudaStreamWaitEvent(b, written, 0));
        for (int i = 0; i < BATCH; i++)
            CHECK(cudaMemcpyAsync(seen + i * WORD, blocks[i] + sizes[i] - WORD, WORD, cudaMemcpyDeviceToHost, b));
        CHECK(cudaEventRecord(read, b));
        if (round % 2) { /* freed where it was read, or where it was written and behind the reader */
            for (int i = BATCH; i-- > 0;)
                CHECK(cudaFreeAsync(blocks[i], b));
            CHECK(cudaEventRecord(read, b));
            CHECK(cudaStreamWaitEvent(a, read, 0));
        } else {
            CHECK(cudaStreamWaitEvent(a, read, 0));
            for (int i = 0; i < BATCH; i++)
                CHECK(cudaFreeAsync(blocks[i * 7 % BATCH], a));
        }
        CHECK(cudaEventSynchronize(read));
        for (int i = 0; i < BATCH; i++) {
            EXPECT(seen[i * WORD] == (unsigned char)(round + i) && seen[i * WORD + WORD - 1] == seen[i * WORD]);
            sum += seen[i * WORD];
        }
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    CHECK(cudaFreeHost(seen));
    CHECK(cudaEventDestroy(written));
    CHECK(cudaEventDestroy(read));
    CHECK(cudaStreamDestroy(a));
    CHECK(cudaStreamDestroy(b));
    printf("churn: %d blocks, %llu bytes, sum %llu, %llu still used\n", ROUNDS * BATCH, bytes, sum,
           (unsigned long long)used);
    return 0;
}
