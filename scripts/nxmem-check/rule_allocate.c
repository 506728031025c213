/* Allocating (section 11), identities, and statuses (section 3). */
#include <stddef.h>
#include <string.h>

#include "page.h"
#include "rules.h"
#include "text.h"
#include "verdict.h"

#define MORE_THAN_THERE_IS (UINT64_C(1) << 44)
#define LARGEST_GRANULE (UINT64_C(1) << 30)

enum { FAR_ID = 0x7FFF0000 };

/* --- statuses --- */

/* Calls that fail and calls that do not; `judge` gets each status. */
static void tour(struct opened *opened, void (*judge)(const NxmemStatus *, const char *)) {
    struct block block, stranger;
    NxmemReleaseOutcome outcome;
    uint64_t number;

    NxmemStatus status = try_allocate(opened, 4096, USUAL_ALIGN, &block);
    judge(&status, "allocate");
    stranger = block;
    stranger.name.allocation_id = FAR_ID;
    NxmemStatus unknown = try_deallocate(opened, &stranger.name, &number);
    judge(&unknown, "deallocate");
    if (is_structured(opened)) {
        unknown = try_release(opened, &stranger.name, &outcome);
        judge(&unknown, "release_allocation");
        judge(&outcome.failure, "an outcome");
    }
    if (status.code == NXMEM_STATUS_OK && block.result.ptr) {
        status = is_structured(opened) ? try_release(opened, &block.name, &outcome) : try_deallocate(opened, &block.name, &number);
        judge(&status, "a release");
        if (is_structured(opened)) judge(&outcome.failure, "an outcome");
    }
    if (opened->slots.capability_flags & NXMEM_CAPABILITY_DEFERRED_RELEASE) {
        status = try_enqueue(opened, &stranger, &number);
        judge(&status, "enqueue_release");
        status = try_drain(opened, 0, &number);
        judge(&status, "drain_releases");
    }
    NxmemOpenRequest request = open_request(opened->subject, opened->subject->agreed.agreed_minor, opened->host);
    struct opened other;
    request.device.index += 1000;
    status = try_open(opened->subject, &request, opened->host, &other);
    judge(&status, "open_allocator");
    NxmemUnloadReport report;
    status = try_report(opened->subject, &report);
    judge(&status, "the unload report");
}

static void judge_code(const NxmemStatus *status, const char *where) {
    EXPECT(status->code <= NXMEM_STATUS_BUSY, "%s answers %s", where, code_name(status->code));
}

void rule_known_statuses(struct subject *subject, struct opened *opened) {
    (void)subject;
    tour(opened, judge_code);
}

static void judge_text(const NxmemStatus *status, const char *where) {
    const char *fault = status_text_fault(status);
    EXPECT(!fault, "%s answers %s with %s", where, code_name(status->code), fault);
}

void rule_status_texts(struct subject *subject, struct opened *opened) {
    (void)subject;
    tour(opened, judge_text);
}

/* --- addresses --- */

static const uint64_t ordinary[] = {1, 255, 4096, 65537, 1 << 20};

void rule_allocates(struct subject *subject, struct opened *opened) {
    struct block block;
    (void)subject;
    for (size_t i = 0; i < sizeof ordinary / sizeof *ordinary; i++) {
        NxmemStatus status = try_allocate(opened, ordinary[i], USUAL_ALIGN, &block);
        EXPECT(status.code == NXMEM_STATUS_OK, "%llu bytes are answered %s", (unsigned long long)ordinary[i], status_words(&status));
        if (is_touchable(opened) && block.result.ptr) fill(&block);
    }
}

void rule_not_null(struct subject *subject, struct opened *opened) {
    struct block block;
    bool any = false;
    (void)subject;
    for (size_t i = 0; i < sizeof ordinary / sizeof *ordinary; i++) {
        if (try_allocate(opened, ordinary[i], 8, &block).code != NXMEM_STATUS_OK) continue;
        EXPECT(block.result.ptr, "%llu bytes are answered OK with NULL", (unsigned long long)ordinary[i]);
        any = true;
    }
    NEED(any, "nothing can be allocated (11.5)");
}

void rule_aligned(struct subject *subject, struct opened *opened) {
    struct block block;
    bool any = false;
    (void)subject;
    for (uint64_t align = 1; align <= UINT64_C(2) << 20; align *= 2) {
        for (uint64_t bytes = 1; bytes <= 4097; bytes += 4096) {
            NxmemStatus status = try_allocate(opened, bytes, align, &block);
            if (status.code != NXMEM_STATUS_OK || !block.result.ptr) continue;
            EXPECT((uintptr_t)block.result.ptr % align == 0, "%llu bytes aligned to %llu are at %p", (unsigned long long)bytes,
                   (unsigned long long)align, (void *)block.result.ptr);
            any = true;
            must_release(opened, &block);
        }
    }
    NEED(any, "nothing can be allocated (11.5)");
}

void rule_result_sizes(struct subject *subject, struct opened *opened) {
    (void)subject;
    for (size_t i = 0; i < sizeof ordinary / sizeof *ordinary; i++) {
        struct block block = must_allocate(opened, ordinary[i]);
        const NxmemAllocResult *result = &block.result;
        EXPECT(result->owned_bytes <= ordinary[i] + LARGEST_GRANULE && result->mapped_bytes <= ordinary[i] + LARGEST_GRANULE,
               "%llu bytes are allocated, %llu owned and %llu mapped", (unsigned long long)ordinary[i],
               (unsigned long long)result->owned_bytes, (unsigned long long)result->mapped_bytes);
    }
}

void rule_zero_bytes(struct subject *subject, struct opened *opened) {
    struct block blocks[3];
    (void)subject;
    struct block usual = must_allocate(opened, 4096), other = must_allocate(opened, 4096);
    NEED((uintptr_t)usual.result.ptr % USUAL_ALIGN == 0, "allocations are misaligned (11.4)");
    NEED(!blocks_overlap(&usual, &other), "live allocations share memory (11.8)");
    must_release(opened, &other);
    for (unsigned i = 0; i < 3; i++) {
        NxmemStatus status = try_allocate(opened, 0, USUAL_ALIGN, &blocks[i]);
        EXPECT(status.code == NXMEM_STATUS_OK, "0 bytes are answered %s", status_words(&status));
        NEED(blocks[i].result.ptr, "OK comes with NULL (11.3)");
        EXPECT((uintptr_t)blocks[i].result.ptr % USUAL_ALIGN == 0, "0 bytes aligned to 256 are at %p", (void *)blocks[i].result.ptr);
        EXPECT(!blocks_overlap(&blocks[i], &usual), "0 bytes are at the address of another allocation");
        for (unsigned j = 0; j < i; j++)
            EXPECT(blocks[i].result.ptr != blocks[j].result.ptr, "two allocations of 0 bytes are at one address");
    }
    must_release(opened, &usual);
    for (unsigned i = 0; i < 3; i++) EXPECT(terminal_release(opened, &blocks[i]) == GONE, "an allocation of 0 bytes cannot be released");
}

void rule_overflow(struct subject *subject, struct opened *opened) {
    static const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 254, UINT64_MAX - 4095, UINT64_MAX - (UINT64_C(2) << 20),
                                     (UINT64_C(1) << 63) + 1, UINT64_C(1) << 63};
    struct block block = must_allocate(opened, 4096);
    NxmemUnloadReport before = must_report(subject);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t align = 1; align <= 4096; align *= 64) {
            NxmemStatus status = try_allocate(opened, sizes[i], align, &block);
            EXPECT(status.code != NXMEM_STATUS_OK, "0x%llx bytes are answered OK", (unsigned long long)sizes[i]);
        }
    NxmemUnloadReport after = must_report(subject);
    EXPECT(after.live_allocations == before.live_allocations, "refused allocations are counted: %llu, before %llu",
           (unsigned long long)after.live_allocations, (unsigned long long)before.live_allocations);
}

/* --- identity --- */

static void allocate_as(struct opened *opened, uint64_t mechanism, NxmemDeviceId device, uint32_t due, const char *what) {
    NxmemAllocRequest request = alloc_request(opened, 4096, USUAL_ALIGN);
    NxmemAllocResult result = {.struct_size = sizeof result};
    request.mechanism_id = mechanism;
    request.device = device;
    doing("allocate with another identity");
    NxmemStatus status = opened->slots.allocate(opened->slots.ctx, &request, &result);
    EXPECT(status.code == due, "%s is answered %s", what, status_words(&status));
}

void rule_allocate_identity(struct subject *subject, struct opened *opened) {
    NxmemDeviceId own = opened->slots.device, index = own, tier = own;
    uint64_t id = opened->slots.mechanism_id;
    struct block probe = must_allocate(opened, 4096);
    must_release(opened, &probe);
    NxmemUnloadReport before = must_report(subject);
    index.index++;
    tier.tier = own.tier == NXMEM_TIER_DISK ? NXMEM_TIER_HOST : NXMEM_TIER_DISK;
    allocate_as(opened, id + 1, own, NXMEM_STATUS_WRONG_MECHANISM, "another mechanism's request");
    allocate_as(opened, 0, own, NXMEM_STATUS_WRONG_MECHANISM, "a request of mechanism 0");
    allocate_as(opened, id, index, NXMEM_STATUS_WRONG_DEVICE, "a request for another index");
    allocate_as(opened, id, tier, NXMEM_STATUS_WRONG_DEVICE, "a request for another tier");
    allocate_as(opened, id + 1, index, NXMEM_STATUS_WRONG_MECHANISM, "a request wrong in both");
    NxmemUnloadReport after = must_report(subject);
    EXPECT(after.live_allocations == before.live_allocations, "refused allocations are counted");
}

/* --- reserved fields --- */

void rule_reserved_fields(struct subject *subject, struct opened *opened) {
    struct block block;
    uint64_t ticket;
    NxmemStatus status = try_allocate(opened, 4096, USUAL_ALIGN, &block);
    NEED(status.code == NXMEM_STATUS_OK, "allocate answers %s (11.5)", status_words(&status));
    EXPECT(block.result.reserved == 0, "an allocation's result has %u in its reserved field", block.result.reserved);
    NxmemUnloadReport report = must_report(subject);
    EXPECT(report.reserved == 0, "the unload report has %u in its reserved field", report.reserved);
    if (opened->slots.capability_flags & NXMEM_CAPABILITY_DEFERRED_RELEASE && try_enqueue(opened, &block, &ticket).code == NXMEM_STATUS_OK)
        settle(opened);
    try_allocate(opened, MORE_THAN_THERE_IS, USUAL_ALIGN, &block); /* a reason to ask the host */
    EXPECT(opened->host->reserved == 0, "the host is told, or asked, with %u in a reserved field", opened->host->reserved);
}

/* --- borrowed structs and their sizes --- */

void rule_allocate_borrows(struct subject *subject, struct opened *opened) {
    NxmemAllocRequest *request = page_ending(sizeof *request);
    NxmemAllocResult *result = page_ending(sizeof *result);
    NxmemAllocation *name = page_ending(sizeof *name);
    uint64_t unmapped = 0;
    (void)subject;
    *request = alloc_request(opened, 4096, USUAL_ALIGN);
    result->struct_size = sizeof *result;
    doing("allocate");
    NxmemStatus status = opened->slots.allocate(opened->slots.ctx, request, result);
    NEED(status.code == NXMEM_STATUS_OK && result->ptr, "allocate answers %s (11.5)", status_words(&status));
    *name = allocation_of(request, result);
    page_close(request);
    page_close(result);
    struct block other = must_allocate(opened, 4096);
    doing("deallocate, after the allocation's request and result are gone");
    status = opened->slots.deallocate(opened->slots.ctx, name, &unmapped);
    NEED(status.code == NXMEM_STATUS_OK, "deallocate answers %s (12.8)", status_words(&status));
    page_close(name);
    must_release(opened, &other);
}

void rule_result_bounds(struct subject *subject, struct opened *opened) {
    struct {
        NxmemAllocResult result;
        uint64_t behind[4];
    } answer;
    (void)subject;
    struct block probe = must_allocate(opened, 4096);
    must_release(opened, &probe);
    for (uint32_t size = 16; size <= sizeof answer.result; size += 8) {
        NxmemAllocRequest request = alloc_request(opened, 4096, USUAL_ALIGN);
        memset(&answer, 0xA5, sizeof answer);
        answer.result.struct_size = size;
        answer.result.ptr = NULL;
        doing("allocate with a short result");
        NxmemStatus status = opened->slots.allocate(opened->slots.ctx, &request, &answer.result);
        for (size_t at = size; at < sizeof answer; at++)
            EXPECT(((unsigned char *)&answer)[at] == 0xA5, "byte %zu of a result of %u bytes is written", at, size);
        EXPECT(status.code != NXMEM_STATUS_OK || (answer.result.struct_size >= 16 && answer.result.struct_size <= size),
               "a result of %u bytes comes back as one of %u", size, answer.result.struct_size);
        struct block block = {.name = allocation_of(&request, &answer.result)};
        if (status.code == NXMEM_STATUS_OK) must_release(opened, &block);
    }
}

/* --- reclaiming --- */

/* Most plugins ask when there is no room: if not for a little, then for more than there is. */
static NxmemStatus try_until_asked(struct opened *opened, struct block *ret_block) {
    NxmemStatus status = try_allocate(opened, 4096, USUAL_ALIGN, ret_block);
    if (opened->host->reclaims > 0) return status;
    if (status.code == NXMEM_STATUS_OK) must_release(opened, ret_block);
    return try_allocate(opened, MORE_THAN_THERE_IS, USUAL_ALIGN, ret_block);
}

void rule_reclaim_refused(struct subject *subject, struct opened *opened) {
    static const uint32_t refusals[] = {NXMEM_STATUS_UNSUPPORTED_CAPABILITY, NXMEM_STATUS_CALLBACK_FAILED, NXMEM_STATUS_INVALID_ARGUMENT};
    struct block block;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        NxmemUnloadReport before = must_report(subject);
        opened->host->reclaim_answer = refusals[i];
        opened->host->reclaims = 0;
        NxmemStatus status = try_until_asked(opened, &block);
        NEED(opened->host->reclaims > 0, "it never asks the host to reclaim");
        EXPECT(status.code == NXMEM_STATUS_OK || status.code == NXMEM_STATUS_CALLBACK_FAILED || status.code == NXMEM_STATUS_OUT_OF_MEMORY,
               "the host answers %s, and allocate %s", code_name(refusals[i]), status_words(&status));
        if (status.code == NXMEM_STATUS_OK) {
            must_release(opened, &block);
            continue;
        }
        NxmemUnloadReport after = must_report(subject);
        EXPECT(after.live_allocations == before.live_allocations, "a refused allocation is counted");
    }
}

void rule_reclaim_request(struct subject *subject, struct opened *opened) {
    struct block block;
    const NxmemReclaimRequest *asked = &opened->host->last_reclaim;
    (void)subject;
    opened->host->reclaim_answer = NXMEM_STATUS_OK;
    try_until_asked(opened, &block);
    NEED(opened->host->reclaims > 0, "it never asks the host to reclaim");
    EXPECT(asked->struct_size >= sizeof *asked, "the request says that it is %u bytes", asked->struct_size);
    EXPECT(asked->mechanism_id == opened->slots.mechanism_id, "the request names mechanism %llu", (unsigned long long)asked->mechanism_id);
    EXPECT(asked->device.tier == opened->slots.device.tier && asked->device.index == opened->slots.device.index,
           "the request names tier %u index %u", asked->device.tier, asked->device.index);
}
