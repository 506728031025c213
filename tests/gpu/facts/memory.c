/* Codes, figures and attributes. */
#include "facts.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

static int free_host_null(void)
{
    return (int)cuMemFreeHost(NULL);
}

static int zero_bytes(void)
{
    CUdeviceptr p;
    return (int)cuMemAlloc(&p, 0);
}

static int zero_bytes_async(void)
{
    CUdeviceptr p;
    return (int)cuMemAllocAsync(&p, 0, new_stream());
}

static int zero_bytes_host(void)
{
    void *p;
    return (int)cuMemAllocHost(&p, 0);
}

static int info_null(void)
{
    size_t total;
    return (int)cuMemGetInfo(NULL, &total);
}

static size_t free_bytes(void)
{
    size_t unused, total;
    MUST(cuMemGetInfo(&unused, &total));
    return unused;
}

enum { MIB = 1 << 20, LARGE = 64 * MIB };

static int info_counts_pools(void)
{
    CUstream s = new_stream();
    CUmemoryPool pool;
    CUdeviceptr p;
    cuuint64_t keep = UINT64_MAX;
    size_t before = free_bytes();
    MUST(cuDeviceGetDefaultMemPool(&pool, 0));
    MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    MUST(cuMemAllocAsync(&p, LARGE, s));
    MUST(cuMemFreeAsync(p, s));
    MUST(cuStreamSynchronize(s));
    return before - free_bytes() >= LARGE / 2 && before > free_bytes();
}

/* MiB that a second context takes. */
static int context_overhead(void)
{
    CUcontext c;
    size_t before = free_bytes();
    /* the oldest form: drivers of every age have it */
    CUresult (*create)(CUcontext *, unsigned, CUdevice) =
        (CUresult (*)(CUcontext *, unsigned, CUdevice))dlsym(RTLD_DEFAULT, "cuCtxCreate_v2");
    if (!create) unknown("no cuCtxCreate_v2", 0);
    MUST(create(&c, 0, 0));
    size_t after = free_bytes();
    return after < before ? (int)((before - after) / MIB) : 0;
}

/* MiB that a module with one empty kernel takes. */
static int module_memory(void)
{
    static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n";
    CUmodule m;
    size_t before = free_bytes();
    MUST(cuModuleLoadData(&m, ptx));
    size_t after = free_bytes();
    return after < before ? (int)((before - after) / MIB) : 0;
}

static bool known(CUdeviceptr p)
{
    unsigned type;
    return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p) == CUDA_SUCCESS;
}

static int freed_async_visible(void)
{
    struct gate g;
    CUstream s = new_stream();
    CUdeviceptr p;
    MUST(cuMemAllocAsync(&p, LARGE, s));
    MUST(cuStreamSynchronize(s));
    close_stream(s, &g);
    MUST(cuMemFreeAsync(p, s));
    int answer = known(p);
    atomic_store(&g.open, 1);
    MUST(cuStreamSynchronize(s));
    return answer;
}

static int reset_keeps_pools(void)
{
    CUstream s = new_stream();
    CUdeviceptr p;
    CUcontext c;
    MUST(cuMemAllocAsync(&p, LARGE, s));
    MUST(cuStreamSynchronize(s));
    MUST(cuDevicePrimaryCtxReset(0));
    MUST(cuDevicePrimaryCtxRetain(&c, 0));
    MUST(cuCtxSetCurrent(c));
    return known(p);
}

/* A graph with memory of its own may have one executable graph: the code of a second. */
static int second_instance(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p = { .bytesize = MIB };
    CUgraphNode made, freed;
    CUgraphExec first, second;
    CUgraph g;
    p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    MUST(cuGraphCreate(&g, 0));
    MUST(cuGraphAddMemAllocNode(&made, g, NULL, 0, &p));
    MUST(cuGraphAddMemFreeNode(&freed, g, &made, 1, p.dptr));
    MUST(cuGraphInstantiateWithFlags(&first, g, 0));
    return (int)cuGraphInstantiateWithFlags(&second, g, 0);
}

const struct question memory_questions[] = {
    { "free_host_null", free_host_null },
    { "zero_bytes", zero_bytes },
    { "zero_bytes_async", zero_bytes_async },
    { "zero_bytes_host", zero_bytes_host },
    { "info_null", info_null },
    { "info_counts_pools", info_counts_pools },
    { "context_overhead", context_overhead },
    { "module_memory", module_memory },
    { "freed_async_visible", freed_async_visible },
    { "reset_keeps_pools", reset_keeps_pools },
    { "second_instance", second_instance },
    { NULL, NULL },
};
