/* Managed memory: written by the host, prefetched, written by the device, read by the host again. */
#include "check.h"

#include <string.h>

enum { BYTES = 1 << 20 };

int main(void)
{
    struct cudaMemLocation device = {.type = cudaMemLocationTypeDevice, .id = 0};
    struct cudaMemLocation host = {.type = cudaMemLocationTypeHost, .id = 0};
    struct cudaPointerAttributes attributes;
    unsigned char *shared, *copy;
    cudaStream_t stream;

    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMallocManaged((void **)&shared, BYTES, cudaMemAttachGlobal));
    CHECK(cudaMalloc((void **)&copy, BYTES));
    CHECK(cudaPointerGetAttributes(&attributes, shared));
    printf("managed: type %d\n", (int)attributes.type);
    memset(shared, 3, BYTES); /* by the host, with no call */
    CHECK(cudaMemAdvise(shared, BYTES, cudaMemAdviseSetPreferredLocation, device));
    CHECK(cudaMemPrefetchAsync(shared, BYTES, device, 0, stream));
    CHECK(cudaMemcpyAsync(copy, shared, BYTES, cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaMemsetAsync(shared, 4, BYTES / 2, stream));
    CHECK(cudaMemPrefetchAsync(shared, BYTES, host, 0, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(shared[0] == 4 && shared[BYTES / 2 - 1] == 4 && shared[BYTES / 2] == 3);
    CHECK(cudaStreamAttachMemAsync(stream, shared, 0, cudaMemAttachSingle));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(shared, copy, BYTES, cudaMemcpyDefault));
    EXPECT(shared[0] == 3 && shared[BYTES - 1] == 3);
    CHECK(cudaFree(copy));
    CHECK(cudaFree(shared));
    CHECK(cudaStreamDestroy(stream));
    puts("managed: host, device, host");
    return 0;
}
