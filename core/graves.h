/* Blocks that were freed lately, but for those that were freed quietly (nxm_blocks_find_gone), so that a second free can be told where
 * the block came from. Owns a fixed number of places, chosen by address; a later block takes the place of an earlier one. Any thread;
 * no locks. An entry that another thread is writing at the moment is not seen.
 */
#ifndef NXM_GRAVES_H
#define NXM_GRAVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "blocks.h"
#include "here.h"
#include "shard.h"
#include "spin.h"

#define NXM_GRAVE_BITS 12
#define NXM_GRAVE_COUNT (1u << NXM_GRAVE_BITS)

struct nxm_grave {
    struct nxm_spin lock; /* two that meet here: one goes without a grave */
    uint64_t address, bytes, id;
    uint64_t stacks;           /* of the allocation, and of the free in the upper half */
    uint32_t kind;             /* as it lies in a record: API, class, state */
} __attribute__((aligned(64)));

extern NXM_HERE struct nxm_grave nxm_graves[NXM_GRAVE_COUNT];

static inline struct nxm_grave *nxm_grave_of(uint64_t hash) /* of shard.h */
{
    return &nxm_graves[hash >> (64 - NXM_GRAVE_BITS)];
}

#ifndef NXM_GRAVE_SET /* a test gives way in between */
#define NXM_GRAVE_SET(field, value) __atomic_store_n(&grave->field, (value), __ATOMIC_RELEASE)
#define NXM_GRAVE_GET(field) __atomic_load_n(&grave->field, __ATOMIC_ACQUIRE)
#endif

_Static_assert(offsetof(struct nxm_block, class_) == offsetof(struct nxm_block, api) + 2, "they are read as one word");

/* API, class and state as they lie in a record. */
static inline uint32_t nxm_grave_kind(const struct nxm_block *block)
{
    uint32_t kind;

    memcpy(&kind, &block->api, sizeof kind);
    return kind;
}

/* `freed`: by which stack, an nxm_stack id; 0 none. */
static inline void nxm_graves_bury(const struct nxm_block *block, uint32_t freed)
{
    struct nxm_grave *grave = nxm_grave_of(nxm_shard_hash(block->address));

    if (!nxm_spin_try(&grave->lock, NXM_RANK_MISUSE))
        return;
    NXM_GRAVE_SET(address, block->address);
    NXM_GRAVE_SET(bytes, block->bytes);
    NXM_GRAVE_SET(id, block->id);
    NXM_GRAVE_SET(kind, nxm_grave_kind(block));
    NXM_GRAVE_SET(stacks, (uint64_t)freed << 32 | block->stack);
    nxm_spin_release(&grave->lock);
}

/* The latest block that started there: its address, bytes, id, class, API and stack; false when nobody knows. */
bool nxm_graves_find(uint64_t address, struct nxm_block *ret_block, uint32_t *ret_stack);

#endif
