/* Shared prefixes and their views (section 14). */
#include <pthread.h>
#include <string.h>

#include "cuda.h"
#include "rules.h"
#include "text.h"
#include "verdict.h"

enum { THREADS = 4, ROUNDS = 50 };

#define PREFIX_BYTES UINT64_C(8192)
#define ROOM (UINT64_C(1) << 20)

static const uint64_t far_id = 0x7FFF0000;

static NxmemStatus try_create_of(struct opened *opened, uint64_t mechanism, uint64_t bytes, NxmemSharedPrefixHandle *ret_prefix) {
    NEED(opened->mapping.create_shared_prefix && opened->mapping.release_shared_prefix, "prefixes cannot be created and released");
    *ret_prefix = (NxmemSharedPrefixHandle){.struct_size = sizeof *ret_prefix};
    doing("create_shared_prefix");
    return opened->mapping.create_shared_prefix(opened->mapping.ctx, mechanism, bytes, ret_prefix);
}

static NxmemStatus try_create(struct opened *opened, uint64_t mechanism, NxmemSharedPrefixHandle *ret_prefix) {
    return try_create_of(opened, mechanism, PREFIX_BYTES, ret_prefix);
}

/* Each rule's first; from here on views and references are counted. */
static NxmemSharedPrefixHandle must_create(struct opened *opened) {
    NxmemSharedPrefixHandle prefix;
    must_balance(opened->subject);
    NxmemStatus status = try_create(opened, opened->slots.mechanism_id, &prefix);
    NEED(status.code == NXMEM_STATUS_OK, "create_shared_prefix answers %s (14.1)", status_words(&status));
    NEED(prefix.handle != 0 && prefix.mechanism_id == opened->slots.mechanism_id && prefix.device.tier == opened->slots.device.tier &&
             prefix.device.index == opened->slots.device.index,
         "handles are not of this mechanism (14.1)");
    return prefix;
}

static NxmemStatus try_retain(struct opened *opened, const NxmemSharedPrefixHandle *prefix) {
    NEED(opened->mapping.retain_shared_prefix, "there is no retain_shared_prefix");
    doing("retain_shared_prefix");
    return opened->mapping.retain_shared_prefix(opened->mapping.ctx, prefix);
}

static NxmemStatus try_drop(struct opened *opened, const NxmemSharedPrefixHandle *prefix) {
    doing("release_shared_prefix");
    return opened->mapping.release_shared_prefix(opened->mapping.ctx, prefix);
}

static NxmemSharedPrefixCommitInfo last_info;

static NxmemStatus try_view(struct opened *opened, const NxmemSharedPrefixHandle *prefix, const NxmemAllocation *name, uint64_t offset) {
    NxmemSharedPrefixCommitRequest request = {.struct_size = sizeof request, .prefix = *prefix, .allocation = *name, .byte_offset = offset};
    last_info = (NxmemSharedPrefixCommitInfo){.struct_size = sizeof last_info};
    NEED(opened->mapping.commit_shared_prefix, "there is no commit_shared_prefix");
    doing("commit_shared_prefix");
    return opened->mapping.commit_shared_prefix(opened->mapping.ctx, &request, &last_info);
}

/* Where there is virtual backing a view goes into reserved addresses, as a host would have it. */
static struct block must_have_room(struct opened *opened) {
    NxmemAllocRequest request = alloc_request(opened, ROOM, 4096);
    struct block block = {.result = {.struct_size = sizeof block.result}};
    if (!(opened->slots.capability_flags & NXMEM_CAPABILITY_VIRTUAL_BACKING) || !opened->backing.allocate_committed)
        return must_allocate(opened, ROOM);
    doing("allocate_committed");
    NxmemStatus status = opened->backing.allocate_committed(opened->backing.ctx, &request, &block.result);
    NEED(status.code == NXMEM_STATUS_OK && block.result.ptr, "allocate_committed answers %s (13.1)", status_words(&status));
    block.name = allocation_of(&request, &block.result);
    return block;
}

static void must_view(struct opened *opened, const NxmemSharedPrefixHandle *prefix, const struct block *block) {
    NxmemStatus status = try_view(opened, prefix, &block->name, 0);
    EXPECT(status.code == NXMEM_STATUS_OK, "commit_shared_prefix answers %s", status_words(&status));
}

void rule_prefix_create(struct subject *subject, struct opened *opened) {
    NxmemSharedPrefixHandle prefix, other;
    NxmemStatus status = try_create(opened, opened->slots.mechanism_id, &prefix);
    const NxmemDeviceId *own = &opened->slots.device;
    (void)subject;
    EXPECT(status.code == NXMEM_STATUS_OK, "create_shared_prefix answers %s", status_words(&status));
    EXPECT(prefix.struct_size >= sizeof prefix, "the handle says that it is %u bytes", prefix.struct_size);
    EXPECT(prefix.handle != 0, "handle 0");
    EXPECT(prefix.mechanism_id == opened->slots.mechanism_id, "the handle names mechanism %llu", (unsigned long long)prefix.mechanism_id);
    EXPECT(prefix.device.tier == own->tier && prefix.device.index == own->index, "the handle names tier %u index %u", prefix.device.tier,
           prefix.device.index);
    EXPECT(prefix.requested_bytes == PREFIX_BYTES && prefix.mapped_bytes >= PREFIX_BYTES, "8192 bytes are asked for, %llu told, %llu mapped",
           (unsigned long long)prefix.requested_bytes, (unsigned long long)prefix.mapped_bytes);
    status = try_create(opened, opened->slots.mechanism_id + 1, &other);
    EXPECT(status.code == NXMEM_STATUS_WRONG_MECHANISM, "for another mechanism it answers %s", status_words(&status));
    status = try_create(opened, opened->slots.mechanism_id, &other);
    EXPECT(status.code == NXMEM_STATUS_OK && other.handle != prefix.handle, "two prefixes have one handle");
}

void rule_prefix_overflow(struct subject *subject, struct opened *opened) {
    static const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 62, UINT64_MAX - 4095, UINT64_MAX - (UINT64_C(2) << 20), (UINT64_C(1) << 63) + 1};
    NxmemSharedPrefixHandle prefix = must_create(opened);
    NxmemUnloadReport before = must_report(subject);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        NxmemStatus status = try_create_of(opened, opened->slots.mechanism_id, sizes[i], &prefix);
        EXPECT(status.code != NXMEM_STATUS_OK, "a prefix of 0x%llx bytes is answered OK", (unsigned long long)sizes[i]);
    }
    NxmemUnloadReport after = must_report(subject);
    EXPECT(after.live_capabilities == before.live_capabilities, "refused prefixes are counted");
}

static void expect_strange(struct opened *opened, const NxmemSharedPrefixHandle *prefix, const struct block *room, uint32_t due,
                           const char *what) {
    uint64_t owned = 0;
    NxmemStatus status;
    if (opened->mapping.incremental_owned_bytes) {
        doing("incremental_owned_bytes");
        status = opened->mapping.incremental_owned_bytes(opened->mapping.ctx, prefix, &owned);
        EXPECT(status.code == due, "%s: incremental_owned_bytes answers %s", what, status_words(&status));
    }
    status = try_view(opened, prefix, &room->name, 0);
    EXPECT(status.code == due, "%s: commit_shared_prefix answers %s", what, status_words(&status));
}

void rule_prefix_identity(struct subject *subject, struct opened *opened) {
    NxmemSharedPrefixHandle prefix = must_create(opened), wrong = prefix;
    struct block room = must_have_room(opened);
    (void)subject;
    wrong.mechanism_id++;
    expect_strange(opened, &wrong, &room, NXMEM_STATUS_WRONG_MECHANISM, "another mechanism's prefix");
    wrong = prefix;
    wrong.device.index++;
    expect_strange(opened, &wrong, &room, NXMEM_STATUS_WRONG_DEVICE, "another device's prefix");
    wrong = prefix;
    wrong.handle = UINT64_MAX - 7;
    expect_strange(opened, &wrong, &room, NXMEM_STATUS_UNKNOWN_ALLOCATION, "an unknown handle");
}

void rule_prefix_bounds(struct subject *subject, struct opened *opened) {
    struct {
        NxmemSharedPrefixHandle prefix;
        uint64_t behind[4];
    } answer;
    (void)subject;
    must_create(opened);
    for (uint32_t size = 32; size <= sizeof answer; size += 16) {
        memset(&answer, 0xA5, sizeof answer);
        answer.prefix.struct_size = size;
        doing("create_shared_prefix");
        opened->mapping.create_shared_prefix(opened->mapping.ctx, opened->slots.mechanism_id, PREFIX_BYTES, &answer.prefix);
        size_t end = size < sizeof answer.prefix ? size : sizeof answer.prefix;
        for (size_t at = end; at < sizeof answer; at++)
            EXPECT(((unsigned char *)&answer)[at] == 0xA5, "byte %zu of a handle of %u bytes is written", at, size);
    }
}

void rule_view_bounds(struct subject *subject, struct opened *opened) {
    struct {
        NxmemSharedPrefixCommitInfo info;
        uint64_t behind[4];
    } answer;
    NxmemSharedPrefixCommitRequest request = {.struct_size = sizeof request, .prefix = must_create(opened)};
    (void)subject;
    NEED(opened->mapping.commit_shared_prefix, "there is no commit_shared_prefix");
    for (uint32_t size = 16; size <= sizeof answer; size += 8) {
        request.allocation = must_have_room(opened).name;
        memset(&answer, 0xA5, sizeof answer);
        answer.info.struct_size = size;
        doing("commit_shared_prefix");
        opened->mapping.commit_shared_prefix(opened->mapping.ctx, &request, &answer.info);
        size_t end = size < sizeof answer.info ? size : sizeof answer.info;
        for (size_t at = end; at < sizeof answer; at++)
            EXPECT(((unsigned char *)&answer)[at] == 0xA5, "byte %zu of an answer of %u bytes is written", at, size);
        EXPECT(answer.info.struct_size > 0 && answer.info.struct_size <= size, "an answer of %u bytes comes back as one of %u", size,
               answer.info.struct_size);
    }
}

void rule_quiet_prefix(struct subject *subject, struct opened *opened) {
    NxmemSharedPrefixHandle prefix = must_create(opened);
    (void)subject;
    opened->host->quiet = true;
    try_retain(opened, &prefix);
    try_drop(opened, &prefix);
    try_drop(opened, &prefix);
    opened->host->quiet = false;
    EXPECT(opened->host->calls_in_quiet == 0, "%u calls to the host", opened->host->calls_in_quiet);
}

static void expect_axes(struct subject *subject, uint64_t views, uint64_t capabilities, const char *when) {
    NxmemUnloadReport report = must_report(subject);
    EXPECT(report.live_views == views && report.live_capabilities == capabilities, "%s there are %llu views and %llu references, and it reports %s",
           when, (unsigned long long)views, (unsigned long long)capabilities, report_words(&report));
}

void rule_prefix_counts(struct subject *subject, struct opened *opened) {
    NxmemSharedPrefixHandle prefix = must_create(opened);
    expect_axes(subject, 0, 1, "after a creation");
    NxmemStatus status = try_retain(opened, &prefix);
    EXPECT(status.code == NXMEM_STATUS_OK, "retain_shared_prefix answers %s", status_words(&status));
    expect_axes(subject, 0, 2, "after a retain");
    status = try_drop(opened, &prefix);
    EXPECT(status.code == NXMEM_STATUS_OK, "release_shared_prefix answers %s", status_words(&status));
    expect_axes(subject, 0, 1, "after a release");
    try_drop(opened, &prefix);
    expect_axes(subject, 0, 0, "after the last release");
}

void rule_view_counts(struct subject *subject, struct opened *opened) {
    NxmemSharedPrefixHandle prefix = must_create(opened);
    struct block first = must_have_room(opened), second = must_have_room(opened);
    must_view(opened, &prefix, &first);
    expect_axes(subject, 1, 1, "after one commit");
    must_view(opened, &prefix, &second);
    expect_axes(subject, 2, 1, "after two commits");
    must_release(opened, &first);
    expect_axes(subject, 1, 1, "with one allocation released");
    uint64_t unmapped; /* by the other slot */
    NxmemStatus status = try_deallocate(opened, &second.name, &unmapped);
    NEED(status.code == NXMEM_STATUS_OK, "deallocate answers %s (12.8)", status_words(&status));
    expect_axes(subject, 0, 1, "with both allocations released");
}

void rule_view_sizes(struct subject *subject, struct opened *opened) {
    NxmemSharedPrefixHandle prefix = must_create(opened);
    struct block room = must_have_room(opened);
    (void)subject;
    must_view(opened, &prefix, &room);
    EXPECT(last_info.newly_mapped_bytes <= prefix.mapped_bytes, "a prefix of %llu bytes is committed, and %llu are newly mapped",
           (unsigned long long)prefix.mapped_bytes, (unsigned long long)last_info.newly_mapped_bytes);
    EXPECT(last_info.additional_owned_bytes <= prefix.mapped_bytes, "a prefix of %llu bytes is committed, and %llu are charged",
           (unsigned long long)prefix.mapped_bytes, (unsigned long long)last_info.additional_owned_bytes);
}

void rule_view_cost(struct subject *subject, struct opened *opened) {
    NxmemSharedPrefixHandle prefix = must_create(opened);
    struct block rooms[2] = {must_have_room(opened), must_have_room(opened)};
    (void)subject;
    NEED(opened->mapping.incremental_owned_bytes, "there is no incremental_owned_bytes");
    for (unsigned i = 0; i < 2; i++) {
        uint64_t told = UINT64_MAX;
        doing("incremental_owned_bytes");
        NxmemStatus status = opened->mapping.incremental_owned_bytes(opened->mapping.ctx, &prefix, &told);
        EXPECT(status.code == NXMEM_STATUS_OK, "incremental_owned_bytes answers %s", status_words(&status));
        must_view(opened, &prefix, &rooms[i]);
        EXPECT(last_info.additional_owned_bytes <= told, "one more mapping is told to cost %llu bytes, and %llu are charged",
               (unsigned long long)told, (unsigned long long)last_info.additional_owned_bytes);
        EXPECT(i == 0 || last_info.additional_owned_bytes == 0, "a second view charges %llu bytes",
               (unsigned long long)last_info.additional_owned_bytes);
    }
}

void rule_view_range(struct subject *subject, struct opened *opened) {
    static const uint64_t offsets[] = {ROOM, ROOM - 4096, ROOM + 4096, UINT64_MAX - 4095, UINT64_MAX - 8191, UINT64_MAX};
    NxmemSharedPrefixHandle prefix = must_create(opened);
    struct block room = must_have_room(opened);
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        NxmemStatus status = try_view(opened, &prefix, &room.name, offsets[i]);
        EXPECT(status.code == NXMEM_STATUS_INVALID_ARGUMENT, "8192 bytes at 0x%llx of 0x%llx are answered %s", (unsigned long long)offsets[i],
               (unsigned long long)ROOM, status_words(&status));
        expect_axes(subject, 0, 1, "after a refused commit");
    }
}

void rule_view_unknown(struct subject *subject, struct opened *opened) {
    NxmemSharedPrefixHandle prefix = must_create(opened);
    struct block room = must_have_room(opened);
    NxmemAllocation name = room.name;
    name.allocation_id = far_id;
    NxmemStatus status = try_view(opened, &prefix, &name, 0);
    EXPECT(status.code == NXMEM_STATUS_UNKNOWN_ALLOCATION, "an id that never was is answered %s", status_words(&status));
    name = room.name;
    name.mechanism_id++;
    status = try_view(opened, &prefix, &name, 0);
    EXPECT(status.code == NXMEM_STATUS_WRONG_MECHANISM, "another mechanism's allocation is answered %s", status_words(&status));
    name = room.name;
    name.device.index++;
    status = try_view(opened, &prefix, &name, 0);
    EXPECT(status.code == NXMEM_STATUS_WRONG_DEVICE, "another device's allocation is answered %s", status_words(&status));
    expect_axes(subject, 0, 1, "after refused commits");
    must_release(opened, &room);
    status = try_view(opened, &prefix, &room.name, 0);
    EXPECT(status.code == NXMEM_STATUS_UNKNOWN_ALLOCATION, "a retired allocation is answered %s", status_words(&status));
    expect_axes(subject, 0, 1, "after refused commits");
}

static void expect_all_gone(struct subject *subject, struct opened *opened) {
    NxmemUnloadReport report;
    opened_give_back(opened);
    EXPECT(report_is_zero_soon(subject, &report), "all is given back, and it reports %s", report_words(&report));
}

void rule_view_after_handle(struct subject *subject, struct opened *opened) {
    NxmemSharedPrefixHandle prefix = must_create(opened);
    struct block room = must_have_room(opened);
    must_view(opened, &prefix, &room);
    NxmemStatus status = try_drop(opened, &prefix);
    EXPECT(status.code == NXMEM_STATUS_OK, "release_shared_prefix answers %s", status_words(&status));
    expect_axes(subject, 1, 0, "when the handle is released");
    if (is_touchable(opened)) {
        doing("reading a view whose handle is released");
        volatile unsigned char first = room.result.ptr[0], last = room.result.ptr[PREFIX_BYTES - 1];
        (void)first;
        (void)last;
    }
    must_release(opened, &room);
    expect_axes(subject, 0, 0, "when both are gone");
    expect_all_gone(subject, opened);
}

void rule_handle_after_view(struct subject *subject, struct opened *opened) {
    NxmemSharedPrefixHandle prefix = must_create(opened);
    struct block room = must_have_room(opened), again = must_have_room(opened);
    must_view(opened, &prefix, &room);
    must_release(opened, &room);
    expect_axes(subject, 0, 1, "when the allocation is released");
    must_view(opened, &prefix, &again);
    must_release(opened, &again);
    NxmemStatus status = try_drop(opened, &prefix);
    EXPECT(status.code == NXMEM_STATUS_OK, "release_shared_prefix answers %s", status_words(&status));
    expect_axes(subject, 0, 0, "when both are gone");
    expect_all_gone(subject, opened);
}

void rule_dead_prefix(struct subject *subject, struct opened *opened) {
    NxmemSharedPrefixHandle prefix = must_create(opened);
    struct block room = must_have_room(opened), other = must_have_room(opened);
    must_view(opened, &prefix, &room);
    try_drop(opened, &prefix);
    NxmemStatus status = try_view(opened, &prefix, &other.name, 0);
    EXPECT(status.code != NXMEM_STATUS_OK, "a prefix without handles is committed");
    status = try_retain(opened, &prefix);
    EXPECT(status.code != NXMEM_STATUS_OK, "a prefix without handles is retained");
    status = try_drop(opened, &prefix);
    EXPECT(status.code != NXMEM_STATUS_OK, "a prefix without handles is released again");
    expect_axes(subject, 1, 0, "after refusals");
}

void rule_view_ends_queued(struct subject *subject, struct opened *opened) {
    NxmemSharedPrefixHandle prefix = must_create(opened);
    struct block room = must_have_room(opened);
    must_view(opened, &prefix, &room);
    expect_axes(subject, 1, 1, "after a commit");
    must_enqueue(opened, &room);
    expect_axes(subject, 0, 1, "when the allocation is queued");
    settle(opened);
    expect_axes(subject, 0, 1, "when the queue is empty");
}

void rule_queued_view(struct subject *subject, struct opened *opened) {
    NxmemSharedPrefixHandle prefix = must_create(opened);
    struct block room = must_have_room(opened);
    uint32_t state = NXMEM_RELEASE_COMPLETE;
    must_enqueue(opened, &room);
    NEED(!host_completed(opened->host, room.name.allocation_id, &state) || state != NXMEM_RELEASE_FAILED, "the completion fails");
    NxmemStatus status = try_view(opened, &prefix, &room.name, 0);
    EXPECT(status.code == NXMEM_STATUS_UNKNOWN_ALLOCATION || status.code == NXMEM_STATUS_BUSY, "commit_shared_prefix answers %s",
           status_words(&status));
    expect_axes(subject, 0, 1, "after a refused commit");
}

/* --- threads --- */

struct share {
    struct opened *opened;
    const NxmemSharedPrefixHandle *prefix;
    pthread_barrier_t line; /* threads begin at once */
};

static void *retain_and_drop(void *argument) {
    struct share *share = argument;
    cuda_enter_thread();
    pthread_barrier_wait(&share->line);
    for (unsigned round = 0; round < ROUNDS; round++) {
        NxmemStatus status = try_retain(share->opened, share->prefix);
        EXPECT(status.code == NXMEM_STATUS_OK, "in a thread retain_shared_prefix answers %s", status_words(&status));
        status = try_drop(share->opened, share->prefix);
        EXPECT(status.code == NXMEM_STATUS_OK, "in a thread release_shared_prefix answers %s", status_words(&status));
    }
    return NULL;
}

void rule_prefix_threads(struct subject *subject, struct opened *opened) {
    NxmemSharedPrefixHandle prefix = must_create(opened);
    struct share share = {.opened = opened, .prefix = &prefix};
    pthread_t threads[THREADS];
    NxmemUnloadReport before = must_report(subject);
    NEED(before.live_capabilities == 1, "prefixes are not counted (14.8)");
    pthread_barrier_init(&share.line, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++)
        NEED(pthread_create(&threads[i], NULL, retain_and_drop, &share) == 0, "this machine has no threads left");
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    expect_axes(subject, 0, 1, "when each thread has released what it retained");
}
