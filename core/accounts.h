/* What moves in the books when a block comes or goes: the block table, the module's tallies, the two axes, the
 * quarantine list. Owns nothing of its own; any thread; takes NXM_RANK_BLOCKS and NXM_RANK_ALLOCATOR
 * inside, one after the other.
 */
#ifndef NXM_ACCOUNTS_H
#define NXM_ACCOUNTS_H

#include <stdint.h>

#include "allocator.h"
#include "blocks.h"

struct nxm_shape {
    uint64_t bytes, align;
};

/* Records a block that the plugin has just handed out: NXM_EEXIST (live already, or in a quarantined span),
 * NXM_ENOMEM; nothing has moved then and the block is the caller's to hand back. */
int nxm_accounts_enter(struct nxm_allocator *allocator, const struct nxm_block *block);

/* The only way to a release: the block is this allocator's, has this id (0: any) and this shape (NULL: any), was in
 * one of the states `from` and is RELEASING now, for one winner. *ret_block is the record as it was before.
 * NXM_ENOENT, NXM_EINVAL (shape), NXM_EBUSY: untouched. */
int nxm_accounts_claim(struct nxm_allocator *allocator, uint64_t address, uint64_t id, unsigned from,
                       const struct nxm_shape *shape, struct nxm_block *ret_block, struct nxm_error *ret_error);

/* Ends the release of a block that the caller claimed: gone, kept back by the plugin, or LIVE again. */
void nxm_accounts_settle(struct nxm_allocator *allocator, const struct nxm_block *block,
                         const struct nxm_release *release);

#endif
