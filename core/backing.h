/* Virtual backing: blocks whose memory comes and goes in ranges while the address stays (nxmem spec section 13). Owns
 * nothing; works on an open allocator. Any thread; takes NXM_RANK_BLOCKS inside, holds none while the plugin runs.
 *
 * A block made here is a block like any other: it is in the same table and released the same way. Ranges are relative to
 * its start; one that leaves the block is refused here (NXM_EINVAL) and the plugin is not asked. A block is named by its
 * address and the shape it was allocated with; NXM_ENOENT, NXM_EINVAL, NXM_EBUSY when it is not that one, or not live.
 * NXM_EUNSUPPORTED: the mechanism has no virtual backing, or not this slot of it. NXM_ECALL, NXM_ENOMEM: the plugin's answer.
 */
#ifndef NXM_BACKING_H
#define NXM_BACKING_H

#include <stdint.h>

#include "accounts.h"
#include "allocator.h"
#include "nxmem_memory_abi.h"

/* As nxm_allocator_allocate, with these ranges committed from the start; none: the address only. */
int nxm_backing_allocate(struct nxm_allocator *allocator, struct nxm_block *block, const NxmemByteRange *ranges,
                         uint64_t count, struct nxm_error *ret_error);

/* Committing what is committed changes nothing. */
int nxm_backing_commit(struct nxm_allocator *allocator, uint64_t address, const struct nxm_shape *shape,
                       const NxmemByteRange *range, struct nxm_error *ret_error);

/* *ret_unmapped: what really went, never more than the block has; 0 is fine. */
int nxm_backing_decommit(struct nxm_allocator *allocator, uint64_t address, const struct nxm_shape *shape,
                         const NxmemByteRange *range, uint64_t *ret_unmapped, struct nxm_error *ret_error);

/* What is committed of one block. 0 also when that cannot be had, whatever the reason (13.8). */
uint64_t nxm_backing_committed(struct nxm_allocator *allocator, uint64_t address, const struct nxm_shape *shape);

/* At least what committing these ranges of the block would map, in the mechanism's granules. No ranges: 0, unasked. */
int nxm_backing_cost_of_ranges(struct nxm_allocator *allocator, uint64_t address, const struct nxm_shape *shape,
                               const NxmemByteRange *ranges, uint64_t count, uint64_t *ret_mapped,
                               struct nxm_error *ret_error);

/* The same for a block that does not exist yet. */
int nxm_backing_cost_of_block(struct nxm_allocator *allocator, const struct nxm_shape *shape, const NxmemByteRange *ranges,
                              uint64_t count, uint64_t *ret_mapped, struct nxm_error *ret_error);

#endif
