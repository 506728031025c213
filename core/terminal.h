/* The terminal slot: giving a block back now, and what the plugin's answer means (nxmem spec sections 10.3
 * and 12). Owns nothing; any thread; no locks (none may be held: the plugin runs).
 */
#ifndef NXM_TERMINAL_H
#define NXM_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator.h"
#include "blocks.h"
#include "nxmem_memory_abi.h"
#include "prefix.h"

/* How the plugin is told which block is meant. */
static inline NxmemAllocation nxm_terminal_allocation(const NxmemAllocatorVtable *vtable, const struct nxm_block *block)
{
    NxmemAllocation allocation;

    allocation.struct_size = sizeof allocation;
    allocation.reserved = 0;
    allocation.mechanism_id = vtable->mechanism_id;
    allocation.allocation_id = block->id;
    allocation.device = vtable->device;
    allocation.ptr = (uint8_t *)(uintptr_t)block->address;
    allocation.bytes = block->bytes;
    allocation.align = block->align;
    return allocation;
}

/* Enters release_allocation when `structured`, else deallocate. Returns the words for a FAILED outcome. */
NxmemStatus nxm_terminal_release(const NxmemAllocatorVtable *vtable, bool structured, const struct nxm_block *block,
                                 struct nxm_release *ret_release);

static inline uint64_t nxm_terminal_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline struct nxm_release nxm_terminal_complete(const struct nxm_block *block, uint64_t unmapped)
{
    struct nxm_release release;

    release.outcome = NXM_RELEASE_COMPLETE;
    release.unmapped = nxm_terminal_least(unmapped, block->bytes);
    release.retained = release.ticket = 0;
    release.status = 0;
    return release;
}

/* COMPLETE is the all-zero value: a state that was not written must not be read as one. */
#define NXM_TERMINAL_STATE_WRITTEN offsetof(NxmemReleaseOutcome, allocation_bytes)

/* An outcome as the plugin wrote it, in a buffer of ours; whatever it did not claim to write is not believed. */
struct nxm_release nxm_terminal_judge_incomplete(const NxmemReleaseOutcome *outcome, uint32_t claimed,
                                                 const struct nxm_block *block);
static inline struct nxm_release nxm_terminal_judge_outcome(NxmemReleaseOutcome *outcome, const struct nxm_block *block)
{
    uint32_t claimed = nxm_prefix_trim(outcome, sizeof *outcome);

    if (__builtin_expect(claimed >= NXM_TERMINAL_STATE_WRITTEN && outcome->state == NXMEM_RELEASE_COMPLETE &&
                             outcome->residual_owned_bytes == 0, 1))
        return nxm_terminal_complete(block, outcome->unmapped_bytes);
    return nxm_terminal_judge_incomplete(outcome, claimed, block);
}
/* A failing status: FAILED when it says that nothing happened, else the whole block is quarantined. */
struct nxm_release nxm_terminal_judge_status(uint32_t code, const struct nxm_block *block);

#endif
