#include "tally.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "core/graves.h"
#include "core/journal.h"
#include "core/log.h"
#include "core/misuse.h"
#include "core/stack.h"
#include "process.h"

static _Atomic uint64_t counts[NXM_COUNTS];
static struct {
    _Atomic uint64_t blocks, bytes;
} amounts[NXM_AMOUNTS];

static const enum nxm_journal_sum sums[NXM_AMOUNTS] = {
    [NXM_AMOUNT_RECLAIMED_BY_RESET] = NXM_SUM_RECLAIMED_BY_RESET,
    [NXM_AMOUNT_FREED_DURING_EXIT] = NXM_SUM_FREED_DURING_EXIT,
    [NXM_AMOUNT_UNKNOWN_FREES] = NXM_SUM_UNKNOWN_FREES,
    [NXM_AMOUNT_OUT_OF_SIGHT] = NXM_SUM_OUT_OF_SIGHT,
};

void nxm_tally_count(enum nxm_count which)
{
    atomic_fetch_add_explicit(&counts[which], 1, memory_order_relaxed);
}

void nxm_tally_add(enum nxm_amount_kind which, uint64_t bytes)
{
    atomic_fetch_add_explicit(&amounts[which].blocks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&amounts[which].bytes, bytes, memory_order_relaxed);
    nxm_journal_add(sums[which], bytes);
}

bool nxm_tally_find_freed(uint64_t address, struct nxm_block *ret_block, uint32_t *ret_stack)
{
    struct nxm_block quietly;
    bool found = nxm_graves_find(address, ret_block, ret_stack);

    if (!nxm_blocks_find_gone(nxm_table(NXM_TABLE_MEMORY), address, &quietly) || (found && ret_block->id >= quietly.id))
        return found;
    *ret_block = quietly;
    *ret_stack = 0;
    return true;
}

CUresult nxm_tally_misuse(enum nxm_misuse_kind kind, uint64_t address, const struct nxm_block *block)
{
    struct nxm_misuse misuse = { .kind = kind, .address = address, .api = -1 };
    struct nxm_block gone;

    bool buried = nxm_tally_find_freed(address, &gone, &misuse.freed);
    if (!block && buried) {
        block = &gone;
        misuse.kind = NXM_MISUSE_TWICE;
    }
    if (!buried || gone.id != block->id)
        misuse.freed = 0; /* of another block that had the address */
    if (block) {
        misuse.bytes = block->bytes;
        misuse.api = block->api;
        misuse.allocated = block->stack;
    }
    misuse.stack = nxm_stack_capture(nxm_options()->stacks);
    nxm_misuse_note(&misuse);
    nxm_tally_count(NXM_COUNT_MISUSE);
    nxm_log(NXM_LOG_INFO, "0x%llx: %s; refused as the driver would", (unsigned long long)address,
            nxm_misuse_words(misuse.kind));
    return CUDA_ERROR_INVALID_VALUE;
}

uint64_t nxm_tally(enum nxm_count which)
{
    return atomic_load(&counts[which]);
}

struct nxm_amount nxm_tally_amount(enum nxm_amount_kind which)
{
    return (struct nxm_amount){ atomic_load(&amounts[which].blocks), atomic_load(&amounts[which].bytes) };
}
