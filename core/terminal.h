/* The terminal slot: giving a block back now, and what the plugin's answer means (nxmem spec sections 10.3
 * and 12). Owns nothing; any thread; no locks (none may be held: the plugin runs).
 */
#ifndef NXM_TERMINAL_H
#define NXM_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator.h"
#include "blocks.h"
#include "nxmem_memory_abi.h"

/* How the plugin is told which block is meant. */
NxmemAllocation nxm_terminal_allocation(const NxmemAllocatorVtable *vtable, const struct nxm_block *block);

/* Enters release_allocation when `structured`, else deallocate. Returns the words for a FAILED outcome. */
NxmemStatus nxm_terminal_release(const NxmemAllocatorVtable *vtable, bool structured, const struct nxm_block *block,
                                 struct nxm_release *ret_release);

/* An outcome as the plugin wrote it, in a buffer of ours; whatever it did not claim to write is not believed. */
struct nxm_release nxm_terminal_judge_outcome(NxmemReleaseOutcome *outcome, const struct nxm_block *block);
/* A failing status: FAILED when it says that nothing happened, else the whole block is quarantined. */
struct nxm_release nxm_terminal_judge_status(uint32_t code, const struct nxm_block *block);

#endif
