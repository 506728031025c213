#include "deferred.h"

#include <stddef.h>

#include "accounts.h"
#include "allocator_state.h"
#include "error.h"
#include "lock.h"
#include "log.h"
#include "mem.h"
#include "prefix.h"
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
    nxm_mem_free(allocator);
}

static uint64_t outstanding(struct nxm_allocator *allocator)
{
    return atomic_load_explicit(&allocator->outstanding, memory_order_acquire) & ~TORN_DOWN;
}

bool nxm_deferred_abandon(struct nxm_allocator *allocator)
{
    return atomic_fetch_or_explicit(&allocator->outstanding, TORN_DOWN, memory_order_acq_rel) == 0;
}

/* The last thing that happens to a queued release: from here on the record may be freed by somebody else. A record
 * that teardown had to leak is reclaimed here, but its module reference is not given back: the plugin's
 * code that called us is still running. */
static void outstanding_drop(struct nxm_allocator *allocator)
{
    if (atomic_fetch_sub_explicit(&allocator->outstanding, 1, memory_order_acq_rel) != (TORN_DOWN | 1))
        return;
    nxm_module_unlist(allocator->module, &allocator->tenant);
    nxm_deferred_free(allocator);
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

static void complete(struct nxm_allocator *allocator, struct nxm_entry *entry, NxmemReleaseCompletion *completion)
{
    struct nxm_block block = entry->block;
    struct nxm_release release = nxm_terminal_judge_outcome(&completion->outcome, &block);

    release.ticket = completion->ticket;
    nxm_module_sub_queued(allocator->module);
    nxm_accounts_settle(allocator, &block, &release);
    nxm_queued_finish(&allocator->queued, entry, &release);
    nxm_lock_assert_none();
    if (allocator->options.completed != NULL)
        allocator->options.completed(allocator->options.owner, &block, &release);
    outstanding_drop(allocator);
}

static NxmemStatus release_completed(void *host_ctx, const NxmemReleaseCompletion *published)
{
    struct nxm_allocator *allocator = host_ctx;
    NxmemReleaseCompletion completion;
    struct nxm_entry *entry;
    NxmemStatus status;

    if (host_ctx == NULL || published == NULL)
        return refuse_completion(NXMEM_STATUS_INVALID_ARGUMENT, "null pointer");
    status = nxm_prefix_copy(published, sizeof completion, &completion, sizeof completion);
    if (status.code != NXMEM_STATUS_OK)
        return refuse_completion(status.code, (const char *)status.message);
    if (completion.mechanism_id != allocator->vtable.mechanism_id)
        return refuse_completion(NXMEM_STATUS_WRONG_MECHANISM, "it names another mechanism");
    entry = nxm_queued_take(&allocator->queued, completion.allocation_id, completion.ticket);
    if (entry == NULL)
        return refuse_completion(NXMEM_STATUS_UNKNOWN_ALLOCATION,
                                 "no queued release has this allocation id and ticket");
    complete(allocator, entry, &completion);
    return nxm_status_ok();
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
    NxmemStatus status;

    if (reclaimed != NULL)
        *reclaimed = 0;
    if (host_ctx == NULL || request == NULL || reclaimed == NULL)
        return nxm_status_make(NXMEM_STATUS_INVALID_ARGUMENT, "null pointer in a request to reclaim");
    atomic_fetch_add_explicit(&allocator->reclaim_calls, 1, memory_order_relaxed);
    status = serve_reclaim(allocator, request, reclaimed);
    if (status.code != NXMEM_STATUS_OK)
        atomic_fetch_add_explicit(&allocator->reclaim_failures, 1, memory_order_relaxed);
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
    nxm_queued_init(&allocator->queued);
    atomic_init(&allocator->outstanding, 0);
}

/* --- enqueue ----------------------------------------------------------------------------------------------- */

static bool can_enqueue(const struct nxm_allocator *allocator)
{
    return (allocator->vtable.capability_flags & NXMEM_CAPABILITY_DEFERRED_RELEASE) != 0 &&
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

static int refused_by_plugin(struct nxm_allocator *allocator, struct nxm_entry *entry, const NxmemStatus *status,
                             struct nxm_release *ret_release, struct nxm_error *ret_error)
{
    struct nxm_block block = entry->block;
    struct nxm_release release = nxm_terminal_judge_status(status->code, &block);

    nxm_queued_recycle(&allocator->queued, entry);
    nxm_module_sub_queued(allocator->module);
    nxm_accounts_settle(allocator, &block, &release);
    outstanding_drop(allocator);
    if (release.outcome == NXM_RELEASE_FAILED)
        return nxm_status_refusal(status, "enqueue_release", ret_error);
    *ret_release = release;
    return NXM_OK;
}

static int enqueue_claimed(struct nxm_allocator *allocator, const struct nxm_block *block, struct nxm_entry *entry,
                           nxm_enqueue_call call, void *argument, struct nxm_release *ret_release,
                           struct nxm_error *ret_error)
{
    NxmemAllocation allocation = nxm_terminal_allocation(&allocator->vtable, block);
    uint64_t ticket = 0;
    NxmemStatus status;

    /* Counted, then findable, then asked for: the plugin may complete from inside the call. */
    nxm_module_add_queued(allocator->module);
    atomic_fetch_add_explicit(&allocator->outstanding, 1, memory_order_acq_rel);
    nxm_queued_publish(&allocator->queued, entry);
    nxm_lock_assert_none();
    status = call != NULL ? call(argument, &allocation, &ticket)
                          : allocator->vtable.enqueue_release(allocator->vtable.ctx, &allocation, &ticket);
    switch (nxm_queued_settle(&allocator->queued, entry, status.code == NXMEM_STATUS_OK, ticket)) {
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

int nxm_allocator_enqueue(struct nxm_allocator *allocator, uint64_t address, uint64_t id, unsigned from,
                          nxm_enqueue_call call, void *argument, struct nxm_release *ret_release,
                          struct nxm_error *ret_error)
{
    struct nxm_entry *entry;
    struct nxm_block block;
    int result;

    if (call == NULL && !can_enqueue(allocator))
        return nxm_error_set(ret_error, NXM_EUNSUPPORTED, 0, "mechanism %s has no deferred release", allocator->name);
    result = nxm_accounts_claim(allocator, address, id, from, NULL, &block, ret_error);
    if (result != NXM_OK)
        return result;
    entry = nxm_queued_reserve(&allocator->queued, &block);
    if (entry != NULL)
        return enqueue_claimed(allocator, &block, entry, call, argument, ret_release, ret_error);
    nxm_blocks_claim(allocator->options.blocks, address, block.id, NXM_BLOCK_RELEASING,
                     (enum nxm_block_state)block.state, NULL);
    return nxm_error_set(ret_error, NXM_ENOMEM, 0, "no memory to queue a release");
}

/* --- drain -------------------------------------------------------------------------------------------------- */

static NxmemStatus drain_once(struct nxm_allocator *allocator, uint64_t budget, uint64_t *ret_retired)
{
    *ret_retired = 0;
    nxm_lock_assert_none();
    return allocator->vtable.drain_releases(allocator->vtable.ctx, budget, ret_retired);
}

uint64_t nxm_allocator_drain(struct nxm_allocator *allocator, uint64_t budget)
{
    uint64_t retired = 0;

    if (allocator->vtable.drain_releases != NULL)
        drain_once(allocator, budget, &retired); /* the count is valid on the error path too */
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
