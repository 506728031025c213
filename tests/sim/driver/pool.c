#include "pool.h"

#include "capture.h"
#include "context.h"
#include "device.h"
#include "free_check.h"
#include "facts.h"
#include "graph.h"
#include "log.h"
#include "memory.h"
#include "state.h"
#include "stream.h"

#include <unistd.h>

enum { KNOWN_HANDLES = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT |
                       CU_MEM_HANDLE_TYPE_FABRIC };

static void refund(struct sim_pool *p, uint64_t bytes)
{
    if (!p->host) sim_device_refund(p->device, bytes);
    p->reserved -= bytes;
}

static void destroy(struct sim_object *o)
{
    struct sim_pool *p = (struct sim_pool *)o;
    refund(p, p->reserved);
    if (p->fd >= 0) close(p->fd);
}

struct sim_pool *sim_pool_new(struct sim_device *d, bool is_default, bool host)
{
    struct sim_pool *p = sim_object_new(SIM_POOL, sizeof *p, destroy);
    if (!p) return NULL;
    p->device = d;
    p->is_default = is_default;
    p->host = host;
    p->fd = -1;
    p->reuse_events = p->reuse_opportunistic = p->reuse_dependencies = 1;
    p->access = host ? ~0u : 1u << d->ordinal;
    return p;
}

/* --- what a pool keeps --------------------------------------------------------------------------------- */

static void trim(struct sim_pool *p, uint64_t keep)
{
    uint64_t least = p->used > keep ? p->used : keep;
    if (p->reserved <= least) return;
    refund(p, p->reserved - least);
}

static void trim_to_threshold(struct sim_object *o, void *arg)
{
    (void)arg;
    struct sim_pool *p = (struct sim_pool *)o;
    trim(p, p->threshold);
}

static void trim_of(struct sim_object *o, void *device)
{
    struct sim_pool *p = (struct sim_pool *)o;
    if (p->device == device && !p->host) trim(p, 0);
}

void sim_pool_trim_device(struct sim_device *d)
{
    sim_object_each(SIM_POOL, trim_of, d);
}

void sim_pool_trim_all(void)
{
    sim_object_each(SIM_POOL, trim_to_threshold, NULL);
}

struct cached {
    struct sim_device *device;
    uint64_t bytes;
};

static void add_cached(struct sim_object *o, void *arg)
{
    struct cached *c = arg;
    struct sim_pool *p = (struct sim_pool *)o;
    if (p->device == c->device && !p->host) c->bytes += p->reserved - p->used;
}

uint64_t sim_pool_cached(struct sim_device *d)
{
    struct cached c = { d, 0 };
    sim_object_each(SIM_POOL, add_cached, &c);
    return c.bytes;
}

static bool take(struct sim_pool *p, uint64_t span)
{
    uint64_t want = p->used + span;
    if (want > p->reserved) {
        if (p->limit && want > p->limit) return false;
        if (!p->host && !sim_device_charge(p->device, want - p->reserved)) return false;
        p->reserved = want;
        if (p->reserved > p->reserved_high) p->reserved_high = p->reserved;
    }
    p->used = want;
    if (want > p->used_high) p->used_high = want;
    return true;
}

/* --- blocks -------------------------------------------------------------------------------------------- */

/* The place of a waiting block's release in the queue of the stream that frees it. */
static uint64_t *release_seq(struct sim_block *b)
{
    return &b->backing_offset;
}

/* Does all later work of the stream wait for the release, by an event it was made to wait for? */
static bool is_behind(const struct sim_stream *s, struct sim_block *b)
{
    for (unsigned i = 0; i < s->known.count; i++)
        if (s->known.items[i].track == b->freeing->track && s->known.items[i].seq >= *release_seq(b)) return true;
    return false;
}

/* A stream may have the address of memory whose release it is known to come after: what it freed itself, or, by the pool's
 * leave, what another stream did and an event says so. */
static uint64_t take_over(struct sim_pool *p, struct sim_stream *s, uint64_t span)
{
    for (struct sim_block *b = p->waiting; b; b = b->next_waiting) {
        if (b->range.size != span || b->taken_over) continue;
        bool ordered = b->freeing == s ? sim_fact(SIM_FACT_same_stream_reuse) : p->reuse_events && is_behind(s, b);
        if (!ordered) continue;
        b->taken_over = true;
        return b->range.start;
    }
    return 0;
}

/* For want of memory a stream may be made to wait for another's release. */
static uint64_t take_over_behind(struct sim_pool *p, uint64_t span, struct sim_deps *ret_deps)
{
    for (struct sim_block *b = p->reuse_dependencies ? p->waiting : NULL; b; b = b->next_waiting) {
        if (b->range.size != span || b->taken_over) continue;
        b->taken_over = true;
        sim_deps_add(ret_deps, b->freeing, *release_seq(b));
        return b->range.start;
    }
    return 0;
}

static CUresult block_new(struct sim_pool *p, struct sim_stream *s, uint64_t size, struct sim_work *w,
                          struct sim_block **ret_block)
{
    uint64_t span = sim_memory_span(size);
    if (span < size) return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t address = take_over(p, s, span);
    if (!address && take(p, span)) {
        address = sim_arena_take(&p->device->arena, span);
        if (!address) p->used -= span;
    }
    if (!address) address = take_over_behind(p, span, &w->deps);
    struct sim_block *b = address ? sim_block_new(SIM_BLOCK_ASYNC, address, span, size, w->fn) : NULL;
    if (!b) return CUDA_ERROR_OUT_OF_MEMORY;
    b->device = p->device;
    b->pool = p;
    b->host_sees = p->host;
    b->state = SIM_UNBORN;
    sim_object_ref(&p->object);
    *ret_block = b;
    return CUDA_SUCCESS;
}

/* The release happens: the address goes back unless a later allocation has it. */
static void block_end(struct sim_block *b)
{
    struct sim_pool *p = b->pool;
    uint64_t address = b->range.start, span = b->range.size;
    bool taken_over = b->taken_over;
    sim_block_retire(b);
    if (taken_over) {
        sim_arena_poison(address, span); /* the next owner's allocation runs behind this */
    } else {
        sim_arena_give(&p->device->arena, address, span);
        p->used -= span;
    }
    sim_object_unref(&p->object);
}

static void finish_allocation(struct sim_work *w)
{
    w->u.block->state = SIM_LIVE;
    sim_block_unref(w->u.block);
}

static void finish_release(struct sim_work *w)
{
    struct sim_block *b = w->u.block, **link = &b->pool->waiting;
    while (*link != b) link = &(*link)->next_waiting;
    *link = b->next_waiting;
    sim_object_unref(&b->freeing->object);
    b->freeing = NULL;
    block_end(b);
}

/* Out of memory: what other streams are about to give back may do, unless a test holds them. The lock is away
 * meanwhile; false when the stream or the pool went, or nothing was waited for. */
static bool wait_for_releases(struct sim_pool *p, struct sim_stream *s)
{
    struct sim_deps deps = { 0 };
    for (struct sim_block *b = p->reuse_dependencies ? p->waiting : NULL; b; b = b->next_waiting)
        if (!b->freeing->held) sim_deps_add(&deps, b->freeing, b->freeing->submitted);
    bool waited = deps.count != 0;
    sim_object_ref(&s->object);
    sim_object_ref(&p->object);
    sim_deps_wait(&deps);
    sim_deps_clear(&deps);
    bool alive = s->object.open && p->object.open && !s->capture;
    sim_object_unref(&p->object);
    sim_object_unref(&s->object);
    return waited && alive;
}

static CUresult allocate(struct sim_pool *p, struct sim_stream *s, uint64_t size, enum sim_fn fn, CUdeviceptr *dptr)
{
    struct sim_block *b = NULL;
    if (p->imported) return CUDA_ERROR_INVALID_VALUE;
    if (s->capture) return sim_graph_capture_alloc(s, p->device, size, fn, dptr);
    CUresult result = sim_capture_check_implicit(s);
    struct sim_work *w = result == CUDA_SUCCESS ? sim_work_new(fn) : NULL;
    if (result == CUDA_SUCCESS) result = w ? block_new(p, s, size, w, &b) : CUDA_ERROR_OUT_OF_MEMORY;
    if (w && result == CUDA_ERROR_OUT_OF_MEMORY && wait_for_releases(p, s)) result = block_new(p, s, size, w, &b);
    if (result != CUDA_SUCCESS) {
        sim_work_free(w);
        return result;
    }
    w->u.block = b;
    w->finish = finish_allocation;
    w->effect = SIM_ALLOCATES;
    sim_block_ref(b);
    *dptr = b->range.start;
    sim_stream_queue(s, w);
    return CUDA_SUCCESS;
}

static CUresult alloc_async(CUdeviceptr *dptr, size_t size, CUmemoryPool handle, bool pool_given, CUstream h,
                            enum sim_default dflt, enum sim_fn fn)
{
    struct sim_stream *s;
    if (!dptr) return sim_log_refused(fn, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    if (result == CUDA_SUCCESS && !size) {
        result = (CUresult)sim_fact(SIM_FACT_zero_bytes_async);
        if (result == CUDA_SUCCESS) *dptr = 0;
    } else if (result == CUDA_SUCCESS) {
        struct sim_pool *p = pool_given ? sim_object_find(handle, SIM_POOL) : s->context->device->pool;
        result = p ? allocate(p, s, size, fn, dptr) : CUDA_ERROR_INVALID_VALUE;
    }
    sim_unlock();
    sim_log_call(fn, result, result ? 0 : *dptr, "size", size, "stream", (uint64_t)(uintptr_t)h);
    return result;
}

SIM_TWIN(cuMemAllocAsync, _ptsz, (CUdeviceptr *dptr, size_t bytesize, CUstream h),
         alloc_async(dptr, bytesize, NULL, false, h, dflt, fn))

SIM_TWIN(cuMemAllocFromPoolAsync, _ptsz, (CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream h),
         alloc_async(dptr, bytesize, pool, true, h, dflt, fn))

static CUresult free_block(struct sim_block *b, struct sim_stream *s, enum sim_fn fn)
{
    if (b->kind == SIM_BLOCK_GRAPH) return sim_graph_free_async(s, b, fn);
    if (s->capture) return sim_capture_refuse_free(s); /* a node frees only what a node allocated */
    CUresult result = sim_capture_check_implicit(s);
    struct sim_work *w = result == CUDA_SUCCESS ? sim_work_new(fn) : NULL;
    if (!w) return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    sim_block_unmap(b, fn);
    sim_object_ref(&s->object);
    b->freeing = s;
    *release_seq(b) = s->submitted + 1;
    b->next_waiting = b->pool->waiting;
    b->pool->waiting = b;
    w->u.block = b;
    w->finish = finish_release;
    w->effect = SIM_RELEASES;
    sim_stream_queue(s, w);
    return CUDA_SUCCESS;
}

static void finish_import(struct sim_work *w)
{
    sim_pool_import_end(w->u.block);
}

static CUresult free_import(struct sim_block *b, struct sim_stream *s, enum sim_fn fn)
{
    if (s->capture) return sim_capture_refuse_free(s);
    CUresult result = sim_capture_check_implicit(s);
    struct sim_work *w = result == CUDA_SUCCESS ? sim_work_new(fn) : NULL;
    if (!w) return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    sim_block_unmap(b, fn);
    w->u.block = b;
    w->finish = finish_import;
    w->effect = SIM_RELEASES;
    sim_stream_queue(s, w);
    return CUDA_SUCCESS;
}

/* Synchronous memory may be freed in stream order too: its release is queued like any other. */
static void finish_sync_release(struct sim_work *w)
{
    struct sim_block *b = w->u.block;
    struct sim_device *d = b->device;
    uint64_t address = b->range.start, span = b->range.size;
    sim_block_retire(b);
    sim_arena_give(&d->arena, address, span);
    sim_device_refund(d, span);
}

static CUresult free_sync_block(struct sim_block *b, struct sim_stream *s, enum sim_fn fn)
{
    if (s->capture) return sim_capture_refuse_free(s);
    CUresult result = sim_capture_check_implicit(s);
    struct sim_work *w = result == CUDA_SUCCESS ? sim_work_new(fn) : NULL;
    if (!w) return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    sim_block_unmap(b, fn);
    w->u.block = b;
    w->finish = finish_sync_release;
    w->effect = SIM_RELEASES;
    sim_stream_queue(s, w);
    return CUDA_SUCCESS;
}

static CUresult free_async(CUdeviceptr dptr, CUstream h, enum sim_default dflt, enum sim_fn fn)
{
    struct sim_stream *s;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    struct sim_block *b = sim_block_at(dptr);
    if (result == CUDA_SUCCESS && b) sim_free_check(b);
    else if (result == CUDA_SUCCESS) sim_free_check_unknown(dptr);
    if (result != CUDA_SUCCESS || !dptr) ; /* NULL is a no-op in a valid stream */
    else if (b && (b->kind == SIM_BLOCK_ASYNC || b->kind == SIM_BLOCK_GRAPH)) result = free_block(b, s, fn);
    else if (b && b->kind == SIM_BLOCK_IPC && b->pool) result = free_import(b, s, fn);
    else if (b && b->kind == SIM_BLOCK_DEVICE) result = free_sync_block(b, s, fn);
    else result = CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    sim_log_call(fn, result, dptr, "stream", (uint64_t)(uintptr_t)h, NULL, 0);
    return result;
}

SIM_TWIN(cuMemFreeAsync, _ptsz, (CUdeviceptr dptr, CUstream h), free_async(dptr, h, dflt, fn))

CUresult sim_pool_free_now(struct sim_block *b, enum sim_fn fn)
{
    if (b->kind == SIM_BLOCK_GRAPH) return sim_graph_free_now(b, fn);
    sim_block_unmap(b, fn);
    if (sim_fact(SIM_FACT_pool_free_waits)) sim_context_wait_device(b->device);
    sim_order_released(b);
    if (b->kind == SIM_BLOCK_IPC) sim_pool_import_end(b);
    else block_end(b);
    return CUDA_SUCCESS;
}

struct wanted {
    uint64_t address;
    struct sim_block *block;
};

static void find_freed(struct sim_object *o, void *arg)
{
    struct wanted *w = arg;
    for (struct sim_block *b = ((struct sim_pool *)o)->waiting; b && !w->block; b = b->next_waiting)
        if (w->address - b->range.start < b->range.size) w->block = b;
}

struct sim_block *sim_pool_freed_block(uint64_t address)
{
    struct wanted w = { address, NULL };
    sim_object_each(SIM_POOL, find_freed, &w);
    return w.block;
}

void sim_pool_release_device(struct sim_device *d, enum sim_fn fn)
{
    uint64_t at = 0; /* addresses, not blocks: the lock may be away */
    for (struct sim_block *b; (b = sim_block_next(at));) {
        at = b->range.start + 1;
        if (b->kind != SIM_BLOCK_ASYNC || b->device != d) continue;
        sim_block_unmap(b, fn);
        block_end(b);
    }
}

/* --- pools ------------------------------------------------------------------------------------------------ */

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    SIM_ENTER(cuMemPoolCreate);
    if (!pool || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || ((unsigned)props->handleTypes & ~(unsigned)KNOWN_HANDLES))
        return sim_log_refused(SIM_FN_cuMemPoolCreate, CUDA_ERROR_INVALID_VALUE);
    if (props->handleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return sim_log_refused(SIM_FN_cuMemPoolCreate, CUDA_ERROR_NOT_SUPPORTED);
    bool host = props->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
    if (host && !sim_host_location(&props->location)) return sim_log_refused(SIM_FN_cuMemPoolCreate, CUDA_ERROR_INVALID_VALUE);
    struct sim_device *d = sim_device_get(host ? 0 : props->location.id);
    if (!d) return sim_log_refused(SIM_FN_cuMemPoolCreate, CUDA_ERROR_INVALID_DEVICE);
    sim_lock();
    struct sim_pool *p = sim_pool_new(d, false, host);
    if (p) {
        p->handle_types = (unsigned)props->handleTypes;
        p->limit = props->maxSize;
        *pool = (CUmemoryPool)p;
    }
    sim_unlock();
    sim_log_call(SIM_FN_cuMemPoolCreate, p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, (uint64_t)(uintptr_t)p, "device",
                 (uint64_t)d->ordinal, NULL, 0);
    return p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Blocks keep it alive. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    SIM_ENTER(cuMemPoolDestroy);
    sim_lock();
    struct sim_pool *p = sim_object_find(pool, SIM_POOL);
    CUresult result = p && !p->is_default ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        if (p->device->pool == p) p->device->pool = p->device->default_pool;
        trim(p, 0);
        p->threshold = 0;
        sim_object_close(&p->object);
    }
    sim_unlock();
    sim_log_plain(SIM_FN_cuMemPoolDestroy, result, (uint64_t)(uintptr_t)pool);
    return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    SIM_ENTER(cuMemPoolTrimTo);
    sim_lock();
    struct sim_pool *p = sim_object_find(pool, SIM_POOL);
    if (p) trim(p, keep);
    sim_unlock();
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
