/* Releasing at once (section 12), quarantine (20), identity of releases, and the allocator's references. */
#include <string.h>

#include "rules.h"
#include "text.h"
#include "verdict.h"

enum { TRIES = 4, AFTERWARDS = 16 };

static const uint64_t far_id = 0x7FFF0000;

void rule_releases(struct subject *subject, struct opened *opened) {
    struct block block = must_allocate(opened, 5000);
    enum ending ending = LIVE;
    (void)subject;
    for (unsigned i = 0; i < TRIES && ending == LIVE; i++) ending = terminal_release(opened, &block);
    EXPECT(ending != LIVE, "it is refused, %d times in a row", TRIES);
}

void rule_deallocates(struct subject *subject, struct opened *opened) {
    struct block block = must_allocate(opened, 5000);
    uint64_t unmapped;
    (void)subject;
    NxmemStatus status = try_deallocate(opened, &block.name, &unmapped);
    EXPECT(status.code == NXMEM_STATUS_OK, "deallocate answers %s", status_words(&status));
    EXPECT(unmapped <= credit_limit(&block), "%llu bytes are credited for an allocation of %llu", (unsigned long long)unmapped,
           (unsigned long long)block.name.bytes);
}

/* --- the structured release --- */

void rule_release_status(struct subject *subject, struct opened *opened) {
    struct block block = must_allocate(opened, 5000);
    NxmemReleaseOutcome outcome;
    (void)subject;
    NxmemStatus status = try_release(opened, &block.name, &outcome);
    EXPECT(status.code != NXMEM_STATUS_INTERNAL_ERROR && status.code != NXMEM_STATUS_RELEASE_QUARANTINED &&
               status.code <= NXMEM_STATUS_BUSY,
           "release_allocation answers %s: a host loses the allocation (OK with QUARANTINED says what was kept)", status_words(&status));
}

static NxmemReleaseOutcome must_have_outcome(struct opened *opened, struct block *ret_block) {
    NxmemReleaseOutcome outcome;
    *ret_block = must_allocate(opened, 5000);
    NxmemStatus status = try_release(opened, &ret_block->name, &outcome);
    NEED(status.code == NXMEM_STATUS_OK, "release_allocation answers %s", status_words(&status));
    return outcome;
}

void rule_release_state(struct subject *subject, struct opened *opened) {
    struct block block;
    NxmemReleaseOutcome outcome = must_have_outcome(opened, &block);
    (void)subject;
    EXPECT(outcome.state <= NXMEM_RELEASE_FAILED, "state 0x%x is none of the table", outcome.state);
    EXPECT(outcome.state == NXMEM_RELEASE_COMPLETE || outcome.failure.code != NXMEM_STATUS_OK, "it did not complete, and its failure is OK");
}

void rule_release_bytes(struct subject *subject, struct opened *opened) {
    struct block block;
    NxmemReleaseOutcome outcome = must_have_outcome(opened, &block);
    uint64_t limit = credit_limit(&block);
    (void)subject;
    EXPECT(outcome.struct_size >= sizeof outcome, "the outcome says that it is %u bytes", outcome.struct_size);
    EXPECT(outcome.unmapped_bytes <= limit, "%llu bytes are credited for an allocation of %llu", (unsigned long long)outcome.unmapped_bytes,
           (unsigned long long)block.name.bytes);
    EXPECT(outcome.state != NXMEM_RELEASE_COMPLETE || outcome.residual_owned_bytes == 0, "COMPLETE, and a residue of %llu bytes",
           (unsigned long long)outcome.residual_owned_bytes);
    EXPECT(outcome.state != NXMEM_RELEASE_COMPLETE || (outcome.allocation_bytes >= block.name.bytes && outcome.allocation_bytes <= limit),
           "an allocation of %llu bytes is released as one of %llu", (unsigned long long)block.name.bytes,
           (unsigned long long)outcome.allocation_bytes);
    EXPECT(outcome.residual_owned_bytes <= limit, "a residue of %llu bytes of an allocation of %llu",
           (unsigned long long)outcome.residual_owned_bytes, (unsigned long long)block.name.bytes);
}

void rule_failed_is_live(struct subject *subject, struct opened *opened) {
    struct block block = must_allocate(opened, 5000);
    NxmemReleaseOutcome outcome;
    uint64_t unmapped;
    if (is_touchable(opened)) fill(&block);
    NxmemUnloadReport before = must_report(subject);
    NxmemStatus status = try_release(opened, &block.name, &outcome);
    NEED(status.code == NXMEM_STATUS_OK && outcome.state == NXMEM_RELEASE_FAILED, "no release fails");
    NxmemUnloadReport after = must_report(subject);
    EXPECT(after.live_allocations >= before.live_allocations, "FAILED, and it is no longer counted");
    EXPECT(outcome.unmapped_bytes == 0 && outcome.residual_owned_bytes == 0, "FAILED, and bytes that went");
    if (is_touchable(opened)) EXPECT(is_filled(&block), "FAILED, and the memory changed");
    status = try_deallocate(opened, &block.name, &unmapped);
    EXPECT(status.code != NXMEM_STATUS_UNKNOWN_ALLOCATION, "FAILED, and then it is unknown");
}

void rule_quarantine(struct subject *subject, struct opened *opened) {
    struct block block, later;
    uint64_t unmapped;
    (void)subject;
    NxmemReleaseOutcome outcome = must_have_outcome(opened, &block);
    NEED(outcome.state == NXMEM_RELEASE_QUARANTINED, "no release ends in a quarantine");
    EXPECT(outcome.residual_owned_bytes > 0, "QUARANTINED, and nothing is kept");
    NxmemStatus status = try_deallocate(opened, &block.name, &unmapped);
    EXPECT(status.code == NXMEM_STATUS_UNKNOWN_ALLOCATION, "a second release is answered %s", status_words(&status));
    for (unsigned i = 0; i < AFTERWARDS; i++) {
        later = must_allocate(opened, 5000);
        uintptr_t start = (uintptr_t)block.result.ptr, again = (uintptr_t)later.result.ptr;
        EXPECT(again >= start + block.name.bytes || again + later.name.bytes <= start, "addresses in quarantine are given again");
    }
}

void rule_outcome_on_refusal(struct subject *subject, struct opened *opened) {
    struct block block = must_allocate(opened, 5000);
    NxmemReleaseOutcome outcome;
    (void)subject;
    block.name.allocation_id = far_id;
    NxmemStatus status = try_release(opened, &block.name, &outcome);
    NEED(status.code != NXMEM_STATUS_OK, "an unknown id is released (12.2)");
    EXPECT(outcome.state == NXMEM_RELEASE_FAILED, "%s, and the outcome's state is %u", code_name(status.code), outcome.state);
}

void rule_outcome_bounds(struct subject *subject, struct opened *opened) {
    struct {
        NxmemReleaseOutcome outcome;
        uint64_t behind[4];
    } answer;
    (void)subject;
    for (uint32_t size = 32; size <= sizeof answer; size += 88) {
        struct block block = must_allocate(opened, 5000);
        memset(&answer, 0xA5, sizeof answer);
        answer.outcome.struct_size = size;
        doing("release_allocation");
        opened->slots.release_allocation(opened->slots.ctx, &block.name, &answer.outcome);
        size_t end = size < sizeof answer.outcome ? size : sizeof answer.outcome;
        for (size_t at = end; at < sizeof answer; at++)
            EXPECT(((unsigned char *)&answer)[at] == 0xA5, "byte %zu of an outcome of %u bytes is written", at, size);
        EXPECT(answer.outcome.struct_size > 0 && answer.outcome.struct_size <= size, "an outcome of %u bytes comes back as one of %u", size,
               answer.outcome.struct_size);
    }
}

/* --- identity --- */

/* By every terminal slot there is. */
static void expect_refused(struct opened *opened, const NxmemAllocation *name, uint32_t due, const char *what) {
    NxmemReleaseOutcome outcome;
    uint64_t unmapped;
    NxmemStatus status = try_deallocate(opened, name, &unmapped);
    EXPECT(status.code == due, "%s: deallocate answers %s", what, status_words(&status));
    if (!is_structured(opened)) return;
    status = try_release(opened, name, &outcome);
    EXPECT(status.code == due, "%s: release_allocation answers %s", what, status_words(&status));
}

/* A mechanism that refuses everything refuses this too. */
static void must_be_releasable(struct opened *opened) {
    struct block probe = must_allocate(opened, 5000);
    uint64_t unmapped;
    NxmemStatus status = try_deallocate(opened, &probe.name, &unmapped);
    NEED(status.code == NXMEM_STATUS_OK, "deallocate answers %s (12.8)", status_words(&status));
    if (!is_structured(opened)) return;
    probe = must_allocate(opened, 5000);
    NxmemReleaseOutcome outcome;
    status = try_release(opened, &probe.name, &outcome);
    NEED(status.code == NXMEM_STATUS_OK && outcome.state != NXMEM_RELEASE_FAILED, "release_allocation answers %s, state %u (12)",
         status_words(&status), outcome.state);
}

void rule_release_identity(struct subject *subject, struct opened *opened) {
    must_be_releasable(opened);
    struct block block = must_allocate(opened, 5000);
    NxmemAllocation name = block.name;
    uint64_t unmapped;
    if (is_touchable(opened)) fill(&block);
    NxmemUnloadReport before = must_report(subject);
    name.mechanism_id++;
    expect_refused(opened, &name, NXMEM_STATUS_WRONG_MECHANISM, "another mechanism's");
    name.device.index++;
    expect_refused(opened, &name, NXMEM_STATUS_WRONG_MECHANISM, "wrong in both");
    name.mechanism_id = block.name.mechanism_id;
    expect_refused(opened, &name, NXMEM_STATUS_WRONG_DEVICE, "another index");
    name.device = block.name.device;
    name.device.tier = name.device.tier == NXMEM_TIER_DISK ? NXMEM_TIER_HOST : NXMEM_TIER_DISK;
    expect_refused(opened, &name, NXMEM_STATUS_WRONG_DEVICE, "another tier");
    NxmemUnloadReport after = must_report(subject);
    EXPECT(after.live_allocations == before.live_allocations, "refused releases change the count");
    if (is_touchable(opened)) EXPECT(is_filled(&block), "a refused release changed the memory");
    NxmemStatus status = try_deallocate(opened, &block.name, &unmapped);
    EXPECT(status.code == NXMEM_STATUS_OK, "after refused releases the right one is answered %s", status_words(&status));
}

void rule_unknown_id(struct subject *subject, struct opened *opened) {
    must_be_releasable(opened);
    struct block block = must_allocate(opened, 5000);
    NxmemAllocation name = block.name;
    uint64_t unmapped;
    (void)subject;
    name.allocation_id = far_id;
    expect_refused(opened, &name, NXMEM_STATUS_UNKNOWN_ALLOCATION, "an id that never was");
    NxmemStatus status = try_deallocate(opened, &block.name, &unmapped);
    EXPECT(status.code == NXMEM_STATUS_OK, "then the right release is answered %s", status_words(&status));
}

void rule_released_twice(struct subject *subject, struct opened *opened) {
    must_be_releasable(opened);
    struct block first = must_allocate(opened, 5000), again[TRIES];
    uint64_t unmapped;
    (void)subject;
    NxmemStatus status = try_deallocate(opened, &first.name, &unmapped);
    NEED(status.code == NXMEM_STATUS_OK, "deallocate answers %s (12.8)", status_words(&status));
    expect_refused(opened, &first.name, NXMEM_STATUS_UNKNOWN_ALLOCATION, "a second release");
    for (unsigned i = 0; i < TRIES; i++) {
        again[i] = must_allocate(opened, 5000);
        if (is_touchable(opened)) fill(&again[i]);
    }
    expect_refused(opened, &first.name, NXMEM_STATUS_UNKNOWN_ALLOCATION, "a second release, when its address may live again");
    for (unsigned i = 0; i < TRIES; i++) {
        if (is_touchable(opened)) EXPECT(is_filled(&again[i]), "it changed a live allocation");
        status = try_deallocate(opened, &again[i].name, &unmapped);
        EXPECT(status.code == NXMEM_STATUS_OK, "then the release of a live allocation is answered %s", status_words(&status));
    }
}

void rule_sibling(struct subject *subject, struct opened *opened) {
    must_be_releasable(opened);
    struct opened other = must_open(subject);
    NEED(other.slots.mechanism_id != opened->slots.mechanism_id, "both opens have one id (4.6)");
    struct block block = must_allocate(opened, 5000);
    uint64_t unmapped;
    expect_refused(&other, &block.name, NXMEM_STATUS_WRONG_MECHANISM, "a sibling's allocation");
    block.name.mechanism_id = other.slots.mechanism_id;
    expect_refused(&other, &block.name, NXMEM_STATUS_UNKNOWN_ALLOCATION, "a sibling's id under its own mechanism");
    block.name.mechanism_id = opened->slots.mechanism_id;
    NxmemStatus status = try_deallocate(opened, &block.name, &unmapped);
    EXPECT(status.code == NXMEM_STATUS_OK, "then its own release is answered %s", status_words(&status));
}

void rule_retained(struct subject *subject, struct opened *opened) {
    NxmemUnloadReport report = must_report(subject);
    NEED(report.live_allocators > 0, "open allocators are not counted (18.10)");
    doing("the allocator's retain");
    opened->slots.retain(opened->slots.ctx);
    opened_give_back(opened);
    report = must_report(subject);
    EXPECT(report.live_allocators > 0, "retained once, released once, and no allocator is counted");
    struct block block = must_allocate(opened, 5000);
    if (is_touchable(opened)) fill(&block);
    must_release(opened, &block);
    opened_give_back(opened);
}
