#include "deferred.h"

#include <stddef.h>
#include <string.h>

#include "accounts.h"
#include "allocator_state.h"
#include "error.h"
#include "lock.h"
#include "log.h"
#include "mem.h"
#include "prefix.h"
#include "quiet.h"
#include "status.h"
#include "terminal.h"

#define TEARDOWN_PASSES 16

/* In `outstanding`: the allocator is gone and what is left of the record belongs to the queued releases. One
 * word holds both facts, so that exactly one of teardown and last completion sees itself as the last. */
#define TORN_DOWN (UINT64_C(1) << 63)

/* --- who is last ----------------------------------------------------------------------------------------- */

void nxm_deferred_free(struct nxm_allocator *allocator)
{
    nxm_queued_clear(&allocator->queued);
    nxm_quarantine_clear(&allocator->quarantine);
    nxm_views_clear(&allocator->views);
    nxm_mem_free(allocator);
}

void nxm_deferred_end(struct nxm_allocator *allocator)
{
    struct nxm_allocator_options options = allocator->options;

    nxm_deferred_free(allocator);
    nxm_lock_assert_none();
    if (options.ended != NULL)
        options.ended(options.owner);
}

static uint64_t outstanding(struct nxm_allocator *allocator)
{
    return atomic_load_explicit(&allocator->outstanding, memory_order_acquire) & ~TORN_DOWN;
}

bool nxm_deferred_is_outstanding(const struct nxm_allocator *allocator)
{
    return atomic_load_explicit(&allocator->outstanding, memory_order_acquire) != 0;
}

bool nxm_deferred_abandon(struct nxm_allocator *allocator)
{
    return atomic_fetch_or_explicit(&allocator->outstanding, TORN_DOWN, memory_order_acq_rel) == 0;
}

/* The last thing that happens to a queued release, with its pin given back: from here on the record may be freed by somebody else. A record
 * that teardown had to leak is reclaimed here, but its module reference is not given back: the plugin's
 * code that called us is still running. */
static void outstanding_drop(struct nxm_allocator *allocator)
{
    nxm_pins_give(&allocator->options.pins);
    if (atomic_fetch_sub_explicit(&allocator->outstanding, 1, memory_order_acq_rel) != (TORN_DOWN | 1))
        return;
    nxm_module_unlist(allocator->module, &allocator->tenant);
    nxm_deferred_end(allocator);
    nxm_module_count_reclaimed_table();
}

/* --- callback: a completion ------------------------------------------------------------------------------ */

static NxmemStatus refuse_completion(uint32_t code, const char *why)
{
    static int warned;

    nxm_log_once(
        &warned,
        "a plugin's release completion was refused: %s (nothing was counted; report it to the plugin's author)", why);
    return nxm_status_make(code, why);
}

/* `stayed`: the release is counted as outstanding, and only that keeps the record. Else its enqueuer is still there, waits for
 * the entry to be finished, and keeps it until then. */
static inline void complete(struct nxm_allocator *allocator, struct nxm_entry *entry, NxmemReleaseCompletion *completion, bool stayed,
                            uint32_t here)
{
    bool told = __builtin_expect(allocator->options.completed != NULL, 0);
    struct nxm_release release = nxm_terminal_judge_outcome(&completion->outcome, &entry->block);
    struct nxm_block block;

    release.ticket = completion->ticket;
    if (told)
        block = entry->block;
    if (told)
        nxm_spread_add_at(&allocator->sums, here, NXM_SUM_TELLING, 1);
    if (told && !stayed) /* the foreign function may take its time: nobody waits for it */
        atomic_fetch_add_explicit(&allocator->outstanding, 1, memory_order_acq_rel);
    nxm_spread_note_at(&allocator->sums, here, NXM_SUM_QUEUED, UINT64_MAX);
    nxm_accounts_settle(allocator, &entry->block, &release);
    if (!told && !stayed)
        nxm_pins_give(&allocator->options.pins);
    nxm_queued_finish(&allocator->queued, entry, &release);
    if (!told && !stayed)
        return; /* the record may be gone */
    nxm_lock_assert_none();
    if (told) {
        allocator->options.completed(allocator->options.owner, &block, &release);
        nxm_spread_add_at(&allocator->sums, here, NXM_SUM_TELLING, UINT64_MAX);
    }
    outstanding_drop(allocator);
}

/* A whole one, as nearly all are, is copied here and now. */
static bool read_completion(const NxmemReleaseCompletion *published, NxmemReleaseCompletion *ret_completion,
                            NxmemStatus *ret_refusal)
{
    if ((uintptr_t)published % _Alignof(uint64_t) == 0 && published->struct_size >= sizeof *published) {
        memcpy(ret_completion, published, NXM_COMPLETION_READ);
        return true;
    }
    *ret_refusal = nxm_prefix_copy(published, sizeof *ret_completion, ret_completion, NXM_COMPLETION_READ);
    if (ret_refusal->code == NXMEM_STATUS_OK)
        return true;
    *ret_refusal = refuse_completion(ret_refusal->code, (const char *)ret_refusal->message);
    return false;
}

/* False: *ret_refusal says why. A status is 264 bytes, so the usual answer makes none here. */
static inline bool take_completion(struct nxm_allocator *allocator, const NxmemReleaseCompletion *published, uint32_t here,
                                   NxmemStatus *ret_refusal)
{
    NxmemReleaseCompletion completion;
    struct nxm_entry *entry;
    bool stayed;

    if (!read_completion(published, &completion, ret_refusal))
        return false;
    if (completion.mechanism_id != allocator->vtable.mechanism_id) {
        *ret_refusal = refuse_completion(NXMEM_STATUS_WRONG_MECHANISM, "it names another mechanism");
        return false;
    }
    if (nxm_queued_hand_over(&allocator->queued, &completion))
        return true;
    entry = nxm_queued_take(&allocator->queued, completion.allocation_id, completion.ticket, &stayed);
    if (entry == NULL) {
        *ret_refusal = refuse_completion(NXMEM_STATUS_UNKNOWN_ALLOCATION,
                                         "no queued release has this allocation id and ticket");
        return false;
    }
    complete(allocator, entry, &completion, stayed, here);
    return true;
}

/* The module outlives the record, which the completion may have freed: the gate is shut while somebody is inside. */
static __attribute__((noinline)) NxmemStatus release_completed_somewhere(void *host_ctx, const NxmemReleaseCompletion *published)
{
    struct nxm_allocator *allocator = host_ctx;
    struct nxm_spread *tallies; /* the module's */
    uint32_t here = nxm_spread_here();
    NxmemStatus refusal;
    bool taken;

    if (host_ctx == NULL || published == NULL)
        return refuse_completion(NXMEM_STATUS_INVALID_ARGUMENT, "null pointer");
    tallies = allocator->tallies;
    nxm_spread_note_at(tallies, here, NXM_TALLY_INSIDE, 1);
    taken = take_completion(allocator, published, here, &refusal);
    nxm_spread_note_at(tallies, here, NXM_TALLY_INSIDE, UINT64_MAX);
    if (taken)
        return nxm_status_ok();
    return refusal;
}

/* To the thread that is inside the plugin for it anyway, most often. */
static NxmemStatus release_completed(void *host_ctx, const NxmemReleaseCompletion *published)
{
    struct nxm_seat *seat = nxm_own.asking;

    if (__builtin_expect(published != NULL && seat != NULL && seat->owner == host_ctx, 1) &&
        nxm_quiet_hand_over(seat, ((struct nxm_allocator *)host_ctx)->vtable.mechanism_id, published))
        return nxm_status_ok();
    return release_completed_somewhere(host_ctx, published);
}

/* --- callback: a request for memory ---------------------------------------------------------------------- */

static NxmemStatus serve_reclaim(struct nxm_allocator *allocator, const NxmemReclaimRequest *published,
                                 uint64_t *ret_reclaimed)
{
    NxmemReclaimRequest request;
    NxmemStatus status = nxm_prefix_copy(published, sizeof request, &request, sizeof request);
    int64_t reclaimed;

    if (status.code != NXMEM_STATUS_OK)
        return status;
    if (allocator->options.reclaim == NULL)
        return nxm_status_make(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "the host has no reclaim path");
    if (request.device.tier > NXMEM_TIER_DISK)
        return nxm_status_make(NXMEM_STATUS_INVALID_ARGUMENT, "unknown memory tier");
    if (request.device.tier != allocator->device.tier || request.device.index != allocator->device.index)
        return nxm_status_make(NXMEM_STATUS_WRONG_DEVICE,
                               "reclaim asked for a device that this allocator does not serve");
    nxm_lock_assert_none();
    reclaimed = allocator->options.reclaim(allocator->options.owner, allocator, request.device, request.bytes);
    if (reclaimed < 0)
        return nxm_status_make(NXMEM_STATUS_CALLBACK_FAILED, "the host's reclaim failed");
    *ret_reclaimed = (uint64_t)reclaimed;
    return nxm_status_ok();
}

static NxmemStatus request_reclaim(void *host_ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed)
{
    struct nxm_allocator *allocator = host_ctx;
    uint32_t here = nxm_spread_here();
    NxmemStatus status;

    if (reclaimed != NULL)
        *reclaimed = 0;
    if (host_ctx == NULL || request == NULL || reclaimed == NULL)
        return nxm_status_make(NXMEM_STATUS_INVALID_ARGUMENT, "null pointer in a request to reclaim");
    nxm_spread_add_at(allocator->tallies, here, NXM_TALLY_INSIDE, 1);
    atomic_fetch_add_explicit(&allocator->reclaim_calls, 1, memory_order_relaxed);
    status = serve_reclaim(allocator, request, reclaimed);
    if (status.code != NXMEM_STATUS_OK)
        atomic_fetch_add_explicit(&allocator->reclaim_failures, 1, memory_order_relaxed);
    nxm_spread_add_at(allocator->tallies, here, NXM_TALLY_INSIDE, UINT64_MAX);
    return status;
}

void nxm_deferred_init(struct nxm_allocator *allocator)
{
    allocator->callbacks = (NxmemHostCallbacks){
        .struct_size = sizeof allocator->callbacks,
        .abi_minor = nxm_module_minor(allocator->module),
        .host_ctx = allocator,
        .request_reclaim = request_reclaim,
        .release_completed = release_completed,
    };
    nxm_queued_init(&allocator->queued, allocator);
    atomic_init(&allocator->outstanding, 0);
}

/* --- enqueue ----------------------------------------------------------------------------------------------- */

static bool can_enqueue(const struct nxm_allocator *allocator)
{
    return (allocator->capabilities & NXMEM_CAPABILITY_DEFERRED_RELEASE) != 0 &&
           allocator->vtable.enqueue_release != NULL;
}

/* The completion came first, whatever the plugin answered afterwards: nothing is left to undo. */
static int already_completed(struct nxm_allocator *allocator, struct nxm_entry *entry, struct nxm_release *ret_release,
                             struct nxm_error *ret_error)
{
    struct nxm_release release = entry->release;

    nxm_queued_recycle(&allocator->queued, entry);
    if (release.outcome == NXM_RELEASE_FAILED)
        return nxm_error_set(ret_error, NXM_ECALL, release.status,
                             "mechanism %s completed a queued release as failed: the block is live again",
                             allocator->name);
    *ret_release = release;
    return NXM_OK;
}

static __attribute__((noinline)) int refused_by_plugin(struct nxm_allocator *allocator, struct nxm_entry *entry, const NxmemStatus *status,
                             struct nxm_release *ret_release, struct nxm_error *ret_error)
{
    struct nxm_block block = entry->block;
    struct nxm_release release = nxm_terminal_judge_status(status->code, &block);

    nxm_queued_recycle(&allocator->queued, entry);
    nxm_spread_lower(&allocator->sums, NXM_SUM_QUEUED, 1);
    nxm_accounts_settle(allocator, &block, &release);
    nxm_pins_give(&allocator->options.pins);
    if (release.outcome == NXM_RELEASE_FAILED)
        return nxm_status_refusal(status, "enqueue_release", ret_error);
    *ret_release = release;
    return NXM_OK;
}

static NxmemStatus call_enqueue(struct nxm_allocator *allocator, const NxmemAllocation *allocation, nxm_enqueue_call call,
                                void *argument, uint64_t *ret_ticket)
{
    nxm_lock_assert_none();
    if (call != NULL)
        return call(argument, allocation, ret_ticket);
    return allocator->vtable.enqueue_release(allocator->vtable.ctx, allocation, ret_ticket);
}

/* What may stay is outstanding before anybody can complete it as such; the caller's reference keeps the record meanwhile. */
static inline enum nxm_settled settle(struct nxm_allocator *allocator, struct nxm_entry *entry, bool accepted, uint64_t ticket)
{
    enum nxm_settled settled;

    if (nxm_queued_is_over(entry))
        return NXM_SETTLED_COMPLETED;
    if (!accepted)
        return nxm_queued_settle(&allocator->queued, entry, accepted, ticket);
    atomic_fetch_add_explicit(&allocator->outstanding, 1, memory_order_acq_rel);
    settled = nxm_queued_settle(&allocator->queued, entry, accepted, ticket);
    if (settled != NXM_SETTLED_STAYS)
        atomic_fetch_sub_explicit(&allocator->outstanding, 1, memory_order_acq_rel);
    return settled;
}

static inline __attribute__((always_inline)) int ask_plugin(struct nxm_allocator *allocator, const struct nxm_block *block,
                                                            struct nxm_entry *entry, nxm_enqueue_call call, void *argument,
                                                            struct nxm_release *ret_release, struct nxm_error *ret_error)
{
    NxmemAllocation allocation = nxm_terminal_allocation(&allocator->vtable, block);
    uint64_t ticket = 0;

    /* Counted, then findable, then asked for: the plugin may complete from inside the call. */
    nxm_spread_note_at(&allocator->sums, nxm_spread_here(), NXM_SUM_QUEUED, 1);
    nxm_queued_publish(&allocator->queued, entry);
    NxmemStatus status = call_enqueue(allocator, &allocation, call, argument, &ticket);
    if (status.code == NXMEM_STATUS_OK)
        nxm_views_retire(&allocator->views, block->id); /* at this moment, not when the bytes are freed (14.8) */
    switch (settle(allocator, entry, status.code == NXMEM_STATUS_OK, ticket)) {
    case NXM_SETTLED_COMPLETED:
        return already_completed(allocator, entry, ret_release, ret_error);
    case NXM_SETTLED_WITHDRAWN:
        return refused_by_plugin(allocator, entry, &status, ret_release, ret_error);
    case NXM_SETTLED_STAYS:
    default:
        *ret_release = (struct nxm_release){ .outcome = NXM_RELEASE_QUEUED, .ticket = ticket };
        return NXM_OK;
    }
}

/* In the callback that came from inside the call everything but this has been left. */
static int settle_completion(struct nxm_allocator *allocator, struct nxm_entry *entry, NxmemReleaseCompletion *completion,
                             struct nxm_release *ret_release, struct nxm_error *ret_error)
{
    entry->release = nxm_terminal_judge_outcome(&completion->outcome, &entry->block);
    entry->release.ticket = completion->ticket;
    nxm_spread_lower(&allocator->sums, NXM_SUM_QUEUED, 1);
    nxm_accounts_settle(allocator, &entry->block, &entry->release);
    nxm_pins_give(&allocator->options.pins);
    return already_completed(allocator, entry, ret_release, ret_error);
}

int nxm_deferred_settle_quiet(struct nxm_allocator *allocator, struct nxm_seat *seat, const struct nxm_block *block, bool complete,
                              const NxmemStatus *status, uint64_t ticket, struct nxm_release *ret_release, struct nxm_error *ret_error)
{
    bool accepted = status->code == NXMEM_STATUS_OK;
    NxmemReleaseCompletion completion = {
        .ticket = ticket,
        .outcome = { .struct_size = sizeof completion.outcome, .state = NXMEM_RELEASE_COMPLETE, .unmapped_bytes = block->bytes },
    };
    enum nxm_settled settled;
    struct nxm_entry *entry;

    if (accepted)
        nxm_views_retire(&allocator->views, block->id);
    atomic_fetch_add_explicit(&allocator->outstanding, 1, memory_order_acq_rel); /* before anybody can complete what stays */
    settled = nxm_queued_settle_quiet(&allocator->queued, seat, block, complete, accepted, ticket, &completion, &entry);
    if (settled == NXM_SETTLED_STAYS) {
        *ret_release = (struct nxm_release){ .outcome = NXM_RELEASE_QUEUED, .ticket = ticket };
        return NXM_OK;
    }
    atomic_fetch_sub_explicit(&allocator->outstanding, 1, memory_order_acq_rel);
    if (settled == NXM_SETTLED_WITHDRAWN)
        return refused_by_plugin(allocator, entry, status, ret_release, ret_error);
    return settle_completion(allocator, entry, &completion, ret_release, ret_error);
}

/* Nothing has been counted and nobody entered: the block goes back to the state it had. */
static void unclaim(struct nxm_allocator *allocator, const struct nxm_block *block)
{
    nxm_blocks_claim(allocator->options.blocks, block->address, block->id, NXM_BLOCK_RELEASING,
                     (enum nxm_block_state)block->state, NULL);
}

int nxm_allocator_enqueue_claimed(struct nxm_allocator *allocator, const struct nxm_block *block, nxm_enqueue_call call,
                                  void *argument, struct nxm_release *ret_release, struct nxm_error *ret_error)
{
    struct nxm_entry *entry = nxm_queued_reserve(&allocator->queued, block);

    if (entry == NULL) {
        unclaim(allocator, block);
        return nxm_error_set(ret_error, NXM_ENOMEM, 0, "no memory to queue a release");
    }
    if (!nxm_pins_take(&allocator->options.pins)) {
        nxm_queued_recycle(&allocator->queued, entry);
        unclaim(allocator, block);
        return nxm_error_set(ret_error, NXM_ERETIRED, 0,
                             "mechanism %s: its provider context is no longer accepting work", allocator->name);
    }
    return ask_plugin(allocator, block, entry, call, argument, ret_release, ret_error);
}

bool nxm_allocator_is_releasing(const struct nxm_allocator *allocator, uint64_t address)
{
    return nxm_queued_is_releasing(&allocator->queued, address);
}

void nxm_allocator_show_releasing(struct nxm_allocator *allocator)
{
    struct nxm_blocks *blocks = allocator->options.blocks;
    uint64_t address, id, then;
    struct nxm_block block;

    for (unsigned i = 0; i < NXM_QUEUED_SEATS; i++) {
        if (!nxm_queued_is_quiet_at(&allocator->queued, i, &address, &id) || !nxm_blocks_find_gone(blocks, address, &block) || block.id != id)
            continue;
        block.state = NXM_BLOCK_RELEASING;
        if (nxm_blocks_insert_again(blocks, &block) == NXM_OK &&
            !(nxm_queued_is_quiet_at(&allocator->queued, i, &address, &then) && then == id)) /* it is over */
            nxm_blocks_remove(blocks, block.address, id);
    }
}

static int no_deferred_release(const struct nxm_allocator *allocator, struct nxm_error *ret_error)
{
    return nxm_error_set(ret_error, NXM_EUNSUPPORTED, 0, "mechanism %s has no deferred release", allocator->name);
}

int nxm_allocator_enqueue(struct nxm_allocator *allocator, uint64_t address, uint64_t id, unsigned from,
                          nxm_enqueue_call call, void *argument, struct nxm_release *ret_release,
                          struct nxm_error *ret_error)
{
    struct nxm_block block;
    int result;

    if (call == NULL && !can_enqueue(allocator))
        return no_deferred_release(allocator, ret_error);
    result = nxm_accounts_claim(allocator, address, id, from, NULL, &block, ret_error);
    return result != NXM_OK ? result : nxm_allocator_enqueue_claimed(allocator, &block, call, argument, ret_release, ret_error);
}

int nxm_allocator_enqueue_shaped(struct nxm_allocator *allocator, uint64_t address, uint64_t bytes, uint64_t align,
                                 struct nxm_release *ret_release, struct nxm_error *ret_error)
{
    struct nxm_shape shape = { bytes, align };
    struct nxm_block block;
    int result;

    if (!can_enqueue(allocator))
        return no_deferred_release(allocator, ret_error);
    result = nxm_accounts_claim(allocator, address, 0, NXM_BLOCK_LIVE, &shape, &block, ret_error);
    return result != NXM_OK ? result : nxm_allocator_enqueue_claimed(allocator, &block, NULL, NULL, ret_release, ret_error);
}

/* --- drain -------------------------------------------------------------------------------------------------- */

static NxmemStatus drain_once(struct nxm_allocator *allocator, uint64_t budget, uint64_t *ret_retired)
{
    *ret_retired = 0;
    nxm_lock_assert_none();
    return allocator->vtable.drain_releases(allocator->vtable.ctx, budget, ret_retired);
}

int nxm_allocator_drain_some(struct nxm_allocator *allocator, uint64_t budget, uint64_t *ret_retired,
                             struct nxm_error *ret_error)
{
    NxmemStatus status;

    *ret_retired = 0;
    if (allocator->vtable.drain_releases == NULL)
        return NXM_OK;
    status = drain_once(allocator, budget, ret_retired);
    return status.code == NXMEM_STATUS_OK ? NXM_OK : nxm_status_refusal(&status, "drain_releases", ret_error);
}

uint64_t nxm_allocator_drain(struct nxm_allocator *allocator, uint64_t budget)
{
    uint64_t retired;

    nxm_allocator_drain_some(allocator, budget, &retired, NULL);
    return retired;
}

void nxm_deferred_drain_all(struct nxm_allocator *allocator)
{
    uint64_t retired = 1;

    if (allocator->vtable.drain_releases == NULL)
        return;
    for (int pass = 0; pass < TEARDOWN_PASSES && retired != 0 && outstanding(allocator) != 0; pass++) {
        if (drain_once(allocator, UINT64_MAX, &retired).code != NXMEM_STATUS_OK)
            return;
    }
}

uint64_t nxm_allocator_pending(struct nxm_allocator *allocator)
{
    uint64_t count = 0;

    if (allocator->vtable.pending_release_count == NULL)
        return 0;
    nxm_lock_assert_none();
    if (allocator->vtable.pending_release_count(allocator->vtable.ctx, &count).code != NXMEM_STATUS_OK)
        return outstanding(allocator); /* it did not say: our own count stands in */
    return count;
}
