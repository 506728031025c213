#include "stale.h"

#include "process.h"
#include "scope.h"
#include "tally.h"

static bool passes_the_drivers_on(const struct nxm_scope *scope)
{
    return scope->companion.vtable.traits & NXMEM_CUDA_TRAIT_BASE_IS_DRIVER_ALLOCATION;
}

/* The driver's own block may have gone with its graph, say, and that of a mechanism which hands the driver's out as they are
 * with a context. That mechanism still counts it, so the gate stays shut: the safe side. */
bool nxm_stale_drop(struct nxm_blocks *table, uint64_t address)
{
    struct nxm_block stale;

    if (nxm_blocks_find(table, address, &stale) != NXM_OK ||
        (stale.allocator && !passes_the_drivers_on((const struct nxm_scope *)(uintptr_t)stale.tag)) ||
        nxm_blocks_claim(table, address, stale.id, NXM_BLOCK_LIVE | NXM_BLOCK_WAITING, NXM_BLOCK_RELEASING, &stale) != NXM_OK)
        return false;
    nxm_blocks_remove(table, address, stale.id);
    if (stale.class_ != NXM_CLASS_GRAPH) /* which goes with its graph */
        nxm_tally_add(NXM_AMOUNT_OUT_OF_SIGHT, stale.bytes);
    return true;
}

bool nxm_stale_make_way(void *owner, struct nxm_allocator *allocator, const struct nxm_block *newcomer)
{
    bool dropped = nxm_stale_drop(nxm_table(NXM_TABLE_MEMORY), newcomer->address);

    return (passes_the_drivers_on(owner) && nxm_allocator_unbar(allocator, newcomer->address, newcomer->bytes)) || dropped;
}
