/* What happened besides allocations: counts for the report. Owns the counters (atomics, relaxed: nothing's lifetime hangs
 * on them); any thread; no locks.
 */
#ifndef NXM_TALLY_H
#define NXM_TALLY_H

#include <stdint.h>

#include "core/blocks.h"
#include "core/graves.h"
#include "core/leaks.h"
#include "core/misuse.h"
#include "core/stack.h"
#include "cuda_types.h"
#include "process.h"

enum nxm_count {
    NXM_COUNT_MISUSE,          /* frees answered with an error here: double, inside a plugin's own memory */
    NXM_COUNT_CAPTURED_EVENTS, /* waits that can never end because their event was captured */
    NXM_COUNTS
};

enum nxm_amount_kind {
    NXM_AMOUNT_RECLAIMED_BY_RESET,
    NXM_AMOUNT_FREED_DURING_EXIT,
    NXM_AMOUNT_UNKNOWN_FREES, /* the driver freed what we never saw allocated; bytes are not known */
    NXM_AMOUNT_OUT_OF_SIGHT, /* the owner handed the address out again: freed by a route we do not see */
    NXM_AMOUNTS
};

void nxm_tally_count(enum nxm_count which);
void nxm_tally_add(enum nxm_amount_kind which, uint64_t bytes); /* one block of so many bytes */

/* Notes the misuse, with this thread's stack, and returns the driver's code for it, CUDA_ERROR_INVALID_VALUE. `block`: which
 * one is meant, NULL when nobody knows. */
CUresult nxm_tally_misuse(enum nxm_misuse_kind kind, uint64_t address, const struct nxm_block *block);
/* A free that was right: should the same come again, where the block came from is known. */
static inline void nxm_tally_freed(const struct nxm_block *block)
{
    uint32_t stack = __builtin_expect(nxm_options()->free_stacks != 0, 0) ? nxm_stack_capture(nxm_options()->stacks) : 0;

    nxm_graves_bury(block, stack);
}

/* The latest block that was freed there, and by which stack; false when nobody knows. */
bool nxm_tally_find_freed(uint64_t address, struct nxm_block *ret_block, uint32_t *ret_stack);

uint64_t nxm_tally(enum nxm_count which);
struct nxm_amount nxm_tally_amount(enum nxm_amount_kind which);

#endif
