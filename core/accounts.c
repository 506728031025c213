#include "accounts.h"

#include "allocator_state.h"
#include "error.h"
#include "log.h"

static void add(atomic_uint_fast64_t *sum, uint64_t amount)
{
    atomic_fetch_add_explicit(sum, amount, memory_order_relaxed);
}

static void sub(atomic_uint_fast64_t *sum, uint64_t amount)
{
    atomic_fetch_sub_explicit(sum, amount, memory_order_relaxed);
}

static void count_in(struct nxm_allocator *allocator, const struct nxm_block *block)
{
    nxm_module_add_allocation(allocator->module);
    add(&allocator->owned_bytes, block->owned);
    add(&allocator->mapped_bytes, block->mapped);
}

static void count_out(struct nxm_allocator *allocator, const struct nxm_block *block)
{
    sub(&allocator->owned_bytes, block->owned);
    sub(&allocator->mapped_bytes, block->mapped);
    nxm_module_sub_allocation(allocator->module);
}

int nxm_accounts_enter(struct nxm_allocator *allocator, const struct nxm_block *block)
{
    int result;

    if (nxm_quarantine_overlaps(&allocator->quarantine, block->address, block->bytes))
        return NXM_EEXIST;
    count_in(allocator, block); /* before another thread can find and release it */
    result = nxm_blocks_insert(allocator->options.blocks, block);
    if (result != NXM_OK)
        count_out(allocator, block);
    return result;
}

int nxm_accounts_claim(struct nxm_allocator *allocator, uint64_t address, uint64_t id, unsigned from,
                       const struct nxm_shape *shape, struct nxm_block *ret_block, struct nxm_error *ret_error)
{
    unsigned long long shown = address;
    struct nxm_block block;

    /* Looked at first: a wrong caller must not, even for a moment, disturb the block of another allocator. */
    if (nxm_blocks_find(allocator->options.blocks, address, &block) != NXM_OK || block.allocator != allocator ||
        (id != 0 && block.id != id))
        return nxm_error_set(ret_error, NXM_ENOENT, 0, "mechanism %s has no block at 0x%llx", allocator->name, shown);
    if (shape != NULL && (shape->bytes != block.bytes || shape->align != block.align))
        return nxm_error_set(ret_error, NXM_EINVAL, 0,
                             "the block at 0x%llx has %llu bytes aligned to %llu, not %llu and %llu", shown,
                             (unsigned long long)block.bytes, (unsigned long long)block.align,
                             (unsigned long long)shape->bytes, (unsigned long long)shape->align);
    switch (nxm_blocks_claim(allocator->options.blocks, address, block.id, from, NXM_BLOCK_RELEASING, ret_block)) {
    case NXM_OK:
        return NXM_OK;
    case NXM_EBUSY:
        return nxm_error_set(ret_error, NXM_EBUSY, 0, "the block at 0x%llx is waiting or being released already",
                             shown);
    default:
        return nxm_error_set(ret_error, NXM_ENOENT, 0, "mechanism %s no longer has the block at 0x%llx",
                             allocator->name, shown);
    }
}

static void keep_back(struct nxm_allocator *allocator, const struct nxm_block *block, const struct nxm_release *release)
{
    static int warned;

    /* Before the record goes: at no moment is the span neither live nor barred. */
    nxm_quarantine_add(&allocator->quarantine, block->address, block->bytes);
    add(&allocator->quarantined_blocks, 1);
    add(&allocator->quarantined_bytes, release->retained);
    nxm_log_once(&warned,
                 "mechanism %s did not finish a release: %llu of %llu bytes at 0x%llx are quarantined (see the report)",
                 allocator->name, (unsigned long long)release->retained, (unsigned long long)block->bytes,
                 (unsigned long long)block->address);
}

void nxm_accounts_settle(struct nxm_allocator *allocator, const struct nxm_block *block,
                         const struct nxm_release *release)
{
    struct nxm_blocks *blocks = allocator->options.blocks;

    if (release->outcome == NXM_RELEASE_FAILED) {
        nxm_blocks_claim(blocks, block->address, block->id, NXM_BLOCK_RELEASING, NXM_BLOCK_LIVE, NULL);
        return;
    }
    if (release->outcome == NXM_RELEASE_QUARANTINED)
        keep_back(allocator, block, release);
    /* Not found when the plugin handed the address out again meanwhile: the record is the newcomer's. */
    nxm_blocks_remove(blocks, block->address, block->id);
    count_out(allocator, block);
}
