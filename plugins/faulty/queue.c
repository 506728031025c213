/* Faults of queued releases: refused, completed too often, too late, wrongly or never. */
#include <string.h>

#include "plugins/common/status.h"
#include "plugins/common/tallies.h"
#include "plugins/faulty/faulty.h"

enum {
    STRANGER_ID = 0x57A96E57,
    UNKNOWN_STATE = 0x0BADF00D,
};

/* Reports a completion that a host must refuse, and notes whether it did. */
static void complete_bogus(struct nxp_allocator *allocator, const NxmemAllocation *allocation, uint64_t id,
                           uint64_t ticket)
{
    const struct nxp_block bogus = {.id = id, .bytes = allocation->bytes, .ticket = ticket};
    const NxmemStatus fine = nxp_ok();

    faulty_count(FAULTY_COUNT_BogusCompletions);
    if (nxp_allocator_complete(allocator, &bogus, NXMEM_RELEASE_COMPLETE, &fine).code == NXMEM_STATUS_OK)
        faulty_count(FAULTY_COUNT_BogusAccepted);
}

/* The same under another mechanism's id. */
static void complete_foreign(struct nxp_allocator *allocator, const NxmemAllocation *allocation)
{
    const NxmemHostCallbacks *host = &allocator->callbacks;
    const NxmemReleaseCompletion completion = {
        .struct_size = sizeof completion,
        .ticket = nxp_next_ticket(),
        .mechanism_id = allocation->mechanism_id + 1,
        .allocation_id = allocation->allocation_id,
        .outcome = {.struct_size = sizeof completion.outcome,
                    .state = NXMEM_RELEASE_COMPLETE,
                    .allocation_bytes = allocation->bytes,
                    .unmapped_bytes = allocation->bytes},
    };

    if (host->release_completed == NULL)
        return;
    faulty_count(FAULTY_COUNT_BogusCompletions);
    if (host->release_completed(host->host_ctx, &completion).code == NXMEM_STATUS_OK)
        faulty_count(FAULTY_COUNT_BogusAccepted);
}

/* Claims the block as a queued release: counted and referenced, as every entry is. */
static NxmemStatus take(struct nxp_allocator *allocator, const NxmemAllocation *allocation, uint64_t *ticket,
                        struct nxp_block **ret_block)
{
    NxmemStatus status = nxp_allocator_claim(allocator, allocation, ret_block);

    if (status.code != NXMEM_STATUS_OK)
        return status;
    nxp_allocator_ref(allocator);
    nxp_tally_up(NXP_TALLY_QUEUED);
    (*ret_block)->ticket = nxp_next_ticket();
    *ticket = (*ret_block)->ticket;
    pthread_mutex_lock(&allocator->lock);
    allocator->pending++;
    pthread_mutex_unlock(&allocator->lock);
    return status;
}

/* The other end of take, before the completion is reported. */
static void give_up(struct nxp_allocator *allocator)
{
    pthread_mutex_lock(&allocator->lock);
    allocator->pending--;
    pthread_mutex_unlock(&allocator->lock);
    nxp_tally_down(NXP_TALLY_QUEUED);
}

/* Takes the block and ends it inside the call, in a state other than complete. */
static NxmemStatus complete_as(struct nxp_allocator *allocator, const NxmemAllocation *allocation, uint64_t *ticket,
                               uint32_t state)
{
    const NxmemStatus failure = nxp_status(NXMEM_STATUS_INTERNAL_ERROR, "planted: did not complete");
    struct nxp_block *block = NULL, ended;
    NxmemStatus status = take(allocator, allocation, ticket, &block);

    if (status.code != NXMEM_STATUS_OK)
        return status;
    ended = *block;
    if (state == NXMEM_RELEASE_FAILED)
        nxp_allocator_restore(allocator, block);
    /* Otherwise the block stays claimed, and counted, for good. */
    give_up(allocator);
    nxp_allocator_complete(allocator, &ended, state, &failure);
    nxp_allocator_unref(allocator);
    return status;
}

static NxmemStatus complete_later(struct nxp_allocator *allocator, const NxmemAllocation *allocation,
                                  uint64_t *ticket)
{
    struct nxp_block *block = NULL;
    NxmemStatus status = take(allocator, allocation, ticket, &block);

    if (status.code != NXMEM_STATUS_OK || faulty_worker_start(allocator, block))
        return status;
    nxp_allocator_restore(allocator, block);
    give_up(allocator);
    nxp_allocator_unref(allocator);
    return nxp_status(NXMEM_STATUS_BUSY, "no thread to complete from");
}

static NxmemStatus enqueue_faulty(struct nxp_allocator *allocator, const NxmemCudaOrder *order,
                                  const NxmemAllocation *allocation, uint64_t *ticket)
{
    struct nxp_block *block;
    NxmemStatus status;

    switch (faulty_mechanism_of(allocator)->fault) {
    case FAULTY_ENQUEUE_BUSY_FAULT:
        return nxp_status(NXMEM_STATUS_BUSY, "planted: refuses to queue");
    case FAULTY_COMPLETES_THEN_FAILS_FAULT:
        status = nxp_allocator_enqueue(allocator, order, allocation, ticket);
        return status.code != NXMEM_STATUS_OK
                   ? status
                   : nxp_status(NXMEM_STATUS_INTERNAL_ERROR, "planted: failed after completing");
    case FAULTY_NEVER_COMPLETES_FAULT:
        return take(allocator, allocation, ticket, &block);
    case FAULTY_COMPLETES_TWICE_FAULT:
        status = nxp_allocator_enqueue(allocator, order, allocation, ticket);
        if (status.code == NXMEM_STATUS_OK)
            complete_bogus(allocator, allocation, allocation->allocation_id, *ticket);
        return status;
    case FAULTY_COMPLETES_STRANGER_FAULT:
        complete_bogus(allocator, allocation, STRANGER_ID, nxp_next_ticket());
        return nxp_allocator_enqueue(allocator, order, allocation, ticket);
    case FAULTY_COMPLETES_FOREIGN_FAULT:
        complete_foreign(allocator, allocation);
        return nxp_allocator_enqueue(allocator, order, allocation, ticket);
    case FAULTY_COMPLETES_LATER_FAULT:
        return complete_later(allocator, allocation, ticket);
    case FAULTY_COMPLETES_FAILED_FAULT:
        return complete_as(allocator, allocation, ticket, NXMEM_RELEASE_FAILED);
    default:
        return complete_as(allocator, allocation, ticket, UNKNOWN_STATE);
    }
}

static NxmemStatus enqueue(struct nxp_allocator *allocator, const NxmemCudaOrder *order,
                           const NxmemAllocation *allocation, uint64_t *ticket)
{
    faulty_count(FAULTY_COUNT_Enqueues);
    if (faulty_due(faulty_mechanism_of(allocator), FAULTY_ENQUEUE))
        return enqueue_faulty(allocator, order, allocation, ticket);
    return nxp_allocator_enqueue(allocator, order, allocation, ticket);
}

NxmemStatus faulty_enqueue_release(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket)
{
    return enqueue(ctx, NULL, allocation, ticket);
}

NxmemStatus faulty_enqueue_release_on(void *ctx, const NxmemCudaOrder *order, const NxmemAllocation *allocation,
                                      uint64_t *ticket)
{
    NxmemStatus status = nxp_order_check(order);

    return status.code == NXMEM_STATUS_OK ? enqueue(ctx, order, allocation, ticket) : status;
}

NxmemStatus faulty_drain_releases(void *ctx, uint64_t max_releases, uint64_t *retired)
{
    (void)ctx;
    (void)max_releases;
    faulty_count(FAULTY_COUNT_Drains);
    *retired = faulty_workers_join(true);
    return nxp_ok();
}
