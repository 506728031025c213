/* What moves in the books when a block comes or goes: the block table, the module's tallies, the two axes, the
 * quarantine list. Owns nothing of its own; any thread; takes NXM_RANK_BLOCKS and NXM_RANK_ALLOCATOR
 * inside, one after the other.
 */
#ifndef NXM_ACCOUNTS_H
#define NXM_ACCOUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator.h"
#include "allocator_state.h"
#include "blocks.h"

struct nxm_shape {
    uint64_t bytes, align;
};

/* What a plugin states that `bytes` cost, as far as it can be true: a pool may charge all that it grew by for them, but not more
 * than NXM_GROWTH. So sums over whatever plugins made up do not wrap round (13.11). */
#define NXM_GROWTH (UINT64_C(1) << 40)
uint64_t nxm_accounts_doubt(const struct nxm_allocator *allocator, uint64_t stated, uint64_t bytes);
static inline uint64_t nxm_accounts_believe(const struct nxm_allocator *allocator, uint64_t stated, uint64_t bytes)
{
    return stated == bytes ? stated : nxm_accounts_doubt(allocator, stated, bytes);
}

void nxm_accounts_count_beyond(struct nxm_allocator *allocator, const struct nxm_block *block, uint64_t sign);

/* By one more block, or (`sign` -1) one less. */
static inline void nxm_accounts_count(struct nxm_allocator *allocator, const struct nxm_block *block, uint32_t here, uint64_t sign)
{
    nxm_spread_note_at(&allocator->sums, here, NXM_SUM_BYTES, block->bytes * sign);
    if (__builtin_expect(block->owned != block->bytes || block->mapped != block->bytes, 0))
        nxm_accounts_count_beyond(allocator, block, sign);
}

static inline void nxm_accounts_count_in(struct nxm_allocator *allocator, const struct nxm_block *block)
{
    uint32_t here = nxm_spread_here();

    nxm_spread_note_at(allocator->tallies, here, NXM_TALLY_ALLOCATIONS, 1);
    nxm_accounts_count(allocator, block, here, 1);
}

static inline void nxm_accounts_count_out(struct nxm_allocator *allocator, const struct nxm_block *block)
{
    uint32_t here = nxm_spread_here();

    nxm_accounts_count(allocator, block, here, UINT64_MAX);
    nxm_spread_note_at(allocator->tallies, here, NXM_TALLY_ALLOCATIONS, UINT64_MAX);
}

/* Records a block that the plugin has just handed out: NXM_EEXIST (live already, or in a quarantined span),
 * NXM_ENOMEM; nothing has moved then and the block is the caller's to hand back. */
static inline int nxm_accounts_enter(struct nxm_allocator *allocator, const struct nxm_block *block)
{
    int result;

    if (nxm_quarantine_overlaps(&allocator->quarantine, block->address, block->bytes))
        return NXM_EEXIST;
    nxm_accounts_count_in(allocator, block); /* before another thread can find and release it */
    result = nxm_blocks_insert(allocator->options.blocks, block);
    if (result != NXM_OK)
        nxm_accounts_count_out(allocator, block);
    return result;
}

/* The live block of this allocator at `address`, of this shape (NULL: any). NXM_ENOENT, NXM_EINVAL (shape), NXM_EBUSY (being
 * released). It may go at any moment afterwards: what is done with it names its id. */
int nxm_accounts_find(struct nxm_allocator *allocator, uint64_t address, const struct nxm_shape *shape,
                      struct nxm_block *ret_block, struct nxm_error *ret_error);

/* The only way to a release: the block is this allocator's, has this id (0: any) and this shape (NULL: any), was in
 * one of the states `from` and is RELEASING now, for one winner. *ret_block is the record as it was before.
 * NXM_ENOENT, NXM_EINVAL (shape), NXM_EBUSY: untouched. */
int nxm_accounts_claim(struct nxm_allocator *allocator, uint64_t address, uint64_t id, unsigned from,
                       const struct nxm_shape *shape, struct nxm_block *ret_block, struct nxm_error *ret_error);

/* Ends the release of a block that the caller claimed: gone, kept back by the plugin, or LIVE again. FAILED becomes
 * QUARANTINED where LIVE again is impossible: the allocator is being torn down, or another block lives at the address. */
static inline void nxm_accounts_settle(struct nxm_allocator *allocator, const struct nxm_block *block, struct nxm_release *release);

/* Of one that is not complete. True: the block is live again. */
bool nxm_accounts_revive_or_keep(struct nxm_allocator *allocator, const struct nxm_block *block, struct nxm_release *release);

static inline void nxm_accounts_settle(struct nxm_allocator *allocator, const struct nxm_block *block, struct nxm_release *release)
{
    if (__builtin_expect(release->outcome != NXM_RELEASE_COMPLETE, 0) && nxm_accounts_revive_or_keep(allocator, block, release))
        return;
    nxm_views_retire(&allocator->views, block->id);
    /* Not found when the plugin handed the address out again meanwhile: the record is the newcomer's. */
    nxm_blocks_remove(allocator->options.blocks, block->address, block->id);
    nxm_accounts_count_out(allocator, block);
}

#endif
