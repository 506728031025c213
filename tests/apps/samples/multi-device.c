/* Batches dealt out to all devices in turn, two at a time on each, from one thread. */
#include "check.h"

#include <string.h>

enum { DEVICES_MAX = 8, SLOTS = 2, BATCHES = 24, BYTES = 64 * 1024 };

struct slot {
    cudaStream_t stream;
    cudaEvent_t done;
    unsigned char *host;
    int batch; /* -1: none */
};

static void finish(struct slot *s, int device, int *per_device)
{
    if (s->batch < 0)
        return;
    CHECK(cudaEventSynchronize(s->done));
    EXPECT(s->host[0] == s->batch && s->host[BYTES - 1] == s->batch);
    per_device[device]++;
    s->batch = -1;
}

int main(void)
{
    struct slot slots[DEVICES_MAX][SLOTS];
    int count = 0, per_device[DEVICES_MAX] = {0};

    CHECK(cudaGetDeviceCount(&count));
    if (count > DEVICES_MAX)
        count = DEVICES_MAX;
    for (int d = 0; d < count; d++) {
        CHECK(cudaSetDevice(d));
        for (int i = 0; i < SLOTS; i++) {
            struct slot *s = &slots[d][i];

            CHECK(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
            CHECK(cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming));
            CHECK(cudaHostAlloc((void **)&s->host, BYTES, cudaHostAllocPortable));
            s->batch = -1;
        }
    }
    for (int b = 0; b < BATCHES; b++) {
        int d = b % count;
        struct slot *s = &slots[d][b / count % SLOTS];
        struct cudaPointerAttributes attributes;
        void *p, *q;

        CHECK(cudaSetDevice(d));
        finish(s, d, per_device);
        CHECK(cudaMallocAsync(&p, BYTES, s->stream));
        CHECK(cudaMalloc(&q, BYTES));
        CHECK(cudaPointerGetAttributes(&attributes, q));
        EXPECT(attributes.device == d && attributes.type == cudaMemoryTypeDevice);
        CHECK(cudaMemsetAsync(p, b, BYTES, s->stream));
        CHECK(cudaMemcpyAsync(q, p, BYTES, cudaMemcpyDeviceToDevice, s->stream));
        CHECK(cudaMemcpyAsync(s->host, q, BYTES, cudaMemcpyDeviceToHost, s->stream));
        CHECK(cudaFreeAsync(p, s->stream));
        CHECK(cudaEventRecord(s->done, s->stream));
        CHECK(cudaEventSynchronize(s->done));
        CHECK(cudaFree(q));
        s->batch = b;
    }
    for (int d = 0; d < count; d++) {
        CHECK(cudaSetDevice(d));
        for (int i = 0; i < SLOTS; i++) {
            finish(&slots[d][i], d, per_device);
            CHECK(cudaStreamDestroy(slots[d][i].stream));
            CHECK(cudaEventDestroy(slots[d][i].done));
            CHECK(cudaFreeHost(slots[d][i].host));
        }
        printf("multi-device: device %d did %d batches\n", d, per_device[d]);
    }
    for (int d = 0; d < count; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaDeviceReset());
    }
    return 0;
}
