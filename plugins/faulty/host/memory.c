/* Faults of allocate and of the terminal releases, and of what is asked of the host. */
#include <stdlib.h>
#include <string.h>

#include "plugins/common/slots.h"
#include "plugins/common/status.h"
#include "plugins/faulty/host/faulty_host.h"

enum { UNKNOWN_CODE = 77 };

static const uint64_t huge = UINT64_C(1) << 60;

/* --- the memory -------------------------------------------------------------------------------------------------- */

NxmemStatus fh_backend_allocate(struct nxp_allocator *allocator, const NxmemCudaOrder *order, struct nxp_block *block)
{
    struct fh_state *state = (struct fh_state *)allocator;
    NxmemStatus status = nxp_lazy_allocate(allocator, order, block);

    if (status.code != NXMEM_STATUS_OK || state->reissue == NULL)
        return status;
    /* The address kept back, once more. */
    free(block->ptr);
    block->ptr = state->reissue;
    state->reissue = NULL;
    state->reissued = true;
    state->kept = NULL; /* the block's again */
    return status;
}

/* The block leaves the live set; its bytes stay until the state goes. */
static NxmemStatus keep(struct fh_state *state, const NxmemAllocation *allocation)
{
    struct nxp_allocator *allocator = &state->lazy.base;
    struct nxp_block *block = NULL;
    NxmemStatus status = nxp_allocator_claim(allocator, allocation, &block);

    if (status.code != NXMEM_STATUS_OK)
        return status;
    nxp_lazy_leaves(allocator, block);
    free(state->kept);
    state->kept = block->ptr;
    free(block->backing);
    nxp_allocator_retire(allocator, block);
    return status;
}

/* --- allocate ------------------------------------------------------------------------------------------------------- */

/* An address that is not claimed is not handed out: the block goes again. */
static void withdraw(struct fh_state *state, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    const NxmemAllocation block = {.struct_size = sizeof block,
                                   .mechanism_id = request->mechanism_id,
                                   .allocation_id = request->allocation_id,
                                   .device = request->device,
                                   .ptr = result->ptr,
                                   .bytes = request->bytes,
                                   .align = request->align};
    uint64_t unmapped;

    state->kit.deallocate(&state->lazy.base, &block, &unmapped);
    result->struct_size = 8;
}

static NxmemStatus allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    struct fh_state *state = ctx;
    NxmemStatus status;

    if (state->fault == FH_ASKS_WRONGLY)
        fh_ask_wrongly(state);
    status = state->kit.allocate(ctx, request, result);
    if (status.code != NXMEM_STATUS_OK)
        return status;
    switch (state->fault) {
    case FH_ANSWER_NEWER:
        result->struct_size = 64;
        break;
    case FH_ANSWER_UNSIZED:
        result->struct_size = 0;
        break;
    case FH_ANSWER_CUT:
        withdraw(state, request, result);
        break;
    case FH_OWNS_TOO_MUCH:
        result->owned_bytes = huge;
        result->mapped_bytes = huge;
        break;
    case FH_WRAPS_SPACE:
        result->ptr = (uint8_t *)(uintptr_t)(UINT64_MAX & ~(request->align - 1));
        break;
    default:
        break;
    }
    return status;
}

/* --- release --------------------------------------------------------------------------------------------------------- */

static NxmemStatus deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_bytes)
{
    struct fh_state *state = ctx;
    NxmemAllocation own = *allocation;
    struct nxp_block *block;
    NxmemStatus status;

    fh_count(FH_COUNT_TerminalReleases);
    if (state->fault == FH_WRAPS_SPACE) { /* known by its id; the address is not its own */
        pthread_mutex_lock(&state->lazy.base.lock);
        block = nxp_live_find(&state->lazy.base.live, own.allocation_id);
        if (block != NULL)
            own.ptr = block->ptr;
        pthread_mutex_unlock(&state->lazy.base.lock);
    }
    status = state->kit.deallocate(ctx, &own, unmapped_bytes);
    if (status.code == NXMEM_STATUS_OK && state->fault == FH_DEALLOCATE_OVERCLAIMS)
        *unmapped_bytes = huge;
    return status;
}

static bool keeps(const struct fh_state *state)
{
    return (state->fault == FH_REISSUES && !state->reissued) || state->fault == FH_OUTCOME_CUT ||
           state->fault == FH_RELEASE_UNKNOWN_STATUS;
}

/* What is said of a block whose bytes were kept. */
static NxmemStatus kept(struct fh_state *state, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome)
{
    if (state->fault == FH_RELEASE_UNKNOWN_STATUS)
        return nxp_status(UNKNOWN_CODE, "planted: a status from the future");
    if (state->fault == FH_OUTCOME_CUT) {
        outcome->struct_size = sizeof outcome->struct_size;
        return nxp_ok();
    }
    state->reissue = allocation->ptr;
    outcome->state = NXMEM_RELEASE_QUARANTINED;
    outcome->allocation_bytes = allocation->bytes;
    outcome->residual_owned_bytes = allocation->bytes;
    outcome->failure = nxp_status(NXMEM_STATUS_RELEASE_QUARANTINED, "planted: kept, for now");
    return nxp_ok();
}

static NxmemStatus release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome)
{
    struct fh_state *state = ctx;
    NxmemStatus status;

    fh_count(FH_COUNT_TerminalReleases);
    if (keeps(state) && outcome != NULL && outcome->struct_size >= sizeof *outcome &&
        keep(state, allocation).code == NXMEM_STATUS_OK)
        return kept(state, allocation, outcome);
    /* Also what is to be refused: as the kit does. */
    status = nxp_slot_release_allocation(ctx, allocation, outcome);
    if (status.code != NXMEM_STATUS_OK)
        return status;
    if (state->fault == FH_OUTCOME_NEWER)
        outcome->struct_size = 512;
    if (state->fault == FH_OUTCOME_UNSIZED)
        outcome->struct_size = 0;
    return status;
}

void fh_memory_install(struct fh_state *state)
{
    NxmemAllocatorVtable *vtable = &state->lazy.base.vtable;

    vtable->allocate = allocate;
    vtable->deallocate = deallocate;
    if (vtable->release_allocation != NULL)
        vtable->release_allocation = release_allocation;
}

/* --- the host's callbacks, misused ------------------------------------------------------------------------------------- */

static void judge(const NxmemStatus *answer)
{
    fh_count(FH_COUNT_BogusCalls);
    if (answer->code == NXMEM_STATUS_OK)
        fh_count(FH_COUNT_BogusAccepted);
}

static void ask(const NxmemHostCallbacks *host, NxmemReclaimRequest request)
{
    uint64_t reclaimed = 0;
    NxmemStatus status = host->request_reclaim(host->host_ctx, &request, &reclaimed);

    judge(&status);
}

void fh_ask_wrongly(struct fh_state *state)
{
    const NxmemHostCallbacks *host = &state->lazy.base.callbacks;
    NxmemReclaimRequest request = {.struct_size = sizeof request,
                                   .mechanism_id = state->lazy.base.vtable.mechanism_id,
                                   .device = {NXMEM_TIER_HOST, 0},
                                   .bytes = 4096};
    NxmemReclaimRequest elsewhere = request, nowhere = request, cut = request;
    uint64_t reclaimed = 0;
    NxmemStatus status;

    if (host->request_reclaim == NULL)
        return;
    elsewhere.device.index = 1;
    ask(host, elsewhere);
    nowhere.device.tier = 4242;
    ask(host, nowhere);
    cut.struct_size = 16;
    ask(host, cut);
    status = host->request_reclaim(host->host_ctx, NULL, &reclaimed);
    judge(&status);
    status = host->request_reclaim(host->host_ctx, &request, NULL);
    judge(&status);
    status = host->request_reclaim(NULL, &request, &reclaimed);
    judge(&status);
}

void fh_complete_bogus(struct fh_state *state, const NxmemReleaseCompletion *completion)
{
    const NxmemHostCallbacks *host = &state->lazy.base.callbacks;
    NxmemStatus status;

    if (host->release_completed == NULL)
        return;
    status = host->release_completed(host->host_ctx, completion);
    judge(&status);
}
