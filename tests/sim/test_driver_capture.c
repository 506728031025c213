/* Capture in its modes, what breaks it, and the graphs that come of it. */
#include "driver_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

static void CUDA_CB count(void *n)
{
    atomic_fetch_add((atomic_int *)n, 1);
}

static CUgraph end_ok(CUstream s)
{
    CUgraph g = NULL;
    assert_ok(cuStreamEndCapture(s, &g));
    assert_non_null(g);
    return g;
}

static CUstreamCaptureStatus status_of(CUstream s)
{
    CUstreamCaptureStatus status;
    assert_ok(cuStreamIsCapturing(s, &status));
    return status;
}

/* The capture is over, without a graph. */
static void assert_invalidated(CUstream s)
{
    CUgraph g = (CUgraph)s;
    assert_int_equal(status_of(s), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    assert_cu(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &g));
    assert_null(g);
    assert_int_equal(status_of(s), CU_STREAM_CAPTURE_STATUS_NONE);
}

static void captured_work_runs_at_each_launch_and_not_before(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUgraphExec x;
    atomic_int n = 0;
    size_t nodes = 0;
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_int_equal(status_of(s), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_ok(cuLaunchHostFunc(s, count, &n));
    assert_ok(cuLaunchKernel(any_function(), 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL));
    CUgraph g = end_ok(s);
    assert_ok(cuGraphGetNodes(g, NULL, &nodes));
    assert_int_equal(nodes, 2);
    assert_ok(cuGraphInstantiate(&x, g, 0));
    assert_ok(cuGraphDestroy(g));
    assert_int_equal(n, 0);
    assert_ok(cuGraphLaunch(x, s));
    assert_ok(cuGraphLaunch(x, s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(n, 2);
    assert_ok(cuGraphExecDestroy(x));
    assert_int_equal(sim_live_objects("graph") + sim_live_objects("exec"), 0);
}

static void streams_join_by_events_and_must_come_back(void **state)
{
    (void)state;
    CUstream a = new_stream(), b = new_stream();
    CUevent fork, back;
    CUgraph g;
    assert_ok(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuEventCreate(&back, CU_EVENT_DISABLE_TIMING));
    for (int joined = 0; joined < 2; joined++) {
        atomic_int n = 0;
        assert_ok(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
        assert_ok(cuEventRecord(fork, a));
        assert_ok(cuStreamWaitEvent(b, fork, 0));
        assert_int_equal(status_of(b), CU_STREAM_CAPTURE_STATUS_ACTIVE);
        assert_ok(cuLaunchHostFunc(b, count, &n));
        assert_cu(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(b, &g));
        assert_ok(cuEventRecord(back, b));
        if (joined) assert_ok(cuStreamWaitEvent(a, back, 0));
        assert_cu(joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(a, &g));
        if (joined) assert_ok(cuGraphDestroy(g));
        assert_int_equal(status_of(b), CU_STREAM_CAPTURE_STATUS_NONE);
    }
    assert_cu(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(fork));
    assert_ok(cuEventDestroy(fork));
    assert_ok(cuEventDestroy(back));
}

/* --- what a capture forbids ------------------------------------------------------------------------------------- */

static void an_allocation_breaks_a_capture_of_ones_own_unless_it_is_relaxed(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p = 3;
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_cu(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&p, 8));
    assert_int_equal(p, 3);
    assert_invalidated(s);

    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(cuMemAlloc(&p, 8));
    assert_ok(cuGraphDestroy(end_ok(s)));
    assert_ok(cuMemFree(p));

    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_ok(cuMemAlloc(&p, 8));
    assert_ok(cuThreadExchangeStreamCaptureMode(&mode));
    assert_ok(cuGraphDestroy(end_ok(s)));
    assert_ok(cuMemFree(p));
}

struct elsewhere {
    CUcontext context;
    CUresult result;
};

static void *allocate_elsewhere(void *arg)
{
    struct elsewhere *e = arg;
    CUdeviceptr p;
    e->result = cuCtxSetCurrent(e->context);
    if (e->result == CUDA_SUCCESS) e->result = cuMemAlloc(&p, 8);
    return NULL;
}

static CUresult allocate_in_another_thread(CUcontext c)
{
    struct elsewhere e = { c, CUDA_ERROR_UNKNOWN };
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, allocate_elsewhere, &e), 0);
    pthread_join(t, NULL);
    return e.result;
}

static void another_threads_allocation_breaks_only_a_global_capture(void **state)
{
    CUstream s = new_stream();
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_cu(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, allocate_in_another_thread(*state));
    assert_invalidated(s);
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_ok(allocate_in_another_thread(*state));
    assert_ok(cuGraphDestroy(end_ok(s)));
}

static void waiting_for_what_captures_breaks_it(void **state)
{
    CUstream s = new_stream();
    CUevent e;
    assert_ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_cu(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(s));
    assert_invalidated(s);
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_cu(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize());
    assert_invalidated(s);
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_cu(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxRecordEvent(*state, e));
    assert_invalidated(s);
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(cuEventRecord(e, s));
    assert_cu(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(e));
    assert_invalidated(s);
    assert_ok(cuEventDestroy(e));
}

static void uncaptured_work_and_other_captures_stay_outside(void **state)
{
    (void)state;
    CUstream a = new_stream(), b = new_stream();
    CUevent e;
    assert_ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuEventRecord(e, b));
    assert_ok(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_cu(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(a, e, 0));
    assert_invalidated(a);
    assert_ok(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(cuStreamBeginCapture(b, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(cuEventRecord(e, b));
    assert_cu(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(a, e, 0));
    assert_invalidated(a);
    assert_invalidated(b);
    assert_ok(cuEventDestroy(e));
}

static void the_legacy_stream_breaks_a_blocking_streams_capture(void **state)
{
    (void)state;
    CUstream blocking, free_one = new_stream();
    CUstreamCaptureStatus status;
    assert_cu(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    assert_ok(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_cu(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(NULL, &status));
    assert_int_equal(status_of(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_cu(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuLaunchHostFunc(NULL, count, NULL));
    assert_invalidated(blocking);
    atomic_int n = 0;
    assert_ok(cuStreamBeginCapture(free_one, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(cuLaunchHostFunc(NULL, count, &n));
    assert_ok(cuGraphDestroy(end_ok(free_one)));
    assert_ok(cuStreamSynchronize(NULL));
}

static void a_destroyed_stream_takes_its_capture_along(void **state)
{
    (void)state;
    CUstream s = new_stream();
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(cuLaunchKernel(any_function(), 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
    assert_ok(cuStreamDestroy(s));
    CUdeviceptr p;
    assert_ok(cuMemAlloc(&p, 8)); /* nothing forbids it any more */
    assert_ok(cuMemFree(p));
    assert_int_equal(sim_live_objects("graph"), 0);
}

/* --- graphs ------------------------------------------------------------------------------------------------------- */

static CUgraph one_node_graph(atomic_int *n, int launches)
{
    CUstream s = new_stream();
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < launches; i++) assert_ok(cuLaunchHostFunc(s, count, n));
    CUgraph g = end_ok(s);
    assert_ok(cuStreamDestroy(s));
    return g;
}

static void an_update_replaces_the_work_of_the_same_shape_only(void **state)
{
    (void)state;
    atomic_int old = 0, new = 0;
    CUstream s = new_stream();
    CUgraph a = one_node_graph(&old, 1), b = one_node_graph(&new, 1), c = one_node_graph(&new, 2);
    CUgraphExec x;
    CUgraphExecUpdateResultInfo info;
    assert_ok(cuGraphInstantiate(&x, a, 0));
    assert_ok(cuGraphExecUpdate(x, b, &info));
    assert_cu(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(x, c, &info));
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    assert_ok(cuGraphLaunch(x, s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(old, 0);
    assert_int_equal(new, 1);
    assert_ok(cuGraphExecDestroy(x));
    assert_ok(cuGraphDestroy(a));
    assert_ok(cuGraphDestroy(b));
    assert_ok(cuGraphDestroy(c));
}

static uint64_t graph_memory(CUgraphMem_attribute attribute)
{
    cuuint64_t n = 0;
    assert_ok(cuDeviceGetGraphMemAttribute(0, attribute, &n));
    return n;
}

static void graph_memory_is_there_between_its_nodes(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p;
    CUgraphExec x;
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(cuMemAllocAsync(&p, 4096, s));
    assert_ok(cuMemsetD8Async(p, 1, 4096, s));
    assert_ok(cuMemFreeAsync(p, s));
    CUgraph g = end_ok(s);
    assert_ok(cuGraphInstantiate(&x, g, 0));
    assert_ok(cuGraphDestroy(g));
    assert_ok(sim_launch_touch(s, p, 1)); /* before any launch: not there */
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_violations(), 1);
    assert_ok(cuGraphLaunch(x, s));
    assert_ok(cuGraphLaunch(x, s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_violations(), 1);
    assert_ok(cuGraphLaunch(x, s));
    assert_ok(cuGraphExecDestroy(x)); /* while it may be running */
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_live_blocks("graph"), 0);
    assert_int_equal(sim_device_used(0), 4096); /* cached for the next graph */
    assert_ok(cuDeviceGraphMemTrim(0));
    assert_int_equal(sim_device_used(0), 0);
}

static void graph_memory_may_outlive_its_graph_until_it_is_freed(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p;
    CUgraphExec x;
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(cuMemAllocAsync(&p, 4096, s));
    CUgraph g = end_ok(s);
    assert_ok(cuGraphInstantiate(&x, g, 0));
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 4096);
    assert_ok(cuGraphLaunch(x, s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 4096);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(x, s)); /* what it allocated is not freed */
    assert_ok(cuGraphExecDestroy(x));
    assert_ok(cuGraphDestroy(g));
    assert_ok(sim_launch_touch(s, p, 4096));
    assert_ok(cuMemFreeAsync(p, s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_violations(), 0);
    assert_int_equal(sim_live_blocks("graph"), 0);
    assert_int_equal(sim_device_used(0), 4096); /* cached for the next graph */
    assert_ok(cuDeviceGraphMemTrim(0));
    assert_int_equal(sim_device_used(0), 0);
}

static void a_program_may_say_what_the_next_node_depends_on(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUfunction f = any_function();
    CUgraph g;
    size_t roots = 0;
    assert_cu(CUDA_ERROR_ILLEGAL_STATE, cuStreamUpdateCaptureDependencies(s, NULL, NULL, 0, 0));
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
    assert_ok(cuStreamUpdateCaptureDependencies(s, NULL, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    assert_ok(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
    g = end_ok(s);
    assert_ok(cuGraphGetRootNodes(g, NULL, &roots));
    assert_int_equal(roots, 2);
    assert_ok(cuGraphDestroy(g));
}

static void a_graph_built_by_hand_runs_in_the_order_of_its_edges(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUgraph g;
    CUgraphExec x;
    CUgraphNode alloc, free_node, set;
    size_t nodes = 0;
    assert_ok(cuGraphCreate(&g, 0));
    CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC };
    params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.alloc.bytesize = 4096;
    assert_ok(cuGraphAddNode(&alloc, g, NULL, NULL, 0, &params));
    assert_int_not_equal(params.alloc.dptr, 0);
    /* the free is added before the use, and must run after it */
    assert_ok(cuGraphAddMemFreeNode(&free_node, g, &alloc, 1, params.alloc.dptr));
    CUDA_MEMSET_NODE_PARAMS fill = { .dst = params.alloc.dptr, .elementSize = 4, .width = 1024, .height = 1 };
    CUcontext c;
    assert_ok(cuCtxGetCurrent(&c));
    assert_ok(cuGraphAddMemsetNode(&set, g, &alloc, 1, &fill, c));
    assert_ok(cuGraphAddDependencies(g, &set, &free_node, NULL, 1));
    assert_ok(cuGraphGetRootNodes(g, NULL, &nodes));
    assert_int_equal(nodes, 1);
    assert_ok(cuGraphInstantiate(&x, g, 0));
    assert_ok(cuGraphLaunch(x, s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_violations(), 0);
    assert_ok(cuGraphExecDestroy(x));
    assert_ok(cuGraphAddDependencies(g, &free_node, &set, NULL, 1)); /* a circle */
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate(&x, g, 0));
    assert_ok(cuGraphDestroy(g));
    assert_int_equal(sim_live_blocks("graph"), 0);
    assert_int_equal(sim_live_objects("exec"), 0);
}

static void auto_free_gives_back_what_the_last_launch_left(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p;
    CUgraphExec x;
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(cuMemAllocAsync(&p, 4096, s));
    CUgraph g = end_ok(s);
    assert_ok(cuGraphInstantiate(&x, g, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    assert_ok(cuGraphDestroy(g));
    for (int i = 0; i < 3; i++) assert_ok(cuGraphLaunch(x, s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_violations(), 0);
    assert_ok(cuGraphExecDestroy(x));
    assert_int_equal(sim_live_blocks("graph"), 1);
    assert_ok(cuMemFree(p));
    assert_int_equal(sim_live_blocks("graph"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(captured_work_runs_at_each_launch_and_not_before),
        on_device(streams_join_by_events_and_must_come_back),
        on_device(an_allocation_breaks_a_capture_of_ones_own_unless_it_is_relaxed),
        on_device(another_threads_allocation_breaks_only_a_global_capture),
        on_device(waiting_for_what_captures_breaks_it),
        on_device(uncaptured_work_and_other_captures_stay_outside),
        on_device(the_legacy_stream_breaks_a_blocking_streams_capture),
        on_device(a_destroyed_stream_takes_its_capture_along),
        on_device(an_update_replaces_the_work_of_the_same_shape_only),
        on_device(graph_memory_is_there_between_its_nodes),
        on_device(a_program_may_say_what_the_next_node_depends_on),
        on_device(a_graph_built_by_hand_runs_in_the_order_of_its_edges),
        on_device(auto_free_gives_back_what_the_last_launch_left),
        on_device(graph_memory_may_outlive_its_graph_until_it_is_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
