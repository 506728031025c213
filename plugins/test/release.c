/* Allocating, and releasing at once. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/slots.h"
#include "plugins/common/status.h"
#include "plugins/test/testplugin.h"

static atomic_uint_fast64_t terminal_releases, structured_releases;

uint64_t NxmemTestpluginTerminalReleases(void)
{
    return atomic_load(&terminal_releases);
}

uint64_t NxmemTestpluginStructuredReleases(void)
{
    return atomic_load(&structured_releases);
}

/* --- callback-probe -------------------------------------------------------------------------------------------------- */

static NxmemStatus allocate_after_asking(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    struct test_state *state = ctx;
    struct nxp_message message = {.length = 0};
    NxmemStatus status = nxp_allocator_check_request(&state->lazy.base, request, result);
    uint64_t reclaimed;

    if (status.code != NXMEM_STATUS_OK)
        return status;
    status = nxp_allocator_ask_host(&state->lazy.base, request->bytes, &reclaimed);
    if (status.code == NXMEM_STATUS_OK)
        return state->kit.allocate(ctx, request, result);
    nxp_message_add(&message, "the host's reclaim callback refused: ");
    nxp_message_add_status(&message, &status);
    return nxp_status_from(NXMEM_STATUS_CALLBACK_FAILED, &message);
}

/* --- terminal releases ----------------------------------------------------------------------------------------------- */

static NxmemStatus deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_bytes)
{
    const struct test_state *state = ctx;

    atomic_fetch_add(&terminal_releases, 1);
    return state->kit.deallocate(ctx, allocation, unmapped_bytes);
}

/* Half is said to be gone, the rest is kept; in truth all of it stays until the state goes. */
static NxmemReleaseOutcome partial_outcome(uint32_t how, uint64_t bytes, uint64_t committed)
{
    return (NxmemReleaseOutcome){
        .struct_size = sizeof(NxmemReleaseOutcome),
        .state = how,
        .allocation_bytes = bytes,
        .unmapped_bytes = committed / 2,
        .residual_owned_bytes = committed - committed / 2,
        .failure = nxp_status(NXMEM_STATUS_RELEASE_QUARANTINED, "a part of the allocation could not be unmapped"),
    };
}

static NxmemStatus set_aside(struct test_state *state, const NxmemAllocation *allocation, NxmemReleaseOutcome *answer)
{
    struct nxp_allocator *allocator = &state->lazy.base;
    struct test_aside *aside = calloc(1, sizeof *aside);
    struct nxp_block *block = NULL;
    NxmemStatus status;

    if (aside == NULL)
        return nxp_status(NXMEM_STATUS_OUT_OF_MEMORY, "no memory to set the block aside");
    status = nxp_allocator_claim(allocator, allocation, &block);
    if (status.code != NXMEM_STATUS_OK) {
        free(aside);
        return status;
    }
    nxp_lazy_leaves(allocator, block);
    *answer = partial_outcome(state->mechanism->release_state, block->bytes, block->committed);
    aside->memory = block->ptr;
    free(block->backing);
    pthread_mutex_lock(&allocator->lock);
    aside->next = state->aside;
    state->aside = aside;
    pthread_mutex_unlock(&allocator->lock);
    nxp_allocator_retire(allocator, block);
    return status;
}

static NxmemStatus release_partly(struct test_state *state, const NxmemAllocation *allocation,
                                  NxmemReleaseOutcome *outcome)
{
    NxmemReleaseOutcome answer;
    NxmemStatus status;

    if (outcome == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no outcome to write to");
    if (outcome->struct_size < sizeof *outcome)
        return nxp_status(NXMEM_STATUS_SHORT_STRUCT, "the outcome has no room for the answer");
    memset(&answer, 0, sizeof answer);
    status = set_aside(state, allocation, &answer);
    if (status.code != NXMEM_STATUS_OK) {
        answer.state = NXMEM_RELEASE_FAILED;
        answer.failure = status;
    }
    nxp_answer(outcome, &answer, sizeof answer);
    return status;
}

static NxmemStatus release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome)
{
    struct test_state *state = ctx;

    atomic_fetch_add(&terminal_releases, 1);
    atomic_fetch_add(&structured_releases, 1);
    if (state->mechanism->release_state != NXMEM_RELEASE_COMPLETE)
        return release_partly(state, allocation, outcome);
    return nxp_slot_release_allocation(ctx, allocation, outcome);
}

void test_aside_clear(struct test_state *state)
{
    while (state->aside != NULL) {
        struct test_aside *aside = state->aside;

        state->aside = aside->next;
        free(aside->memory);
        free(aside);
    }
}

void test_releases_install(struct test_state *state)
{
    NxmemAllocatorVtable *vtable = &state->lazy.base.vtable;

    vtable->deallocate = deallocate;
    if (vtable->release_allocation != NULL || state->mechanism->undeclared)
        vtable->release_allocation = release_allocation;
    if (state->mechanism->asks_host)
        vtable->allocate = allocate_after_asking;
}
