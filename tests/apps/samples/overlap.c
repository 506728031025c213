/* Copies and work that overlap: a big array goes through the device in chunks, each in the next of a few streams. */
#include "check.h"

#include <string.h>

enum { STREAMS = 4, CHUNKS = 16, CHUNK = 256 * 1024 };

int main(void)
{
    cudaStream_t streams[STREAMS];
    cudaEvent_t begin, end, done[STREAMS];
    unsigned char *in, *out, *device[STREAMS], *work[STREAMS];
    float ms = -1;

    CHECK(cudaMallocHost((void **)&in, (size_t)CHUNKS * CHUNK));
    CHECK(cudaMallocHost((void **)&out, (size_t)CHUNKS * CHUNK));
    for (size_t i = 0; i < (size_t)CHUNKS * CHUNK; i++)
        in[i] = (unsigned char)(i * 31 + i / CHUNK);
    memset(out, 0, (size_t)CHUNKS * CHUNK);
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (int s = 0; s < STREAMS; s++) {
        CHECK(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&done[s], cudaEventDisableTiming));
        CHECK(cudaMalloc((void **)&device[s], CHUNK));
        CHECK(cudaMalloc((void **)&work[s], CHUNK));
    }
    CHECK(cudaEventRecord(begin, streams[0]));
    for (int s = 1; s < STREAMS; s++)
        CHECK(cudaStreamWaitEvent(streams[s], begin, 0));
    for (int c = 0; c < CHUNKS; c++) {
        int s = c % STREAMS;

        CHECK(cudaMemcpyAsync(device[s], in + (size_t)c * CHUNK, CHUNK, cudaMemcpyHostToDevice, streams[s]));
        /* the work: the second half of the chunk becomes its number */
        CHECK(cudaMemcpyAsync(work[s], device[s], CHUNK, cudaMemcpyDeviceToDevice, streams[s]));
        CHECK(cudaMemsetAsync(work[s] + CHUNK / 2, c, CHUNK / 2, streams[s]));
        CHECK(cudaMemcpyAsync(out + (size_t)c * CHUNK, work[s], CHUNK, cudaMemcpyDeviceToHost, streams[s]));
    }
    for (int s = 1; s < STREAMS; s++) {
        CHECK(cudaEventRecord(done[s], streams[s]));
        CHECK(cudaStreamWaitEvent(streams[0], done[s], 0));
    }
    CHECK(cudaEventRecord(end, streams[0]));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    EXPECT(ms >= 0);
    for (int c = 0; c < CHUNKS; c++) {
        unsigned char *chunk = out + (size_t)c * CHUNK;

        EXPECT(memcmp(chunk, in + (size_t)c * CHUNK, CHUNK / 2) == 0);
        for (int i = CHUNK / 2; i < CHUNK; i++)
            EXPECT(chunk[i] == c);
    }
    for (int s = 0; s < STREAMS; s++) {
        CHECK(cudaFree(device[s]));
        CHECK(cudaFree(work[s]));
        CHECK(cudaEventDestroy(done[s]));
        CHECK(cudaStreamDestroy(streams[s]));
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaFreeHost(in));
    CHECK(cudaFreeHost(out));
    printf("overlap: %d chunks through %d streams came back right\n", CHUNKS, STREAMS);
    return 0;
}
