/* Two devices: access asked for, copies both ways, codes of what is done twice. */
#include "check.h"

#include <string.h>

enum { BYTES = 1 << 20 };

int main(void)
{
    unsigned char *on[2], *host;
    cudaStream_t stream;
    int can[2] = {0, 0};

    CHECK(cudaDeviceCanAccessPeer(&can[0], 0, 1));
    CHECK(cudaDeviceCanAccessPeer(&can[1], 1, 0));
    printf("peer: can %d %d\n", can[0], can[1]);
    for (int d = 0; d < 2; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaMalloc((void **)&on[d], BYTES));
        CHECK(cudaMemset(on[d], d + 1, BYTES));
        CHECK(cudaDeviceSynchronize());
    }
    for (int d = 0; d < 2; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaDeviceEnablePeerAccess(1 - d, 0));
        printf("peer: again: %d\n", (int)cudaDeviceEnablePeerAccess(1 - d, 0));
        printf("peer: last error: %d\n", (int)cudaGetLastError());
    }
    CHECK(cudaSetDevice(0));
    CHECK(cudaMallocHost((void **)&host, BYTES));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMemcpyPeerAsync(on[0], 0, on[1], 1, BYTES / 2, stream));
    CHECK(cudaMemcpyAsync(host, on[0], BYTES, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(host[0] == 2 && host[BYTES / 2 - 1] == 2 && host[BYTES / 2] == 1);
    CHECK(cudaMemcpy(on[1], on[0] + BYTES / 2, BYTES / 2, cudaMemcpyDefault)); /* unified addresses know their devices */
    CHECK(cudaMemcpy(host, on[1], BYTES, cudaMemcpyDeviceToHost));
    EXPECT(host[0] == 1 && host[BYTES - 1] == 2);
    CHECK(cudaDeviceDisablePeerAccess(1));
    printf("peer: disabled twice: %d\n", (int)cudaDeviceDisablePeerAccess(1));
    (void)cudaGetLastError();
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFreeHost(host));
    CHECK(cudaFree(on[0]));
    CHECK(cudaFree(on[1])); /* of the other device */
    puts("peer: both ways");
    return 0;
}
