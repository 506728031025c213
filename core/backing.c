#include "backing.h"

#include <stddef.h>

#include "allocator_state.h"
#include "error.h"
#include "lock.h"
#include "mem.h"
#include "status.h"
#include "terminal.h"

/* --- what must hold before the plugin is asked ------------------------------------------------------------- */

static int no_slot(const struct nxm_allocator *allocator, const char *slot, struct nxm_error *ret_error)
{
    if (allocator->virtual_backing.struct_size == 0)
        return nxm_error_set(ret_error, NXM_EUNSUPPORTED, 0, "mechanism %s has no virtual backing", allocator->name);
    return nxm_error_set(ret_error, NXM_EUNSUPPORTED, 0, "mechanism %s provides no %s", allocator->name, slot);
}

static int check_ranges(const NxmemByteRange *ranges, uint64_t count, uint64_t bytes, struct nxm_error *ret_error)
{
    for (uint64_t i = 0; i < count; i++) {
        unsigned long long offset = ranges[i].offset, length = ranges[i].bytes;

        if (ranges[i].offset > bytes || ranges[i].bytes > bytes - ranges[i].offset)
            return nxm_error_set(ret_error, NXM_EINVAL, 0, "%llu bytes from %llu on leave a block of %llu bytes", length,
                                 offset, (unsigned long long)bytes);
    }
    return NXM_OK;
}

/* The live block of that shape, and ranges inside it. */
static int find(struct nxm_allocator *allocator, uint64_t address, const struct nxm_shape *shape,
                const NxmemByteRange *ranges, uint64_t count, struct nxm_block *ret_block, struct nxm_error *ret_error)
{
    int result = nxm_accounts_find(allocator, address, shape, ret_block, ret_error);

    return result != NXM_OK ? result : check_ranges(ranges, count, ret_block->bytes, ret_error);
}

static NxmemRangeRequest request_for(const struct nxm_allocator *allocator, const struct nxm_block *block,
                                     const NxmemByteRange *range)
{
    return (NxmemRangeRequest){
        .struct_size = sizeof(NxmemRangeRequest),
        .allocation = nxm_terminal_allocation(&allocator->vtable, block),
        .range = *range,
    };
}

/* --- allocate ---------------------------------------------------------------------------------------------- */

struct committed {
    const NxmemVirtualBackingVtable *vtable;
    const NxmemByteRange *ranges;
    uint64_t count;
};

static NxmemStatus allocate_committed(void *argument, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    const struct committed *committed = argument;
    NxmemAllocRequest with_ranges = *request;

    with_ranges.committed_ranges = committed->count == 0 ? NULL : committed->ranges;
    with_ranges.committed_range_count = committed->count;
    return committed->vtable->allocate_committed(committed->vtable->ctx, &with_ranges, result);
}

int nxm_backing_allocate(struct nxm_allocator *allocator, struct nxm_block *block, const NxmemByteRange *ranges,
                         uint64_t count, struct nxm_error *ret_error)
{
    struct committed committed = { &allocator->virtual_backing, ranges, count };
    int result;

    if (allocator->virtual_backing.allocate_committed == NULL)
        return no_slot(allocator, "allocate_committed", ret_error);
    result = check_ranges(ranges, count, block->bytes, ret_error);
    if (result != NXM_OK)
        return result;
    return nxm_allocator_allocate(allocator, block, allocate_committed, &committed, ret_error);
}

/* --- ranges of a live block -------------------------------------------------------------------------------- */

int nxm_backing_commit(struct nxm_allocator *allocator, uint64_t address, const struct nxm_shape *shape,
                       const NxmemByteRange *range, struct nxm_error *ret_error)
{
    NxmemRangeRequest request;
    struct nxm_block block;
    NxmemStatus status;
    int result;

    if (allocator->virtual_backing.commit_range == NULL)
        return no_slot(allocator, "commit_range", ret_error);
    result = find(allocator, address, shape, range, 1, &block, ret_error);
    if (result != NXM_OK)
        return result;
    request = request_for(allocator, &block, range);
    nxm_lock_assert_none();
    status = allocator->virtual_backing.commit_range(allocator->virtual_backing.ctx, &request);
    return status.code == NXMEM_STATUS_OK ? NXM_OK : nxm_status_error(&status, "commit_range", ret_error);
}

int nxm_backing_decommit(struct nxm_allocator *allocator, uint64_t address, const struct nxm_shape *shape,
                         const NxmemByteRange *range, uint64_t *ret_unmapped, struct nxm_error *ret_error)
{
    NxmemRangeRequest request;
    struct nxm_block block;
    uint64_t unmapped = 0;
    NxmemStatus status;
    int result;

    if (allocator->virtual_backing.decommit_range == NULL)
        return no_slot(allocator, "decommit_range", ret_error);
    result = find(allocator, address, shape, range, 1, &block, ret_error);
    if (result != NXM_OK)
        return result;
    request = request_for(allocator, &block, range);
    nxm_lock_assert_none();
    status = allocator->virtual_backing.decommit_range(allocator->virtual_backing.ctx, &request, &unmapped);
    if (status.code != NXMEM_STATUS_OK)
        return nxm_status_refusal(&status, "decommit_range", ret_error);
    *ret_unmapped = unmapped < block.bytes ? unmapped : block.bytes;
    return NXM_OK;
}

uint64_t nxm_backing_committed(struct nxm_allocator *allocator, uint64_t address, const struct nxm_shape *shape)
{
    NxmemAllocation allocation;
    struct nxm_block block;
    uint64_t committed = 0;
    NxmemStatus status;

    if (allocator->virtual_backing.committed_bytes == NULL ||
        nxm_accounts_find(allocator, address, shape, &block, NULL) != NXM_OK)
        return 0;
    allocation = nxm_terminal_allocation(&allocator->vtable, &block);
    nxm_lock_assert_none();
    status = allocator->virtual_backing.committed_bytes(allocator->virtual_backing.ctx, &allocation, &committed);
    return status.code == NXMEM_STATUS_OK ? committed : 0;
}

/* --- what it would cost ------------------------------------------------------------------------------------ */

static int ask_for_ranges(struct nxm_allocator *allocator, const NxmemRangeRequest *requests, uint64_t count,
                          uint64_t *ret_mapped, struct nxm_error *ret_error)
{
    uint64_t mapped = 0;
    NxmemStatus status;

    nxm_lock_assert_none();
    status = allocator->virtual_backing.mapped_bytes_for_ranges(allocator->virtual_backing.ctx, requests, count, &mapped);
    if (status.code != NXMEM_STATUS_OK)
        return nxm_status_refusal(&status, "mapped_bytes_for_ranges", ret_error);
    *ret_mapped = mapped;
    return NXM_OK;
}

int nxm_backing_cost_of_ranges(struct nxm_allocator *allocator, uint64_t address, const struct nxm_shape *shape,
                               const NxmemByteRange *ranges, uint64_t count, uint64_t *ret_mapped,
                               struct nxm_error *ret_error)
{
    NxmemRangeRequest *requests;
    struct nxm_block block;
    size_t size;
    int result;

    if (allocator->virtual_backing.mapped_bytes_for_ranges == NULL)
        return no_slot(allocator, "mapped_bytes_for_ranges", ret_error);
    result = find(allocator, address, shape, ranges, count, &block, ret_error);
    if (result != NXM_OK)
        return result;
    if (count == 0) {
        *ret_mapped = 0;
        return NXM_OK;
    }
    requests = __builtin_mul_overflow(count, sizeof *requests, &size) ? NULL : nxm_mem_new(size);
    if (requests == NULL)
        return nxm_error_set(ret_error, NXM_ENOMEM, 0, "no memory to name %llu ranges", (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++)
        requests[i] = request_for(allocator, &block, &ranges[i]);
    result = ask_for_ranges(allocator, requests, count, ret_mapped, ret_error);
    nxm_mem_free(requests);
    return result;
}

int nxm_backing_cost_of_block(struct nxm_allocator *allocator, const struct nxm_shape *shape, const NxmemByteRange *ranges,
                              uint64_t count, uint64_t *ret_mapped, struct nxm_error *ret_error)
{
    NxmemAllocRequest request = {
        .struct_size = sizeof request,
        .mechanism_id = allocator->vtable.mechanism_id,
        .allocation_id = 0, /* names no allocation: a question (13.9) */
        .device = allocator->device,
        .bytes = shape->bytes,
        .align = shape->align,
        .committed_ranges = count == 0 ? NULL : ranges,
        .committed_range_count = count,
    };
    uint64_t mapped = 0;
    NxmemStatus status;
    int result;

    if (allocator->virtual_backing.mapped_bytes_for_allocation == NULL)
        return no_slot(allocator, "mapped_bytes_for_allocation", ret_error);
    if (shape->align == 0 || (shape->align & (shape->align - 1)) != 0)
        return nxm_error_set(ret_error, NXM_EINVAL, 0, "alignment %llu is not a power of two",
                             (unsigned long long)shape->align);
    result = check_ranges(ranges, count, shape->bytes, ret_error);
    if (result != NXM_OK)
        return result;
    nxm_lock_assert_none();
    status = allocator->virtual_backing.mapped_bytes_for_allocation(allocator->virtual_backing.ctx, &request, &mapped);
    if (status.code != NXMEM_STATUS_OK)
        return nxm_status_refusal(&status, "mapped_bytes_for_allocation", ret_error);
    *ret_mapped = mapped;
    return NXM_OK;
}
