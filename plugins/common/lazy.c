#include "plugins/common/lazy.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/status.h"

/* --- the memory -------------------------------------------------------------------------------------------- */

/* Beyond what an address can reach; asking libc would be a waste, and a sanitizer stops there. */
static const uint64_t address_limit = UINT64_C(1) << 47;

void *nxp_memory_get(uint64_t bytes, uint64_t align)
{
    void *memory = NULL;

    if (align < sizeof(void *))
        align = sizeof(void *);
    if (bytes > address_limit || align > address_limit)
        return NULL;
    return posix_memalign(&memory, align, bytes != 0 ? bytes : 1) == 0 ? memory : NULL;
}

static uint64_t granules_of(uint64_t bytes)
{
    return bytes / NXP_GRANULE + (bytes % NXP_GRANULE != 0);
}

uint64_t nxp_granules_around(uint64_t offset, uint64_t bytes)
{
    uint64_t into = offset % NXP_GRANULE;

    if (bytes == 0)
        return 0;
    /* A size near 2^64 rounds to no number: the largest is the estimate then. */
    if (bytes > UINT64_MAX - into - (NXP_GRANULE - 1))
        return UINT64_MAX;
    return granules_of(into + bytes) * NXP_GRANULE;
}

NxmemStatus nxp_lazy_allocate(struct nxp_allocator *allocator, const NxmemCudaOrder *order, struct nxp_block *block)
{
    struct nxp_lazy_block *lazy = NULL;

    (void)allocator;
    (void)order;
    block->ptr = nxp_memory_get(block->bytes, block->align);
    if (block->ptr != NULL)
        lazy = calloc(1, sizeof *lazy + granules_of(block->bytes));
    if (lazy == NULL) {
        free(block->ptr);
        return nxp_status(NXMEM_STATUS_OUT_OF_MEMORY, "the system has no memory of this size");
    }
    memset(lazy->committed, 1, granules_of(block->bytes));
    block->backing = lazy;
    return nxp_ok();
}

NxmemStatus nxp_lazy_release(struct nxp_allocator *allocator, const NxmemCudaOrder *order, struct nxp_block *block)
{
    (void)order;
    nxp_lazy_leaves(allocator, block);
    free(block->ptr);
    free(block->backing);
    return nxp_ok();
}

void nxp_lazy_leaves(struct nxp_allocator *allocator, struct nxp_block *block)
{
    nxp_prefixes_unmap((struct nxp_lazy *)allocator, block);
}

/* --- spans --------------------------------------------------------------------------------------------------- */

static bool in_bounds(const NxmemByteRange *range, uint64_t bytes)
{
    return range->offset <= bytes && range->bytes <= bytes - range->offset;
}

static NxmemStatus out_of_bounds(void)
{
    return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "a range ends beyond its allocation");
}

static uint64_t add_capped(uint64_t a, uint64_t b)
{
    return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

/* The bytes of granule `index` that belong to the block: its last one may be cut. */
static uint64_t granule_bytes(const struct nxp_block *block, uint64_t index)
{
    uint64_t left = block->bytes - index * NXP_GRANULE;

    return left < NXP_GRANULE ? left : NXP_GRANULE;
}

static void commit_span(struct nxp_block *block, const NxmemByteRange *range)
{
    struct nxp_lazy_block *lazy = block->backing;

    if (range->bytes == 0)
        return;
    for (uint64_t i = range->offset / NXP_GRANULE; i <= (range->offset + range->bytes - 1) / NXP_GRANULE; i++) {
        if (lazy->committed[i])
            continue;
        lazy->committed[i] = 1;
        block->committed += granule_bytes(block, i);
    }
}

/* Only granules that lie in the span as a whole: the others still hold bytes outside it. */
static uint64_t decommit_span(struct nxp_block *block, const NxmemByteRange *range)
{
    struct nxp_lazy_block *lazy = block->backing;
    uint64_t end = range->offset + range->bytes, before = block->committed;

    for (uint64_t i = granules_of(range->offset); i < granules_of(block->bytes); i++) {
        if (i * NXP_GRANULE + granule_bytes(block, i) > end)
            break;
        if (!lazy->committed[i])
            continue;
        lazy->committed[i] = 0;
        block->committed -= granule_bytes(block, i);
    }
    return before - block->committed;
}

/* --- the slots ----------------------------------------------------------------------------------------------- */

static struct nxp_lazy *lazy_of(void *ctx)
{
    return (struct nxp_lazy *)((char *)ctx - offsetof(struct nxp_lazy, backing));
}

static NxmemStatus check_ranges(const NxmemAllocRequest *request)
{
    /* The count first: with none the pointer may be anything (13.1). */
    if (request->committed_range_count == 0)
        return nxp_ok();
    if (request->committed_ranges == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "ranges are counted and not given");
    for (uint64_t i = 0; i < request->committed_range_count; i++)
        if (!in_bounds(&request->committed_ranges[i], request->bytes))
            return out_of_bounds();
    return nxp_ok();
}

/* What allocate has committed in full becomes what the ranges say. */
static void commit_only(struct nxp_lazy *lazy, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    const NxmemByteRange all = {0, request->bytes};
    struct nxp_block *block;

    pthread_mutex_lock(&lazy->base.lock);
    block = nxp_live_find(&lazy->base.live, request->allocation_id);
    decommit_span(block, &all);
    for (uint64_t i = 0; i < request->committed_range_count; i++)
        commit_span(block, &request->committed_ranges[i]);
    result->owned_bytes = block->committed;
    result->mapped_bytes = block->committed;
    pthread_mutex_unlock(&lazy->base.lock);
}

static NxmemStatus allocate_committed(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    struct nxp_lazy *lazy = lazy_of(ctx);
    NxmemStatus status = nxp_allocator_check_request(&lazy->base, request, result);

    if (status.code == NXMEM_STATUS_OK)
        status = check_ranges(request);
    if (status.code == NXMEM_STATUS_OK)
        status = nxp_allocator_allocate(&lazy->base, NULL, request, result);
    /* Nobody knows the block yet but this caller. */
    if (status.code == NXMEM_STATUS_OK)
        commit_only(lazy, request, result);
    return status;
}

static NxmemStatus check_range(const struct nxp_lazy *lazy, const NxmemRangeRequest *request)
{
    if (request == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no range named");
    if (request->struct_size < sizeof *request)
        return nxp_status(NXMEM_STATUS_SHORT_STRUCT, "the range request is shorter than at minor 0");
    return nxp_allocator_check_allocation(&lazy->base, &request->allocation);
}

/* The caller holds the lock. */
static NxmemStatus find_span(struct nxp_lazy *lazy, const NxmemRangeRequest *request, struct nxp_block **ret_block)
{
    NxmemStatus status = nxp_allocator_find(&lazy->base, &request->allocation, ret_block);

    if (status.code == NXMEM_STATUS_OK && !in_bounds(&request->range, (*ret_block)->bytes))
        status = out_of_bounds();
    return status;
}

static NxmemStatus commit_range(void *ctx, const NxmemRangeRequest *request)
{
    struct nxp_lazy *lazy = lazy_of(ctx);
    NxmemStatus status = check_range(lazy, request);
    struct nxp_block *block;

    if (status.code != NXMEM_STATUS_OK)
        return status;
    pthread_mutex_lock(&lazy->base.lock);
    status = find_span(lazy, request, &block);
    if (status.code == NXMEM_STATUS_OK)
        commit_span(block, &request->range);
    pthread_mutex_unlock(&lazy->base.lock);
    return status;
}

static NxmemStatus decommit_range(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_bytes)
{
    struct nxp_lazy *lazy = lazy_of(ctx);
    struct nxp_block *block;
    NxmemStatus status;

    if (unmapped_bytes == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no place for the bytes unmapped");
    *unmapped_bytes = 0;
    status = check_range(lazy, request);
    if (status.code != NXMEM_STATUS_OK)
        return status;
    pthread_mutex_lock(&lazy->base.lock);
    status = find_span(lazy, request, &block);
    if (status.code == NXMEM_STATUS_OK)
        *unmapped_bytes = decommit_span(block, &request->range);
    pthread_mutex_unlock(&lazy->base.lock);
    return status;
}

static NxmemStatus estimate(struct nxp_lazy *lazy, const NxmemRangeRequest *request, uint64_t *mapped_bytes)
{
    NxmemStatus status = check_range(lazy, request);
    struct nxp_block *block;

    if (status.code != NXMEM_STATUS_OK)
        return status;
    pthread_mutex_lock(&lazy->base.lock);
    status = find_span(lazy, request, &block);
    pthread_mutex_unlock(&lazy->base.lock);
    if (status.code == NXMEM_STATUS_OK)
        *mapped_bytes = add_capped(*mapped_bytes, nxp_granules_around(request->range.offset, request->range.bytes));
    return status;
}

/* Each span for itself: granules that two of them share count twice, an estimate from above. */
static NxmemStatus mapped_bytes_for_ranges(void *ctx, const NxmemRangeRequest *requests, uint64_t request_count,
                                           uint64_t *mapped_bytes)
{
    NxmemStatus status = nxp_ok();
    uint64_t sum = 0;

    if (mapped_bytes == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no place for the estimate");
    *mapped_bytes = 0;
    if (request_count != 0 && requests == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "ranges are counted and not given");
    for (uint64_t i = 0; status.code == NXMEM_STATUS_OK && i < request_count; i++)
        status = estimate(lazy_of(ctx), &requests[i], &sum);
    if (status.code == NXMEM_STATUS_OK)
        *mapped_bytes = sum;
    return status;
}

static NxmemStatus mapped_bytes_for_allocation(void *ctx, const NxmemAllocRequest *request, uint64_t *mapped_bytes)
{
    struct nxp_lazy *lazy = lazy_of(ctx);
    NxmemStatus status;
    uint64_t sum = 0;

    if (mapped_bytes == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no place for the estimate");
    *mapped_bytes = 0;
    if (request == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no allocation described");
    if (request->struct_size < sizeof *request)
        return nxp_status(NXMEM_STATUS_SHORT_STRUCT, "the allocation request is shorter than at minor 0");
    status = nxp_allocator_check_identity(&lazy->base, request->mechanism_id, request->device);
    if (status.code == NXMEM_STATUS_OK)
        status = check_ranges(request);
    if (status.code != NXMEM_STATUS_OK)
        return status;
    if (request->committed_range_count == 0)
        sum = nxp_granules_around(0, request->bytes);
    for (uint64_t i = 0; i < request->committed_range_count; i++)
        sum = add_capped(sum, nxp_granules_around(request->committed_ranges[i].offset,
                                                  request->committed_ranges[i].bytes));
    *mapped_bytes = sum;
    return status;
}

static NxmemStatus committed_bytes(void *ctx, const NxmemAllocation *allocation, uint64_t *committed)
{
    struct nxp_lazy *lazy = lazy_of(ctx);
    struct nxp_block *block;
    NxmemStatus status;

    if (committed == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no place for the bytes committed");
    *committed = 0;
    status = nxp_allocator_check_allocation(&lazy->base, allocation);
    if (status.code != NXMEM_STATUS_OK)
        return status;
    pthread_mutex_lock(&lazy->base.lock);
    status = nxp_allocator_find(&lazy->base, allocation, &block);
    if (status.code == NXMEM_STATUS_OK)
        *committed = block->committed;
    pthread_mutex_unlock(&lazy->base.lock);
    return status;
}

void nxp_lazy_publish(struct nxp_lazy *lazy)
{
    NxmemAllocatorVtable *vtable = &lazy->base.vtable;

    if ((vtable->capability_flags & NXMEM_CAPABILITY_SHARED_MAPPING) != 0)
        nxp_prefixes_publish(lazy);
    if ((vtable->capability_flags & NXMEM_CAPABILITY_VIRTUAL_BACKING) == 0)
        return;
    lazy->backing = (NxmemVirtualBackingVtable){
        .struct_size = sizeof lazy->backing,
        .abi_minor = vtable->abi_minor,
        .mechanism_id = vtable->mechanism_id,
        .ctx = &lazy->backing,
        .allocate_committed = allocate_committed,
        .commit_range = commit_range,
        .decommit_range = decommit_range,
        .mapped_bytes_for_ranges = mapped_bytes_for_ranges,
        .mapped_bytes_for_allocation = mapped_bytes_for_allocation,
        .committed_bytes = committed_bytes,
    };
    vtable->virtual_backing = &lazy->backing;
}
