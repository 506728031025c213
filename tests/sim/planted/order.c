/* Plants about order: memory used, or given back, where nothing puts it behind what must come first. */
#include "plant.h"

static void order(CUstream first, CUstream then)
{
    CUevent e = plant_event();
    must(cuEventRecord(e, first));
    must(cuStreamWaitEvent(then, e, 0));
    must(cuEventDestroy(e));
}

struct pair {
    CUstream a, b;
    CUdeviceptr p;
};

static struct pair begin(void)
{
    struct pair x = { plant_stream(), plant_stream(), 0 };
    plant_noise(x.a);
    plant_noise(x.b);
    must(cuMemAllocAsync(&x.p, PLANT_BYTES * (1 + plant_random(4)), x.a));
    return x;
}

static void end(struct pair x)
{
    must(cuStreamSynchronize(x.a));
    must(cuStreamSynchronize(x.b));
    must(cuStreamDestroy(x.a));
    must(cuStreamDestroy(x.b));
}

static void use_in_another_stream(bool fault)
{
    struct pair x = begin();
    if (!fault) order(x.a, x.b);
    must(sim_launch_touch(x.b, x.p, PLANT_BYTES));
    order(x.b, x.a);
    must(cuMemFreeAsync(x.p, x.a));
    end(x);
}

static void copy_in_another_stream(bool fault)
{
    struct pair x = begin();
    unsigned char bytes[64] = { 0 };
    if (!fault) order(x.a, x.b);
    must(cuMemcpyHtoDAsync(x.p, bytes, sizeof bytes, x.b));
    order(x.b, x.a);
    must(cuMemFreeAsync(x.p, x.a));
    end(x);
}

static void free_before_another_streams_use(bool fault)
{
    struct pair x = begin();
    order(x.a, x.b);
    must(sim_launch_touch(x.b, x.p, PLANT_BYTES));
    plant_noise(x.b);
    if (!fault) order(x.b, x.a);
    must(cuMemFreeAsync(x.p, x.a));
    end(x);
}

static void event_recorded_too_early(bool fault)
{
    struct pair x = begin();
    CUevent used = plant_event();
    order(x.a, x.b);
    if (fault) must(cuEventRecord(used, x.b));
    must(cuMemsetD8Async(x.p, 1, PLANT_BYTES, x.b));
    if (!fault) must(cuEventRecord(used, x.b));
    must(cuStreamWaitEvent(x.a, used, 0));
    must(cuMemFreeAsync(x.p, x.a));
    must(cuEventDestroy(used));
    end(x);
}

static void free_in_another_stream(bool fault)
{
    struct pair x = begin();
    plant_noise(x.a);
    if (!fault) order(x.a, x.b);
    must(cuMemFreeAsync(x.p, x.b));
    end(x);
}

/* a -> b -> c, and the fault's chain lacks a link. */
static void chain_of_three(bool fault)
{
    struct pair x = begin();
    CUstream c = plant_stream();
    order(x.a, x.b);
    plant_noise(x.b);
    if (!fault) order(x.b, c);
    must(sim_launch_touch(c, x.p, PLANT_BYTES));
    order(c, x.b);
    order(x.b, x.a);
    must(cuMemFreeAsync(x.p, x.a));
    must(cuStreamDestroy(c));
    end(x);
}

/* The legacy stream waits for blocking streams, not for the others. */
static void legacy_stream(bool fault)
{
    CUstream s;
    CUdeviceptr p;
    must(cuStreamCreate(&s, fault ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    must(cuMemAllocAsync(&p, PLANT_BYTES, s));
    plant_noise(s);
    must(sim_launch_touch(s, p, PLANT_BYTES));
    must(cuMemFreeAsync(p, CU_STREAM_LEGACY));
    must(cuStreamSynchronize(s));
    must(cuStreamSynchronize(CU_STREAM_LEGACY));
    must(cuStreamDestroy(s));
}

static void per_thread_stream(bool fault)
{
    CUdeviceptr p;
    CUstream s = fault ? plant_stream() : CU_STREAM_PER_THREAD;
    must(cuMemAllocAsync(&p, PLANT_BYTES, CU_STREAM_LEGACY));
    plant_noise(CU_STREAM_LEGACY);
    must(sim_launch_touch(s, p, PLANT_BYTES));
    if (fault) must(cuStreamSynchronize(s));
    must(cuMemFreeAsync(p, CU_STREAM_LEGACY));
    must(cuCtxSynchronize());
    if (fault) must(cuStreamDestroy(s));
}

/* The program waits for a stream; the fault for the wrong one. */
static void wait_for_the_other_stream(bool fault)
{
    struct pair x = begin();
    order(x.a, x.b);
    must(sim_launch_touch(x.b, x.p, PLANT_BYTES));
    must(cuStreamSynchronize(fault ? x.a : x.b));
    must(cuMemFreeAsync(x.p, x.a));
    end(x);
}

static void query_the_other_event(bool fault)
{
    struct pair x = begin();
    CUevent made = plant_event(), used = plant_event();
    must(cuEventRecord(made, x.a));
    must(cuStreamWaitEvent(x.b, made, 0));
    must(sim_launch_touch(x.b, x.p, PLANT_BYTES));
    must(cuEventRecord(used, x.b));
    while (cuEventQuery(fault ? made : used) == CUDA_ERROR_NOT_READY) ;
    must(cuMemFreeAsync(x.p, x.a));
    must(cuEventDestroy(made));
    must(cuEventDestroy(used));
    end(x);
}

static void tell(void *flag)
{
    __atomic_store_n((int *)flag, 1, __ATOMIC_RELEASE);
}

/* A host function tells the program how far the stream is. */
static void told_by_a_host_function(bool fault)
{
    struct pair x = begin();
    int told = 0;
    order(x.a, x.b);
    if (fault) must(cuLaunchHostFunc(x.b, tell, &told));
    must(sim_launch_touch(x.b, x.p, PLANT_BYTES));
    if (!fault) must(cuLaunchHostFunc(x.b, tell, &told));
    while (!__atomic_load_n(&told, __ATOMIC_ACQUIRE)) (void)cuStreamQuery(x.a);
    must(cuMemFreeAsync(x.p, x.a));
    end(x);
}

static void free_at_once_of_stream_ordered_memory(bool fault)
{
    struct pair x = begin();
    must(sim_launch_touch(x.a, x.p, PLANT_BYTES));
    if (!fault) must(cuStreamSynchronize(x.a));
    must(cuMemFree(x.p));
    end(x);
}

static void sync_free_that_does_not_wait(bool fault)
{
    CUstream s = plant_stream();
    CUdeviceptr p;
    must(cuMemAlloc(&p, PLANT_BYTES));
    must(cuMemsetD8Async(p, 1, PLANT_BYTES, s));
    sim_set_free_waits(!fault);
    must(cuMemFree(p));
    sim_set_free_waits(1);
    must(cuStreamDestroy(s));
}

static void sync_memory_freed_in_a_stream(bool fault)
{
    CUstream a = plant_stream(), b = plant_stream();
    CUdeviceptr p;
    must(cuMemAlloc(&p, PLANT_BYTES));
    must(cuMemsetD8Async(p, 1, PLANT_BYTES, a));
    must(cuMemFreeAsync(p, fault ? b : a));
    must(cuStreamSynchronize(a));
    must(cuStreamSynchronize(b));
    must(cuStreamDestroy(a));
    must(cuStreamDestroy(b));
}

static void work_of_a_destroyed_stream(bool fault)
{
    struct pair x = begin();
    order(x.a, x.b);
    must(sim_launch_touch(x.b, x.p, PLANT_BYTES));
    must(cuStreamDestroy(x.b));
    if (!fault) must(cuCtxSynchronize());
    must(cuMemFreeAsync(x.p, x.a));
    must(cuCtxSynchronize());
    must(cuStreamDestroy(x.a));
}

static void context_events(bool fault)
{
    struct pair x = begin();
    CUcontext c;
    CUevent all = plant_event();
    must(cuCtxGetCurrent(&c));
    order(x.a, x.b);
    if (fault) must(cuCtxRecordEvent(c, all));
    must(sim_launch_touch(x.b, x.p, PLANT_BYTES));
    if (!fault) must(cuCtxRecordEvent(c, all));
    must(cuStreamWaitEvent(x.a, all, 0));
    must(cuMemFreeAsync(x.p, x.a));
    must(cuEventDestroy(all));
    end(x);
}

static void created_pool(bool fault)
{
    CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                             .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
    CUmemoryPool pool;
    CUstream a = plant_stream(), b = plant_stream();
    CUdeviceptr p;
    must(cuMemPoolCreate(&pool, &props));
    must(cuMemAllocFromPoolAsync(&p, PLANT_BYTES, pool, a));
    if (!fault) order(a, b);
    must(sim_launch_touch(b, p, PLANT_BYTES));
    order(b, a);
    must(cuMemFreeAsync(p, a));
    must(cuMemPoolDestroy(pool));
    end((struct pair){ a, b, 0 });
}

static void graph_launched_beside_the_free(bool fault)
{
    struct pair x = begin();
    CUgraph g;
    CUgraphExec exec;
    order(x.a, x.b);
    must(cuStreamBeginCapture(x.b, CU_STREAM_CAPTURE_MODE_RELAXED));
    must(cuMemsetD8Async(x.p, 1, PLANT_BYTES, x.b));
    must(cuStreamEndCapture(x.b, &g));
    must(cuGraphInstantiate(&exec, g, 0));
    must(cuGraphDestroy(g));
    must(cuGraphLaunch(exec, x.b));
    must(cuGraphExecDestroy(exec));
    if (!fault) order(x.b, x.a);
    must(cuMemFreeAsync(x.p, x.a));
    end(x);
}

static void graph_memory_used_elsewhere(bool fault)
{
    CUstream a = plant_stream(), b = plant_stream();
    CUgraph g;
    CUgraphExec exec;
    CUdeviceptr p;
    must(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    must(cuMemAllocAsync(&p, PLANT_BYTES, a));
    must(cuStreamEndCapture(a, &g));
    must(cuGraphInstantiate(&exec, g, 0));
    plant_noise(a);
    must(cuGraphLaunch(exec, a));
    if (!fault) order(a, b);
    must(sim_launch_touch(b, p, PLANT_BYTES));
    order(b, a);
    must(cuMemFreeAsync(p, a));
    must(cuStreamSynchronize(a));
    must(cuGraphExecDestroy(exec));
    must(cuGraphDestroy(g));
    end((struct pair){ a, b, 0 });
}

/* A launch is behind the launches of the same executable graph; the fault launches another one, made of the same graph. */
static void graph_launched_in_two_streams(bool fault)
{
    struct pair x = begin();
    CUgraph g;
    CUgraphExec first, second;
    must(cuStreamBeginCapture(x.a, CU_STREAM_CAPTURE_MODE_RELAXED));
    must(cuMemsetD8Async(x.p, 1, PLANT_BYTES, x.a));
    must(cuStreamEndCapture(x.a, &g));
    must(cuGraphInstantiate(&first, g, 0));
    must(cuGraphInstantiate(&second, g, 0));
    must(cuGraphLaunch(first, x.a));
    plant_noise(x.a);
    must(cuGraphLaunch(fault ? second : first, x.b));
    must(cuGraphExecDestroy(first));
    must(cuGraphExecDestroy(second));
    must(cuGraphDestroy(g));
    order(x.b, x.a);
    must(cuMemFreeAsync(x.p, x.a));
    end(x);
}

/* The context's wait binds streams that are made later. */
static void context_wait_before_the_stream_is_made(bool fault)
{
    CUcontext c;
    CUdeviceptr p;
    CUevent made = plant_event();
    CUstream a = plant_stream();
    must(cuCtxGetCurrent(&c));
    must(cuMemAllocAsync(&p, PLANT_BYTES, a));
    must(cuEventRecord(made, a));
    if (!fault) must(cuCtxWaitEvent(c, made));
    must(cuEventDestroy(made));
    CUstream b = plant_stream();
    must(sim_launch_touch(b, p, PLANT_BYTES));
    order(b, a);
    must(cuMemFreeAsync(p, a));
    end((struct pair){ a, b, 0 });
}

/* The program polls what a copy brings: a proof, unless the program is one that does not look. */
static void copied_to_pinned_memory_and_nobody_looked(bool fault)
{
    struct pair x = begin();
    void *host;
    must(cuMemAllocHost(&host, PLANT_BYTES));
    order(x.a, x.b);
    sim_set_looks(1);
    must(cuMemcpyDtoHAsync(host, x.p, PLANT_BYTES, x.b));
    plant_noise(x.b);
    for (unsigned n = plant_random(4); n; n--) (void)cuStreamQuery(x.a);
    if (!fault) must(cuStreamSynchronize(x.b));
    must(cuMemFreeAsync(x.p, x.a));
    sim_set_looks(2);
    end(x);
    must(cuMemFreeHost(host));
}

/* What a copy only reads tells the program nothing. */
static void uploaded_from_pinned_memory(bool fault)
{
    struct pair x = begin();
    void *host;
    must(cuMemAllocHost(&host, PLANT_BYTES));
    order(x.a, x.b);
    must(cuMemcpyHtoDAsync(x.p, host, PLANT_BYTES, x.b));
    plant_noise(x.b);
    for (unsigned n = plant_random(4); n; n--) (void)cuStreamQuery(x.a);
    if (!fault) must(cuStreamSynchronize(x.b));
    must(cuMemFreeAsync(x.p, x.a));
    end(x);
    must(cuMemFreeHost(host));
}

/* The legacy stream waits for what a destroyed blocking stream has left, not for a non-blocking one. */
static void destroyed_before_the_legacy_stream_frees(bool fault)
{
    CUstream s;
    CUdeviceptr p;
    must(cuStreamCreate(&s, fault ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    must(cuMemAllocAsync(&p, PLANT_BYTES, s));
    must(sim_launch_touch(s, p, PLANT_BYTES));
    plant_noise(s);
    must(cuStreamDestroy(s));
    must(cuMemFreeAsync(p, CU_STREAM_LEGACY));
    must(cuCtxSynchronize());
}

/* Two streams use the memory, and the flag comes from one of them. */
static void flag_of_one_of_two(bool fault)
{
    struct pair x = begin();
    CUstream c = plant_stream();
    CUdeviceptr flag;
    must(cuMemAlloc(&flag, 64));
    must(cuMemsetD32(flag, 0, 16));
    order(x.a, c);
    must(sim_launch_touch(c, x.p, PLANT_BYTES));
    must(sim_launch_touch(x.a, x.p, PLANT_BYTES));
    if (!fault) order(x.a, c);
    must(cuStreamWaitValue32(x.b, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
    must(cuMemFreeAsync(x.p, x.b));
    must(cuStreamWriteValue32(c, flag, 1, 0));
    end(x);
    must(cuStreamDestroy(c));
    must(cuMemFree(flag));
}

struct branches {
    CUgraph g;
    CUgraphNode alloc, fill;
    CUdeviceptr p;
};

/* A graph with memory, a fill of it, and its free behind the nodes that are given; launched. */
static void run_branches(bool fill_behind_alloc, bool free_behind_fill)
{
    struct branches x;
    CUcontext c;
    CUgraphExec exec;
    CUgraphNode end;
    CUstream s = plant_stream();
    CUDA_MEM_ALLOC_NODE_PARAMS alloc = { .poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                        .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } },
                                         .bytesize = PLANT_BYTES };
    must(cuCtxGetCurrent(&c));
    must(cuGraphCreate(&x.g, 0));
    must(cuGraphAddMemAllocNode(&x.alloc, x.g, NULL, 0, &alloc));
    x.p = alloc.dptr;
    CUDA_MEMSET_NODE_PARAMS fill = { .dst = x.p, .value = 1, .elementSize = 1, .width = PLANT_BYTES, .height = 1 };
    must(cuGraphAddMemsetNode(&x.fill, x.g, &x.alloc, fill_behind_alloc, &fill, c));
    CUgraphNode before[] = { x.alloc, x.fill };
    must(cuGraphAddMemFreeNode(&end, x.g, before, 1 + free_behind_fill, x.p));
    must(cuGraphInstantiate(&exec, x.g, 0));
    must(cuGraphLaunch(exec, s));
    must(cuStreamSynchronize(s));
    must(cuGraphExecDestroy(exec));
    must(cuGraphDestroy(x.g));
    must(cuStreamDestroy(s));
}

static void use_in_another_branch(bool fault)
{
    run_branches(!fault, true);
}

static void free_in_another_branch(bool fault)
{
    run_branches(true, !fault);
}

const struct plant order_plants[] = {
    { "use in another stream", "unordered-use", use_in_another_stream },
    { "copy in another stream", "unordered-use", copy_in_another_stream },
    { "chain of three streams", "unordered-use", chain_of_three },
    { "per-thread stream", "unordered-use", per_thread_stream },
    { "created pool", "unordered-use", created_pool },
    { "graph memory used elsewhere", "unordered-use", graph_memory_used_elsewhere },
    { "graph launched in two streams", "unordered-use", graph_launched_in_two_streams },
    { "use in another branch of a graph", "unordered-use", use_in_another_branch },
    { "free in another branch of a graph", "unordered-free", free_in_another_branch },
    { "context's wait, a later stream", "unordered-use", context_wait_before_the_stream_is_made },
    { "copied to the host, nobody looked", "unordered-free", copied_to_pinned_memory_and_nobody_looked },
    { "uploaded from pinned memory", "unordered-free", uploaded_from_pinned_memory },
    { "destroyed before the legacy free", "unordered-free", destroyed_before_the_legacy_stream_frees },
    { "flag of one of two", "unordered-free", flag_of_one_of_two },
    { "free before another stream's use", "unordered-free", free_before_another_streams_use },
    { "event recorded too early", "unordered-free", event_recorded_too_early },
    { "free in another stream", "unordered-free", free_in_another_stream },
    { "legacy stream", "unordered-free", legacy_stream },
    { "wait for the other stream", "unordered-free", wait_for_the_other_stream },
    { "query the other event", "unordered-free", query_the_other_event },
    { "told by a host function", "unordered-free", told_by_a_host_function },
    { "free at once, stream-ordered memory", "unordered-free", free_at_once_of_stream_ordered_memory },
    { "free that does not wait", "unordered-free", sync_free_that_does_not_wait },
    { "sync memory freed in a stream", "unordered-free", sync_memory_freed_in_a_stream },
    { "work of a destroyed stream", "unordered-free", work_of_a_destroyed_stream },
    { "context events", "unordered-free", context_events },
    { "graph launched beside the free", "unordered-free", graph_launched_beside_the_free },
    { 0 },
};
