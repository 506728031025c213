/* Stream-ordered memory: the device's default pool, a pool of the program's own, and a block that a second stream uses. */
#include "check.h"

#include <stdint.h>
#include <string.h>

enum { MIB = 1 << 20 };

static uint64_t figure(cudaMemPool_t pool, enum cudaMemPoolAttr attribute)
{
    uint64_t value = 0;

    CHECK(cudaMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static void default_pool(cudaStream_t stream)
{
    uint64_t keep = UINT64_MAX;
    cudaMemPool_t pool;
    unsigned char first[64];
    void *p;

    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    for (int i = 0; i < 20; i++) {
        CHECK(cudaMallocAsync(&p, MIB, stream));
        CHECK(cudaMemsetAsync(p, i, MIB, stream));
        CHECK(cudaMemcpyAsync(first, p, sizeof first, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(p, stream));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT(first[0] == i && first[63] == i);
    }
    printf("pools: default: %llu used, high water %s\n",
           (unsigned long long)figure(pool, cudaMemPoolAttrUsedMemCurrent),
           figure(pool, cudaMemPoolAttrUsedMemHigh) >= MIB ? "kept" : "lost");
    EXPECT(figure(pool, cudaMemPoolAttrReservedMemCurrent) >= MIB); /* the threshold keeps it */
    CHECK(cudaMemPoolTrimTo(pool, 0));
    printf("pools: default: %llu reserved after trimming\n",
           (unsigned long long)figure(pool, cudaMemPoolAttrReservedMemCurrent));
}

static void own_pool(cudaStream_t producer, cudaStream_t consumer)
{
    struct cudaMemPoolProps props;
    unsigned char *host;
    cudaEvent_t written, read;
    cudaMemPool_t pool;
    void *p;

    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemPoolCreate(&pool, &props));
    CHECK(cudaMallocHost((void **)&host, MIB));
    CHECK(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&read, cudaEventDisableTiming));
    CHECK(cudaMallocFromPoolAsync(&p, MIB, pool, producer));
    CHECK(cudaMemsetAsync(p, 77, MIB, producer));
    CHECK(cudaEventRecord(written, producer));
    CHECK(cudaStreamWaitEvent(consumer, written, 0));
    CHECK(cudaMemcpyAsync(host, p, MIB, cudaMemcpyDeviceToHost, consumer));
    CHECK(cudaEventRecord(read, consumer));
    CHECK(cudaStreamWaitEvent(producer, read, 0));
    printf("pools: own: %llu used\n", (unsigned long long)figure(pool, cudaMemPoolAttrUsedMemCurrent));
    CHECK(cudaFreeAsync(p, producer));
    CHECK(cudaStreamSynchronize(producer));
    EXPECT(host[0] == 77 && host[MIB - 1] == 77);
    printf("pools: own: %llu used at the end\n", (unsigned long long)figure(pool, cudaMemPoolAttrUsedMemCurrent));
    CHECK(cudaMemPoolDestroy(pool));
    CHECK(cudaEventDestroy(written));
    CHECK(cudaEventDestroy(read));
    CHECK(cudaFreeHost(host));
}

int main(void)
{
    cudaStream_t a, b;

    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    default_pool(a);
    own_pool(a, b);
    CHECK(cudaStreamDestroy(a));
    CHECK(cudaStreamDestroy(b));
    return 0;
}
