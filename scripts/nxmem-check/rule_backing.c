/* Virtual backing (section 13). Blocks here are reserved large and committed in part. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "rules.h"
#include "text.h"
#include "verdict.h"

enum { THREADS = 4, ROUNDS = 20 };

#define SIZE (UINT64_C(16) << 20)

static const uint64_t far_id = 0x7FFF0000;

/* With as many ranges as asked; `ranges` may be a wild pointer for none. */
static NxmemStatus try_reserve(struct opened *opened, const NxmemByteRange *ranges, uint64_t count, struct block *ret_block) {
    NxmemAllocRequest request = alloc_request(opened, SIZE, 4096);
    memset(ret_block, 0, sizeof *ret_block);
    ret_block->result.struct_size = sizeof ret_block->result;
    NEED(opened->backing.allocate_committed, "there is no allocate_committed");
    request.committed_ranges = ranges;
    request.committed_range_count = count;
    doing("allocate_committed");
    NxmemStatus status = opened->backing.allocate_committed(opened->backing.ctx, &request, &ret_block->result);
    ret_block->name = allocation_of(&request, &ret_block->result);
    return status;
}

static struct block must_reserve(struct opened *opened) {
    struct block block;
    NxmemStatus status = try_reserve(opened, NULL, 0, &block);
    NEED(status.code == NXMEM_STATUS_OK && block.result.ptr, "allocate_committed answers %s (13.1)", status_words(&status));
    return block;
}

static NxmemRangeRequest range_of(const struct block *block, uint64_t offset, uint64_t bytes) {
    return (NxmemRangeRequest){.struct_size = sizeof(NxmemRangeRequest), .allocation = block->name, .range = {offset, bytes}};
}

static NxmemStatus try_commit(struct opened *opened, const NxmemRangeRequest *request) {
    NEED(opened->backing.commit_range, "there is no commit_range");
    doing("commit_range");
    return opened->backing.commit_range(opened->backing.ctx, request);
}

static void must_commit(struct opened *opened, const struct block *block, uint64_t offset, uint64_t bytes) {
    NxmemRangeRequest request = range_of(block, offset, bytes);
    NxmemStatus status = try_commit(opened, &request);
    NEED(status.code == NXMEM_STATUS_OK, "commit_range answers %s", status_words(&status));
}

static NxmemStatus try_decommit(struct opened *opened, const NxmemRangeRequest *request, uint64_t *ret_unmapped) {
    NEED(opened->backing.decommit_range, "there is no decommit_range");
    *ret_unmapped = 0;
    doing("decommit_range");
    return opened->backing.decommit_range(opened->backing.ctx, request, ret_unmapped);
}

static uint64_t committed(struct opened *opened, const struct block *block) {
    uint64_t bytes = UINT64_MAX;
    NEED(opened->backing.committed_bytes, "there is no committed_bytes");
    doing("committed_bytes");
    NxmemStatus status = opened->backing.committed_bytes(opened->backing.ctx, &block->name, &bytes);
    EXPECT(status.code == NXMEM_STATUS_OK, "committed_bytes answers %s", status_words(&status));
    return bytes;
}

static void touch(struct opened *opened, const struct block *block, uint64_t offset, uint64_t bytes) {
    if (!is_touchable(opened)) return;
    doing("writing to committed memory");
    memset(block->result.ptr + offset, 0x5A, bytes);
}

void rule_reserve_only(struct subject *subject, struct opened *opened) {
    struct block block;
    (void)subject;
    NxmemStatus status = try_reserve(opened, (const NxmemByteRange *)(uintptr_t)8, 0, &block);
    EXPECT(status.code == NXMEM_STATUS_OK && block.result.ptr, "allocate_committed of no ranges answers %s", status_words(&status));
    EXPECT((uintptr_t)block.result.ptr % 4096 == 0, "an address that is not aligned as asked");
    uint64_t bytes = committed(opened, &block);
    EXPECT(bytes == 0, "nothing was to be committed, and committed_bytes answers %llu", (unsigned long long)bytes);
    EXPECT(terminal_release(opened, &block) != IN_DOUBT, "its release ends in doubt");
}

void rule_committed_at_once(struct subject *subject, struct opened *opened) {
    const NxmemByteRange ranges[] = {{0, 8192}, {SIZE / 2, 100}};
    struct block block;
    (void)subject;
    must_reserve(opened);
    NxmemStatus status = try_reserve(opened, ranges, 2, &block);
    EXPECT(status.code == NXMEM_STATUS_OK && block.result.ptr, "allocate_committed answers %s", status_words(&status));
    EXPECT(committed(opened, &block) >= 8192 + 100, "8292 bytes were to be committed, and committed_bytes answers %llu",
           (unsigned long long)committed(opened, &block));
    touch(opened, &block, 0, 8192);
    touch(opened, &block, SIZE / 2, 100);
}

void rule_reserved_distinct(struct subject *subject, struct opened *opened) {
    struct block blocks[8];
    (void)subject;
    for (unsigned i = 0; i < 8; i++) {
        blocks[i] = i % 2 ? must_allocate(opened, 70000) : must_reserve(opened);
        for (unsigned j = 0; j < i; j++)
            EXPECT(!blocks_overlap(&blocks[i], &blocks[j]), "two live allocations, at %p and at %p, share memory", (void *)blocks[i].result.ptr,
                   (void *)blocks[j].result.ptr);
    }
}

void rule_reserve_overflow(struct subject *subject, struct opened *opened) {
    static const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 4095, UINT64_MAX - (UINT64_C(2) << 20), (UINT64_C(1) << 63) + 1};
    must_reserve(opened);
    NxmemUnloadReport before = must_report(subject);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        NxmemAllocRequest request = alloc_request(opened, sizes[i], 4096);
        NxmemAllocResult result = {.struct_size = sizeof result};
        doing("allocate_committed of more than there is");
        NxmemStatus status = opened->backing.allocate_committed(opened->backing.ctx, &request, &result);
        EXPECT(status.code != NXMEM_STATUS_OK, "0x%llx bytes are answered OK", (unsigned long long)sizes[i]);
    }
    NxmemUnloadReport after = must_report(subject);
    EXPECT(after.live_allocations == before.live_allocations, "refused reservations are counted");
}

static void expect_range(struct opened *opened, const NxmemRangeRequest *request, uint32_t due, const char *what) {
    uint64_t unmapped;
    NxmemStatus status = try_commit(opened, request);
    EXPECT(status.code == due, "%s: commit_range answers %s", what, status_words(&status));
    status = try_decommit(opened, request, &unmapped);
    EXPECT(status.code == due, "%s: decommit_range answers %s", what, status_words(&status));
}

void rule_backing_identity(struct subject *subject, struct opened *opened) {
    struct block block = must_reserve(opened);
    NxmemRangeRequest request = range_of(&block, 0, 4096);
    (void)subject;
    request.allocation.mechanism_id++;
    expect_range(opened, &request, NXMEM_STATUS_WRONG_MECHANISM, "another mechanism's");
    request.allocation.device.index++;
    expect_range(opened, &request, NXMEM_STATUS_WRONG_MECHANISM, "wrong in both");
    request.allocation.mechanism_id--;
    expect_range(opened, &request, NXMEM_STATUS_WRONG_DEVICE, "another device's");
}

void rule_backing_unknown(struct subject *subject, struct opened *opened) {
    struct block block = must_reserve(opened);
    NxmemRangeRequest request = range_of(&block, 0, 4096);
    (void)subject;
    request.allocation.allocation_id = far_id;
    expect_range(opened, &request, NXMEM_STATUS_UNKNOWN_ALLOCATION, "an id that never was");
    must_release(opened, &block);
    request.allocation.allocation_id = block.name.allocation_id;
    expect_range(opened, &request, NXMEM_STATUS_UNKNOWN_ALLOCATION, "a retired id");
}

void rule_queued_ranges(struct subject *subject, struct opened *opened) {
    struct block block = must_reserve(opened);
    NxmemRangeRequest request = range_of(&block, 0, 4096);
    uint32_t state = NXMEM_RELEASE_COMPLETE;
    uint64_t unmapped;
    (void)subject;
    must_commit(opened, &block, 0, 4096);
    must_enqueue(opened, &block);
    NEED(!host_completed(opened->host, block.name.allocation_id, &state) || state != NXMEM_RELEASE_FAILED, "the completion fails");
    NxmemStatus status = try_commit(opened, &request);
    EXPECT(status.code == NXMEM_STATUS_UNKNOWN_ALLOCATION || status.code == NXMEM_STATUS_BUSY, "commit_range answers %s", status_words(&status));
    status = try_decommit(opened, &request, &unmapped);
    EXPECT(status.code == NXMEM_STATUS_UNKNOWN_ALLOCATION || status.code == NXMEM_STATUS_BUSY, "decommit_range answers %s", status_words(&status));
}

void rule_range_end(struct subject *subject, struct opened *opened) {
    static const NxmemByteRange beyond[] = {
        {SIZE, 1}, {SIZE - 1, 2}, {0, SIZE + 1}, {UINT64_MAX - 4095, 8192}, {UINT64_MAX, 1}, {1, UINT64_MAX}, {UINT64_MAX, UINT64_MAX}};
    struct block block = must_reserve(opened), other;
    NxmemUnloadReport before = must_report(subject);
    must_commit(opened, &block, 0, 4096);
    uint64_t held = committed(opened, &block);
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        char what[80];
        NxmemRangeRequest request = range_of(&block, beyond[i].offset, beyond[i].bytes);
        snprintf(what, sizeof what, "0x%llx bytes at 0x%llx of 0x%llx", (unsigned long long)beyond[i].bytes,
                 (unsigned long long)beyond[i].offset, (unsigned long long)SIZE);
        expect_range(opened, &request, NXMEM_STATUS_INVALID_ARGUMENT, what);
        EXPECT(committed(opened, &block) == held, "%s is refused, and what is committed changes", what);
        NxmemStatus status = try_reserve(opened, &beyond[i], 1, &other);
        EXPECT(status.code == NXMEM_STATUS_INVALID_ARGUMENT, "%s: allocate_committed answers %s", what, status_words(&status));
    }
    NxmemUnloadReport after = must_report(subject);
    EXPECT(after.live_allocations == before.live_allocations, "refused allocations are counted");
}

void rule_commit_again(struct subject *subject, struct opened *opened) {
    struct block block = must_reserve(opened);
    (void)subject;
    must_commit(opened, &block, 0, 8192);
    touch(opened, &block, 0, 8192);
    uint64_t held = committed(opened, &block);
    NxmemRangeRequest request = range_of(&block, 0, 8192);
    NxmemStatus status = try_commit(opened, &request);
    EXPECT(status.code == NXMEM_STATUS_OK, "the second time it answers %s", status_words(&status));
    EXPECT(committed(opened, &block) == held, "%llu bytes are committed, and after the same again %llu", (unsigned long long)held,
           (unsigned long long)committed(opened, &block));
    if (is_touchable(opened))
        for (unsigned i = 0; i < 8192; i++) EXPECT(block.result.ptr[i] == 0x5A, "committing again changed the memory");
}

void rule_decommit(struct subject *subject, struct opened *opened) {
    struct block block = must_reserve(opened);
    NxmemRangeRequest request = range_of(&block, 0, SIZE);
    uint64_t unmapped;
    (void)subject;
    must_commit(opened, &block, 0, 65536);
    uint64_t held = committed(opened, &block);
    NxmemStatus status = try_decommit(opened, &request, &unmapped);
    EXPECT(status.code == NXMEM_STATUS_OK, "decommit_range answers %s", status_words(&status));
    EXPECT(unmapped <= held, "%llu bytes are credited of %llu that were committed", (unsigned long long)unmapped, (unsigned long long)held);
    uint64_t left = committed(opened, &block);
    EXPECT(left <= held && held - left >= unmapped, "%llu bytes were committed, %llu are credited, and %llu are committed still",
           (unsigned long long)held, (unsigned long long)unmapped, (unsigned long long)left);
    request.range.bytes = 4096;
    status = try_commit(opened, &request);
    EXPECT(status.code == NXMEM_STATUS_OK, "committing it again is answered %s", status_words(&status));
    touch(opened, &block, 0, 4096);
}

/* --- estimates --- */

static uint64_t estimate(struct opened *opened, const NxmemRangeRequest *requests, uint64_t count) {
    uint64_t mapped = UINT64_MAX;
    NEED(opened->backing.mapped_bytes_for_ranges, "there is no mapped_bytes_for_ranges");
    doing("mapped_bytes_for_ranges");
    NxmemStatus status = opened->backing.mapped_bytes_for_ranges(opened->backing.ctx, requests, count, &mapped);
    EXPECT(status.code == NXMEM_STATUS_OK, "mapped_bytes_for_ranges answers %s", status_words(&status));
    return mapped;
}

/* What is asked of nothing or of another's, in each of the slots that only tell or reserve. */
static void expect_untold(struct opened *opened, const struct block *block, uint64_t mechanism, NxmemDeviceId device, uint32_t due,
                          const char *what) {
    const NxmemVirtualBackingVtable *slots = &opened->backing;
    NxmemAllocRequest wish = alloc_request(opened, SIZE, 4096);
    NxmemRangeRequest range = range_of(block, 0, 4096);
    NxmemAllocResult result = {.struct_size = sizeof result};
    uint64_t bytes;
    wish.mechanism_id = range.allocation.mechanism_id = mechanism;
    wish.device = range.allocation.device = device;
    doing("allocate_committed with another identity");
    NxmemStatus status = slots->allocate_committed(slots->ctx, &wish, &result);
    EXPECT(status.code == due, "%s: allocate_committed answers %s", what, status_words(&status));
    if (slots->mapped_bytes_for_ranges) {
        doing("mapped_bytes_for_ranges with another identity");
        status = slots->mapped_bytes_for_ranges(slots->ctx, &range, 1, &bytes);
        EXPECT(status.code == due, "%s: mapped_bytes_for_ranges answers %s", what, status_words(&status));
    }
    if (slots->mapped_bytes_for_allocation) {
        wish.allocation_id = 0;
        doing("mapped_bytes_for_allocation with another identity");
        status = slots->mapped_bytes_for_allocation(slots->ctx, &wish, &bytes);
        EXPECT(status.code == due, "%s: mapped_bytes_for_allocation answers %s", what, status_words(&status));
    }
    if (slots->committed_bytes) {
        doing("committed_bytes with another identity");
        status = slots->committed_bytes(slots->ctx, &range.allocation, &bytes);
        EXPECT(status.code == due, "%s: committed_bytes answers %s", what, status_words(&status));
    }
}

void rule_estimate_identity(struct subject *subject, struct opened *opened) {
    struct block block = must_reserve(opened);
    NxmemDeviceId own = opened->slots.device, other = own;
    uint64_t id = opened->slots.mechanism_id;
    (void)subject;
    other.index++;
    expect_untold(opened, &block, id + 1, own, NXMEM_STATUS_WRONG_MECHANISM, "another mechanism's");
    expect_untold(opened, &block, id + 1, other, NXMEM_STATUS_WRONG_MECHANISM, "wrong in both");
    expect_untold(opened, &block, id, other, NXMEM_STATUS_WRONG_DEVICE, "another device's");
}

void rule_estimate(struct subject *subject, struct opened *opened) {
    struct block block = must_reserve(opened);
    (void)subject;
    must_commit(opened, &block, 0, 1);
    uint64_t granule = committed(opened, &block);
    NEED(granule > 0 && granule <= SIZE / 4, "granules of %llu bytes", (unsigned long long)granule);
    const NxmemByteRange spans[] = {{0, 1}, {0, granule}, {0, granule + 1}, {granule - 1, 2}, {granule - 1, granule + 2}};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        block = must_reserve(opened);
        NxmemRangeRequest request = range_of(&block, spans[i].offset, spans[i].bytes);
        uint64_t told = estimate(opened, &request, 1);
        must_commit(opened, &block, spans[i].offset, spans[i].bytes);
        EXPECT(told >= committed(opened, &block), "%llu bytes at %llu are estimated at %llu, and a commit maps %llu",
               (unsigned long long)spans[i].bytes, (unsigned long long)spans[i].offset, (unsigned long long)told,
               (unsigned long long)committed(opened, &block));
    }
}

void rule_estimate_none(struct subject *subject, struct opened *opened) {
    (void)subject;
    uint64_t told = estimate(opened, (const NxmemRangeRequest *)(uintptr_t)8, 0);
    EXPECT(told == 0, "no ranges are estimated at %llu bytes", (unsigned long long)told);
}

void rule_estimate_new(struct subject *subject, struct opened *opened) {
    const NxmemByteRange range = {0, 10000};
    struct block block;
    uint64_t told = UINT64_MAX;
    (void)subject;
    NEED(opened->backing.mapped_bytes_for_allocation, "there is no mapped_bytes_for_allocation");
    NxmemAllocRequest request = alloc_request(opened, SIZE, 4096);
    request.allocation_id = 0;
    request.committed_ranges = &range;
    request.committed_range_count = 1;
    doing("mapped_bytes_for_allocation");
    NxmemStatus status = opened->backing.mapped_bytes_for_allocation(opened->backing.ctx, &request, &told);
    EXPECT(status.code == NXMEM_STATUS_OK, "it answers %s", status_words(&status));
    status = try_reserve(opened, &range, 1, &block);
    NEED(status.code == NXMEM_STATUS_OK, "allocate_committed answers %s (13.1)", status_words(&status));
    EXPECT(told >= committed(opened, &block), "estimated at %llu bytes, and %llu are committed", (unsigned long long)told,
           (unsigned long long)committed(opened, &block));
}

/* --- threads --- */

static pthread_barrier_t line; /* they begin at once */

static void *commit_and_decommit(void *argument) {
    struct opened *opened = argument;
    struct block block;
    uint64_t unmapped;
    cuda_enter_thread();
    NxmemStatus status = try_reserve(opened, NULL, 0, &block);
    EXPECT(status.code == NXMEM_STATUS_OK && block.result.ptr, "in a thread allocate_committed answers %s", status_words(&status));
    pthread_barrier_wait(&line);
    for (unsigned round = 0; round < ROUNDS; round++) {
        NxmemRangeRequest request = range_of(&block, round * 4096, 4096);
        status = try_commit(opened, &request);
        EXPECT(status.code == NXMEM_STATUS_OK, "in a thread commit_range answers %s", status_words(&status));
        touch(opened, &block, round * 4096, 4096);
        if (opened->backing.committed_bytes) EXPECT(committed(opened, &block) >= 4096, "what a thread has committed is not committed");
        status = try_decommit(opened, &request, &unmapped);
        EXPECT(status.code == NXMEM_STATUS_OK, "in a thread decommit_range answers %s", status_words(&status));
    }
    return NULL;
}

void rule_range_threads(struct subject *subject, struct opened *opened) {
    pthread_t threads[THREADS];
    struct block block = must_reserve(opened);
    NxmemRangeRequest request = range_of(&block, 0, 4096);
    uint64_t unmapped;
    (void)subject;
    must_commit(opened, &block, 0, 4096);
    NEED(!opened->backing.committed_bytes || committed(opened, &block) >= 4096, "what is committed is not counted (13.5)");
    NxmemStatus status = try_decommit(opened, &request, &unmapped);
    NEED(status.code == NXMEM_STATUS_OK, "decommit_range answers %s", status_words(&status));
    pthread_barrier_init(&line, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++)
        NEED(pthread_create(&threads[i], NULL, commit_and_decommit, opened) == 0, "this machine has no threads left");
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}
