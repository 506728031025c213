/* Faults of queued releases: completions that are wrong, out of turn, too many, at once, or slow. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugins/common/status.h"
#include "plugins/common/tallies.h"
#include "plugins/faulty/host/faulty_host.h"

enum {
    REPORTERS = 8,
    STAY_MICROSECONDS = 20000,
    SHORT_COMPLETION = 100,
};

static const uint64_t huge = UINT64_C(1) << 60;

/* --- one entry, retired by hand ------------------------------------------------------------------------------------- */

/* Takes one entry out of the kit's queue, the oldest or the newest; NULL when there is none. */
static struct nxp_block *take(struct nxp_allocator *allocator, bool newest)
{
    struct nxp_block **link = &allocator->queue_head, *block, *before = NULL;

    pthread_mutex_lock(&allocator->lock);
    while (newest && *link != NULL && (*link)->next != NULL) {
        before = *link;
        link = &(*link)->next;
    }
    block = *link;
    if (block != NULL) {
        *link = block->next;
        if (allocator->queue_tail == block)
            allocator->queue_tail = before;
        allocator->pending--;
    }
    pthread_mutex_unlock(&allocator->lock);
    return block;
}

/* What the host is told of a block that completed as it should. */
static NxmemReleaseCompletion completion_of(const struct nxp_allocator *allocator, const struct nxp_block *block)
{
    return (NxmemReleaseCompletion){
        .struct_size = sizeof(NxmemReleaseCompletion),
        .ticket = block->ticket,
        .mechanism_id = allocator->vtable.mechanism_id,
        .allocation_id = block->id,
        .outcome = {.struct_size = sizeof(NxmemReleaseOutcome),
                    .state = NXMEM_RELEASE_COMPLETE,
                    .allocation_bytes = block->bytes,
                    .unmapped_bytes = block->committed},
    };
}

static void retire(struct nxp_allocator *allocator, struct nxp_block *block)
{
    nxp_lazy_release(allocator, NULL, block);
    nxp_allocator_retire(allocator, block);
    nxp_tally_down(NXP_TALLY_QUEUED);
}

static uint32_t report(struct nxp_allocator *allocator, const NxmemReleaseCompletion *completion)
{
    const NxmemHostCallbacks *host = &allocator->callbacks;

    return host->release_completed != NULL ? host->release_completed(host->host_ctx, completion).code : NXMEM_STATUS_OK;
}

/* --- threads that report the same ------------------------------------------------------------------------------------ */

struct reporter {
    struct fh_state *state;
    const NxmemReleaseCompletion *completion;
    pthread_barrier_t *barrier;
    uint32_t code;
};

static void *report_at_once(void *argument)
{
    struct reporter *reporter = argument;
    const NxmemHostCallbacks *host = &reporter->state->lazy.base.callbacks;

    pthread_barrier_wait(reporter->barrier);
    reporter->code = host->release_completed(host->host_ctx, reporter->completion).code;
    return NULL;
}

/* All but one of these are bogus; which one is due, the host decides. */
static uint32_t report_from_all(struct fh_state *state, const NxmemReleaseCompletion *completion)
{
    struct reporter reporters[REPORTERS];
    pthread_t threads[REPORTERS];
    pthread_barrier_t barrier;
    unsigned started = 0, accepted = 0;

    if (state->lazy.base.callbacks.release_completed == NULL)
        return NXMEM_STATUS_OK;
    pthread_barrier_init(&barrier, NULL, REPORTERS);
    for (; started < REPORTERS; started++) {
        reporters[started] = (struct reporter){state, completion, &barrier, 0};
        if (pthread_create(&threads[started], NULL, report_at_once, &reporters[started]) != 0)
            abort(); /* the others would wait for it for ever */
    }
    for (unsigned i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        accepted += reporters[i].code == NXMEM_STATUS_OK;
    }
    pthread_barrier_destroy(&barrier);
    for (unsigned i = 1; i < REPORTERS; i++) {
        fh_count(FH_COUNT_BogusCalls);
        if (i < accepted)
            fh_count(FH_COUNT_BogusAccepted);
    }
    return accepted != 0 ? NXMEM_STATUS_OK : NXMEM_STATUS_CALLBACK_FAILED;
}

/* --- threads that stay longer ------------------------------------------------------------------------------------------ */

struct worker {
    struct worker *next;
    pthread_t thread;
    struct nxp_allocator *allocator; /* the entry's reference */
    struct nxp_block *block;
};

static pthread_mutex_t workers_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the two below; not held over a join */
static struct worker *workers;
static uint64_t left;

static void *complete_and_stay(void *argument)
{
    struct worker *worker = argument;
    struct nxp_allocator *allocator = worker->allocator;
    NxmemReleaseCompletion completion = completion_of(allocator, worker->block);

    retire(allocator, worker->block);
    report(allocator, &completion);
    nxp_allocator_unref(allocator);
    usleep(STAY_MICROSECONDS);
    return NULL;
}

static bool start_worker(struct nxp_allocator *allocator, struct nxp_block *block)
{
    struct worker *worker = calloc(1, sizeof *worker);
    bool started;

    if (worker == NULL)
        return false;
    worker->allocator = allocator;
    worker->block = block;
    pthread_mutex_lock(&workers_lock);
    started = pthread_create(&worker->thread, NULL, complete_and_stay, worker) == 0;
    if (started) {
        worker->next = workers;
        workers = worker;
        left++;
    }
    pthread_mutex_unlock(&workers_lock);
    if (!started)
        free(worker);
    return started;
}

void fh_workers_join(void)
{
    struct worker *worker;

    for (;;) {
        pthread_mutex_lock(&workers_lock);
        worker = workers;
        if (worker != NULL)
            workers = worker->next;
        pthread_mutex_unlock(&workers_lock);
        if (worker == NULL)
            return;
        pthread_join(worker->thread, NULL);
        free(worker);
        pthread_mutex_lock(&workers_lock);
        left--;
        pthread_mutex_unlock(&workers_lock);
    }
}

uint64_t fh_workers_left(void)
{
    uint64_t count;

    pthread_mutex_lock(&workers_lock);
    count = left;
    pthread_mutex_unlock(&workers_lock);
    return count;
}

/* --- the drain ------------------------------------------------------------------------------------------------------- */

/* What is reported before the real completion, if anything. */
static void report_bogus(struct fh_state *state, const NxmemReleaseCompletion *real)
{
    NxmemReleaseCompletion bogus = *real;
    void *exact;

    switch (state->fault) {
    case FH_COMPLETES_SHORT:
        exact = malloc(SHORT_COMPLETION); /* ends where it says */
        if (exact == NULL)
            return;
        bogus.struct_size = SHORT_COMPLETION;
        memcpy(exact, &bogus, SHORT_COMPLETION);
        fh_complete_bogus(state, exact);
        free(exact);
        break;
    case FH_COMPLETES_WRONG_TICKET:
        bogus.ticket += 1000;
        fh_complete_bogus(state, &bogus);
        break;
    case FH_COMPLETES_NULL:
        fh_complete_bogus(state, NULL);
        break;
    default:
        break;
    }
}

static void spoil(enum fh_fault fault, NxmemReleaseCompletion *completion)
{
    NxmemReleaseOutcome *outcome = &completion->outcome;

    if (fault == FH_COMPLETES_HUGE) {
        outcome->allocation_bytes = 2 * huge;
        outcome->unmapped_bytes = huge;
    }
    if (fault == FH_COMPLETES_QUARANTINED) {
        outcome->state = NXMEM_RELEASE_QUARANTINED;
        outcome->unmapped_bytes /= 2;
        outcome->residual_owned_bytes = outcome->allocation_bytes - outcome->unmapped_bytes;
        outcome->failure = nxp_status(NXMEM_STATUS_RELEASE_QUARANTINED, "planted: half is kept");
    }
}

/* Retires one entry; *first is the completion of the first one of this drain. What the host says to it. */
static uint32_t retire_one(struct fh_state *state, struct nxp_block *block, NxmemReleaseCompletion *first, bool is_first)
{
    struct nxp_allocator *allocator = &state->lazy.base;
    NxmemReleaseCompletion completion = completion_of(allocator, block);
    uint32_t code;

    if (state->fault == FH_COMPLETES_SLOWLY && start_worker(allocator, block))
        return NXMEM_STATUS_OK;
    spoil(state->fault, &completion);
    retire(allocator, block);
    report_bogus(state, &completion);
    if (state->fault == FH_COMPLETES_FIRST_FOR_ALL && !is_first)
        fh_complete_bogus(state, first);
    code = state->fault == FH_COMPLETES_AT_ONCE ? report_from_all(state, &completion) : report(allocator, &completion);
    if (is_first)
        *first = completion;
    nxp_allocator_unref(allocator);
    return code;
}

static NxmemStatus drain(void *ctx, uint64_t max_releases, uint64_t *retired)
{
    struct fh_state *state = ctx;
    struct nxp_allocator *allocator = &state->lazy.base;
    uint32_t code = NXMEM_STATUS_OK;
    NxmemReleaseCompletion first;
    struct nxp_block *block;
    uint64_t done = 0;

    fh_count(FH_COUNT_Drains);
    if (state->fault == FH_DRAIN_LIES || state->fault == FH_DRAIN_FAILS) {
        *retired = state->fault == FH_DRAIN_LIES ? 5 : 0;
        return state->fault == FH_DRAIN_LIES ? nxp_ok()
                                             : nxp_status(NXMEM_STATUS_INTERNAL_ERROR, "planted: cannot drain");
    }
    nxp_allocator_ref(allocator);
    while (code == NXMEM_STATUS_OK && done < max_releases &&
           (block = take(allocator, state->fault == FH_COMPLETES_BACKWARDS)) != NULL) {
        code = retire_one(state, block, &first, done == 0);
        done++;
    }
    nxp_allocator_unref(allocator);
    *retired = done;
    return code == NXMEM_STATUS_OK ? nxp_ok() : nxp_status(NXMEM_STATUS_CALLBACK_FAILED, "the host refused a completion");
}

static NxmemStatus pending(void *ctx, uint64_t *count)
{
    struct fh_state *state = ctx;

    if (state->fault != FH_PENDING_LIES)
        return state->kit.pending_release_count(ctx, count);
    *count = 0;
    return nxp_ok();
}

void fh_queue_install(struct fh_state *state)
{
    NxmemAllocatorVtable *vtable = &state->lazy.base.vtable;

    if (vtable->enqueue_release == NULL)
        return;
    vtable->drain_releases = drain;
    vtable->pending_release_count = pending;
}
