/* Queued releases (section 15). */
#include <stdio.h>
#include <string.h>

#include "rules.h"
#include "text.h"
#include "verdict.h"

enum { QUEUED = 6 };

static const uint64_t far_id = 0x7FFF0000;

static void allocate_all(struct opened *opened, struct block *blocks, unsigned count) {
    for (unsigned i = 0; i < count; i++) blocks[i] = must_allocate(opened, 1000 + i);
}

/* Queues some, drains, and waits; then judges what the host noted. */
static void run_queue(struct opened *opened, struct block *blocks) {
    allocate_all(opened, blocks, QUEUED);
    for (unsigned i = 0; i < QUEUED; i++) must_enqueue(opened, &blocks[i]);
    settle(opened);
}

static void judge_offence(struct opened *opened, enum host_offence offence) {
    struct block blocks[QUEUED];
    run_queue(opened, blocks);
    NEED(opened->host->completed > 0 || opened->host->offended[offence], "nothing is completed (15.4)");
    EXPECT(!opened->host->offended[offence], "%s", opened->host->words[offence]);
}

void rule_completion_known(struct subject *subject, struct opened *opened) {
    (void)subject;
    judge_offence(opened, OFFENCE_STRANGER);
}

void rule_completion_once(struct subject *subject, struct opened *opened) {
    (void)subject;
    judge_offence(opened, OFFENCE_TWICE);
}

void rule_completion_mechanism(struct subject *subject, struct opened *opened) {
    (void)subject;
    judge_offence(opened, OFFENCE_MECHANISM);
}

void rule_completion_order(struct subject *subject, struct opened *opened) {
    (void)subject;
    judge_offence(opened, OFFENCE_ORDER);
}

void rule_completion_state(struct subject *subject, struct opened *opened) {
    (void)subject;
    judge_offence(opened, OFFENCE_STATE);
}

void rule_completion_bytes(struct subject *subject, struct opened *opened) {
    (void)subject;
    judge_offence(opened, OFFENCE_BYTES);
}

void rule_queue_tickets(struct subject *subject, struct opened *opened) {
    struct block blocks[QUEUED];
    uint64_t tickets[QUEUED];
    (void)subject;
    allocate_all(opened, blocks, QUEUED);
    for (unsigned i = 0; i < QUEUED; i++) {
        NxmemStatus status = try_enqueue(opened, &blocks[i], &tickets[i]);
        NEED(status.code == NXMEM_STATUS_OK, "enqueue_release answers %s", status_words(&status));
        for (unsigned j = 0; j < i; j++)
            EXPECT(tickets[i] != tickets[j], "ticket %llu is given twice", (unsigned long long)tickets[i]);
    }
    settle(opened);
    EXPECT(!opened->host->offended[OFFENCE_TICKET], "%s", opened->host->words[OFFENCE_TICKET]);
}

void rule_failed_completion(struct subject *subject, struct opened *opened) {
    struct block blocks[QUEUED];
    uint32_t state;
    uint64_t unmapped;
    bool any = false;
    (void)subject;
    allocate_all(opened, blocks, QUEUED);
    for (unsigned i = 0; i < QUEUED && is_touchable(opened); i++) fill(&blocks[i]);
    for (unsigned i = 0; i < QUEUED; i++) must_enqueue(opened, &blocks[i]);
    settle(opened);
    for (unsigned i = 0; i < QUEUED; i++) {
        if (!host_completed(opened->host, blocks[i].name.allocation_id, &state) || state != NXMEM_RELEASE_FAILED) continue;
        any = true;
        if (is_touchable(opened)) EXPECT(is_filled(&blocks[i]), "completed as FAILED, and its memory changed");
        NxmemStatus status = try_deallocate(opened, &blocks[i].name, &unmapped);
        EXPECT(status.code == NXMEM_STATUS_OK, "completed as FAILED, and its release is answered %s", status_words(&status));
    }
    NEED(any, "no completion fails");
}

/* --- what is refused --- */

static void expect_refused(struct opened *opened, const struct block *block, uint32_t due, const char *what) {
    uint64_t ticket;
    NxmemStatus status = try_enqueue(opened, block, &ticket);
    EXPECT(status.code == due, "%s is answered %s", what, status_words(&status));
}

void rule_queue_identity(struct subject *subject, struct opened *opened) {
    struct block probe = must_allocate(opened, 5000);
    must_enqueue(opened, &probe);
    settle(opened);
    struct block block = must_allocate(opened, 5000), wrong = block;
    NxmemUnloadReport before = must_report(subject);
    wrong.name.mechanism_id++;
    expect_refused(opened, &wrong, NXMEM_STATUS_WRONG_MECHANISM, "another mechanism's");
    wrong.name.device.index++;
    expect_refused(opened, &wrong, NXMEM_STATUS_WRONG_MECHANISM, "wrong in both");
    wrong.name.mechanism_id = block.name.mechanism_id;
    expect_refused(opened, &wrong, NXMEM_STATUS_WRONG_DEVICE, "another device's");
    wrong = block;
    wrong.name.allocation_id = far_id;
    expect_refused(opened, &wrong, NXMEM_STATUS_UNKNOWN_ALLOCATION, "an id that never was");
    NxmemUnloadReport after = must_report(subject);
    EXPECT(after.live_allocations == before.live_allocations && after.queued_releases == before.queued_releases,
           "refused, and the report changes");
    must_enqueue(opened, &block);
}

void rule_queue_refusal(struct subject *subject, struct opened *opened) {
    struct block block = must_allocate(opened, 5000);
    struct host *host = opened->host;
    uint64_t ticket = 0, id = block.name.allocation_id;
    uint32_t state = 0;
    if (is_touchable(opened)) fill(&block);
    NxmemUnloadReport before = must_report(subject);
    host_expect(host, id, block.name.bytes, credit_limit(&block));
    doing("enqueue_release");
    NxmemStatus status = opened->slots.enqueue_release(opened->slots.ctx, &block.name, &ticket);
    NEED(status.code != NXMEM_STATUS_OK, "nothing is refused");
    EXPECT(!host_completed(host, id, &state), "it completes the release, and then answers %s", status_words(&status));
    NxmemUnloadReport after = must_report(subject);
    EXPECT(after.queued_releases == before.queued_releases && after.live_allocations == before.live_allocations,
           "%s, and it reports %s", code_name(status.code), report_words(&after));
    if (is_touchable(opened)) EXPECT(is_filled(&block), "%s, and the memory changed", code_name(status.code));
    enum ending ending = terminal_release(opened, &block);
    EXPECT(ending == GONE, "%s, and then it cannot be released at once", code_name(status.code));
}

void rule_queue_takes(struct subject *subject, struct opened *opened) {
    struct block block = must_allocate(opened, 5000);
    uint64_t unmapped, ticket = 0;
    uint32_t state = 0;
    (void)subject;
    must_enqueue(opened, &block);
    /* FAILED made it live again, and that is another rule. */
    NEED(!host_completed(opened->host, block.name.allocation_id, &state) || state != NXMEM_RELEASE_FAILED, "the completion fails");
    NxmemStatus status = try_deallocate(opened, &block.name, &unmapped);
    EXPECT(status.code != NXMEM_STATUS_OK, "what is queued is deallocated too");
    NxmemReleaseOutcome outcome;
    if (is_structured(opened)) {
        status = try_release(opened, &block.name, &outcome);
        EXPECT(status.code != NXMEM_STATUS_OK, "what is queued is released too");
    }
    doing("enqueue_release");
    status = opened->slots.enqueue_release(opened->slots.ctx, &block.name, &ticket);
    EXPECT(status.code == NXMEM_STATUS_UNKNOWN_ALLOCATION || status.code == NXMEM_STATUS_BUSY, "queued a second time, it is answered %s",
           status_words(&status));
}

/* --- drains --- */

void rule_queue_empties(struct subject *subject, struct opened *opened) {
    struct block blocks[QUEUED];
    (void)subject;
    allocate_all(opened, blocks, QUEUED);
    for (unsigned i = 0; i < QUEUED; i++) must_enqueue(opened, &blocks[i]);
    EXPECT(settle(opened), "%u of %d releases are never completed: a host has to keep the plugin mapped", host_outstanding(opened->host),
           QUEUED);
}

void rule_drain_budget(struct subject *subject, struct opened *opened) {
    struct block blocks[QUEUED];
    uint64_t retired, told = 0;
    allocate_all(opened, blocks, QUEUED);
    for (unsigned i = 0; i < QUEUED; i++) must_enqueue(opened, &blocks[i]);
    for (uint64_t budget = 0; budget <= 2; budget++) {
        NxmemStatus status = try_drain(opened, budget, &retired);
        EXPECT(status.code == NXMEM_STATUS_OK, "a drain is answered %s", status_words(&status));
        EXPECT(retired <= budget, "a drain of at most %llu retires %llu", (unsigned long long)budget, (unsigned long long)retired);
        told += retired;
    }
    /* Completions may come a little later, from a thread. */
    for (unsigned waited = 0; told > QUEUED - host_outstanding(opened->host) && waited < subject->limit_ms / 8; waited += 5) sleep_ms(5);
    unsigned completed = QUEUED - host_outstanding(opened->host);
    EXPECT(told <= completed, "drains say %llu, and %u are completed", (unsigned long long)told, completed);
}

void rule_drain_refused(struct subject *subject, struct opened *opened) {
    struct block blocks[QUEUED];
    struct host *host = opened->host;
    uint64_t retired;
    NxmemUnloadReport report;
    must_balance(subject);
    allocate_all(opened, blocks, QUEUED);
    for (unsigned i = 0; i < QUEUED; i++) must_enqueue(opened, &blocks[i]);
    NEED(host->completed == 0, "releases are completed before they are drained");
    host->refuse_from = 2;
    host->refuse_count = 1;
    NxmemStatus status = {0};
    for (unsigned pass = 0; pass < QUEUED && host->refused == 0; pass++) status = try_drain(opened, UINT64_MAX, &retired);
    NEED(host->refused > 0, "a drain completes nothing that could be refused");
    NEED(!host->from_threads, "completions come from threads of the plugin");
    EXPECT(status.code == NXMEM_STATUS_CALLBACK_FAILED, "the host refuses, and the drain answers %s", status_words(&status));
    EXPECT(host->completed == 2, "the host refuses the second, and %u are completed", host->completed);
    EXPECT(retired == 1 || retired == 2, "two are completed, one of them refused, and the drain says %llu", (unsigned long long)retired);
    EXPECT(settle(opened), "%u releases behind the refused one are lost", host_outstanding(host));
    EXPECT(!host->offended[OFFENCE_TWICE], "%s", host->words[OFFENCE_TWICE]);
    for (unsigned i = 0; i < QUEUED; i++) {
        uint32_t state = NXMEM_RELEASE_COMPLETE;
        host_completed(host, blocks[i].name.allocation_id, &state);
        if (state == NXMEM_RELEASE_FAILED) return; /* live again: rightly counted */
    }
    opened_give_back(opened);
    EXPECT(report_is_zero_soon(subject, &report), "after a refusal it reports for good %s", report_words(&report));
}

void rule_queue_silent(struct subject *subject, struct opened *usual) {
    struct block blocks[QUEUED], probe = must_allocate(usual, 1000);
    struct host *host = host_new(subject->agreed.agreed_minor);
    NxmemUnloadReport report;
    uint64_t retired;
    must_enqueue(usual, &probe);
    NEED(settle(usual), "queues do not empty (15.4)");
    opened_give_back(usual);
    NEED(report_is_zero_soon(subject, &report), "the report does not return to zero (18.10)");
    host->table.release_completed = NULL;
    struct opened opened = must_open_at(subject, subject->agreed.agreed_minor, host);
    allocate_all(&opened, blocks, QUEUED);
    for (unsigned i = 0; i < QUEUED; i++) must_enqueue(&opened, &blocks[i]);
    for (unsigned pass = 0; pass < 2 * QUEUED; pass++) {
        NxmemStatus status = try_drain(&opened, UINT64_MAX, &retired);
        EXPECT(status.code == NXMEM_STATUS_OK, "a drain without anybody to tell answers %s", status_words(&status));
    }
    opened_give_back(&opened);
    EXPECT(report_is_zero_soon(subject, &report), "with nobody to tell it reports for good %s", report_words(&report));
}

void rule_queue_reference(struct subject *subject, struct opened *opened) {
    struct block blocks[2];
    uint64_t retired;
    NxmemUnloadReport report;
    allocate_all(opened, blocks, 2);
    for (unsigned i = 0; i < 2; i++) must_enqueue(opened, &blocks[i]);
    opened_give_back(opened);
    unsigned left = host_outstanding(opened->host);
    if (left > 0) {
        report = must_report(subject);
        left = host_outstanding(opened->host);
        EXPECT(left == 0 || report.queued_releases >= left, "the allocator is gone, %u releases are due, and it reports %s", left,
               report_words(&report));
    }
    /* A second allocator, with a reference more: the queue is emptied after the host's own is gone. */
    struct opened other = must_open(subject);
    allocate_all(&other, blocks, 2);
    doing("the allocator's retain");
    other.slots.retain(other.slots.ctx);
    for (unsigned i = 0; i < 2; i++) must_enqueue(&other, &blocks[i]);
    opened_give_back(&other);
    try_drain(&other, 1, &retired);
    NEED(settle(&other), "queues do not empty (15.4)");
    opened_give_back(&other);
}

void rule_quiet_release(struct subject *subject, struct opened *opened) {
    struct block blocks[QUEUED];
    (void)subject;
    allocate_all(opened, blocks, QUEUED);
    for (unsigned i = 0; i < QUEUED; i++) must_enqueue(opened, &blocks[i]);
    NEED(host_outstanding(opened->host) > 0, "releases are completed inside enqueue_release");
    opened->host->quiet = true;
    doing("the allocator's retain");
    opened->slots.retain(opened->slots.ctx);
    opened->host->quiet = false;
    opened_give_back(opened);
    opened_give_back(opened);
    EXPECT(opened->host->calls_in_quiet == 0, "%u calls to the host from retain or release", opened->host->calls_in_quiet);
}
