/* Graphs that allocate: captured, made of nodes, left to be freed outside, and freed by the next launch. */
#include "check.h"

#include <stdint.h>
#include <string.h>

enum { BYTES = 64 * 1024, LAUNCHES = 5 };

static void captured(cudaStream_t stream, unsigned char *host)
{
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    size_t nodes = 0;
    void *p;

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMallocAsync(&p, BYTES, stream));
    CHECK(cudaMemcpyAsync(p, host, BYTES / 2, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemsetAsync((char *)p + BYTES / 2, 9, BYTES / 2, stream));
    CHECK(cudaMemcpyAsync(host + BYTES, p, BYTES, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaFreeAsync(p, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphGetNodes(graph, NULL, &nodes));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 1; i <= LAUNCHES; i++) {
        memset(host, i, BYTES);
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT(host[BYTES] == i && host[BYTES + BYTES / 2 - 1] == i);
        EXPECT(host[BYTES + BYTES / 2] == 9 && host[2 * BYTES - 1] == 9);
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    printf("graph-memory: %zu captured nodes, launched %d times\n", nodes, LAUNCHES);
}

/* Makes a graph that allocates and fills, and frees nothing. */
static cudaGraph_t allocating(void **ret_pointer)
{
    struct cudaMemAllocNodeParams alloc;
    struct cudaMemsetParams fill;
    cudaGraphNode_t first, second;
    cudaGraph_t graph;

    memset(&alloc, 0, sizeof alloc);
    alloc.poolProps.allocType = cudaMemAllocationTypePinned;
    alloc.poolProps.location.type = cudaMemLocationTypeDevice;
    alloc.bytesize = BYTES;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemAllocNode(&first, graph, NULL, 0, &alloc));
    memset(&fill, 0, sizeof fill);
    fill.dst = alloc.dptr;
    fill.value = 5;
    fill.elementSize = 1;
    fill.width = BYTES;
    fill.height = 1;
    CHECK(cudaGraphAddMemsetNode(&second, graph, &first, 1, &fill));
    *ret_pointer = alloc.dptr;
    return graph;
}

static void freed_outside(cudaStream_t stream, unsigned char *host)
{
    cudaGraphExec_t exec;
    void *p;
    cudaGraph_t graph = allocating(&p);

    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < LAUNCHES; i++) {
        memset(host, 0, BYTES);
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaMemcpyAsync(host, p, BYTES, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(p, stream));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT(host[0] == 5 && host[BYTES - 1] == 5);
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    printf("graph-memory: freed outside, launched %d times\n", LAUNCHES);
}

static void freed_on_launch(cudaStream_t stream, unsigned char *host)
{
    cudaGraphExec_t exec;
    void *p;
    cudaGraph_t graph = allocating(&p);

    CHECK(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    for (int i = 0; i < LAUNCHES; i++)
        CHECK(cudaGraphLaunch(exec, stream));
    memset(host, 0, BYTES);
    CHECK(cudaMemcpyAsync(host, p, BYTES, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(host[0] == 5 && host[BYTES - 1] == 5);
    CHECK(cudaFreeAsync(p, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    printf("graph-memory: freed on launch, launched %d times\n", LAUNCHES);
}

int main(void)
{
    unsigned char *host;
    cudaStream_t stream;
    uint64_t used = 1, reserved = 1;

    CHECK(cudaMallocHost((void **)&host, 2 * BYTES));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    captured(stream, host);
    freed_outside(stream, host);
    freed_on_launch(stream, host);
    CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
    CHECK(cudaDeviceGraphMemTrim(0));
    CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &reserved));
    printf("graph-memory: %llu used, %llu reserved after trimming\n", (unsigned long long)used,
           (unsigned long long)reserved);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFreeHost(host));
    return 0;
}
