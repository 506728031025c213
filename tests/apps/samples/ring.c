/* A ring of pinned slots between a producer and the device: an event says when a slot may be filled again. */
#include "check.h"

#include <string.h>

enum { SLOTS = 3, MESSAGES = 40, BYTES = 8192 };

int main(void)
{
    unsigned char *slots[SLOTS], *device, *all;
    cudaEvent_t taken[SLOTS];
    cudaStream_t stream;
    int waits = 0;

    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&device, (size_t)MESSAGES * BYTES));
    for (int i = 0; i < SLOTS; i++) {
        CHECK(cudaHostAlloc((void **)&slots[i], BYTES, cudaHostAllocWriteCombined));
        CHECK(cudaEventCreateWithFlags(&taken[i], cudaEventDisableTiming | cudaEventBlockingSync));
    }
    for (int m = 0; m < MESSAGES; m++) {
        int i = m % SLOTS;

        if (m >= SLOTS) {
            CHECK(cudaEventSynchronize(taken[i]));
            waits++;
        }
        memset(slots[i], m + 1, BYTES);
        CHECK(cudaMemcpyAsync(device + (size_t)m * BYTES, slots[i], BYTES, cudaMemcpyHostToDevice, stream));
        CHECK(cudaEventRecord(taken[i], stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < SLOTS; i++)
        CHECK(cudaEventQuery(taken[i]));
    all = malloc((size_t)MESSAGES * BYTES);
    EXPECT(all != NULL);
    CHECK(cudaHostRegister(all, (size_t)MESSAGES * BYTES, cudaHostRegisterDefault));
    CHECK(cudaMemcpy(all, device, (size_t)MESSAGES * BYTES, cudaMemcpyDeviceToHost));
    for (int m = 0; m < MESSAGES; m++)
        EXPECT(all[(size_t)m * BYTES] == m + 1 && all[(size_t)(m + 1) * BYTES - 1] == m + 1);
    CHECK(cudaHostUnregister(all));
    free(all);
    for (int i = 0; i < SLOTS; i++) {
        CHECK(cudaEventDestroy(taken[i]));
        CHECK(cudaFreeHost(slots[i]));
    }
    CHECK(cudaFree(device));
    CHECK(cudaStreamDestroy(stream));
    printf("ring: %d messages through %d slots, %d waits\n", MESSAGES, SLOTS, waits);
    return 0;
}
