/* Host memory that is committed granule by granule, and prefixes that many blocks share (nxmem 1.1, sections 13 and
 * 14). Both are kept in books only: the memory behind a block is there from the start, and a mapped prefix
 * changes no byte of it. A commit is charged by granule, a prefix once, when it is made.
 *
 * Owns what its blocks own, and each prefix until its handle references and its mappings are both gone, in either
 * order. A prefix holds one reference to its allocator. Any thread; everything below is guarded by the
 * allocator's lock, which is not held while memory is freed.
 */
#ifndef NXP_LAZY_H
#define NXP_LAZY_H

#include <stdint.h>

#include "nxmem_memory_abi.h"
#include "plugins/common/allocator.h"

enum {
    NXP_GRANULE = 4096,
    NXP_PREFIX_ALIGN = 64,
};

/* Larger than struct nxp_allocator, which comes first: its backend states object_bytes. */
struct nxp_lazy {
    struct nxp_allocator base;
    /* As published. The ctx of each is its own address, so that no ctx can stand in for another. */
    NxmemVirtualBackingVtable backing;
    NxmemSharedMappingVtable mapping;
    struct nxp_prefix *prefixes;
};

/* For the backend of a mechanism that wants all of this. A plain allocation is committed in full. */
NxmemStatus nxp_lazy_allocate(struct nxp_allocator *allocator, const NxmemCudaOrder *order, struct nxp_block *block);
NxmemStatus nxp_lazy_release(struct nxp_allocator *allocator, const NxmemCudaOrder *order, struct nxp_block *block);
void nxp_lazy_leaves(struct nxp_allocator *allocator, struct nxp_block *block);

/* Fills both vtables, after nxp_slots_publish, and hangs those that the capabilities name into the allocator's. */
void nxp_lazy_publish(struct nxp_lazy *lazy);
void nxp_prefixes_publish(struct nxp_lazy *lazy);

/* Unmaps the prefixes mapped into a block that leaves the live set. */
void nxp_prefixes_unmap(struct nxp_lazy *lazy, struct nxp_block *block);
uint64_t nxp_prefixes_freed(void); /* memory of how many prefixes was freed, in this plugin */

/* The granules that [offset, offset + bytes) touches, in bytes; the span is known to be in bounds. */
uint64_t nxp_granules_around(uint64_t offset, uint64_t bytes);
/* Aligned, also for 0 bytes; NULL when the system has none. free() takes it back. */
void *nxp_memory_get(uint64_t bytes, uint64_t align);

/* What block->backing points to. */
struct nxp_lazy_block {
    struct nxp_view *views;
    unsigned char committed[]; /* one per granule */
};

#endif
