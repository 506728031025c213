/* What graph nodes are asked to do: told, changed in the graph, changed in what was made of it, left out. */
#include "driver_fixture.h"

#include <stdatomic.h>
#include <string.h>

enum { BYTES = 64 };

struct scene {
    CUgraph g;
    CUdeviceptr a, b;
    CUgraphExec exec;
};

static struct scene begin(void)
{
    struct scene x = { 0 };
    assert_ok(cuGraphCreate(&x.g, 0));
    assert_ok(cuMemAlloc(&x.a, BYTES));
    assert_ok(cuMemAlloc(&x.b, BYTES));
    assert_ok(cuMemsetD8(x.a, 1, BYTES));
    assert_ok(cuMemsetD8(x.b, 2, BYTES));
    return x;
}

static void end(struct scene x)
{
    if (x.exec) assert_ok(cuGraphExecDestroy(x.exec));
    assert_ok(cuGraphDestroy(x.g));
    assert_ok(cuMemFree(x.a));
    assert_ok(cuMemFree(x.b));
}

static void launch(struct scene *x)
{
    if (!x->exec) assert_ok(cuGraphInstantiate(&x->exec, x->g, 0));
    assert_ok(cuGraphLaunch(x->exec, NULL));
    assert_ok(cuCtxSynchronize());
}

static int byte_of(CUdeviceptr p)
{
    unsigned char byte = 0;
    assert_ok(cuMemcpyDtoH(&byte, p, 1));
    return byte;
}

static CUDA_MEMSET_NODE_PARAMS fill_of(CUdeviceptr dst, unsigned value)
{
    return (CUDA_MEMSET_NODE_PARAMS){ .dst = dst, .value = value, .elementSize = 1, .width = BYTES, .height = 1 };
}

static void a_fill_is_told_and_changed(void **state)
{
    struct scene x = begin();
    CUgraphNode n;
    CUDA_MEMSET_NODE_PARAMS p = fill_of(x.a, 7), told;
    assert_ok(cuGraphAddMemsetNode(&n, x.g, NULL, 0, &p, *state));
    assert_ok(cuGraphMemsetNodeGetParams(n, &told));
    assert_memory_equal(&told, &p, sizeof p);
    p = fill_of(x.a, 8);
    assert_ok(cuGraphMemsetNodeSetParams(n, &p));
    launch(&x);
    assert_int_equal(byte_of(x.a), 8);
    p = fill_of(x.b, 9);
    assert_ok(cuGraphExecMemsetNodeSetParams(x.exec, n, &p, *state));
    assert_ok(cuMemsetD8(x.a, 1, BYTES));
    launch(&x);
    assert_int_equal(byte_of(x.a), 1);
    assert_int_equal(byte_of(x.b), 9);
    assert_ok(cuGraphMemsetNodeGetParams(n, &told)); /* the node itself is as it was */
    assert_int_equal(told.dst, x.a);
    p.elementSize = 3;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphMemsetNodeSetParams(n, &p));
    end(x);
}

static CUDA_MEMCPY3D copy_of(CUdeviceptr dst, CUdeviceptr src)
{
    return (CUDA_MEMCPY3D){ .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = src, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                            .dstDevice = dst, .WidthInBytes = BYTES, .Height = 1, .Depth = 1 };
}

static void a_copy_is_told_and_changed(void **state)
{
    struct scene x = begin();
    CUgraphNode n, again;
    CUDA_MEMCPY3D p = copy_of(x.a, x.b), told;
    assert_ok(cuGraphAddMemcpyNode(&n, x.g, NULL, 0, &p, *state));
    assert_ok(cuGraphMemcpyNodeGetParams(n, &told));
    assert_int_equal(told.dstDevice, x.a);
    assert_int_equal(told.srcDevice, x.b);
    assert_int_equal(told.WidthInBytes, BYTES);
    assert_ok(cuGraphAddMemcpyNode(&again, x.g, &n, 1, &told, *state)); /* what is told may be asked for */
    launch(&x);
    assert_int_equal(byte_of(x.a), 2);
    p = copy_of(x.b, x.a);
    assert_ok(cuMemsetD8(x.a, 1, BYTES));
    assert_ok(cuGraphExecMemcpyNodeSetParams(x.exec, n, &p, *state));
    launch(&x);
    assert_int_equal(byte_of(x.b), 1);
    assert_ok(cuGraphMemcpyNodeSetParams(n, &p));
    assert_ok(cuGraphMemcpyNodeGetParams(n, &told));
    assert_int_equal(told.dstDevice, x.b);
    end(x);
}

static int calls[2];

static void count_call(void *which)
{
    calls[*(int *)which]++;
}

static void a_host_function_is_told_and_changed(void **state)
{
    (void)state;
    static int first = 0, second = 1;
    struct scene x = begin();
    CUgraphNode n;
    CUDA_HOST_NODE_PARAMS p = { count_call, &first }, told;
    memset(calls, 0, sizeof calls);
    assert_ok(cuGraphAddHostNode(&n, x.g, NULL, 0, &p));
    assert_ok(cuGraphHostNodeGetParams(n, &told));
    assert_ptr_equal(told.fn, count_call);
    assert_ptr_equal(told.userData, &first);
    launch(&x);
    p.userData = &second;
    assert_ok(cuGraphExecHostNodeSetParams(x.exec, n, &p));
    launch(&x);
    assert_int_equal(calls[0], 1);
    assert_int_equal(calls[1], 1);
    assert_ok(cuGraphHostNodeSetParams(n, &p));
    assert_ok(cuGraphHostNodeGetParams(n, &told));
    assert_ptr_equal(told.userData, &second);
    p.fn = NULL;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphHostNodeSetParams(n, &p));
    end(x);
}

static void a_kernel_is_told_as_it_was_launched(void **state)
{
    (void)state;
    struct scene x = { 0 };
    CUstream s = new_stream();
    CUfunction f = any_function(), g = any_function();
    CUgraphNode n;
    CUDA_KERNEL_NODE_PARAMS p = { 0 };
    size_t count = 1;
    int wrong;
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(cuLaunchKernel(f, 2, 3, 4, 5, 6, 7, 8, s, NULL, NULL));
    assert_ok(cuStreamEndCapture(s, &x.g));
    assert_ok(cuGraphGetNodes(x.g, &n, &count));
    assert_ok(cuGraphKernelNodeGetParams(n, &p));
    assert_ptr_equal(p.func, f);
    assert_int_equal(p.gridDimX * 100 + p.gridDimY * 10 + p.gridDimZ, 234);
    assert_int_equal(p.blockDimX * 100 + p.blockDimY * 10 + p.blockDimZ, 567);
    assert_int_equal(p.sharedMemBytes, 8);
    *(uint64_t *)p.kernelParams[1] = 5; /* some programs write there and set what they were told */
    p.func = g;
    assert_ok(cuGraphKernelNodeSetParams(n, &p));
    assert_ok(cuGraphKernelNodeGetParams(n, &p));
    assert_ptr_equal(p.func, g);
    assert_ok(cuGraphInstantiate(&x.exec, x.g, 0));
    assert_ok(cuGraphExecKernelNodeSetParams(x.exec, n, &p));
    p.func = (CUfunction)(void *)&wrong;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphExecKernelNodeSetParams(x.exec, n, &p));
    assert_ok(cuGraphLaunch(x.exec, s));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuGraphExecDestroy(x.exec));
    assert_ok(cuGraphDestroy(x.g));
    assert_ok(cuStreamDestroy(s));
}

static void events_of_nodes_may_be_others(void **state)
{
    (void)state;
    struct scene x = begin();
    CUgraphNode n;
    CUevent first, second, told;
    assert_ok(cuEventCreate(&first, 0));
    assert_ok(cuEventCreate(&second, 0));
    assert_ok(cuGraphAddEventRecordNode(&n, x.g, NULL, 0, first));
    assert_ok(cuGraphInstantiate(&x.exec, x.g, 0));
    assert_ok(cuGraphExecEventRecordNodeSetEvent(x.exec, n, second));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphExecEventWaitNodeSetEvent(x.exec, n, second));
    launch(&x);
    float ms;
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, first, first)); /* never recorded */
    assert_ok(cuEventElapsedTime(&ms, second, second));
    assert_ok(cuGraphEventRecordNodeSetEvent(n, second));
    assert_ok(cuGraphEventRecordNodeGetEvent(n, &told));
    assert_ptr_equal(told, second);
    assert_ok(cuEventDestroy(first));
    assert_ok(cuEventDestroy(second));
    end(x);
}

static void a_child_graph_may_be_another_of_its_shape(void **state)
{
    struct scene x = begin();
    CUgraph child, other, longer;
    CUgraphNode n, inner;
    CUDA_MEMSET_NODE_PARAMS p = fill_of(x.a, 3);
    assert_ok(cuGraphCreate(&child, 0));
    assert_ok(cuGraphAddMemsetNode(&inner, child, NULL, 0, &p, *state));
    assert_ok(cuGraphAddChildGraphNode(&n, x.g, NULL, 0, child));
    launch(&x);
    assert_int_equal(byte_of(x.a), 3);
    p = fill_of(x.b, 4);
    assert_ok(cuGraphCreate(&other, 0));
    assert_ok(cuGraphAddMemsetNode(&inner, other, NULL, 0, &p, *state));
    assert_ok(cuGraphExecChildGraphNodeSetParams(x.exec, n, other));
    launch(&x);
    assert_int_equal(byte_of(x.b), 4);
    assert_ok(cuGraphClone(&longer, other));
    assert_ok(cuGraphAddMemsetNode(&inner, longer, NULL, 0, &p, *state));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphExecChildGraphNodeSetParams(x.exec, n, longer));
    assert_ok(cuGraphDestroy(child));
    assert_ok(cuGraphDestroy(other));
    assert_ok(cuGraphDestroy(longer));
    end(x);
}

static void any_node_is_changed_by_the_call_for_all(void **state)
{
    struct scene x = begin();
    CUgraphNode fill, copy;
    CUgraphNodeParams p = { .type = CU_GRAPH_NODE_TYPE_MEMSET };
    CUDA_MEMSET_NODE_PARAMS f = fill_of(x.a, 3);
    CUDA_MEMCPY3D c = copy_of(x.b, x.a);
    assert_ok(cuGraphAddMemsetNode(&fill, x.g, NULL, 0, &f, *state));
    assert_ok(cuGraphAddMemcpyNode(&copy, x.g, &fill, 1, &c, *state));
    p.memset.dst = x.a, p.memset.value = 6, p.memset.elementSize = 1, p.memset.width = BYTES, p.memset.height = 1;
    assert_ok(cuGraphNodeSetParams(fill, &p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetParams(copy, &p)); /* of another kind */
    launch(&x);
    assert_int_equal(byte_of(x.b), 6);
    p.memset.value = 5;
    assert_ok(cuGraphExecNodeSetParams(x.exec, fill, &p));
    launch(&x);
    assert_int_equal(byte_of(x.b), 5);
    end(x);
}

static void a_node_may_be_left_out(void **state)
{
    struct scene x = begin();
    CUgraphNode n, empty;
    CUDA_MEMSET_NODE_PARAMS p = fill_of(x.a, 7);
    unsigned enabled = 9;
    assert_ok(cuGraphAddMemsetNode(&n, x.g, NULL, 0, &p, *state));
    assert_ok(cuGraphAddEmptyNode(&empty, x.g, NULL, 0));
    assert_ok(cuGraphInstantiate(&x.exec, x.g, 0));
    assert_ok(cuGraphNodeSetEnabled(x.exec, n, 0));
    assert_ok(cuGraphNodeGetEnabled(x.exec, n, &enabled));
    assert_int_equal(enabled, 0);
    launch(&x);
    assert_int_equal(byte_of(x.a), 1);
    p = fill_of(x.a, 8);
    assert_ok(cuGraphExecMemsetNodeSetParams(x.exec, n, &p, *state));
    launch(&x);
    assert_int_equal(byte_of(x.a), 1); /* still left out */
    assert_ok(cuGraphNodeSetEnabled(x.exec, n, 1));
    launch(&x);
    assert_int_equal(byte_of(x.a), 8);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetEnabled(x.exec, empty, 0));
    end(x);
}

static void after_an_update_nodes_still_name_their_work(void **state)
{
    struct scene x = begin();
    CUgraph g;
    CUgraphNode n, other;
    CUgraphExecUpdateResultInfo info;
    CUDA_MEMSET_NODE_PARAMS p = fill_of(x.a, 7);
    assert_ok(cuGraphAddMemsetNode(&n, x.g, NULL, 0, &p, *state));
    launch(&x);
    assert_ok(cuGraphCreate(&g, 0));
    p = fill_of(x.b, 7);
    assert_ok(cuGraphAddMemsetNode(&other, g, NULL, 0, &p, *state));
    assert_ok(cuGraphExecUpdate(x.exec, g, &info));
    assert_ok(cuGraphDestroy(g));
    p = fill_of(x.b, 5);
    assert_ok(cuGraphExecMemsetNodeSetParams(x.exec, n, &p, *state));
    launch(&x);
    assert_int_equal(byte_of(x.b), 5);
    end(x);
}

static void new_params_are_judged_like_old_ones(void **state)
{
    struct scene x = begin();
    CUgraphNode n;
    CUdeviceptr gone;
    CUDA_MEMSET_NODE_PARAMS p = fill_of(x.a, 7);
    assert_ok(cuGraphAddMemsetNode(&n, x.g, NULL, 0, &p, *state));
    assert_ok(cuGraphInstantiate(&x.exec, x.g, 0));
    assert_ok(cuMemAlloc(&gone, BYTES));
    p = fill_of(gone, 1);
    assert_ok(cuGraphExecMemsetNodeSetParams(x.exec, n, &p, *state));
    assert_ok(cuMemFree(gone));
    launch(&x);
    assert_int_equal(sim_findings("use-after-free"), 1);
    end(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(a_fill_is_told_and_changed),
        on_device(a_copy_is_told_and_changed),
        on_device(a_host_function_is_told_and_changed),
        on_device(a_kernel_is_told_as_it_was_launched),
        on_device(events_of_nodes_may_be_others),
        on_device(a_child_graph_may_be_another_of_its_shape),
        on_device(any_node_is_changed_by_the_call_for_all),
        on_device(a_node_may_be_left_out),
        on_device(after_an_update_nodes_still_name_their_work),
        on_device(new_params_are_judged_like_old_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
