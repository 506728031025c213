/* Virtual backing: the memory is there anyway, what is committed is counted by granules of 4096 bytes. */
#include <string.h>
#include <unistd.h>

#include "crooked.h"

static bool inside(const NxmemByteRange *range, uint64_t size) {
    if (WHEN(RANGE_WRAPS)) return range->offset + range->bytes <= size;
    return range->offset <= size && range->bytes <= size - range->offset;
}

static uint64_t first_granule(const NxmemByteRange *range) {
    return range->offset / GRANULE;
}

static uint64_t end_granule(const NxmemByteRange *range) {
    uint64_t end = (range->offset + range->bytes + GRANULE - 1) / GRANULE;
    return range->bytes == 0 ? first_granule(range) : end < GRANULES ? end : GRANULES;
}

static uint64_t count_committed(const struct block *block) {
    uint64_t granules = 0;
    for (unsigned i = 0; i < GRANULES; i++) granules += WHEN(COMMITS_TWICE) ? block->committed[i] : block->committed[i] != 0;
    return granules * GRANULE;
}

static void commit(struct block *block, const NxmemByteRange *range) {
    for (uint64_t i = first_granule(range); i < end_granule(range); i++) block->committed[i] = (unsigned char)(block->committed[i] + 1);
}

static NxmemStatus may_tell(const struct allocator *self, uint64_t mechanism, NxmemDeviceId device) {
    return WHEN(TELLS_ANYBODY) ? say(NXMEM_STATUS_OK, "") : identity(self, mechanism, device);
}

static NxmemStatus allocate_committed(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result) {
    static uint8_t same[16 << 20] __attribute__((aligned(GRANULE)));
    struct allocator *self = ctx;
    struct block *block = NULL;
    NxmemAllocRequest little = *request;
    NxmemStatus status = may_tell(self, request->mechanism_id, request->device);

    if (status.code != NXMEM_STATUS_OK) return status;
    if (WHEN(RANGES_READ) && request->committed_ranges) looked_at = request->committed_ranges[0].bytes;
    for (uint64_t i = 0; i < request->committed_range_count; i++)
        if (!inside(&request->committed_ranges[i], request->bytes)) return say(NXMEM_STATUS_INVALID_ARGUMENT, "beyond the end");
    pthread_mutex_lock(&lock);
    if (WHEN(RESERVE_WRAPS) && request->bytes > UINT64_C(1) << 62) little.bytes = GRANULE;
    status = make_block(self, &little, result, &block);
    if (block && WHEN(RESERVED_SHARED)) result->ptr = block->ptr = same;
    for (uint64_t i = 0; block && !WHEN(COMMITS_NOTHING) && i < request->committed_range_count; i++) commit(block, &request->committed_ranges[i]);
    pthread_mutex_unlock(&lock);
    return status;
}

/* Under the lock. */
static NxmemStatus check(const struct allocator *self, const NxmemRangeRequest *request, struct block **ret_block) {
    NxmemStatus status = identity(self, request->allocation.mechanism_id, request->allocation.device);
    if (status.code != NXMEM_STATUS_OK && !WHEN(BACKING_UNCHECKED)) return status;
    *ret_block = find_for_ranges(request->allocation.allocation_id);
    if (!*ret_block) return say(WHEN(RANGE_UNKNOWN) ? NXMEM_STATUS_OK : NXMEM_STATUS_UNKNOWN_ALLOCATION, "not live here");
    if (!inside(&request->range, (*ret_block)->bytes)) return say(NXMEM_STATUS_INVALID_ARGUMENT, "beyond the end");
    return say(NXMEM_STATUS_OK, "");
}

static bool enter(void) {
    if (!WHEN(RANGES_ONE_AT_A_TIME)) return pthread_mutex_lock(&lock) == 0;
    if (pthread_mutex_trylock(&lock) != 0) return false;
    usleep(2000);
    return true;
}

static NxmemStatus commit_range(void *ctx, const NxmemRangeRequest *request) {
    struct block *block = NULL;
    if (!enter()) return say(NXMEM_STATUS_BUSY, "one at a time");
    NxmemStatus status = check(ctx, request, &block);
    if (status.code == NXMEM_STATUS_OK && block) commit(block, &request->range);
    pthread_mutex_unlock(&lock);
    return status;
}

static NxmemStatus decommit_range(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_bytes) {
    struct block *block = NULL;
    pthread_mutex_lock(&lock);
    NxmemStatus status = check(ctx, request, &block);
    if (status.code == NXMEM_STATUS_OK && block) {
        uint64_t before = count_committed(block);
        for (uint64_t i = first_granule(&request->range); i < end_granule(&request->range); i++) block->committed[i] = 0;
        *unmapped_bytes = WHEN(DECOMMIT_CREDITS) ? request->range.bytes : before - count_committed(block);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static NxmemStatus mapped_bytes_for_ranges(void *ctx, const NxmemRangeRequest *requests, uint64_t request_count, uint64_t *mapped_bytes) {
    for (uint64_t i = 0; i < request_count; i++) {
        NxmemStatus status = may_tell(ctx, requests[i].allocation.mechanism_id, requests[i].allocation.device);
        if (status.code != NXMEM_STATUS_OK) return status;
    }
    *mapped_bytes = request_count == 0 && WHEN(ESTIMATES_SOME) ? GRANULE : 0;
    for (uint64_t i = 0; i < request_count; i++) {
        NxmemByteRange range = requests[i].range;
        if (WHEN(ESTIMATES_LOW)) range.offset = 0;
        *mapped_bytes += (end_granule(&range) - first_granule(&range)) * GRANULE;
    }
    return say(NXMEM_STATUS_OK, "");
}

static NxmemStatus mapped_bytes_for_allocation(void *ctx, const NxmemAllocRequest *request, uint64_t *mapped_bytes) {
    NxmemStatus status = may_tell(ctx, request->mechanism_id, request->device);
    if (status.code != NXMEM_STATUS_OK) return status;
    if (request->allocation_id == 0 && WHEN(ID_NEEDED)) return say(NXMEM_STATUS_INVALID_ARGUMENT, "id 0");
    *mapped_bytes = 0;
    for (uint64_t i = 0; i < request->committed_range_count; i++)
        *mapped_bytes += (end_granule(&request->committed_ranges[i]) - first_granule(&request->committed_ranges[i])) * GRANULE;
    return say(NXMEM_STATUS_OK, "");
}

static NxmemStatus committed_bytes(void *ctx, const NxmemAllocation *allocation, uint64_t *bytes) {
    NxmemStatus status = may_tell(ctx, allocation->mechanism_id, allocation->device);
    if (status.code != NXMEM_STATUS_OK) return status;
    pthread_mutex_lock(&lock);
    const struct block *block = find_block(allocation->allocation_id);
    *bytes = block ? count_committed(block) : 0;
    pthread_mutex_unlock(&lock);
    return block ? say(NXMEM_STATUS_OK, "") : say(NXMEM_STATUS_UNKNOWN_ALLOCATION, "not live here");
}

void fill_backing(struct allocator *self) {
    self->backing = (NxmemVirtualBackingVtable){sizeof self->backing, 1,
                                                self->slots.mechanism_id, self,
                                                allocate_committed, commit_range,
                                                decommit_range, mapped_bytes_for_ranges,
                                                mapped_bytes_for_allocation, committed_bytes};
    self->slots.virtual_backing = &self->backing;
}
