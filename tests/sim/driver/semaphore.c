/* External semaphores, timelines only: any descriptor of at least eight bytes that can be mapped is one, and its first eight
 * bytes are its value. Signals write the value and waits wait for it, as memory operations do (memop.h), and whoever else
 * maps the descriptor takes part. */
#include "block.h"
#include "context.h"
#include "external.h"
#include "log.h"
#include "memop.h"
#include "state.h"
#include "stream.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VALUE_BYTES = 8, PAGE = 4096 };

struct semaphore {
    struct sim_object object;
    struct sim_block *value; /* what waits and signals touch: they must be over before it goes */
};

static struct sim_block *map_value(struct sim_context *c, int fd)
{
    void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) return NULL;
    struct sim_block *b = sim_block_new(SIM_BLOCK_EXTERNAL, (uint64_t)(uintptr_t)p, PAGE, VALUE_BYTES,
                                        SIM_FN_cuImportExternalSemaphore);
    if (!b) {
        munmap(p, PAGE);
        return NULL;
    }
    b->context = c;
    b->device = c->device;
    return b;
}

CUresult cuImportExternalSemaphore(CUexternalSemaphore *semaphore, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *d)
{
    SIM_ENTER(cuImportExternalSemaphore);
    struct sim_context *c;
    struct stat st;
    if (!semaphore || !d || d->flags) return CUDA_ERROR_INVALID_VALUE;
    if (d->type != CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD) return CUDA_ERROR_NOT_SUPPORTED;
    if (fstat(d->handle.fd, &st) != 0 || st.st_size < VALUE_BYTES) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_context_current(&c);
    struct sim_block *b = result == CUDA_SUCCESS ? map_value(c, d->handle.fd) : NULL;
    if (result == CUDA_SUCCESS && !b) result = CUDA_ERROR_INVALID_VALUE;
    struct semaphore *s = b ? sim_object_new(SIM_SEMAPHORE, sizeof *s, NULL) : NULL;
    if (s) {
        s->value = b;
        sim_block_ref(b);
        *semaphore = (CUexternalSemaphore)s;
        close(d->handle.fd); /* it is the driver's now, and the mapping is enough */
    } else if (b) {
        sim_external_release(b, SIM_FN_cuImportExternalSemaphore);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return result;
}

CUresult cuDestroyExternalSemaphore(CUexternalSemaphore semaphore)
{
    SIM_ENTER(cuDestroyExternalSemaphore);
    sim_lock();
    struct semaphore *s = sim_object_find(semaphore, SIM_SEMAPHORE);
    if (s) {
        struct sim_block *b = s->value;
        if (b->mapped) sim_external_release(b, SIM_FN_cuDestroyExternalSemaphore); /* else it went with its context */
        sim_block_unref(b);
        sim_object_close(&s->object);
    }
    sim_unlock();
    return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* --- signals and waits: each semaphore of a list an operation of a batch ---------------------------------------------- */

static CUresult write_op(CUexternalSemaphore h, unsigned long long value, unsigned flags, CUstreamBatchMemOpParams *ret_op)
{
    struct semaphore *s = sim_object_find(h, SIM_SEMAPHORE);
    if (!s || flags) return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    *ret_op = (CUstreamBatchMemOpParams){ .writeValue = { .operation = CU_STREAM_MEM_OP_WRITE_VALUE_64,
                                                          .address = s->value->range.start, .value64 = value } };
    return CUDA_SUCCESS;
}

static CUresult wait_op(CUexternalSemaphore h, unsigned long long value, unsigned flags, CUstreamBatchMemOpParams *ret_op)
{
    struct semaphore *s = sim_object_find(h, SIM_SEMAPHORE);
    if (!s || flags) return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    *ret_op = (CUstreamBatchMemOpParams){ .waitValue = { .operation = CU_STREAM_MEM_OP_WAIT_VALUE_64,
                                                         .address = s->value->range.start, .value64 = value,
                                                         .flags = CU_STREAM_WAIT_VALUE_GEQ } };
    return CUDA_SUCCESS;
}

/* Of the two lists of parameters one is NULL. */
static CUresult submit(const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *signals,
                       const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *waits, unsigned count, CUstream h, enum sim_default dflt,
                       enum sim_fn fn)
{
    struct sim_stream *s;
    if (!semaphores || (!signals && !waits) || !count) return CUDA_ERROR_INVALID_VALUE;
    CUstreamBatchMemOpParams *ops = calloc(count, sizeof *ops);
    if (!ops) return CUDA_ERROR_OUT_OF_MEMORY;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = signals ? write_op(semaphores[i], signals[i].params.fence.value, signals[i].flags, &ops[i])
                         : wait_op(semaphores[i], waits[i].params.fence.value, waits[i].flags, &ops[i]);
    struct sim_templates works = { 0 };
    if (result == CUDA_SUCCESS) result = sim_memop_make(ops, count, 0, SIM_MEMOP_V2, fn, &works);
    if (result == CUDA_SUCCESS)
        result = sim_memop_submit(s, &works, signals ? CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL : CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT);
    sim_unlock();
    free(ops);
    return result;
}

SIM_TWIN(cuSignalExternalSemaphoresAsync, _ptsz,
         (const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params, unsigned int count,
          CUstream h),
         (params ? submit(semaphores, params, NULL, count, h, dflt, fn) : CUDA_ERROR_INVALID_VALUE))
SIM_TWIN(cuWaitExternalSemaphoresAsync, _ptsz,
         (const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params, unsigned int count,
          CUstream h),
         (params ? submit(semaphores, NULL, params, count, h, dflt, fn) : CUDA_ERROR_INVALID_VALUE))
