#include "memop.h"

#include "block.h"
#include "capture.h"
#include "context.h"
#include "flag.h"
#include "state.h"
#include "stream.h"

#include <stdlib.h>

enum { BATCH_MAX = 255, SINCE_GRAPHS_HAVE_THEM = 11070 };

/* --- one operation ----------------------------------------------------------------------------------------------- */

/* What it touches is seen when it ends: the store is made with the lock held, so that whoever sees it finds the driver
 * knowing of it. */
static void run_nothing(struct sim_work *w)
{
    (void)w;
}

static bool known_wait_flags(unsigned flags)
{
    return !(flags & ~(3u | CU_STREAM_WAIT_VALUE_FLUSH));
}

/* The memory of one value: device memory or pinned, aligned, and not managed. */
static CUresult touch_value(struct sim_work *w, uint64_t address, unsigned bytes)
{
    if (!address || address % bytes) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_work_touch(w, address, bytes);
    if (result != CUDA_SUCCESS) return result;
    if (!w->touch_count) return sim_settings.host_memory ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    return w->touches[0]->kind == SIM_BLOCK_MANAGED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult describe_wait(struct sim_work *w, const struct CUstreamMemOpWaitValueParams_st *p, unsigned bytes)
{
    if (!known_wait_flags(p->flags)) return CUDA_ERROR_INVALID_VALUE;
    w->ready = sim_flag_ready;
    w->finish = sim_flag_seen;
    return touch_value(w, p->address, bytes);
}

static CUresult describe_write(struct sim_work *w, const struct CUstreamMemOpWriteValueParams_st *p, unsigned bytes,
                               enum sim_memop_api api)
{
    unsigned known = api == SIM_MEMOP_V1 ? CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER : 0;
    if (p->flags & ~known) return CUDA_ERROR_INVALID_VALUE;
    w->run = run_nothing;
    w->finish = sim_flag_write;
    return touch_value(w, p->address, bytes);
}

static CUresult describe(struct sim_work *w, const CUstreamBatchMemOpParams *p, enum sim_memop_api api)
{
    switch (p->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32: return describe_wait(w, &p->waitValue, 4);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64: return describe_wait(w, &p->waitValue, 8);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32: return describe_write(w, &p->writeValue, 4, api);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: return describe_write(w, &p->writeValue, 8, api);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: return p->flushRemoteWrites.flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_BARRIER:
        return api == SIM_MEMOP_V1 || p->memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU ? CUDA_ERROR_INVALID_VALUE
                                                                                                  : CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

/* --- a batch ------------------------------------------------------------------------------------------------------- */

static CUresult add_op(struct sim_templates *works, const CUstreamBatchMemOpParams *op, enum sim_memop_api api, enum sim_fn fn)
{
    struct sim_work *w = sim_work_new(fn);
    if (!w) return CUDA_ERROR_OUT_OF_MEMORY;
    w->type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    w->u.value.op = *op;
    works->items[works->count++] = w;
    return describe(w, op, api);
}

CUresult sim_memop_make(const CUstreamBatchMemOpParams *ops, unsigned count, unsigned flags, enum sim_memop_api api,
                        enum sim_fn fn, struct sim_templates *ret_works)
{
    struct sim_templates works = { 0 };
    if (!ops || !count || count > BATCH_MAX || flags) return CUDA_ERROR_INVALID_VALUE;
    if (!(works.items = calloc(count, sizeof(struct sim_work *)))) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++) result = add_op(&works, &ops[i], api, fn);
    if (result == CUDA_SUCCESS) *ret_works = works;
    else sim_templates_clear(&works);
    return result;
}

/* Takes the works over. */
static CUresult capture(struct sim_stream *s, struct sim_templates *works, CUgraphNodeType type)
{
    if (sim_settings.version < SINCE_GRAPHS_HAVE_THEM) return sim_capture_check_stream(s);
    struct sim_graph_node *n = sim_capture_node(s, type, NULL);
    if (!n) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    n->works = *works;
    *works = (struct sim_templates){ 0 };
    return CUDA_SUCCESS;
}

static CUresult queue(struct sim_stream *s, struct sim_templates *works)
{
    CUresult result = sim_capture_check_implicit(s);
    if (result != CUDA_SUCCESS) return result;
    for (size_t i = 0; i < works->count; i++) sim_stream_queue(s, works->items[i]);
    works->count = 0;
    return CUDA_SUCCESS;
}

CUresult sim_memop_submit(struct sim_stream *s, struct sim_templates *works, CUgraphNodeType type)
{
    CUresult result = s->capture ? capture(s, works, type) : queue(s, works);
    sim_templates_clear(works);
    return result;
}

static CUresult submit(CUstream h, unsigned count, const CUstreamBatchMemOpParams *ops, unsigned flags, enum sim_memop_api api,
                       enum sim_default dflt, enum sim_fn fn)
{
    struct sim_templates works = { 0 };
    struct sim_stream *s;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    if (result == CUDA_SUCCESS) result = sim_memop_make(ops, count, flags, api, fn, &works);
    if (result == CUDA_SUCCESS) result = sim_memop_submit(s, &works, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    sim_unlock();
    return result;
}

/* --- entry points: each form, each twin ------------------------------------------------------------------------------ */

#define WAIT(bits, field, api)                                                                                                \
    submit(h, 1,                                                                                                              \
           &(CUstreamBatchMemOpParams){ .waitValue = { .operation = CU_STREAM_MEM_OP_WAIT_VALUE_##bits, .address = address,   \
                                                       .field = value, .flags = flags } },                                    \
           0, api, dflt, fn)
#define WRITE(bits, field, api)                                                                                               \
    submit(h, 1,                                                                                                              \
           &(CUstreamBatchMemOpParams){ .writeValue = { .operation = CU_STREAM_MEM_OP_WRITE_VALUE_##bits, .address = address, \
                                                        .field = value, .flags = flags } },                                   \
           0, api, dflt, fn)
#define VALUE_PARAMS(type) (CUstream h, CUdeviceptr address, type value, unsigned int flags)

SIM_TWIN(cuStreamWaitValue32, _ptsz, VALUE_PARAMS(cuuint32_t), WAIT(32, value, SIM_MEMOP_V1))
SIM_TWIN(cuStreamWaitValue32_v2, _ptsz, VALUE_PARAMS(cuuint32_t), WAIT(32, value, SIM_MEMOP_V2))
SIM_TWIN(cuStreamWaitValue64, _ptsz, VALUE_PARAMS(cuuint64_t), WAIT(64, value64, SIM_MEMOP_V1))
SIM_TWIN(cuStreamWaitValue64_v2, _ptsz, VALUE_PARAMS(cuuint64_t), WAIT(64, value64, SIM_MEMOP_V2))
SIM_TWIN(cuStreamWriteValue32, _ptsz, VALUE_PARAMS(cuuint32_t), WRITE(32, value, SIM_MEMOP_V1))
SIM_TWIN(cuStreamWriteValue32_v2, _ptsz, VALUE_PARAMS(cuuint32_t), WRITE(32, value, SIM_MEMOP_V2))
SIM_TWIN(cuStreamWriteValue64, _ptsz, VALUE_PARAMS(cuuint64_t), WRITE(64, value64, SIM_MEMOP_V1))
SIM_TWIN(cuStreamWriteValue64_v2, _ptsz, VALUE_PARAMS(cuuint64_t), WRITE(64, value64, SIM_MEMOP_V2))
SIM_TWIN(cuStreamBatchMemOp, _ptsz, (CUstream h, unsigned int count, CUstreamBatchMemOpParams *ops, unsigned int flags),
         submit(h, count, ops, flags, SIM_MEMOP_V1, dflt, fn))
SIM_TWIN(cuStreamBatchMemOp_v2, _ptsz, (CUstream h, unsigned int count, CUstreamBatchMemOpParams *ops, unsigned int flags),
         submit(h, count, ops, flags, SIM_MEMOP_V2, dflt, fn))

/* --- graph nodes: adding them is graph_node.c ------------------------------------------------------------------------- */

static struct sim_graph_node *batch_node(CUgraphNode h)
{
    struct sim_graph_node *n = sim_object_find(h, SIM_NODE);
    return n && n->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP ? n : NULL;
}

/* The operations as one list, which the node keeps. NULL when out of memory. */
static CUstreamBatchMemOpParams *list_ops(struct sim_graph_node *n)
{
    struct sim_work *keeper = n->works.items[0];
    CUstreamBatchMemOpParams *ops = keeper->payload;
    if (ops || !(ops = calloc(n->works.count, sizeof *ops))) return ops;
    for (size_t i = 0; i < n->works.count; i++) ops[i] = n->works.items[i]->u.value.op;
    keeper->payload = ops;
    return ops;
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    SIM_ENTER(cuGraphBatchMemOpNodeGetParams);
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph_node *n = batch_node(node);
    CUstreamBatchMemOpParams *ops = n ? list_ops(n) : NULL;
    if (ops) *params = (CUDA_BATCH_MEM_OP_NODE_PARAMS){ .count = (unsigned)n->works.count, .paramArray = ops };
    sim_unlock();
    return !n ? CUDA_ERROR_INVALID_VALUE : ops ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    SIM_ENTER(cuGraphBatchMemOpNodeSetParams);
    struct sim_templates works;
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph_node *n = batch_node(node);
    CUresult result = n ? sim_memop_make(p->paramArray, p->count, p->flags, SIM_MEMOP_V2, SIM_FN_cuGraphBatchMemOpNodeSetParams, &works)
                        : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        sim_templates_clear(&n->works);
        n->works = works;
    }
    sim_unlock();
    return result;
}
