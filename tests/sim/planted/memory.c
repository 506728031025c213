/* Plants about memory that is gone, not there yet, or somebody else's. */
#include "plant.h"

#include <unistd.h>

/* --- graphs that outlive their memory ------------------------------------------------------------------------------ */

struct replay {
    CUstream s;
    CUgraphExec exec;
};

static struct replay captured_fill(CUdeviceptr p)
{
    struct replay r = { plant_stream(), NULL };
    CUgraph g;
    must(cuStreamBeginCapture(r.s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    must(cuMemsetD8Async(p, 1, PLANT_BYTES, r.s));
    must(cuStreamEndCapture(r.s, &g));
    must(cuGraphInstantiate(&r.exec, g, 0));
    must(cuGraphDestroy(g));
    return r;
}

static void end_replay(struct replay r)
{
    must(cuStreamSynchronize(r.s));
    must(cuGraphExecDestroy(r.exec));
    must(cuStreamDestroy(r.s));
}

static void launch_on_freed_memory(bool fault)
{
    CUdeviceptr p;
    must(cuMemAlloc(&p, PLANT_BYTES));
    struct replay r = captured_fill(p);
    must(cuGraphLaunch(r.exec, r.s));
    if (fault) {
        must(cuMemFree(p));
        must(cuGraphLaunch(r.exec, r.s));
    }
    end_replay(r);
    if (!fault) must(cuMemFree(p));
}

static void launch_on_somebody_elses_memory(bool fault)
{
    CUdeviceptr p, q;
    must(cuMemAlloc(&p, PLANT_BYTES));
    struct replay r = captured_fill(p);
    if (fault) {
        must(cuMemFree(p));
        must(cuMemAlloc(&q, PLANT_BYTES));
        must(cuGraphLaunch(r.exec, r.s));
    }
    end_replay(r);
    must(cuMemFree(fault ? q : p));
}

static void launch_on_memory_not_allocated(bool fault)
{
    CUdeviceptr p;
    CUstream s = plant_stream();
    must(cuMemAlloc(&p, PLANT_BYTES));
    plant_noise(s);
    must(sim_launch_touch(s, fault ? p + (1ull << 30) : p, PLANT_BYTES));
    must(cuStreamSynchronize(s));
    must(cuMemFree(p));
    must(cuStreamDestroy(s));
}

static void launch_on_memory_that_is_gone(bool fault)
{
    CUdeviceptr p;
    CUstream s = plant_stream();
    must(cuMemAlloc(&p, PLANT_BYTES));
    plant_noise(s);
    if (fault) must(cuMemFree(p));
    must(sim_launch_touch(s, p, PLANT_BYTES));
    must(cuStreamSynchronize(s));
    if (!fault) must(cuMemFree(p));
    must(cuStreamDestroy(s));
}

static void graph_memory_before_its_launch(bool fault)
{
    CUstream s = plant_stream();
    CUgraph g;
    CUgraphExec exec;
    CUdeviceptr p;
    must(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    must(cuMemAllocAsync(&p, PLANT_BYTES, s));
    must(cuStreamEndCapture(s, &g));
    must(cuGraphInstantiate(&exec, g, 0));
    if (fault) must(sim_launch_touch(s, p, PLANT_BYTES));
    must(cuGraphLaunch(exec, s));
    must(sim_launch_touch(s, p, PLANT_BYTES));
    must(cuMemFreeAsync(p, s));
    must(cuStreamSynchronize(s));
    must(cuGraphExecDestroy(exec));
    must(cuGraphDestroy(g));
    must(cuStreamDestroy(s));
}

static void graph_memory_freed_twice(bool fault)
{
    CUstream s = plant_stream();
    CUgraph g;
    CUgraphExec exec;
    CUdeviceptr p;
    must(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    must(cuMemAllocAsync(&p, PLANT_BYTES, s));
    must(cuStreamEndCapture(s, &g));
    must(cuGraphInstantiate(&exec, g, 0));
    must(cuGraphLaunch(exec, s));
    must(cuMemFreeAsync(p, s));
    if (fault) must(cuMemFreeAsync(p, s));
    else must(cuGraphLaunch(exec, s)), must(cuMemFreeAsync(p, s));
    must(cuStreamSynchronize(s));
    must(cuGraphExecDestroy(exec));
    must(cuGraphDestroy(g));
    must(cuStreamDestroy(s));
}

/* --- virtual memory ---------------------------------------------------------------------------------------------------- */

static const CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                          .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };

static void allow(CUdeviceptr va, bool access)
{
    CUmemAccessDesc desc = { .location = prop.location,
                             .flags = access ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE };
    must(cuMemSetAccess(va, PLANT_VA, &desc, 1));
}

static CUdeviceptr map(CUdeviceptr at, bool access)
{
    CUdeviceptr va = at;
    CUmemGenericAllocationHandle h;
    if (!at) must(cuMemAddressReserve(&va, PLANT_VA, 0, 0, 0));
    must(cuMemCreate(&h, PLANT_VA, &prop, 0));
    must(cuMemMap(va, PLANT_VA, 0, h, 0));
    must(cuMemRelease(h)); /* lives as long as the map */
    if (access) allow(va, true);
    return va;
}

static void unmap(CUdeviceptr va)
{
    must(cuMemUnmap(va, PLANT_VA));
    must(cuMemAddressFree(va, PLANT_VA));
}

static void map_without_access(bool fault)
{
    CUstream s = plant_stream();
    CUdeviceptr va = map(0, !fault);
    must(cuMemsetD8Async(va, 1, PLANT_BYTES, s));
    must(cuStreamSynchronize(s));
    unmap(va);
    must(cuStreamDestroy(s));
}

static void access_taken_away(bool fault)
{
    CUdeviceptr va = map(0, true);
    struct replay r = captured_fill(va);
    must(cuGraphLaunch(r.exec, r.s));
    must(cuStreamSynchronize(r.s));
    if (fault) {
        allow(va, false);
        must(cuGraphLaunch(r.exec, r.s));
    }
    end_replay(r);
    unmap(va);
}

static void launch_on_unmapped_memory(bool fault)
{
    CUdeviceptr va = map(0, true);
    struct replay r = captured_fill(va);
    must(cuGraphLaunch(r.exec, r.s));
    must(cuStreamSynchronize(r.s));
    if (fault) {
        unmap(va);
        must(cuGraphLaunch(r.exec, r.s));
    }
    end_replay(r);
    if (!fault) unmap(va);
}

static void launch_on_remapped_memory(bool fault)
{
    CUdeviceptr va = map(0, true);
    struct replay r = captured_fill(va);
    must(cuGraphLaunch(r.exec, r.s));
    must(cuStreamSynchronize(r.s));
    if (fault) {
        must(cuMemUnmap(va, PLANT_VA));
        map(va, true);
        must(cuGraphLaunch(r.exec, r.s));
    }
    end_replay(r);
    unmap(va);
}

static void unmap_under_work(bool fault)
{
    CUstream s = plant_stream();
    CUdeviceptr va = map(0, true);
    must(cuMemsetD8Async(va, 1, PLANT_BYTES, s));
    plant_noise(s);
    if (!fault) must(cuStreamSynchronize(s));
    unmap(va);
    must(cuStreamSynchronize(s));
    must(cuStreamDestroy(s));
}

static void access_taken_away_under_work(bool fault)
{
    CUstream s = plant_stream();
    CUdeviceptr va = map(0, true);
    must(cuMemsetD8Async(va, 1, PLANT_BYTES, s));
    plant_noise(s);
    if (!fault) must(cuStreamSynchronize(s));
    allow(va, false);
    must(cuStreamSynchronize(s));
    unmap(va);
    must(cuStreamDestroy(s));
}

/* --- work that is running ---------------------------------------------------------------------------------------------- */

/* With real threads: nothing runs beside the program under a seed. */
static void freed_under_a_running_kernel(bool fault)
{
    CUdeviceptr p;
    int go = 0;
    sim_seed(0);
    CUstream s = plant_stream();
    must(cuMemAlloc(&p, PLANT_BYTES));
    must(sim_launch_until(s, p, PLANT_BYTES, &go));
    while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE)) usleep(50);
    if (fault) {
        sim_set_free_waits(0);
        alarm(200); /* a free that waits after all would wait for ever */
        must(cuMemFree(p));
        alarm(0);
        sim_set_free_waits(1);
        __atomic_store_n(&go, 2, __ATOMIC_RELEASE);
    } else {
        __atomic_store_n(&go, 2, __ATOMIC_RELEASE);
        must(cuMemFree(p)); /* which waits */
    }
    must(cuStreamSynchronize(s));
    must(cuStreamDestroy(s));
}

/* --- memory that its context takes along ------------------------------------------------------------------------------------ */

/* Memory of one context, filled by a stream of another; it is gone when this returns. */
static void fill_anothers_memory(bool waits, bool frees)
{
    CUcontext mine, other;
    CUdeviceptr p;
    CUstream s = plant_stream();
    must(cuCtxGetCurrent(&mine));
    must(cuCtxCreate(&other, NULL, 0, 0));
    must(cuMemAlloc(&p, PLANT_BYTES));
    must(cuCtxSetCurrent(mine));
    must(cuMemsetD8Async(p, 1, PLANT_BYTES, s));
    plant_noise(s);
    if (waits) must(cuStreamSynchronize(s));
    must(cuCtxSetCurrent(other));
    if (frees) must(cuMemFree(p));
    must(cuCtxSetCurrent(mine));
    must(cuCtxDestroy(other));
    must(cuStreamSynchronize(s));
    must(cuStreamDestroy(s));
}

static void context_destroyed_under_anothers_work(bool fault)
{
    fill_anothers_memory(!fault, false);
}

/* The free waits for the memory's own context. */
static void freed_beside_anothers_work(bool fault)
{
    fill_anothers_memory(!fault, true);
}

/* --- pinned memory ----------------------------------------------------------------------------------------------------------- */

static void pinned_memory_freed_under_a_copy(bool fault)
{
    CUstream s = plant_stream();
    CUdeviceptr p;
    void *host;
    must(cuMemAlloc(&p, PLANT_BYTES));
    must(cuMemAllocHost(&host, PLANT_BYTES));
    sim_set_looks(0);
    must(cuMemcpyHtoDAsync(p, host, PLANT_BYTES, s));
    plant_noise(s);
    sim_fact_set("host_free_waits", 0);
    if (!fault) must(cuStreamSynchronize(s));
    must(cuMemFreeHost(host));
    sim_set_looks(2);
    sim_fact_set("host_free_waits", 1);
    must(cuStreamSynchronize(s));
    must(cuMemFree(p));
    must(cuStreamDestroy(s));
}

/* --- two devices ---------------------------------------------------------------------------------------------------------- */

static void other_devices_memory(bool fault)
{
    CUcontext first, second;
    CUdeviceptr p;
    CUstream s = plant_stream();
    must(cuCtxGetCurrent(&first));
    must(cuDevicePrimaryCtxRetain(&second, 1));
    must(cuCtxSetCurrent(second));
    must(cuMemAlloc(&p, PLANT_BYTES));
    must(cuCtxSetCurrent(first));
    if (!fault) must(cuCtxEnablePeerAccess(second, 0));
    must(sim_launch_touch(s, p, PLANT_BYTES));
    must(cuStreamSynchronize(s));
    must(cuStreamDestroy(s));
    must(cuCtxSetCurrent(second));
    must(cuMemFree(p));
    must(cuCtxSetCurrent(first));
    must(cuDevicePrimaryCtxReset(1));
}

const struct plant memory_plants[] = {
    { "graph on freed memory", "use-after-free", launch_on_freed_memory },
    { "graph on somebody else's memory", "use-after-reuse", launch_on_somebody_elses_memory },
    { "graph on unmapped memory", "use-after-unmap", launch_on_unmapped_memory },
    { "graph on remapped memory", "use-after-reuse", launch_on_remapped_memory },
    { "launch on memory not allocated", "unallocated", launch_on_memory_not_allocated },
    { "launch on memory that is gone", "use-after-free", launch_on_memory_that_is_gone },
    { "graph memory before its launch", "use-before-alloc", graph_memory_before_its_launch },
    { "graph memory freed twice", "graph-double-free", graph_memory_freed_twice },
    { "map without access", "no-access", map_without_access },
    { "access taken away", "no-access", access_taken_away },
    { "access taken away under work", "unordered-access", access_taken_away_under_work },
    { "unmap under work", "unordered-free", unmap_under_work },
    { "freed under a running kernel", "free-while-running", freed_under_a_running_kernel },
    { "context destroyed under another's work", "unordered-free", context_destroyed_under_anothers_work },
    { "freed beside another's work", "unordered-free", freed_beside_anothers_work },
    { "pinned memory freed under a copy", "unordered-free", pinned_memory_freed_under_a_copy },
    { "other device's memory", "no-peer-access", other_devices_memory },
    { 0 },
};
