/* Graphs made node by node: what their nodes do, in which order, and what the runtime says about them. */
#include "runtime_fixture.h"

#include <string.h>

enum { SIZE = 4096 };

static void run_once(cudaGraph_t graph)
{
    cudaGraphExec_t exec;

    assert_ok(cudaGraphInstantiate(&exec, graph, 0));
    assert_ok(cudaGraphLaunch(exec, NULL));
    assert_ok(cudaStreamSynchronize(NULL));
    assert_ok(cudaGraphExecDestroy(exec));
}

static void memory_lives_from_its_node_to_its_free_node(void **state)
{
    struct cudaMemAllocNodeParams alloc = {.poolProps = {.allocType = cudaMemAllocationTypePinned,
                                                         .location = {.type = cudaMemLocationTypeDevice, .id = 0}},
                                           .bytesize = SIZE};
    struct cudaMemsetParams fill = {.value = 7, .elementSize = 1, .width = SIZE, .height = 1};
    cudaGraphNode_t nodes[4], roots[4];
    enum cudaGraphNodeType type;
    size_t count = 4;
    unsigned char in[SIZE];
    cudaGraph_t graph;
    uint64_t used = 1;

    (void)state;
    assert_ok(cudaGraphCreate(&graph, 0));
    assert_ok(cudaGraphAddMemAllocNode(&nodes[0], graph, NULL, 0, &alloc));
    fill.dst = alloc.dptr;
    assert_ok(cudaGraphAddMemsetNode(&nodes[1], graph, &nodes[0], 1, &fill));
    assert_ok(cudaGraphAddMemcpyNode1D(&nodes[2], graph, &nodes[1], 1, in, alloc.dptr, SIZE, cudaMemcpyDeviceToHost));
    assert_ok(cudaGraphAddMemFreeNode(&nodes[3], graph, &nodes[2], 1, alloc.dptr));
    assert_ok(cudaGraphGetRootNodes(graph, roots, &count));
    assert_int_equal(count, 1);
    assert_ptr_equal(roots[0], nodes[0]);
    assert_ok(cudaGraphNodeGetType(nodes[1], &type));
    assert_int_equal(type, cudaGraphNodeTypeMemset);
    memset(in, 0, sizeof in);
    run_once(graph);
    assert_int_equal(in[0], 7);
    assert_int_equal(in[SIZE - 1], 7);
    assert_ok(cudaGraphDestroy(graph));
    assert_ok(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
    assert_int_equal(used, 0);
    assert_ok(cudaDeviceGraphMemTrim(0));
}

static void add_one(void *counter)
{
    ++*(int *)counter;
}

static void a_host_node_runs_once_a_launch_and_a_child_graph_within_its_parent(void **state)
{
    int counter = 0;
    struct cudaHostNodeParams host = {add_one, &counter};
    cudaGraphNode_t node, child;
    cudaGraph_t inner, outer;

    (void)state;
    assert_ok(cudaGraphCreate(&inner, 0));
    assert_ok(cudaGraphAddHostNode(&node, inner, NULL, 0, &host));
    assert_ok(cudaGraphCreate(&outer, 0));
    assert_ok(cudaGraphAddChildGraphNode(&child, outer, NULL, 0, inner));
    assert_ok(cudaGraphAddHostNode(&node, outer, &child, 1, &host));
    run_once(outer);
    assert_int_equal(counter, 2);
    assert_ok(cudaGraphDestroy(outer));
    assert_ok(cudaGraphDestroy(inner));
}

static void a_node_is_made_by_its_kind_whichever_call_makes_it(void **state)
{
    int counter = 0;
    char from[8] = "1234567", to[8] = "";
    struct cudaGraphNodeParams host = {.type = cudaGraphNodeTypeHost, .host = {add_one, &counter}};
    struct cudaGraphNodeParams copy = {.type = cudaGraphNodeTypeMemcpy};
    cudaGraphNode_t nodes[2];
    cudaGraph_t graph;

    (void)state;
    copy.memcpy.copyParams = (struct cudaMemcpy3DParms){.srcPtr = {from, 8, 8, 1},
                                                        .dstPtr = {to, 8, 8, 1},
                                                        .extent = {8, 1, 1},
                                                        .kind = cudaMemcpyHostToHost};
    assert_ok(cudaGraphCreate(&graph, 0));
    assert_ok(cudaGraphAddNode(&nodes[0], graph, NULL, NULL, 0, &host));
    assert_ok(cudaGraphAddNode(&nodes[1], graph, &nodes[0], NULL, 1, &copy));
    run_once(graph);
    assert_int_equal(counter, 1);
    assert_string_equal(to, from);
    assert_int_equal(cudaGraphAddNode(&nodes[0], graph, NULL, NULL, 0, NULL), cudaErrorInvalidValue);
    assert_ok(cudaGraphDestroy(graph));
}

static void a_capture_says_its_graph_and_takes_more_dependencies(void **state)
{
    enum cudaStreamCaptureStatus status;
    const cudaGraphNode_t *dependencies;
    unsigned long long id = 0;
    cudaGraphNode_t node;
    cudaStream_t stream;
    cudaGraph_t graph, same;
    size_t count = 9;

    (void)state;
    assert_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    assert_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_ok(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &dependencies, NULL, &count));
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    assert_int_not_equal(id, 0);
    assert_int_equal(count, 0);
    assert_ok(cudaGraphAddEmptyNode(&node, graph, NULL, 0));
    assert_ok(cudaStreamUpdateCaptureDependencies(stream, &node, NULL, 1, cudaStreamAddCaptureDependencies));
    assert_ok(cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, &dependencies, NULL, &count));
    assert_int_equal(count, 1);
    assert_ptr_equal(dependencies[0], node);
    assert_ok(cudaStreamEndCapture(stream, &same));
    assert_ptr_equal(same, graph);
    assert_ok(cudaGraphDestroy(graph));
    assert_ok(cudaStreamDestroy(stream));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_lives_from_its_node_to_its_free_node),
        cmocka_unit_test(a_host_node_runs_once_a_launch_and_a_child_graph_within_its_parent),
        cmocka_unit_test(a_node_is_made_by_its_kind_whichever_call_makes_it),
        cmocka_unit_test(a_capture_says_its_graph_and_takes_more_dependencies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
