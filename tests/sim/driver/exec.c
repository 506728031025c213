/* The entry points of executable graphs. */
#include "context.h"
#include "facts.h"
#include "graph.h"
#include "state.h"
#include "stream.h"
#include "user_object.h"

static void destroy(struct sim_object *o)
{
    struct sim_exec *x = (struct sim_exec *)o;
    sim_templates_clear(&x->works);
    sim_deps_clear(&x->launched);
    sim_points_clear(&x->launched_known);
    if (x->of) sim_object_unref(&x->of->object);
}

static CUresult instantiate(CUgraphExec *ret, CUgraph graph, unsigned long long flags)
{
    struct sim_exec *x = NULL;
    if (!ret) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph *g = sim_object_find(graph, SIM_GRAPH);
    CUresult result = g ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (g && g->has_memory && g->instances) result = (CUresult)sim_fact(SIM_FACT_second_instance);
    if (result == CUDA_SUCCESS && !(x = sim_object_new(SIM_EXEC, sizeof *x, destroy))) result = CUDA_ERROR_OUT_OF_MEMORY;
    if (x) result = sim_graph_flatten(g, &x->works);
    if (result == CUDA_SUCCESS) {
        sim_graph_judge(g);
        x->flags = flags;
        x->of = g;
        sim_object_ref(&g->object);
        g->instances++;
        sim_user_objects_copy(g->object.id, x->object.id);
        *ret = (CUgraphExec)x;
    } else if (x) {
        sim_object_close(&x->object);
    }
    sim_unlock();
    return result;
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t size)
{
    SIM_ENTER(cuGraphInstantiate);
    (void)error_node, (void)log, (void)size;
    return instantiate(exec, graph, 0);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t size)
{
    SIM_ENTER(cuGraphInstantiate_v2);
    (void)error_node, (void)log, (void)size;
    return instantiate(exec, graph, 0);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    SIM_ENTER(cuGraphInstantiateWithFlags);
    return instantiate(exec, graph, flags);
}

static CUresult with_params(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = instantiate(exec, graph, params->flags);
    params->hErrNode_out = NULL;
    params->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

SIM_TWIN(cuGraphInstantiateWithParams, _ptsz, (CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
         ((void)dflt, with_params(exec, graph, params)))

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    SIM_ENTER(cuGraphExecDestroy);
    sim_lock();
    struct sim_exec *x = sim_object_find(exec, SIM_EXEC);
    if (x) {
        x->of->instances--;
        sim_user_objects_drop(x->object.id, &x->launched);
        sim_object_close(&x->object);
    }
    sim_unlock();
    return x ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
    SIM_ENTER(cuGraphExecGetFlags);
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_exec *x = sim_object_find(exec, SIM_EXEC);
    if (x) *flags = x->flags;
    sim_unlock();
    return x ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult launch(CUgraphExec exec, CUstream h, bool runs, enum sim_default dflt, enum sim_fn fn)
{
    struct sim_stream *s;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    struct sim_exec *x = sim_object_find(exec, SIM_EXEC);
    if (result == CUDA_SUCCESS && !x) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) result = runs ? sim_exec_launch(x, s, fn) : sim_exec_upload(x, s, fn);
    sim_unlock();
    return result;
}

SIM_TWIN(cuGraphLaunch, _ptsz, (CUgraphExec exec, CUstream h), launch(exec, h, true, dflt, fn))
SIM_TWIN(cuGraphUpload, _ptsz, (CUgraphExec exec, CUstream h), launch(exec, h, false, dflt, fn))

/* The same kinds of work in the same order may replace what an executable graph runs. */
static CUgraphExecUpdateResult compare(const struct sim_templates *old, const struct sim_templates *new)
{
    if (old->count != new->count) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < old->count; i++)
        if (old->items[i]->type != new->items[i]->type) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUresult update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResult *ret_result)
{
    struct sim_templates works = { 0 };
    sim_lock();
    struct sim_exec *x = sim_object_find(exec, SIM_EXEC);
    struct sim_graph *g = sim_object_find(graph, SIM_GRAPH);
    CUresult result = x && g ? sim_graph_flatten(g, &works) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        *ret_result = compare(&x->works, &works);
        if (*ret_result == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
            struct sim_templates old = x->works;
            for (size_t i = 0; i < works.count; i++) works.items[i]->node = old.items[i]->node; /* still named by the old ones */
            x->works = works;
            works = old;
        } else {
            result = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
        }
        sim_templates_clear(&works);
    }
    sim_unlock();
    return result;
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node, CUgraphExecUpdateResult *ret_result)
{
    SIM_ENTER(cuGraphExecUpdate);
    if (!ret_result) return CUDA_ERROR_INVALID_VALUE;
    if (error_node) *error_node = NULL;
    return update(exec, graph, ret_result);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    SIM_ENTER(cuGraphExecUpdate_v2);
    if (!info) return CUDA_ERROR_INVALID_VALUE;
    *info = (CUgraphExecUpdateResultInfo){ 0 };
    return update(exec, graph, &info->result);
}
