#include "terminal.h"

#include <stddef.h>

#include "lock.h"
#include "prefix.h"
#include "status.h"

/* --- what an answer means -------------------------------------------------------------------------------- */

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Bytes kept can be no more than the block ever held, rounding included. */
static struct nxm_release quarantined(const struct nxm_block *block, uint64_t unmapped, uint64_t retained)
{
    return (struct nxm_release){
        .outcome = NXM_RELEASE_QUARANTINED,
        .unmapped = nxm_terminal_least(unmapped, block->bytes),
        .retained = nxm_terminal_least(retained, most(block->bytes, block->owned)),
    };
}

struct nxm_release nxm_terminal_judge_incomplete(const NxmemReleaseOutcome *outcome, uint32_t claimed,
                                                 const struct nxm_block *block)
{
    bool state_written = claimed >= NXM_TERMINAL_STATE_WRITTEN;
    bool residual_written = claimed >= offsetof(NxmemReleaseOutcome, failure);
    struct nxm_release release;

    if (state_written && outcome->state == NXMEM_RELEASE_FAILED)
        return (struct nxm_release){ .outcome = NXM_RELEASE_FAILED, .status = outcome->failure.code };
    if (state_written && (outcome->state == NXMEM_RELEASE_COMPLETE || outcome->state == NXMEM_RELEASE_QUARANTINED))
        release = quarantined(block, outcome->unmapped_bytes,
                              residual_written ? outcome->residual_owned_bytes : block->bytes);
    else
        release = quarantined(block, 0, block->bytes); /* a state from the future */
    release.status = outcome->failure.code;
    return release;
}

/* These codes do not say that nothing happened: the plugin kept something, was interrupted, or speaks of
 * something that did not exist when this host was written. */
static bool leaves_doubt(uint32_t code)
{
    return code == NXMEM_STATUS_RELEASE_QUARANTINED || code == NXMEM_STATUS_INTERNAL_ERROR ||
           nxm_status_name(code) == NULL;
}

struct nxm_release nxm_terminal_judge_status(uint32_t code, const struct nxm_block *block)
{
    struct nxm_release release = { .outcome = NXM_RELEASE_FAILED };

    if (leaves_doubt(code))
        release = quarantined(block, 0, block->bytes);
    release.status = code;
    return release;
}

/* --- the slots ------------------------------------------------------------------------------------------- */

static NxmemStatus release_structured(const NxmemAllocatorVtable *vtable, const struct nxm_block *block,
                                      struct nxm_release *ret_release)
{
    NxmemAllocation allocation = nxm_terminal_allocation(vtable, block);
    NxmemReleaseOutcome outcome = { .struct_size = sizeof outcome };
    NxmemStatus status;

    nxm_lock_assert_none();
    status = vtable->release_allocation(vtable->ctx, &allocation, &outcome);
    if (status.code != NXMEM_STATUS_OK) {
        *ret_release = nxm_terminal_judge_status(status.code, block);
        return status;
    }
    *ret_release = nxm_terminal_judge_outcome(&outcome, block);
    return outcome.failure;
}

static NxmemStatus release_plain(const NxmemAllocatorVtable *vtable, const struct nxm_block *block,
                                 struct nxm_release *ret_release)
{
    NxmemAllocation allocation = nxm_terminal_allocation(vtable, block);
    uint64_t unmapped = 0;
    NxmemStatus status;

    nxm_lock_assert_none();
    status = vtable->deallocate(vtable->ctx, &allocation, &unmapped);
    *ret_release =
        status.code == NXMEM_STATUS_OK ? nxm_terminal_complete(block, unmapped) : nxm_terminal_judge_status(status.code, block);
    return status;
}

NxmemStatus nxm_terminal_release(const NxmemAllocatorVtable *vtable, bool structured, const struct nxm_block *block,
                                 struct nxm_release *ret_release)
{
    return structured ? release_structured(vtable, block, ret_release) : release_plain(vtable, block, ret_release);
}
