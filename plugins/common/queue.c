/* Queued releases (nxmem 1.1, 15.2 to 15.4). */
#include <string.h>

#include "plugins/common/allocator.h"
#include "plugins/common/status.h"
#include "plugins/common/tallies.h"

NxmemStatus nxp_allocator_complete(struct nxp_allocator *allocator, const struct nxp_block *block, uint32_t state,
                                   const NxmemStatus *failure)
{
    const NxmemHostCallbacks *host = &allocator->callbacks;
    NxmemReleaseCompletion completion;

    if (host->release_completed == NULL)
        return nxp_ok();
    memset(&completion, 0, sizeof completion);
    completion.struct_size = sizeof completion;
    completion.ticket = block->ticket;
    completion.mechanism_id = allocator->vtable.mechanism_id;
    completion.allocation_id = block->id;
    completion.outcome.struct_size = sizeof completion.outcome;
    completion.outcome.state = state;
    completion.outcome.failure = *failure;
    if (state == NXMEM_RELEASE_COMPLETE) {
        completion.outcome.allocation_bytes = block->bytes;
        completion.outcome.unmapped_bytes = block->committed;
    }
    return host->release_completed(host->host_ctx, &completion);
}

static NxmemStatus refused_completion(const NxmemStatus *refusal)
{
    struct nxp_message message = {.length = 0};

    nxp_message_add(&message, "the block is gone, but the host refused its completion (status ");
    nxp_message_add_number(&message, refusal->code);
    nxp_message_add(&message, "): it must not be released again");
    return nxp_status_from(NXMEM_STATUS_CALLBACK_FAILED, &message);
}

/* Under the lock: the table moves the block's chain when it grows, whoever owns the rest. */
static struct nxp_block copy_of(struct nxp_allocator *allocator, const struct nxp_block *block)
{
    struct nxp_block copy;

    pthread_mutex_lock(&allocator->lock);
    copy = *block;
    pthread_mutex_unlock(&allocator->lock);
    return copy;
}

/* For a mechanism that need not wait: the bytes go now, the completion comes inside the call. */
static NxmemStatus release_inside(struct nxp_allocator *allocator, const NxmemCudaOrder *order,
                                  struct nxp_block *block, uint64_t *ticket)
{
    NxmemStatus status, answer;
    struct nxp_block gone;

    nxp_tally_up(NXP_TALLY_QUEUED);
    status = allocator->backend->release(allocator, order, block);
    if (status.code != NXMEM_STATUS_OK) {
        nxp_tally_down(NXP_TALLY_QUEUED);
        nxp_allocator_restore(allocator, block);
        return status;
    }
    gone = copy_of(allocator, block);
    gone.ticket = nxp_next_ticket();
    *ticket = gone.ticket;
    nxp_allocator_retire(allocator, block);
    nxp_tally_down(NXP_TALLY_QUEUED);
    answer = nxp_allocator_complete(allocator, &gone, NXMEM_RELEASE_COMPLETE, &status);
    return answer.code == NXMEM_STATUS_OK ? status : refused_completion(&answer);
}

static void append(struct nxp_allocator *allocator, struct nxp_block *block, uint64_t *ticket)
{
    /* Both before anybody can see the entry: a drain on another thread may retire it at once. */
    nxp_allocator_ref(allocator);
    nxp_tally_up(NXP_TALLY_QUEUED);
    pthread_mutex_lock(&allocator->lock);
    block->ticket = nxp_next_ticket(); /* under the lock: tickets stand in the queue in their order */
    *ticket = block->ticket;
    block->state = NXP_QUEUED;
    block->next = NULL;
    if (allocator->queue_tail != NULL)
        allocator->queue_tail->next = block;
    else
        allocator->queue_head = block;
    allocator->queue_tail = block;
    allocator->pending++;
    pthread_mutex_unlock(&allocator->lock);
}

NxmemStatus nxp_allocator_enqueue(struct nxp_allocator *allocator, const NxmemCudaOrder *order,
                                  const NxmemAllocation *allocation, uint64_t *ticket)
{
    struct nxp_block *block = NULL;
    NxmemStatus status;

    if (ticket == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no place for the ticket");
    status = nxp_allocator_claim(allocator, allocation, &block);
    if (status.code != NXMEM_STATUS_OK)
        return status;
    if (!allocator->backend->queues)
        return release_inside(allocator, order, block, ticket);
    if (allocator->backend->leaves != NULL)
        allocator->backend->leaves(allocator, block);
    append(allocator, block, ticket);
    return status;
}

/* Takes up to `max` entries off the queue. NULL while another drain runs. */
static struct nxp_block *detach(struct nxp_allocator *allocator, uint64_t max)
{
    struct nxp_block *batch = NULL, *last = NULL;

    pthread_mutex_lock(&allocator->lock);
    if (!allocator->draining && max > 0 && allocator->queue_head != NULL) {
        allocator->draining = true;
        batch = last = allocator->queue_head;
        while (--max > 0 && last->next != NULL)
            last = last->next;
        allocator->queue_head = last->next;
        if (last->next == NULL)
            allocator->queue_tail = NULL;
        last->next = NULL;
    }
    pthread_mutex_unlock(&allocator->lock);
    return batch;
}

/* Ends a drain; what it did not get to goes back in front. */
static void reattach(struct nxp_allocator *allocator, struct nxp_block *rest)
{
    struct nxp_block *last = rest;

    pthread_mutex_lock(&allocator->lock);
    if (rest != NULL) {
        while (last->next != NULL)
            last = last->next;
        last->next = allocator->queue_head;
        allocator->queue_head = rest;
        if (allocator->queue_tail == NULL)
            allocator->queue_tail = last;
    }
    allocator->draining = false;
    pthread_mutex_unlock(&allocator->lock);
}

/* Frees one detached block and tells the host; the entry's reference goes whatever the host says. */
static NxmemStatus finish(struct nxp_allocator *allocator, struct nxp_block *block)
{
    NxmemStatus status = allocator->backend->release(allocator, NULL, block);
    struct nxp_block ended = copy_of(allocator, block);
    uint32_t state = NXMEM_RELEASE_COMPLETE;

    pthread_mutex_lock(&allocator->lock);
    allocator->pending--;
    pthread_mutex_unlock(&allocator->lock);
    if (status.code == NXMEM_STATUS_OK) {
        nxp_allocator_retire(allocator, block);
    } else {
        state = NXMEM_RELEASE_FAILED;
        nxp_allocator_restore(allocator, block);
    }
    nxp_tally_down(NXP_TALLY_QUEUED);
    status = nxp_allocator_complete(allocator, &ended, state, &status);
    nxp_allocator_unref(allocator);
    return status;
}

NxmemStatus nxp_allocator_drain(struct nxp_allocator *allocator, uint64_t max_releases, uint64_t *retired)
{
    NxmemStatus status = nxp_ok();
    struct nxp_block *block;
    uint64_t done = 0;

    if (retired == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no place for the number retired");
    /* The last entry may hold the last reference: the host's may go inside a completion. */
    nxp_allocator_ref(allocator);
    block = detach(allocator, max_releases);
    if (block != NULL) {
        while (block != NULL && status.code == NXMEM_STATUS_OK) {
            struct nxp_block *following = block->next; /* the block itself may be gone after finish */

            status = finish(allocator, block);
            block = following;
            done++;
        }
        reattach(allocator, block);
    }
    *retired = done;
    if (status.code != NXMEM_STATUS_OK)
        status = refused_completion(&status);
    nxp_allocator_unref(allocator);
    return status;
}

NxmemStatus nxp_allocator_pending(struct nxp_allocator *allocator, uint64_t *count)
{
    if (count == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no place for the count");
    pthread_mutex_lock(&allocator->lock);
    *count = allocator->pending;
    pthread_mutex_unlock(&allocator->lock);
    return nxp_ok();
}
