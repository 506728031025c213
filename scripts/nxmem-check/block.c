/* Blocks: allocated, released at once, or queued. */
#include <stdatomic.h>
#include <string.h>

#include "subject.h"
#include "text.h"
#include "verdict.h"

enum { PATTERN_LIMIT = 1 << 20 };

uint64_t next_id(void) {
    static atomic_uint_fast64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

NxmemAllocRequest alloc_request(const struct opened *opened, uint64_t bytes, uint64_t align) {
    return (NxmemAllocRequest){.struct_size = sizeof(NxmemAllocRequest),
                               .mechanism_id = opened->slots.mechanism_id,
                               .allocation_id = next_id(),
                               .device = opened->slots.device,
                               .bytes = bytes,
                               .align = align};
}

NxmemAllocation allocation_of(const NxmemAllocRequest *request, const NxmemAllocResult *result) {
    return (NxmemAllocation){.struct_size = sizeof(NxmemAllocation),
                             .mechanism_id = request->mechanism_id,
                             .allocation_id = request->allocation_id,
                             .device = request->device,
                             .ptr = result->ptr,
                             .bytes = request->bytes,
                             .align = request->align};
}

NxmemStatus try_allocate(const struct opened *opened, uint64_t bytes, uint64_t align, struct block *ret_block) {
    NxmemAllocRequest request = alloc_request(opened, bytes, align);
    memset(ret_block, 0, sizeof *ret_block);
    ret_block->result.struct_size = sizeof ret_block->result;
    doing("allocate");
    NxmemStatus status = opened->slots.allocate(opened->slots.ctx, &request, &ret_block->result);
    ret_block->name = allocation_of(&request, &ret_block->result);
    return status;
}

struct block must_allocate(const struct opened *opened, uint64_t bytes) {
    struct block block;
    NxmemStatus status = try_allocate(opened, bytes, USUAL_ALIGN, &block);
    NEED(status.code == NXMEM_STATUS_OK, "allocate answers %s (11.5)", status_words(&status));
    NEED(block.result.ptr, "allocate answers OK with NULL (11.3)");
    return block;
}

static uint64_t most(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

uint64_t credit_limit(const struct block *block) {
    return most(block->name.bytes, most(block->result.owned_bytes, block->result.mapped_bytes));
}

/* --- released at once --- */

bool is_structured(const struct opened *opened) {
    return (opened->slots.capability_flags & NXMEM_CAPABILITY_STRUCTURED_RELEASE) != 0 && opened->slots.release_allocation;
}

NxmemStatus try_deallocate(const struct opened *opened, const NxmemAllocation *name, uint64_t *ret_unmapped) {
    *ret_unmapped = 0;
    doing("deallocate");
    return opened->slots.deallocate(opened->slots.ctx, name, ret_unmapped);
}

NxmemStatus try_release(const struct opened *opened, const NxmemAllocation *name, NxmemReleaseOutcome *ret_outcome) {
    memset(ret_outcome, 0, sizeof *ret_outcome);
    ret_outcome->struct_size = sizeof *ret_outcome;
    doing("release_allocation");
    return opened->slots.release_allocation(opened->slots.ctx, name, ret_outcome);
}

static enum ending ending_of_state(uint32_t state) {
    switch (state) {
    case NXMEM_RELEASE_COMPLETE: return GONE;
    case NXMEM_RELEASE_QUARANTINED: return KEPT;
    case NXMEM_RELEASE_FAILED: return LIVE;
    default: return IN_DOUBT;
    }
}

enum ending terminal_release(const struct opened *opened, const struct block *block) {
    NxmemReleaseOutcome outcome;
    uint64_t unmapped;
    if (!is_structured(opened)) return try_deallocate(opened, &block->name, &unmapped).code == NXMEM_STATUS_OK ? GONE : LIVE;
    NxmemStatus status = try_release(opened, &block->name, &outcome);
    if (status.code == NXMEM_STATUS_OK) return ending_of_state(outcome.state);
    bool doubtful = status.code == NXMEM_STATUS_RELEASE_QUARANTINED || status.code == NXMEM_STATUS_INTERNAL_ERROR ||
                    status.code > NXMEM_STATUS_BUSY;
    return doubtful ? IN_DOUBT : LIVE;
}

void must_release(const struct opened *opened, const struct block *block) {
    enum ending ending = terminal_release(opened, block);
    NEED(ending == GONE, "a release %s (12)", ending == KEPT ? "ends in a quarantine" : ending == LIVE ? "is refused" : "ends in doubt");
}

/* --- contents --- */

bool is_touchable(const struct opened *opened) {
    return opened->slots.device.tier == NXMEM_TIER_HOST;
}

static size_t pattern_bytes(const struct block *block) {
    return block->name.bytes < PATTERN_LIMIT ? (size_t)block->name.bytes : PATTERN_LIMIT;
}

void fill(const struct block *block) {
    doing("writing to allocated memory");
    memset(block->result.ptr, (int)(block->name.allocation_id * 37 % 251), pattern_bytes(block));
}

bool blocks_overlap(const struct block *a, const struct block *b) {
    uintptr_t at_a = (uintptr_t)a->result.ptr, at_b = (uintptr_t)b->result.ptr;
    if (at_a > at_b) return blocks_overlap(b, a);
    return at_b - at_a < most(a->name.bytes, 1); /* no sum: it might wrap */
}

bool is_filled(const struct block *block) {
    unsigned char expected = (unsigned char)(block->name.allocation_id * 37 % 251);
    doing("reading allocated memory");
    for (size_t i = 0; i < pattern_bytes(block); i++)
        if (block->result.ptr[i] != expected) return false;
    return true;
}

/* --- queued --- */

NxmemStatus try_enqueue(const struct opened *opened, const struct block *block, uint64_t *ret_ticket) {
    *ret_ticket = 0;
    if (opened->host) host_expect(opened->host, block->name.allocation_id, block->name.bytes, credit_limit(block));
    doing("enqueue_release");
    NxmemStatus status = opened->slots.enqueue_release(opened->slots.ctx, &block->name, ret_ticket);
    if (opened->host && status.code != NXMEM_STATUS_OK) host_forget(opened->host, block->name.allocation_id);
    if (opened->host && status.code == NXMEM_STATUS_OK) host_given(opened->host, block->name.allocation_id, *ret_ticket);
    return status;
}

void must_enqueue(const struct opened *opened, const struct block *block) {
    uint64_t ticket;
    NxmemStatus status = try_enqueue(opened, block, &ticket);
    NEED(status.code == NXMEM_STATUS_OK, "enqueue_release answers %s", status_words(&status));
}

NxmemStatus try_drain(const struct opened *opened, uint64_t max, uint64_t *ret_retired) {
    *ret_retired = 0;
    doing("drain_releases");
    return opened->slots.drain_releases(opened->slots.ctx, max, ret_retired);
}

bool settle(const struct opened *opened) {
    uint64_t retired;
    unsigned waited = 0, left = host_outstanding(opened->host);
    while (left > 0 && waited < opened->subject->limit_ms / 8) {
        unsigned before = left;
        try_drain(opened, UINT64_MAX, &retired);
        left = host_outstanding(opened->host);
        if (left < before) continue; /* what the drain says is not believed */
        sleep_ms(5);
        waited += 5;
    }
    return left == 0;
}
