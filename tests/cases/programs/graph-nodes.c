/* Graphs that allocate by nodes added by hand, in each form: freed by a node, by cuMemFree, by cuMemFreeAsync, not at all. */
#include "case.h"

static CUmemPoolProps on_device(void)
{
    return (CUmemPoolProps){ .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                             .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
}

static CUgraphExec run(CUgraph graph, CUstream stream)
{
    CUgraphExec exec = NULL;

    SHOW(cuGraphInstantiateWithFlags(&exec, graph, 0));
    SHOW(cuGraphLaunch(exec, stream));
    SHOW(cuStreamSynchronize(stream));
    return exec;
}

int main(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS wanted = { .poolProps = on_device(), .bytesize = 1000 };
    CUgraphNodeParams any = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC };
    CUgraphNode first, second, last;
    CUdeviceptr p[3] = { 0 };
    CUgraphExec exec;
    CUgraph graph;
    CUstream stream;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuGraphCreate(&graph, 0));
    SHOW(cuGraphAddMemAllocNode(&first, graph, NULL, 0, &wanted));
    p[0] = wanted.dptr;
    any.alloc.poolProps = on_device();
    any.alloc.bytesize = 2000;
    SHOW(cuGraphAddNode_v2(&second, graph, &first, NULL, 1, &any));
    p[1] = any.alloc.dptr;
    wanted.bytesize = 3000;
    SHOW(cuGraphAddMemAllocNode(&last, graph, &second, 1, &wanted));
    p[2] = wanted.dptr;
    FACT(p[0] && p[1] && p[2] && p[0] != p[1]);
    SHOW(cuGraphAddMemFreeNode(&first, graph, &last, 1, p[2]));
    exec = run(graph, stream);
    SHOW(cuMemFree_v2(p[0]));
    SHOW(cuMemFreeAsync(p[1], stream));
    SHOW(cuStreamSynchronize(stream));
    SHOW(cuMemFree_v2(p[1]));
    SHOW(cuGraphExecDestroy(exec));
    SHOW(cuGraphDestroy(graph));
    SHOW(cuGraphCreate(&graph, 0));
    wanted.bytesize = 4000;
    SHOW(cuGraphAddMemAllocNode(&first, graph, NULL, 0, &wanted)); /* stays */
    wanted.bytesize = 0;
    SHOW(cuGraphAddMemAllocNode(&second, graph, NULL, 0, &wanted));
    SHOW(cuGraphAddMemAllocNode(&second, graph, NULL, 0, NULL));
    exec = run(graph, stream);
    return 0;
}
