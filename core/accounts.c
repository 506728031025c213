#include "accounts.h"

#include "allocator_state.h"
#include "error.h"
#include "journal.h"
#include "log.h"

static void add(atomic_uint_fast64_t *sum, uint64_t amount)
{
    atomic_fetch_add_explicit(sum, amount, memory_order_relaxed);
}

uint64_t nxm_accounts_doubt(const struct nxm_allocator *allocator, uint64_t stated, uint64_t bytes)
{
    static int warned;
    uint64_t most = bytes < UINT64_MAX - NXM_GROWTH ? bytes + NXM_GROWTH : UINT64_MAX;

    if (stated <= most)
        return stated;
    nxm_log_once(&warned, "mechanism %s: states that %llu bytes cost %llu, of which %llu are counted", allocator->name,
                 (unsigned long long)bytes, (unsigned long long)stated, (unsigned long long)most);
    return most;
}

void nxm_accounts_count_beyond(struct nxm_allocator *allocator, const struct nxm_block *block, uint64_t sign)
{
    uint32_t here = nxm_spread_here();

    nxm_spread_add_at(&allocator->sums, here, NXM_SUM_OWNED_BEYOND, (block->owned - block->bytes) * sign);
    nxm_spread_add_at(&allocator->sums, here, NXM_SUM_MAPPED_BEYOND, (block->mapped - block->bytes) * sign);
}

static int no_block(const struct nxm_allocator *allocator, uint64_t address, struct nxm_error *ret_error)
{
    return nxm_error_set(ret_error, NXM_ENOENT, 0, "mechanism %s has no block at 0x%llx", allocator->name,
                         (unsigned long long)address);
}

static int check_shape(const struct nxm_block *block, const struct nxm_shape *shape, struct nxm_error *ret_error)
{
    if (shape == NULL || (shape->bytes == block->bytes && shape->align == block->align))
        return NXM_OK;
    return nxm_error_set(ret_error, NXM_EINVAL, 0, "the block at 0x%llx has %llu bytes aligned to %llu, not %llu and %llu",
                         (unsigned long long)block->address, (unsigned long long)block->bytes,
                         (unsigned long long)block->align, (unsigned long long)shape->bytes,
                         (unsigned long long)shape->align);
}

static int in_other_hands(uint64_t address, struct nxm_error *ret_error)
{
    return nxm_error_set(ret_error, NXM_EBUSY, 0, "the block at 0x%llx is waiting or being released already",
                         (unsigned long long)address);
}

static int look_up(struct nxm_allocator *allocator, uint64_t address, uint64_t id, const struct nxm_shape *shape,
                   struct nxm_block *ret_block, struct nxm_error *ret_error)
{
    if (nxm_blocks_find(allocator->options.blocks, address, ret_block) != NXM_OK || ret_block->allocator != allocator ||
        (id != 0 && ret_block->id != id))
        return no_block(allocator, address, ret_error);
    return check_shape(ret_block, shape, ret_error);
}

int nxm_accounts_find(struct nxm_allocator *allocator, uint64_t address, const struct nxm_shape *shape,
                      struct nxm_block *ret_block, struct nxm_error *ret_error)
{
    int result = look_up(allocator, address, 0, shape, ret_block, ret_error);

    if (result != NXM_OK)
        return result;
    return ret_block->state == NXM_BLOCK_LIVE ? NXM_OK : in_other_hands(address, ret_error);
}

int nxm_accounts_claim(struct nxm_allocator *allocator, uint64_t address, uint64_t id, unsigned from,
                       const struct nxm_shape *shape, struct nxm_block *ret_block, struct nxm_error *ret_error)
{
    struct nxm_block block;
    /* Looked at first: a wrong caller must not, even for a moment, disturb the block of another allocator. */
    int result = look_up(allocator, address, id, shape, &block, ret_error);

    if (result != NXM_OK)
        return result;
    switch (nxm_blocks_claim(allocator->options.blocks, address, block.id, from, NXM_BLOCK_RELEASING, ret_block)) {
    case NXM_OK:
        return NXM_OK;
    case NXM_EBUSY:
        return in_other_hands(address, ret_error);
    default: /* gone since we looked */
        return no_block(allocator, address, ret_error);
    }
}

static void keep_back(struct nxm_allocator *allocator, const struct nxm_block *block, const struct nxm_release *release,
                      enum nxm_span_kind kind)
{
    static int warned;

    /* Before the record goes: at no moment is the span neither live nor barred. */
    nxm_quarantine_add(&allocator->quarantine, kind, block->address, block->bytes);
    add(&allocator->quarantined_blocks, 1);
    add(&allocator->quarantined_bytes, release->retained);
    nxm_journal_add(NXM_SUM_QUARANTINED, release->retained);
    nxm_log_once(&warned,
                 "mechanism %s did not finish a release: %llu of %llu bytes at 0x%llx are quarantined (see the report)",
                 allocator->name, (unsigned long long)release->retained, (unsigned long long)block->bytes,
                 (unsigned long long)block->address);
}

/* False: nobody could release it any more. Teardown announces itself before it looks for what is live, and here it is
 * looked for after the block is: one of the two sees it. */
static bool revive(struct nxm_allocator *allocator, const struct nxm_block *block)
{
    struct nxm_blocks *blocks = allocator->options.blocks;

    if (nxm_blocks_revive(blocks, block) != NXM_OK)
        return false; /* the plugin has handed its address out again */
    return !atomic_load(&allocator->going) ||
           nxm_blocks_claim(blocks, block->address, block->id, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, NULL) != NXM_OK;
}

bool nxm_accounts_revive_or_keep(struct nxm_allocator *allocator, const struct nxm_block *block, struct nxm_release *release)
{
    enum nxm_span_kind kind = NXM_SPAN_KEPT;

    if (release->outcome == NXM_RELEASE_FAILED) {
        if (revive(allocator, block))
            return true;
        release->outcome = NXM_RELEASE_QUARANTINED;
        release->retained = block->bytes;
        kind = NXM_SPAN_CONTRADICTED;
    }
    keep_back(allocator, block, release, kind);
    return false;
}
