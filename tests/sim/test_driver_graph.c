/* Graphs with memory of their own, what they answer about themselves, and copies of graphs. */
#include "driver_fixture.h"

#include <string.h>

enum { BYTES = 4096 };

static CUgraph new_graph(void)
{
    CUgraph g;
    assert_ok(cuGraphCreate(&g, 0));
    return g;
}

static CUgraphNode add_empty(CUgraph g, const CUgraphNode *deps, size_t count)
{
    CUgraphNode n;
    assert_ok(cuGraphAddEmptyNode(&n, g, deps, count));
    return n;
}

static CUgraphNode add_alloc(CUgraph g, CUdeviceptr *p)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = { .bytesize = BYTES };
    CUgraphNode n;
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    assert_ok(cuGraphAddMemAllocNode(&n, g, NULL, 0, &params));
    *p = params.dptr;
    return n;
}

static CUgraphExec new_exec(CUgraph g, unsigned long long flags)
{
    CUgraphExec x;
    assert_ok(cuGraphInstantiate(&x, g, flags));
    return x;
}

static void launch(CUgraphExec x, CUstream s)
{
    assert_ok(cuGraphLaunch(x, s));
    assert_ok(cuStreamSynchronize(s));
}

static cuuint64_t memory(CUgraphMem_attribute attribute)
{
    cuuint64_t value = 77;
    assert_ok(cuDeviceGetGraphMemAttribute(0, attribute, &value));
    return value;
}

static void a_graph_with_memory_has_one_instance_and_keeps_its_shape(void **state)
{
    (void)state;
    CUgraph g = new_graph(), parent = new_graph(), clone = NULL;
    CUdeviceptr p;
    CUgraphNode made = add_alloc(g, &p), freed, child;
    CUgraphExec second;
    assert_ok(cuGraphAddMemFreeNode(&freed, g, &made, 1, p));
    CUgraphExec x = new_exec(g, 0);
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiate(&second, g, 0));
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&clone, g));
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddChildGraphNode(&child, parent, NULL, 0, g));
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuGraphDestroyNode(freed));
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuGraphRemoveDependencies(g, &made, &freed, NULL, 1));
    assert_null(clone);
    assert_ok(cuGraphExecDestroy(x));
    x = new_exec(g, 0); /* one at a time */
    assert_ok(cuGraphExecDestroy(x));
    assert_ok(cuGraphDestroy(g));
    assert_ok(cuGraphDestroy(parent));
}

static void what_a_graph_frees_nobody_else_may(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUgraph g = new_graph(), other = new_graph();
    CUdeviceptr p;
    CUgraphNode made = add_alloc(g, &p), freed, again;
    assert_ok(cuGraphAddMemFreeNode(&freed, g, &made, 1, p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode(&again, g, &made, 1, p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode(&again, other, NULL, 0, p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, s));
    CUgraphExec x = new_exec(g, 0);
    launch(x, s);
    launch(x, s); /* nothing is left of a launch */
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
    assert_int_equal(sim_violations(), 0);
    assert_ok(cuGraphExecDestroy(x));
    assert_ok(cuGraphDestroy(g));
    assert_ok(cuGraphDestroy(other));
}

static void another_graph_may_free_what_one_leaves(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUgraph g = new_graph(), other = new_graph();
    CUdeviceptr p;
    CUgraphNode made = add_alloc(g, &p), freed;
    assert_ok(cuGraphAddMemFreeNode(&freed, other, NULL, 0, p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode(&freed, g, &made, 1, p)); /* too late for its own */
    CUgraphExec makes = new_exec(g, 0), frees = new_exec(other, 0);
    launch(makes, s);
    assert_int_equal(memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), BYTES);
    launch(frees, s);
    assert_int_equal(memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
    launch(makes, s);
    assert_ok(cuMemFree(p)); /* outside, for once */
    launch(makes, s);
    launch(frees, s);
    assert_int_equal(sim_violations(), 0);
    assert_ok(cuGraphExecDestroy(makes));
    assert_ok(cuGraphExecDestroy(frees));
    assert_ok(cuGraphDestroy(g));
    assert_ok(cuGraphDestroy(other));
    assert_int_equal(sim_live_blocks("graph"), 0);
}

static void a_launch_frees_the_launch_before_where_it_is_told_to(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUgraph g = new_graph();
    CUdeviceptr p;
    add_alloc(g, &p);
    CUgraphExec x = new_exec(g, 0);
    launch(x, s);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(x, s));
    assert_ok(cuMemFreeAsync(p, s));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuGraphExecDestroy(x));
    x = new_exec(g, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    launch(x, s);
    launch(x, s);
    assert_int_equal(memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), BYTES);
    assert_ok(cuMemFreeAsync(p, s));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuGraphExecDestroy(x));
    assert_ok(cuGraphDestroy(g));
    assert_int_equal(sim_violations(), 0);
}

static void graph_memory_stays_reserved_until_it_is_trimmed_or_needed(void **state)
{
    (void)state;
    CUgraph g = new_graph();
    CUdeviceptr p, q;
    size_t unused, total;
    cuuint64_t zero = 0;
    assert_ok(cuDeviceGraphMemTrim(0));
    assert_ok(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &zero));
    add_alloc(g, &p);
    assert_int_equal(memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), BYTES);
    assert_ok(cuGraphDestroy(g));
    assert_int_equal(memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), BYTES);
    assert_int_equal(sim_device_used(0), BYTES);
    g = new_graph();
    add_alloc(g, &p); /* from what is cached */
    assert_int_equal(sim_device_used(0), BYTES);
    assert_ok(cuGraphDestroy(g));
    assert_ok(cuDeviceGraphMemTrim(0));
    assert_int_equal(memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
    assert_int_equal(memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), BYTES);

    g = new_graph();
    add_alloc(g, &p);
    assert_ok(cuGraphDestroy(g));
    assert_ok(cuMemGetInfo(&unused, &total));
    assert_int_equal(unused, total - BYTES);
    assert_ok(cuMemAlloc(&q, total)); /* the cache gives way */
    assert_ok(cuMemFree(q));
    assert_int_equal(sim_device_used(0), 0);
}

static void edges_are_told_by_graph_and_by_node(void **state)
{
    (void)state;
    CUgraph g = new_graph();
    CUgraphNode a = add_empty(g, NULL, 0), b = add_empty(g, &a, 1), both[2] = { a, b }, c = add_empty(g, both, 2);
    CUgraphNode from[4], to[4], list[4] = { NULL, NULL, c, c };
    size_t count = 0;
    assert_ok(cuGraphGetEdges(g, NULL, NULL, NULL, &count));
    assert_int_equal(count, 3);
    count = 4;
    assert_ok(cuGraphGetEdges(g, from, to, NULL, &count));
    assert_int_equal(count, 3);
    assert_true(from[0] == a && to[0] == b && from[2] == b && to[2] == c && !from[3] && !to[3]);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphGetEdges(g, from, NULL, NULL, &count));
    count = 4;
    assert_ok(cuGraphNodeGetDependencies(c, list, NULL, &count));
    assert_true(count == 2 && list[0] == a && list[1] == b && !list[2]);
    count = 1; /* as many as there is room for */
    assert_ok(cuGraphNodeGetDependentNodes(a, list, NULL, &count));
    assert_true(count == 1 && list[0] == b);
    assert_ok(cuGraphRemoveDependencies(g, &a, &c, NULL, 1));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies(g, &a, &c, NULL, 1));
    assert_ok(cuGraphGetEdges(g, NULL, NULL, NULL, &count));
    assert_int_equal(count, 2);
    assert_ok(cuGraphDestroy(g));
}

static void a_clone_is_a_graph_of_its_own(void **state)
{
    (void)state;
    CUgraph g = new_graph(), clone;
    CUgraphNode a = add_empty(g, NULL, 0), b = add_empty(g, &a, 1), found = NULL, dep = NULL;
    size_t count = 1;
    assert_ok(cuGraphClone(&clone, g));
    assert_ok(cuGraphNodeFindInClone(&found, b, clone));
    assert_true(found != b);
    assert_ok(cuGraphNodeGetDependencies(found, &dep, NULL, &count));
    assert_int_equal(count, 1);
    assert_true(dep && dep != a);
    assert_ok(cuGraphDestroyNode(b));
    assert_ok(cuGraphGetNodes(clone, NULL, &count));
    assert_int_equal(count, 2);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphNodeFindInClone(&found, a, g));
    assert_ok(cuGraphDestroy(g));
    assert_ok(cuGraphDestroy(clone));
    assert_int_equal(sim_live_objects("graph"), 0);
}

static void memory_nodes_tell_their_memory(void **state)
{
    (void)state;
    CUgraph g = new_graph();
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUdeviceptr p, freed_ptr = 0;
    CUgraphNode made = add_alloc(g, &p), freed;
    assert_ok(cuGraphAddMemFreeNode(&freed, g, &made, 1, p));
    assert_ok(cuGraphMemAllocNodeGetParams(made, &params));
    assert_true(params.dptr == p && params.bytesize == BYTES && params.poolProps.location.id == 0);
    assert_ok(cuGraphMemFreeNodeGetParams(freed, &freed_ptr));
    assert_int_equal(freed_ptr, p);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphMemAllocNodeGetParams(freed, &params));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphMemFreeNodeGetParams(made, &freed_ptr));
    assert_ok(cuGraphDestroy(g));
}

static void a_launch_records_and_waits_for_events_outside(void **state)
{
    (void)state;
    CUstream s = new_stream(), other = new_stream();
    CUgraph g = new_graph();
    CUgraphNode wait, record;
    CUevent in, out, seen = NULL;
    CUdeviceptr p;
    assert_ok(cuEventCreate(&in, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuEventCreate(&out, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuGraphAddEventWaitNode(&wait, g, NULL, 0, in));
    assert_ok(cuGraphAddEventRecordNode(&record, g, &wait, 1, out));
    assert_ok(cuGraphEventRecordNodeGetEvent(record, &seen));
    assert_ptr_equal(seen, out);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphEventRecordNodeGetEvent(wait, &seen));
    CUgraphExec x = new_exec(g, 0);
    sim_hold(other);
    assert_ok(cuEventRecord(in, other));
    assert_ok(cuGraphLaunch(x, s));
    assert_cu(CUDA_ERROR_NOT_READY, cuEventQuery(out)); /* it stands behind the event outside */
    sim_release(other);
    assert_ok(cuEventSynchronize(out));
    assert_ok(cuGraphExecDestroy(x));
    assert_ok(cuGraphDestroy(g));

    /* captured, with the external flag: what another stream does after the wait is ordered */
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(cuEventRecordWithFlags(out, s, CU_EVENT_RECORD_EXTERNAL));
    assert_ok(cuStreamEndCapture(s, &g));
    x = new_exec(g, 0);
    assert_ok(cuMemAllocAsync(&p, BYTES, s));
    assert_ok(cuGraphLaunch(x, s));
    assert_ok(cuStreamWaitEvent(other, out, 0));
    assert_int_equal(sim_launch_touch(other, p, BYTES), CUDA_SUCCESS);
    assert_ok(cuMemFreeAsync(p, other));
    assert_ok(cuStreamSynchronize(other));
    assert_int_equal(sim_violations(), 0);
    assert_ok(cuEventDestroy(out));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuGraphLaunch(x, s));
    assert_ok(cuEventDestroy(in));
    assert_ok(cuGraphExecDestroy(x));
    assert_ok(cuGraphDestroy(g));
}

static CUgraphExec fill_exec(CUdeviceptr p)
{
    CUDA_MEMSET_NODE_PARAMS fill = { .dst = p, .value = 7, .elementSize = 1, .width = BYTES, .height = 1 };
    CUgraph g = new_graph();
    CUgraphNode n;
    CUcontext c;
    assert_ok(cuCtxGetCurrent(&c));
    assert_ok(cuGraphAddMemsetNode(&n, g, NULL, 0, &fill, c));
    CUgraphExec x = new_exec(g, 0);
    assert_ok(cuGraphDestroy(g));
    return x;
}

static void a_launch_is_behind_the_launches_before_in_any_stream(void **state)
{
    (void)state;
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUdeviceptr p;
    assert_ok(cuMemAllocAsync(&p, BYTES, a));
    CUgraphExec x = fill_exec(p);
    assert_ok(sim_hold(a));
    assert_ok(cuGraphLaunch(x, a));
    assert_ok(cuGraphLaunch(x, b));
    assert_cu(CUDA_ERROR_NOT_READY, cuStreamQuery(b)); /* it waits for a's */
    assert_ok(cuGraphUpload(x, c));
    assert_cu(CUDA_ERROR_NOT_READY, cuStreamQuery(c));
    assert_ok(cuMemFreeAsync(p, c));
    assert_ok(sim_release(a));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(sim_violations(), 0);
    assert_ok(cuGraphExecDestroy(x));
}

static void a_launch_finds_the_memory_of_the_launch_before_freed(void **state)
{
    (void)state;
    CUstream a = new_stream(), b = new_stream();
    CUgraph g;
    CUdeviceptr p;
    assert_ok(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(cuMemAllocAsync(&p, BYTES, a));
    assert_ok(cuMemsetD8Async(p, 1, BYTES, a));
    assert_ok(cuMemFreeAsync(p, a));
    assert_ok(cuStreamEndCapture(a, &g));
    CUgraphExec x = new_exec(g, 0);
    for (int i = 0; i < 20; i++) assert_ok(cuGraphLaunch(x, i % 2 ? a : b));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(sim_violations(), 0);
    assert_ok(cuGraphExecDestroy(x));
    assert_ok(cuGraphDestroy(g));
}

static void an_edge_is_added_once(void **state)
{
    (void)state;
    CUgraph g;
    CUgraphNode a, b;
    size_t count = 0;
    assert_ok(cuGraphCreate(&g, 0));
    assert_ok(cuGraphAddEmptyNode(&a, g, NULL, 0));
    assert_ok(cuGraphAddEmptyNode(&b, g, NULL, 0));
    assert_ok(cuGraphAddDependencies(g, &a, &b, NULL, 1));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(g, &a, &b, NULL, 1));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(g, &a, &a, NULL, 1));
    assert_ok(cuGraphGetEdges(g, NULL, NULL, NULL, &count));
    assert_int_equal(count, 1);
    assert_ok(cuGraphDestroy(g));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(an_edge_is_added_once),
        on_device(a_graph_with_memory_has_one_instance_and_keeps_its_shape),
        on_device(what_a_graph_frees_nobody_else_may),
        on_device(another_graph_may_free_what_one_leaves),
        on_device(a_launch_frees_the_launch_before_where_it_is_told_to),
        on_device(graph_memory_stays_reserved_until_it_is_trimmed_or_needed),
        on_device(edges_are_told_by_graph_and_by_node),
        on_device(a_clone_is_a_graph_of_its_own),
        on_device(memory_nodes_tell_their_memory),
        on_device(a_launch_records_and_waits_for_events_outside),
        on_device(a_launch_is_behind_the_launches_before_in_any_stream),
        on_device(a_launch_finds_the_memory_of_the_launch_before_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
