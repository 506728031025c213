/* Plants about calls: frees, captures, callbacks, locks, and what is never given back. */
#include "plant.h"

/* --- frees --------------------------------------------------------------------------------------------------------- */

static void sync_memory_freed_twice(bool fault)
{
    CUdeviceptr p;
    must(cuMemAlloc(&p, PLANT_BYTES));
    must(cuMemFree(p));
    if (fault) (void)cuMemFree(p);
}

static void async_memory_freed_twice(bool fault)
{
    CUstream s = plant_stream();
    CUdeviceptr p;
    must(cuMemAllocAsync(&p, PLANT_BYTES, s));
    must(cuMemFreeAsync(p, s));
    if (fault) (void)cuMemFreeAsync(p, s);
    must(cuStreamSynchronize(s));
    must(cuStreamDestroy(s));
}

static void host_memory_freed_twice(bool fault)
{
    void *p;
    must(cuMemAllocHost(&p, PLANT_BYTES));
    must(cuMemFreeHost(p));
    if (fault) (void)cuMemFreeHost(p);
}

static void freed_inside(bool fault)
{
    CUdeviceptr p;
    must(cuMemAlloc(&p, PLANT_BYTES));
    if (fault) (void)cuMemFree(p + 256);
    must(cuMemFree(p));
}

static void freed_after_its_context(bool fault)
{
    CUcontext before, c;
    CUdeviceptr p;
    must(cuCtxGetCurrent(&before));
    must(cuCtxCreate(&c, NULL, 0, 0));
    must(cuMemAlloc(&p, PLANT_BYTES));
    if (!fault) must(cuMemFree(p));
    must(cuCtxDestroy(c));
    must(cuCtxSetCurrent(before));
    if (fault) (void)cuMemFree(p);
}

static void freed_in_another_context(bool fault)
{
    CUcontext before, c;
    CUdeviceptr p;
    must(cuCtxGetCurrent(&before));
    must(cuCtxCreate(&c, NULL, 0, 0));
    must(cuMemAlloc(&p, PLANT_BYTES));
    if (fault) must(cuCtxSetCurrent(before));
    must(cuMemFree(p));
    must(cuCtxDestroy(c));
    must(cuCtxSetCurrent(before));
}

/* --- captures and graphs ------------------------------------------------------------------------------------------- */

static void freed_while_captured(bool fault)
{
    CUstream s = plant_stream();
    CUdeviceptr p;
    CUgraph g;
    must(cuMemAlloc(&p, PLANT_BYTES));
    must(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    must(cuMemsetD8Async(p, 1, PLANT_BYTES, s));
    if (fault) must(cuMemFree(p));
    must(cuStreamEndCapture(s, &g));
    must(cuGraphDestroy(g));
    if (!fault) must(cuMemFree(p));
    must(cuStreamDestroy(s));
}

static void freed_while_in_a_graph(bool fault)
{
    CUstream s = plant_stream();
    CUdeviceptr p;
    CUgraph g;
    CUgraphExec exec;
    must(cuMemAlloc(&p, PLANT_BYTES));
    must(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    must(cuMemsetD8Async(p, 1, PLANT_BYTES, s));
    must(cuStreamEndCapture(s, &g));
    must(cuGraphInstantiate(&exec, g, 0));
    must(cuGraphDestroy(g));
    if (fault) must(cuMemFree(p));
    must(cuGraphExecDestroy(exec));
    if (!fault) must(cuMemFree(p));
    must(cuStreamDestroy(s));
}

static void capture_ended_by_a_call(bool fault)
{
    CUstream s = plant_stream();
    CUdeviceptr p = 0;
    CUgraph g = NULL;
    if (!fault) must(cuMemAlloc(&p, PLANT_BYTES));
    must(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    if (fault) (void)cuStreamSynchronize(s);
    (void)cuStreamEndCapture(s, &g);
    if (g) must(cuGraphDestroy(g));
    if (p) must(cuMemFree(p));
    must(cuStreamDestroy(s));
}

/* --- callbacks and locks --------------------------------------------------------------------------------------------- */

static void ask(void *fault)
{
    if (*(bool *)fault) (void)cuCtxSynchronize();
}

static void call_from_a_host_function(bool fault)
{
    CUstream s = plant_stream();
    plant_noise(s);
    must(cuLaunchHostFunc(s, ask, &fault));
    must(cuStreamSynchronize(s));
    must(cuStreamDestroy(s));
}

static int is_held(void *lock)
{
    return *(int *)lock;
}

static void call_with_a_lock(bool fault)
{
    int lock = 0;
    CUdeviceptr p;
    must(sim_lock_register(&lock, is_held));
    lock = 1;
    if (!fault) lock = 0;
    must(cuMemAlloc(&p, PLANT_BYTES));
    lock = 0;
    must(cuMemFree(p));
    sim_lock_unregister(&lock);
}

/* --- leaks: the runner resets the context, which takes them away ------------------------------------------------------ */

static void memory_never_freed(bool fault)
{
    CUdeviceptr p;
    must(cuMemAlloc(&p, PLANT_BYTES));
    if (!fault) must(cuMemFree(p));
}

static void stream_never_destroyed(bool fault)
{
    CUstream s = plant_stream();
    if (!fault) must(cuStreamDestroy(s));
}

const struct plant misuse_plants[] = {
    { "sync memory freed twice", "double-free", sync_memory_freed_twice },
    { "async memory freed twice", "double-free", async_memory_freed_twice },
    { "host memory freed twice", "double-free", host_memory_freed_twice },
    { "freed inside", "bad-free", freed_inside },
    { "freed after its context", "free-after-context", freed_after_its_context },
    { "freed in another context", "wrong-context", freed_in_another_context },
    { "freed while captured", "free-in-capture", freed_while_captured },
    { "freed while in a graph", "free-in-graph", freed_while_in_a_graph },
    { "capture ended by a call", "capture-invalidated", capture_ended_by_a_call },
    { "call from a host function", "call-in-callback", call_from_a_host_function },
    { "call with a lock", "call-with-lock", call_with_a_lock },
    { "memory never freed", "leak", memory_never_freed },
    { "stream never destroyed", "leak", stream_never_destroyed },
    { 0 },
};
