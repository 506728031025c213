#include "memory.h"

#include "capture.h"
#include "context.h"
#include "device.h"
#include "free_check.h"
#include "external.h"
#include "facts.h"
#include "host.h"
#include "ipc.h"
#include "log.h"
#include "pool.h"
#include "state.h"

enum { PITCH = 512 };

uint64_t sim_memory_span(uint64_t size)
{
    return (size + SIM_ALIGNMENT - 1) & ~(uint64_t)(SIM_ALIGNMENT - 1);
}

CUresult sim_memory_new(struct sim_device *d, struct sim_context *c, enum sim_block_kind kind, uint64_t size,
                        enum sim_fn fn, struct sim_block **ret_block)
{
    uint64_t span = sim_memory_span(size);
    bool charged = span >= size && (kind == SIM_BLOCK_GRAPH ? sim_device_charge_graph(d, span) : sim_device_charge(d, span));
    if (!charged) return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t address = sim_arena_take(&d->arena, span);
    struct sim_block *b = address ? sim_block_new(kind, address, span, size, fn) : NULL;
    if (!b) {
        if (address) sim_arena_give(&d->arena, address, span);
        sim_device_refund(d, span);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    b->device = d;
    b->context = c;
    *ret_block = b;
    return CUDA_SUCCESS;
}

void sim_memory_release(struct sim_block *b, enum sim_fn fn)
{
    struct sim_device *d = b->device;
    uint64_t address = b->range.start, span = b->range.size;
    bool cached = b->kind == SIM_BLOCK_GRAPH;
    sim_block_unmap(b, fn);
    sim_block_retire(b);
    sim_arena_give(&d->arena, address, span);
    if (cached) d->graph_cached += span;
    else sim_device_refund(d, span);
}

/* Arrays go with their handles (array.c). */
static bool is_synchronous(enum sim_block_kind kind)
{
    return kind == SIM_BLOCK_DEVICE || kind == SIM_BLOCK_MANAGED || kind == SIM_BLOCK_MODULE;
}

void sim_memory_judge_context(struct sim_context *c)
{
    for (struct sim_block *b = sim_block_next(0); b; b = sim_block_next(b->range.start + 1))
        if (b->context == c) sim_order_released(b);
}

void sim_memory_release_context(struct sim_context *c, enum sim_fn fn)
{
    struct sim_block *b = sim_block_next(0);
    while (b) {
        uint64_t next = b->range.start + 1;
        if (b->context == c) {
            if (is_synchronous(b->kind)) sim_memory_release(b, fn);
            else if (sim_host_is_pinned(b)) sim_host_release(b, fn);
            else if (b->kind == SIM_BLOCK_IPC) sim_ipc_release(b, fn);
            else if (b->kind == SIM_BLOCK_EXTERNAL) sim_external_release(b, fn);
        }
        b = sim_block_next(next);
    }
}

static CUresult allocate(enum sim_block_kind kind, uint64_t size, unsigned flags, enum sim_fn fn, CUdeviceptr *dptr)
{
    struct sim_context *c;
    struct sim_block *b = NULL;
    if (!dptr) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_context_current(&c);
    if (result == CUDA_SUCCESS && !size) {
        result = (CUresult)sim_fact(SIM_FACT_zero_bytes);
        if (result == CUDA_SUCCESS) *dptr = 0;
        sim_unlock();
        return result;
    }
    if (result == CUDA_SUCCESS) result = sim_capture_check_unsafe();
    if (result == CUDA_SUCCESS) result = sim_memory_new(c->device, sim_context_owner(c), kind, size, fn, &b);
    if (result == CUDA_SUCCESS) {
        b->flags = flags;
        *dptr = b->range.start;
    }
    sim_unlock();
    return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    SIM_ENTER(cuMemAlloc_v2);
    CUresult result = allocate(SIM_BLOCK_DEVICE, bytesize, 0, SIM_FN_cuMemAlloc_v2, dptr);
    sim_log_call(SIM_FN_cuMemAlloc_v2, result, result ? 0 : *dptr, "size", bytesize, NULL, 0);
    return result;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    SIM_ENTER(cuMemAllocPitch_v2);
    if (!pitch || (element != 4 && element != 8 && element != 16)) return sim_log_refused(SIM_FN_cuMemAllocPitch_v2, CUDA_ERROR_INVALID_VALUE);
    size_t p = (width + PITCH - 1) / PITCH * PITCH;
    size_t size;
    if (p < width || __builtin_mul_overflow(p, height, &size)) return sim_log_refused(SIM_FN_cuMemAllocPitch_v2, CUDA_ERROR_INVALID_VALUE);
    CUresult result = allocate(SIM_BLOCK_DEVICE, size, 0, SIM_FN_cuMemAllocPitch_v2, dptr);
    if (result == CUDA_SUCCESS) *pitch = p;
    sim_log_call(SIM_FN_cuMemAllocPitch_v2, result, result ? 0 : *dptr, "size", size, "pitch", p);
    return result;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    SIM_ENTER(cuMemAllocManaged);
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return sim_log_refused(SIM_FN_cuMemAllocManaged, CUDA_ERROR_INVALID_VALUE);
    CUresult result = allocate(SIM_BLOCK_MANAGED, bytesize, flags, SIM_FN_cuMemAllocManaged, dptr);
    sim_log_call(SIM_FN_cuMemAllocManaged, result, result ? 0 : *dptr, "size", bytesize, "flags", flags);
    return result;
}

static CUresult release(CUdeviceptr dptr)
{
    struct sim_block *b = sim_block_at(dptr);
    if (!b) sim_free_check_unknown(dptr);
    if (!b) return CUDA_ERROR_INVALID_VALUE;
    sim_free_check(b);
    if (b->kind == SIM_BLOCK_ASYNC || b->kind == SIM_BLOCK_GRAPH || (b->kind == SIM_BLOCK_IPC && b->pool)) return sim_pool_free_now(b, SIM_FN_cuMemFree_v2);
    if (b->kind != SIM_BLOCK_DEVICE && b->kind != SIM_BLOCK_MANAGED && b->kind != SIM_BLOCK_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_capture_check_unsafe();
    if (result != CUDA_SUCCESS) return result;
    if (b->kind == SIM_BLOCK_EXTERNAL) {
        sim_block_unmap(b, SIM_FN_cuMemFree_v2);
        if (sim_fact(SIM_FACT_free_waits)) sim_context_wait(b->context);
        sim_order_released(b);
        sim_external_release(b, SIM_FN_cuMemFree_v2);
        return CUDA_SUCCESS;
    }
    if (!sim_fact(SIM_FACT_free_waits)) {
        sim_order_released(b);
        sim_memory_release(b, SIM_FN_cuMemFree_v2);
        return CUDA_SUCCESS;
    }
    /* The wait gives the lock away: hide the block first, so that a second free in the meantime is one. */
    uint64_t span = b->range.size;
    struct sim_device *d = b->device;
    sim_block_unmap(b, SIM_FN_cuMemFree_v2);
    sim_context_wait(b->context);
    sim_order_released(b); /* of other contexts' work no page says that it is waited for */
    sim_block_retire(b);
    sim_arena_give(&d->arena, dptr, span);
    sim_device_refund(d, span);
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    SIM_ENTER(cuMemFree_v2);
    CUresult result = CUDA_SUCCESS;
    if (dptr) {
        sim_lock();
        result = release(dptr);
        sim_unlock();
    }
    sim_log_plain(SIM_FN_cuMemFree_v2, result, dptr);
    return result;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    SIM_ENTER(cuMemGetInfo_v2);
    struct sim_context *c;
    if ((!free_bytes || !total) && sim_fact(SIM_FACT_info_null)) return (CUresult)sim_fact(SIM_FACT_info_null);
    sim_lock();
    CUresult result = sim_context_current(&c);
    if (result == CUDA_SUCCESS) {
        uint64_t unused = c->device->total - c->device->used;
        if (!sim_fact(SIM_FACT_info_counts_pools)) unused += sim_pool_cached(c->device);
        if (free_bytes) *free_bytes = unused;
        if (total) *total = c->device->total;
    }
    sim_unlock();
    return result;
}
