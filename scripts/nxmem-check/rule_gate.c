/* The unload gate (section 18) and threads (19). */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "cuda.h"
#include "rules.h"
#include "text.h"
#include "verdict.h"

enum { THREADS = 6, ROUNDS = 20, RACES = 50, HELD = 5, AFTER_UNLOAD_MS = 30 };

/* --- the report --- */

void rule_report_answers(struct subject *subject, struct opened *opened) {
    NxmemUnloadReport report;
    (void)opened;
    NxmemStatus status = try_report(subject, &report);
    EXPECT(status.code == NXMEM_STATUS_OK, "it answers %s", status_words(&status));
}

void rule_report_counts(struct subject *subject, struct opened *opened) {
    NxmemUnloadReport report = must_report(subject);
    struct block blocks[HELD];
    EXPECT(report.live_allocators >= 1, "one is open, and it reports %s", report_words(&report));
    for (unsigned i = 0; i < HELD; i++) blocks[i] = must_allocate(opened, 1000);
    report = must_report(subject);
    EXPECT(report.live_allocations >= HELD, "%d are live, and it reports %s", HELD, report_words(&report));
    struct opened other = must_open(subject);
    report = must_report(subject);
    EXPECT(report.live_allocators >= 2, "two are open, and it reports %s", report_words(&report));
    opened_give_back(&other);
    must_release(opened, &blocks[0]);
    report = must_report(subject);
    EXPECT(report.live_allocations >= HELD - 1, "%d are live, and it reports %s", HELD - 1, report_words(&report));
}

static void use_a_little(struct opened *opened) {
    for (unsigned i = 0; i < HELD; i++) {
        struct block block = must_allocate(opened, 1000);
        must_release(opened, &block);
    }
    if (!(opened->slots.capability_flags & NXMEM_CAPABILITY_DEFERRED_RELEASE)) return;
    struct block block = must_allocate(opened, 1000);
    uint64_t ticket;
    if (try_enqueue(opened, &block, &ticket).code != NXMEM_STATUS_OK) {
        must_release(opened, &block);
        return;
    }
    NEED(settle(opened), "queues do not empty (15.4)");
    uint32_t state = 0;
    host_completed(opened->host, block.name.allocation_id, &state);
    NEED(state == NXMEM_RELEASE_COMPLETE, "a queued release does not end as COMPLETE");
}

void rule_report_returns(struct subject *subject, struct opened *opened) {
    NxmemUnloadReport report;
    use_a_little(opened);
    opened_give_back(opened);
    EXPECT(report_is_zero_soon(subject, &report), "all is given back, and it reports %s", report_words(&report));
}

void rule_safe_unload(struct subject *subject, struct opened *opened) {
    NxmemUnloadReport report;
    use_a_little(opened);
    opened_give_back(opened);
    NEED(report_is_zero_soon(subject, &report), "the report does not return to zero (18.10)");
    for (uint64_t i = 0; i < subject->factory_count; i++)
        if (!factory_fault(subject->factories[i])) subject->factories[i]->release(subject->factories[i]->ctx);
    doing("dlclose, after a report of zero");
    dlclose(subject->library);
    sleep_ms(AFTER_UNLOAD_MS);
}

/* --- many threads --- */

static NxmemStatus plain_release(struct opened *opened, const struct block *block) {
    uint64_t unmapped = 0;
    return opened->slots.deallocate(opened->slots.ctx, &block->name, &unmapped);
}

static void *allocate_and_release(void *argument) {
    struct opened *opened = argument;
    cuda_enter_thread();
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct block blocks[3];
        for (unsigned i = 0; i < 3; i++) {
            NxmemStatus status = try_allocate(opened, 500 + 997 * i, USUAL_ALIGN, &blocks[i]);
            EXPECT(status.code == NXMEM_STATUS_OK && blocks[i].result.ptr, "in a thread allocate answers %s", status_words(&status));
            if (is_touchable(opened)) fill(&blocks[i]);
        }
        for (unsigned i = 0; i < 3; i++) {
            if (is_touchable(opened)) EXPECT(is_filled(&blocks[i]), "memory changed while other threads allocated");
            NxmemStatus status = plain_release(opened, &blocks[i]);
            EXPECT(status.code == NXMEM_STATUS_OK, "in a thread deallocate answers %s", status_words(&status));
        }
    }
    return NULL;
}

static void *ask_report(void *argument) {
    struct opened *opened = argument;
    for (unsigned round = 0; round < ROUNDS; round++) {
        NxmemUnloadReport report;
        NxmemStatus status = try_report(opened->subject, &report);
        EXPECT(status.code == NXMEM_STATUS_OK && report.live_allocators > 0, "beside busy threads the report answers %s, %s",
               status_words(&status), report_words(&report));
    }
    return NULL;
}

static void start(pthread_t *thread, void *(*body)(void *), void *argument) {
    NEED(pthread_create(thread, NULL, body, argument) == 0, "this machine has no threads left");
}

static void must_deallocate(struct opened *opened) {
    struct block probe = must_allocate(opened, 1000);
    NxmemStatus status = plain_release(opened, &probe);
    NEED(status.code == NXMEM_STATUS_OK, "deallocate answers %s (12.8)", status_words(&status));
}

void rule_threads(struct subject *subject, struct opened *opened) {
    pthread_t threads[THREADS];
    must_deallocate(opened);
    NxmemUnloadReport before = must_report(subject);
    NEED(before.live_allocators > 0, "open allocators are not counted (18.10)");
    for (unsigned i = 0; i < THREADS; i++) start(&threads[i], i == 0 ? ask_report : allocate_and_release, opened);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    NxmemUnloadReport after = must_report(subject);
    EXPECT(after.live_allocations == before.live_allocations, "all is released, and %llu are counted where %llu were",
           (unsigned long long)after.live_allocations, (unsigned long long)before.live_allocations);
}

struct race {
    struct opened *opened;
    struct block block;
    pthread_barrier_t *line;
    NxmemStatus answer;
};

static void *release_once(void *argument) {
    struct race *race = argument;
    cuda_enter_thread();
    pthread_barrier_wait(race->line);
    race->answer = plain_release(race->opened, &race->block);
    return NULL;
}

void rule_release_race(struct subject *subject, struct opened *opened) {
    pthread_barrier_t line;
    (void)subject;
    must_deallocate(opened);
    pthread_barrier_init(&line, NULL, 2);
    for (unsigned i = 0; i < RACES; i++) {
        struct block block = must_allocate(opened, 1000);
        struct race both[2] = {{.opened = opened, .block = block, .line = &line}, {.opened = opened, .block = block, .line = &line}};
        pthread_t other;
        doing("two releases of one allocation");
        start(&other, release_once, &both[1]);
        release_once(&both[0]);
        pthread_join(other, NULL);
        int succeeded = (both[0].answer.code == NXMEM_STATUS_OK) + (both[1].answer.code == NXMEM_STATUS_OK);
        EXPECT(succeeded == 1, "%d of two succeed", succeeded);
        const NxmemStatus *lost = both[0].answer.code == NXMEM_STATUS_OK ? &both[1].answer : &both[0].answer;
        EXPECT(lost->code == NXMEM_STATUS_UNKNOWN_ALLOCATION || lost->code == NXMEM_STATUS_BUSY, "the loser is answered %s", status_words(lost));
    }
}

static void *queue_some(void *argument) {
    struct opened *opened = argument;
    cuda_enter_thread();
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct block block = must_allocate(opened, 1000);
        must_enqueue(opened, &block);
    }
    return NULL;
}

static void *drain_some(void *argument) {
    struct opened *opened = argument;
    uint64_t retired;
    cuda_enter_thread();
    for (unsigned round = 0; round < 2 * ROUNDS; round++) try_drain(opened, 3, &retired);
    return NULL;
}

void rule_queue_threads(struct subject *subject, struct opened *opened) {
    pthread_t threads[THREADS];
    NxmemUnloadReport report;
    struct block probe = must_allocate(opened, 1000);
    must_enqueue(opened, &probe);
    NEED(settle(opened), "queues do not empty (15.4)");
    NEED(!opened->host->offended[OFFENCE_TWICE] && !opened->host->offended[OFFENCE_STRANGER], "completions are wrong without threads (15.3)");
    opened->host->in_sequence = false;
    for (unsigned i = 0; i < THREADS; i++) start(&threads[i], i % 2 ? queue_some : drain_some, opened);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    EXPECT(settle(opened), "%u releases were never completed", host_outstanding(opened->host));
    EXPECT(!opened->host->offended[OFFENCE_TWICE], "%s", opened->host->words[OFFENCE_TWICE]);
    EXPECT(!opened->host->offended[OFFENCE_STRANGER], "%s", opened->host->words[OFFENCE_STRANGER]);
    EXPECT(!opened->host->offended[OFFENCE_TICKET], "%s", opened->host->words[OFFENCE_TICKET]);
    report = must_report(subject);
    EXPECT(report.queued_releases == 0, "all are completed, and it reports %s", report_words(&report));
}

/* --- locks --- */

/* Inside a callback: another thread uses the allocator, and has to get through. */
struct probe {
    struct opened *opened;
    atomic_bool through;
    pthread_t thread;
    bool started;
};

static void *use_from_outside(void *argument) {
    struct probe *probe = argument;
    struct block block;
    uint64_t number;
    cuda_enter_thread();
    if (probe->opened->slots.pending_release_count) probe->opened->slots.pending_release_count(probe->opened->slots.ctx, &number);
    block.name = (NxmemAllocation){.struct_size = sizeof block.name,
                                   .mechanism_id = probe->opened->slots.mechanism_id,
                                   .allocation_id = 0x7FFF0001,
                                   .device = probe->opened->slots.device,
                                   .align = 1};
    plain_release(probe->opened, &block);
    atomic_store(&probe->through, true);
    return NULL;
}

static void while_in_the_host(void *argument) {
    struct probe *probe = argument;
    probe->started = pthread_create(&probe->thread, NULL, use_from_outside, probe) == 0;
    for (unsigned waited = 0; probe->started && waited < probe->opened->subject->limit_ms / 2; waited++) {
        if (atomic_load(&probe->through)) return;
        sleep_ms(1);
    }
    EXPECT(!probe->started, "while the host is inside, another thread does not get through: a lock is held");
}

void rule_reclaim_lock(struct subject *subject, struct opened *opened) {
    struct probe probe = {.opened = opened};
    struct block block;
    (void)subject;
    opened->host->hook = while_in_the_host;
    opened->host->hook_argument = &probe;
    try_allocate(opened, 1000, USUAL_ALIGN, &block);
    if (!probe.started) try_allocate(opened, UINT64_C(1) << 44, USUAL_ALIGN, &block); /* more than there is */
    NEED(probe.started, "it never asks the host to reclaim");
    pthread_join(probe.thread, NULL);
}

void rule_completion_lock(struct subject *subject, struct opened *opened) {
    struct probe probe = {.opened = opened};
    struct block block = must_allocate(opened, 1000);
    (void)subject;
    opened->host->hook = while_in_the_host;
    opened->host->hook_argument = &probe;
    must_enqueue(opened, &block);
    settle(opened);
    NEED(probe.started, "nothing is completed (15.4)");
    pthread_join(probe.thread, NULL);
}
