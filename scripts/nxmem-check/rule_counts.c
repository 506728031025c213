/* What is counted while releases are queued and completed (15.2 to 15.4): never too little before the host is told, never too
 * much afterwards. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "rules.h"
#include "text.h"
#include "verdict.h"

enum { QUEUED = 6, EMPTY_DRAINS = 3, LATER_MS = 10 };

static void allocate_all(struct opened *opened, struct block *blocks) {
    for (unsigned i = 0; i < QUEUED; i++) blocks[i] = must_allocate(opened, 1000 + i);
}

static uint64_t pending(struct opened *opened) {
    uint64_t count = UINT64_MAX;
    NEED(opened->slots.pending_release_count, "there is no pending_release_count");
    doing("pending_release_count");
    NxmemStatus status = opened->slots.pending_release_count(opened->slots.ctx, &count);
    EXPECT(status.code == NXMEM_STATUS_OK, "pending_release_count answers %s", status_words(&status));
    return count;
}

void rule_queue_counts(struct subject *subject, struct opened *opened) {
    struct block blocks[QUEUED];
    allocate_all(opened, blocks);
    NxmemUnloadReport before = must_report(subject);
    NEED(before.live_allocations >= QUEUED, "live allocations are not counted (18.10)");
    for (unsigned i = 0; i < QUEUED; i++) must_enqueue(opened, &blocks[i]);
    /* Completions may come meanwhile, from a thread: what is asked later may be less. */
    uint64_t left_before = host_outstanding(opened->host), queued = pending(opened);
    NxmemUnloadReport report = must_report(subject);
    uint64_t left = host_outstanding(opened->host);
    EXPECT(queued <= left_before && queued >= left, "%llu to %llu releases are due, and pending_release_count answers %llu",
           (unsigned long long)left, (unsigned long long)left_before, (unsigned long long)queued);
    EXPECT(report.queued_releases >= left && report.live_allocations >= left, "%llu releases are due, and it reports %s",
           (unsigned long long)left, report_words(&report));
    if (!settle(opened)) return; /* 15.4 */
    EXPECT(pending(opened) == 0, "all are completed, and pending_release_count answers %llu", (unsigned long long)pending(opened));
}

/* --- from inside a completion --- */

struct counts {
    NxmemUnloadReport report;
    uint64_t pending; /* 0 where it cannot be asked */
};

static struct counts count_now(struct opened *opened) {
    struct counts counts = {.report = must_report(opened->subject)};
    if (opened->slots.pending_release_count) counts.pending = pending(opened);
    return counts;
}

static bool are_same(const struct counts *a, const struct counts *b) {
    return a->report.live_allocations == b->report.live_allocations && a->report.live_views == b->report.live_views &&
           a->report.live_capabilities == b->report.live_capabilities && a->report.queued_releases == b->report.queued_releases &&
           a->pending == b->pending;
}

static void expect_same(const struct counts *before, const struct counts *after, const char *when) {
    char words[160];
    snprintf(words, sizeof words, "%s, %llu pending", report_words(&before->report), (unsigned long long)before->pending);
    EXPECT(are_same(before, after), "%s, and %s it is %s, %llu pending", words, when, report_words(&after->report),
           (unsigned long long)after->pending);
}

struct witness {
    struct opened *opened;
    unsigned entered, told; /* releases: their enqueue_release was called; their completion came */
    struct counts seen[QUEUED];
    uint64_t due[QUEUED]; /* at most so many are queued then */
    bool locked;
    atomic_bool through;
};

/* A thread of its own: with a lock held in the callback this one would wait for itself. */
static void *count_from_outside(void *argument) {
    struct witness *witness = argument;
    witness->seen[witness->told] = count_now(witness->opened);
    atomic_store(&witness->through, true);
    return NULL;
}

static void on_completion(void *argument) {
    struct witness *witness = argument;
    pthread_t thread;

    /* A thread of the plugin may count itself until it has ended (18.10). */
    if (!pthread_equal(witness->opened->host->owner, pthread_self()) || witness->told == QUEUED || witness->locked) return;
    atomic_store(&witness->through, false);
    NEED(pthread_create(&thread, NULL, count_from_outside, witness) == 0, "this machine has no threads left");
    for (unsigned waited = 0; !atomic_load(&witness->through) && waited < witness->opened->subject->limit_ms / 8; waited++) sleep_ms(1);
    witness->locked = !atomic_load(&witness->through);
    if (witness->locked) return;
    pthread_join(thread, NULL);
    witness->due[witness->told] = witness->entered - witness->told - 1;
    witness->told++;
}

static void must_be_complete(struct opened *opened, const struct block *blocks) {
    for (unsigned i = 0; i < QUEUED; i++) {
        uint32_t state = NXMEM_RELEASE_FAILED;
        host_completed(opened->host, blocks[i].name.allocation_id, &state);
        NEED(state == NXMEM_RELEASE_COMPLETE, "a queued release does not end as COMPLETE");
    }
}

void rule_completion_counts(struct subject *subject, struct opened *opened) {
    static struct witness witness;
    struct block blocks[QUEUED];
    witness.opened = opened;
    allocate_all(opened, blocks); /* these stay */
    allocate_all(opened, blocks);
    NxmemUnloadReport before = must_report(subject);
    NEED(before.live_allocations >= QUEUED && before.queued_releases == 0, "the report is wrong already: %s (18.10)", report_words(&before));
    opened->host->witness = on_completion;
    opened->host->witness_argument = &witness;
    while (witness.entered < QUEUED) must_enqueue(opened, &blocks[witness.entered++]);
    NEED(settle(opened), "queues do not empty (15.4)");
    NEED(!opened->host->offended[OFFENCE_STRANGER] && !opened->host->offended[OFFENCE_TWICE] && !opened->host->offended[OFFENCE_MECHANISM],
         "other completions than those that are due (15.3)");
    NEED(!opened->host->from_threads, "completions come from threads of the plugin");
    NEED(!witness.locked, "a lock is held while the host is told (19.3)");
    must_be_complete(opened, blocks);
    for (unsigned i = 0; i < QUEUED; i++) {
        const struct counts *seen = &witness.seen[i];
        EXPECT(seen->report.live_allocations <= before.live_allocations - i - 1 && seen->report.queued_releases <= witness.due[i] &&
                   seen->pending <= witness.due[i],
               "when the host is told of completion %u of %d it is counted still: %s, %llu pending", i + 1, QUEUED,
               report_words(&seen->report), (unsigned long long)seen->pending);
    }
    struct counts after = count_now(opened);
    expect_same(&witness.seen[QUEUED - 1], &after, "when the last completion has returned");
    sleep_ms(LATER_MS);
    struct counts later = count_now(opened);
    expect_same(&after, &later, "a little later");
}

void rule_drain_empty(struct subject *subject, struct opened *opened) {
    struct block blocks[QUEUED], live = must_allocate(opened, 1000);
    uint64_t retired;
    allocate_all(opened, blocks);
    for (unsigned i = 0; i < QUEUED; i++) must_enqueue(opened, &blocks[i]);
    NEED(settle(opened), "queues do not empty (15.4)");
    NEED(!opened->host->from_threads, "completions come from threads of the plugin");
    unsigned completed = opened->host->completed;
    struct counts before = count_now(opened);
    for (unsigned i = 0; i < EMPTY_DRAINS; i++) {
        NxmemStatus status = try_drain(opened, UINT64_MAX, &retired);
        EXPECT(status.code == NXMEM_STATUS_OK, "it is answered %s", status_words(&status));
        EXPECT(retired == 0, "nothing is queued, and a drain retires %llu", (unsigned long long)retired);
        struct counts after = count_now(opened);
        expect_same(&before, &after, "after a drain of nothing");
    }
    EXPECT(opened->host->completed == completed, "nothing is queued, and %u are completed", opened->host->completed - completed);
    must_release(opened, &live);
    (void)subject;
}
