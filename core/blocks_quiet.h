/* The table from inside, and what is done to it in place when all is quiet: nobody else holds the lock, there is room, nothing grows.
 * For blocks.c, which does everything else, and quiet.h. What is not so is answered with "no", before anything has changed.
 */
#ifndef NXM_BLOCKS_QUIET_H
#define NXM_BLOCKS_QUIET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "blocks.h"
#include "peak.h"
#include "shard.h"
#include "starts.h"
#include "supply.h"

#define NXM_BLOCKS_SHARD_BITS 10
#define NXM_BLOCKS_SHARDS (1u << NXM_BLOCKS_SHARD_BITS)

struct nxm_blocks {
    struct nxm_supply supply;
    struct nxm_starts starts;
    atomic_bool far; /* some block starts where starts.h keeps no bits */
    struct nxm_peak peak;
    struct nxm_shard shards[NXM_BLOCKS_SHARDS];
};

static inline struct nxm_shard *nxm_blocks_shard(struct nxm_blocks *table, uint64_t hash)
{
    return &table->shards[hash >> (64 - NXM_BLOCKS_SHARD_BITS)];
}

/* Where an address belongs. */
struct nxm_blocks_place {
    struct nxm_shard *shard;
    uint64_t hash;
};

static inline struct nxm_blocks_place nxm_blocks_place_of(struct nxm_blocks *table, uint64_t address)
{
    struct nxm_blocks_place place = { .hash = nxm_shard_hash(address) };

    place.shard = nxm_blocks_shard(table, place.hash);
    __asm__("" : "+r"(place.shard)); /* a pointer, not a number to be worked out anew at each use */
    return place;
}

static inline bool nxm_blocks_enter_quietly(struct nxm_blocks_place place)
{
    return nxm_spin_try(&place.shard->lock, NXM_RANK_BLOCKS);
}

/* With the lock held: the head of the chain. False: there is none, or not only one. */
static inline bool nxm_blocks_easy_head(struct nxm_blocks_place place, uint64_t **ret_head)
{
    uint64_t chains = place.shard->chains;

    *ret_head = nxm_chains_head(chains, place.hash);
    return __builtin_expect(place.shard->old == 0 && chains != 0, 1);
}

/* --- with the lock held: the sums and the peak too, so that no sum runs below zero ------------------------------------- */

static inline void nxm_blocks_sums_enter(struct nxm_shard *shard, unsigned class_, uint64_t bytes)
{
    struct nxm_sums *sums = &shard->sums[class_];

    sums->in_blocks++;
    sums->in_bytes += bytes;
}

static inline void nxm_blocks_sums_leave(struct nxm_shard *shard, unsigned class_, uint64_t bytes)
{
    struct nxm_sums *sums = &shard->sums[class_];

    sums->out_blocks++;
    sums->out_bytes += bytes;
}

static inline uint64_t nxm_blocks_last_byte(uint64_t address, uint64_t bytes)
{
    uint64_t last = address + (bytes - 1);

    return last < address ? UINT64_MAX : last;
}

static inline bool nxm_blocks_start_is_noted(struct nxm_blocks *table, uint64_t address, uint64_t bytes)
{
    return nxm_starts_has(nxm_starts_word(&table->starts, address), address, nxm_blocks_last_byte(address, bytes));
}

/* The same, out of the way of those for whom it is seldom needed. */
bool nxm_blocks_knows_start(struct nxm_blocks *table, uint64_t address, uint64_t bytes);

/* Room for it, a record of which the start is known; NULL: not easily. What went last most often comes back: its
 * start is still noted, which spares a look at one more cold line. */
static inline struct nxm_record *nxm_blocks_easy_room(struct nxm_blocks *table, struct nxm_blocks_place place, uint64_t address, uint64_t bytes)
{
    uint64_t free = place.shard->free;
    struct nxm_record *room = (struct nxm_record *)(uintptr_t)free;

    if (__builtin_expect((free & NXM_FREE_MARKED) != 0, 1)) {
        room = (struct nxm_record *)(uintptr_t)(free - NXM_FREE_MARKED);
        if (room->block.address == address && room->block.bytes >= bytes)
            return room;
    }
    return room != NULL && nxm_blocks_knows_start(table, address, bytes) ? room : NULL;
}

/* Takes that room, for a record that is to be written at once. False: not easily, or by the marks something is there. */
static inline bool nxm_blocks_use_room(struct nxm_blocks_place place, struct nxm_record *room)
{
    uint64_t next = room->next, *head;

    if (place.shard->chains == 0) /* there is no room without chains */
        __builtin_unreachable();
    if (!nxm_blocks_easy_head(place, &head) || !nxm_link_push_first(head, room, place.hash))
        return false;
    place.shard->free = next;
    return true;
}

/* What was taken of the peak for it goes back; out of the way, as nxm_blocks_knows_start. */
void nxm_blocks_lacks_room(struct nxm_blocks *table, uint64_t bytes);

/* No look at the marks: it is there, nearly always. */
static inline struct nxm_record *nxm_blocks_in_chain(uint64_t link, uint64_t address)
{
    struct nxm_record *record = nxm_link_record(link);

    while (record != NULL && record->block.address != address)
        record = nxm_link_record(record->next);
    return record;
}

#endif
