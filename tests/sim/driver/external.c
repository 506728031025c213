/* External memory: what an opaque file descriptor stands for, mapped as a buffer. The object owns the descriptor from
 * the import on; a mapping outlives it and is freed like device memory. Any descriptor that can be mapped will do. */
#include "external.h"

#include "context.h"
#include "log.h"
#include "object.h"
#include "state.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096 };

struct external {
    struct sim_object object;
    struct sim_context *context; /* borrowed: only compared */
    int fd;
    uint64_t size;
};

static void destroy(struct sim_object *o)
{
    close(((struct external *)o)->fd);
}

CUresult cuImportExternalMemory(CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *d)
{
    SIM_ENTER(cuImportExternalMemory);
    struct sim_context *c;
    struct stat st;
    if (!memory || !d || !d->size || (d->flags & ~(unsigned)CUDA_EXTERNAL_MEMORY_DEDICATED)) return sim_log_refused(SIM_FN_cuImportExternalMemory, CUDA_ERROR_INVALID_VALUE);
    if (d->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD) return sim_log_refused(SIM_FN_cuImportExternalMemory, CUDA_ERROR_NOT_SUPPORTED);
    if (fstat(d->handle.fd, &st) != 0 || (uint64_t)st.st_size < d->size) return sim_log_refused(SIM_FN_cuImportExternalMemory, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    CUresult result = sim_context_current(&c);
    struct external *e = result == CUDA_SUCCESS ? sim_object_new(SIM_EXTERNAL, sizeof *e, destroy) : NULL;
    if (result == CUDA_SUCCESS && !e) result = CUDA_ERROR_OUT_OF_MEMORY;
    if (e) {
        e->context = c;
        e->fd = d->handle.fd;
        e->size = d->size;
        *memory = (CUexternalMemory)e;
    }
    sim_unlock();
    sim_log_call(SIM_FN_cuImportExternalMemory, result, (uint64_t)(uintptr_t)e, "size", d->size, NULL, 0);
    return result;
}

static CUresult map(struct external *e, uint64_t offset, uint64_t size, struct sim_block **ret_block)
{
    struct sim_context *c;
    CUresult result = sim_context_current(&c);
    if (result != CUDA_SUCCESS) return result;
    if (c != e->context) return CUDA_ERROR_INVALID_HANDLE;
    if (!size || offset > e->size || size > e->size - offset) return CUDA_ERROR_INVALID_VALUE;
    uint64_t lead = offset % PAGE;
    char *p = mmap(NULL, lead + size, PROT_READ | PROT_WRITE, MAP_SHARED, e->fd, (off_t)(offset - lead));
    if (p == MAP_FAILED) return CUDA_ERROR_INVALID_VALUE;
    struct sim_block *b = sim_block_new(SIM_BLOCK_EXTERNAL, (uint64_t)(uintptr_t)p + lead, size, size,
                                        SIM_FN_cuExternalMemoryGetMappedBuffer);
    if (!b) {
        munmap(p, lead + size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    b->context = c;
    b->device = c->device;
    b->backing_offset = lead;
    *ret_block = b;
    return CUDA_SUCCESS;
}

void sim_external_release(struct sim_block *b, enum sim_fn fn)
{
    uint64_t start = b->range.start - b->backing_offset, length = b->range.size + b->backing_offset;
    if (b->mapped) sim_block_unmap(b, fn);
    sim_block_retire(b);
    munmap((void *)(uintptr_t)start, length);
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *ptr, CUexternalMemory memory,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *d)
{
    SIM_ENTER(cuExternalMemoryGetMappedBuffer);
    struct sim_block *b = NULL;
    if (!ptr || !d || d->flags) return sim_log_refused(SIM_FN_cuExternalMemoryGetMappedBuffer, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    struct external *e = sim_object_find(memory, SIM_EXTERNAL);
    CUresult result = e ? map(e, d->offset, d->size, &b) : CUDA_ERROR_INVALID_HANDLE;
    if (b) *ptr = b->range.start;
    sim_unlock();
    sim_log_call(SIM_FN_cuExternalMemoryGetMappedBuffer, result, b ? *ptr : 0, "size", d->size, NULL, 0);
    return result;
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
    SIM_ENTER(cuDestroyExternalMemory);
    sim_lock();
    struct external *e = sim_object_find(memory, SIM_EXTERNAL);
    if (e) sim_object_close(&e->object);
    sim_unlock();
    CUresult result = e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    sim_log_plain(SIM_FN_cuDestroyExternalMemory, result, (uint64_t)(uintptr_t)memory);
    return result;
}
