/* The table: about a thousand shards, chosen by a hash of the address's granule, each with its records, its lock and its sums
 * (shard.h); the bits that say where blocks start, for addresses inside of blocks (starts.h); and the peaks (peak.h). */
#include "blocks.h"

#include <stdatomic.h>

#include "arena.h"
#include "blocks_quiet.h"
#include "mem.h"
#include "peak.h"
#include "result.h"
#include "shard.h"
#include "starts.h"
#include "supply.h"

#define EACH_BATCH 32u

_Static_assert(sizeof(struct nxm_block) % sizeof(uint64_t) == 0, "records are read by words");
_Static_assert(NXM_CLASS_COUNT <= NXM_PEAK_CLASSES, "each class has its peak");

static const struct {
    const char *words;
    bool leak;
} classes[NXM_CLASS_COUNT] = {
#define CLASS(name, words, leak) [NXM_CLASS_##name] = { words, leak },
#include "class.def"
#undef CLASS
};

int nxm_blocks_new(struct nxm_blocks **ret_table)
{
    struct nxm_blocks *table = nxm_mem_map_kept(sizeof *table);

    if (table == NULL)
        return NXM_ENOMEM;
    if (nxm_starts_init(&table->starts) != NXM_OK) {
        nxm_mem_unmap(table, sizeof *table);
        return NXM_ENOMEM;
    }
    *ret_table = table;
    return NXM_OK;
}

void nxm_blocks_adopt(struct nxm_blocks *table, const struct nxm_arena *arena)
{
    for (unsigned i = 0; i < NXM_BLOCKS_SHARDS; i++)
        nxm_shard_adopt(&table->shards[i], arena);
    table->supply = (struct nxm_supply){ 0 };
    table->starts = (struct nxm_starts){ 0 };
}

void nxm_blocks_free(struct nxm_blocks *table)
{
    if (table == NULL)
        return;
    nxm_starts_clear_all(&table->starts);
    nxm_supply_clear(&table->supply);
    nxm_mem_unmap(table, sizeof *table);
}

/* --- one block: under the lock of its shard, the sums and the peak too, so that no sum runs below zero ---------------- */

static bool acceptable(const struct nxm_block *block)
{
    return block->class_ < NXM_CLASS_COUNT && block->id != 0 &&
           (block->state == NXM_BLOCK_LIVE || block->state == NXM_BLOCK_WAITING || block->state == NXM_BLOCK_RELEASING);
}

bool nxm_blocks_knows_start(struct nxm_blocks *table, uint64_t address, uint64_t bytes)
{
    return address != 0 && nxm_blocks_start_is_noted(table, address, bytes); /* NULL is never easy */
}

void nxm_blocks_lacks_room(struct nxm_blocks *table, uint64_t bytes)
{
    nxm_peak_give(&table->peak, NXM_CLASS_DEVICE, bytes);
}

/* That a block starts there. An empty one contains nothing that would be looked for. */
static __attribute__((noinline)) int mark_start(struct nxm_blocks *table, const struct nxm_block *block)
{
    if (block->bytes == 0)
        return NXM_OK;
    if (block->address >> NXM_STARTS_BITS == 0)
        return nxm_starts_mark(&table->starts, block->address, nxm_blocks_last_byte(block->address, block->bytes));
    atomic_store(&table->far, true);
    return NXM_OK;
}

/* Each operation is written twice: in one piece for when all is quiet (blocks_quiet.h), which calls nobody; and for everything else,
 * that begins again from the start, the lock being held already or not. */
static void enter(struct nxm_blocks *table, struct nxm_blocks_place place, bool inside)
{
    if (!inside)
        nxm_spin_acquire(&place.shard->lock, NXM_RANK_BLOCKS);
    if (place.shard->old != 0)
        nxm_shard_move_some(place.shard, &table->supply);
}

static int insert_inside(struct nxm_blocks *table, struct nxm_blocks_place place, const struct nxm_block *block)
{
    struct nxm_record *record = nxm_shard_record(place.shard, place.hash, block->address);

    if (record != NULL && record->block.state != NXM_BLOCK_RELEASING)
        return NXM_EEXIST;
    if (mark_start(table, block) != NXM_OK)
        return NXM_ENOMEM;
    if (record != NULL) {
        nxm_blocks_sums_leave(place.shard, record->block.class_, record->block.bytes);
        nxm_peak_give(&table->peak, record->block.class_, record->block.bytes);
        nxm_shard_write(record, block);
    } else {
        record = nxm_shard_take(place.shard, &table->supply);
        if (record == NULL)
            return NXM_ENOMEM;
        nxm_shard_write(record, block);
        nxm_link_push(nxm_shard_head(place.shard, place.hash), record, place.hash);
    }
    nxm_peak_take(&table->peak, block->class_, block->bytes);
    nxm_blocks_sums_enter(place.shard, block->class_, block->bytes);
    return NXM_OK;
}

static __attribute__((noinline)) int insert_slowly(struct nxm_blocks *table, const struct nxm_block *block, bool inside)
{
    struct nxm_blocks_place place = nxm_blocks_place_of(table, block->address);
    int result;

    enter(table, place, inside);
    result = insert_inside(table, place, block);
    nxm_shard_release(place.shard);
    return result;
}

int nxm_blocks_insert(struct nxm_blocks *table, const struct nxm_block *block)
{
    struct nxm_blocks_place place = nxm_blocks_place_of(table, block->address);
    struct nxm_record *record;

    if (!acceptable(block))
        return NXM_EINVAL;
    if (!nxm_blocks_enter_quietly(place))
        return insert_slowly(table, block, false);
    record = nxm_blocks_easy_room(table, place, block->address, block->bytes);
    if (record == NULL || !nxm_peak_try_take(&table->peak, block->class_, block->bytes))
        return insert_slowly(table, block, true);
    if (!nxm_blocks_use_room(place, record)) {
        nxm_peak_give(&table->peak, block->class_, block->bytes);
        return insert_slowly(table, block, true);
    }
    nxm_shard_write(record, block);
    nxm_blocks_sums_enter(place.shard, block->class_, block->bytes);
    nxm_shard_release(place.shard);
    return NXM_OK;
}

/* It does not count as another one. */
static int put_back(struct nxm_blocks *table, struct nxm_blocks_place place, const struct nxm_block *block)
{
    int result = insert_inside(table, place, block);

    if (result != NXM_OK)
        return result;
    place.shard->sums[block->class_].in_blocks--;
    place.shard->sums[block->class_].in_bytes -= block->bytes;
    place.shard->sums[block->class_].out_blocks--;
    place.shard->sums[block->class_].out_bytes -= block->bytes;
    return NXM_OK;
}

int nxm_blocks_insert_again(struct nxm_blocks *table, struct nxm_block *block)
{
    struct nxm_blocks_place place = nxm_blocks_place_of(table, block->address);
    const struct nxm_record *record;
    struct nxm_block again = *block;
    int result;

    again.flags |= NXM_BLOCK_AGAIN;
    enter(table, place, false);
    record = nxm_shard_record(place.shard, place.hash, block->address);
    if (record == NULL)
        result = put_back(table, place, &again);
    else
        result = record->block.state == NXM_BLOCK_RELEASING && (record->block.flags & NXM_BLOCK_AGAIN) != 0 ? NXM_EBUSY : NXM_EEXIST;
    nxm_shard_release(place.shard);
    if (result == NXM_EBUSY || result == NXM_ENOMEM)
        block->flags |= NXM_BLOCK_UNRECORDED;
    return result;
}

int nxm_blocks_revive(struct nxm_blocks *table, const struct nxm_block *block)
{
    struct nxm_blocks_place place = nxm_blocks_place_of(table, block->address);
    struct nxm_block live = *block;
    struct nxm_record *record;
    int result = NXM_ENOENT;

    live.state = NXM_BLOCK_LIVE;
    live.flags &= ~(NXM_BLOCK_AGAIN | NXM_BLOCK_UNRECORDED);
    enter(table, place, false);
    record = nxm_shard_record(place.shard, place.hash, block->address);
    if (record != NULL && record->block.id == block->id && record->block.state == NXM_BLOCK_RELEASING) {
        __atomic_store_n(&record->block.flags, record->block.flags & ~NXM_BLOCK_AGAIN, __ATOMIC_RELEASE);
        __atomic_store_n(&record->block.state, (uint8_t)NXM_BLOCK_LIVE, __ATOMIC_RELEASE);
        result = NXM_OK;
    } else if ((block->flags & NXM_BLOCK_UNRECORDED) != 0) {
        result = put_back(table, place, &live);
    }
    nxm_shard_release(place.shard);
    return result;
}

static inline int claim_inside(struct nxm_record *record, uint64_t id, unsigned from, enum nxm_block_state to, struct nxm_block *ret_block)
{
    if (record == NULL || (id != 0 && record->block.id != id))
        return NXM_ENOENT;
    if (ret_block != NULL)
        *ret_block = record->block;
    if ((record->block.state & from) == 0)
        return NXM_EBUSY;
    __atomic_store_n(&record->block.state, (uint8_t)to, __ATOMIC_RELEASE);
    return NXM_OK;
}

static __attribute__((noinline)) int claim_slowly(struct nxm_blocks *table, uint64_t address, uint64_t id, unsigned from,
                                                  enum nxm_block_state to, struct nxm_block *ret_block)
{
    struct nxm_blocks_place place = nxm_blocks_place_of(table, address);
    int result;

    enter(table, place, false);
    result = claim_inside(nxm_shard_record(place.shard, place.hash, address), id, from, to, ret_block);
    nxm_shard_release(place.shard);
    return result;
}

int nxm_blocks_claim(struct nxm_blocks *table, uint64_t address, uint64_t id, unsigned from,
                     enum nxm_block_state to, struct nxm_block *ret_block)
{
    struct nxm_blocks_place place = nxm_blocks_place_of(table, address);
    uint64_t *head;
    int result;

    if (!nxm_blocks_enter_quietly(place))
        return claim_slowly(table, address, id, from, to, ret_block);
    if (!nxm_blocks_easy_head(place, &head)) {
        nxm_shard_release(place.shard);
        return claim_slowly(table, address, id, from, to, ret_block);
    }
    result = claim_inside(nxm_blocks_in_chain(*head, address), id, from, to, ret_block);
    nxm_shard_release(place.shard);
    return result;
}

int nxm_blocks_count(struct nxm_blocks *table, uint64_t address, int delta, struct nxm_block *ret_block)
{
    struct nxm_blocks_place place = nxm_blocks_place_of(table, address);
    int result = NXM_ENOENT;

    enter(table, place, false);
    struct nxm_record *record = nxm_shard_record(place.shard, place.hash, address);
    if (record != NULL && record->block.state == NXM_BLOCK_LIVE) {
        *ret_block = record->block;
        ret_block->tag += (uint64_t)(int64_t)delta;
        if (ret_block->tag == 0)
            ret_block->state = NXM_BLOCK_RELEASING;
        nxm_shard_write(record, ret_block);
        result = NXM_OK;
    }
    nxm_shard_release(place.shard);
    return result;
}

static __attribute__((noinline)) int remove_slowly(struct nxm_blocks *table, uint64_t address, uint64_t id, bool inside)
{
    struct nxm_blocks_place place = nxm_blocks_place_of(table, address);
    int result = NXM_ENOENT;
    uint64_t *link;

    enter(table, place, inside);
    link = nxm_shard_link(place.shard, place.hash, address);
    if (link != NULL && nxm_link_record(*link)->block.id == id) {
        const struct nxm_block *block = &nxm_link_record(*link)->block;

        nxm_blocks_sums_leave(place.shard, block->class_, block->bytes);
        nxm_peak_give(&table->peak, block->class_, block->bytes);
        nxm_shard_drop(place.shard, place.hash, link);
        result = NXM_OK;
    }
    nxm_shard_release(place.shard);
    return result;
}

int nxm_blocks_remove(struct nxm_blocks *table, uint64_t address, uint64_t id)
{
    struct nxm_blocks_place place = nxm_blocks_place_of(table, address);
    struct nxm_record *record;
    uint64_t *head;

    if (!nxm_blocks_enter_quietly(place))
        return remove_slowly(table, address, id, false);
    record = nxm_blocks_easy_head(place, &head) ? nxm_link_record(*head) : NULL;
    if (record == NULL || record->block.address != address || record->block.id != id ||
        !nxm_peak_try_give(&table->peak, record->block.class_, record->block.bytes))
        return remove_slowly(table, address, id, true);
    nxm_blocks_sums_leave(place.shard, record->block.class_, record->block.bytes);
    nxm_link_set(head, record->next);
    nxm_shard_free(place.shard, record);
    nxm_shard_release(place.shard);
    return NXM_OK;
}

/* --- looking ---------------------------------------------------------------------------------------- */

int nxm_blocks_find(struct nxm_blocks *table, uint64_t address, struct nxm_block *ret_block)
{
    uint64_t hash = nxm_shard_hash(address);

    return nxm_shard_find(nxm_blocks_shard(table, hash), hash, address, ret_block) ? NXM_OK : NXM_ENOENT;
}

bool nxm_blocks_find_gone(struct nxm_blocks *table, uint64_t address, struct nxm_block *ret_block)
{
    struct nxm_blocks_place place = nxm_blocks_place_of(table, address);
    bool found;

    nxm_spin_acquire(&place.shard->lock, NXM_RANK_BLOCKS);
    found = nxm_shard_find_gone(place.shard, address, ret_block);
    nxm_shard_release(place.shard);
    return found;
}

/* Every record, for addresses that starts.h knows nothing of. */
static bool scan(struct nxm_blocks *table, uint64_t address, struct nxm_block *ret_best)
{
    struct nxm_block batch[EACH_BATCH];
    bool found = false;

    for (unsigned i = 0; i < NXM_BLOCKS_SHARDS; i++) {
        struct nxm_shard_walk walk = { 0 };
        unsigned count;

        while ((count = nxm_shard_next(&table->shards[i], &walk, batch, EACH_BATCH)) > 0) {
            for (unsigned j = 0; j < count; j++) {
                if (batch[j].address > address || address - batch[j].address >= batch[j].bytes ||
                    (found && batch[j].address < ret_best->address))
                    continue;
                *ret_best = batch[j];
                found = true;
            }
        }
    }
    return found;
}

/* The granule seemed to hold no block: if it is so, nobody need look there again. */
static void forget_start(struct nxm_blocks *table, uint64_t hash, uint64_t granule)
{
    struct nxm_shard *shard = nxm_blocks_shard(table, hash);

    nxm_shard_acquire(shard, &table->supply);
    if (!nxm_shard_has_granule(shard, hash, granule)) {
        shard->free &= ~NXM_FREE_MARKED;
        nxm_starts_clear(&table->starts, granule);
    }
    nxm_shard_release(shard);
}

/* Backwards from where blocks start: the first one that contains the address starts last. */
static bool look_back(struct nxm_blocks *table, uint64_t address, struct nxm_block *ret_block)
{
    uint64_t granule = (address >> NXM_STARTS_BITS == 0 ? address : (UINT64_C(1) << NXM_STARTS_BITS) - 1) >> NXM_GRANULE_BITS;

    while (nxm_starts_before(&table->starts, address, &granule)) {
        uint64_t hash = nxm_shard_hash(granule << NXM_GRANULE_BITS);
        bool any;

        if (nxm_shard_around(nxm_blocks_shard(table, hash), hash, granule, address, ret_block, &any))
            return true;
        if (!any)
            forget_start(table, hash, granule);
        if (granule-- == 0)
            break;
    }
    return false;
}

int nxm_blocks_containing(struct nxm_blocks *table, uint64_t address, struct nxm_block *ret_block)
{
    struct nxm_block best;

    if (nxm_blocks_find(table, address, ret_block) == NXM_OK)
        return NXM_OK;
    bool scanned = table->starts.leaves == NULL || (address >> NXM_STARTS_BITS != 0 && atomic_load(&table->far));

    if (scanned ? !scan(table, address, &best) : !look_back(table, address, &best))
        return NXM_ENOENT;
    *ret_block = best;
    return NXM_OK;
}

void nxm_blocks_each(struct nxm_blocks *table, bool (*visit)(void *argument, const struct nxm_block *block),
                     void *argument)
{
    struct nxm_block batch[EACH_BATCH];

    for (unsigned i = 0; i < NXM_BLOCKS_SHARDS; i++) {
        struct nxm_shard_walk walk = { 0 };
        unsigned count;

        while ((count = nxm_shard_next(&table->shards[i], &walk, batch, EACH_BATCH)) > 0) {
            for (unsigned j = 0; j < count; j++) {
                if (!visit(argument, &batch[j]))
                    return;
            }
        }
    }
}

void nxm_blocks_totals(struct nxm_blocks *table, enum nxm_class class_, struct nxm_class_totals *ret_totals)
{
    struct nxm_class_totals totals = { 0 };

    for (unsigned i = 0; i < NXM_BLOCKS_SHARDS; i++) {
        struct nxm_sums sums;

        if (!nxm_shard_was_used(&table->shards[i]))
            continue;
        nxm_shard_acquire(&table->shards[i], &table->supply);
        sums = table->shards[i].sums[class_];
        nxm_shard_release(&table->shards[i]);
        totals.live_blocks += sums.in_blocks - sums.out_blocks;
        totals.live_bytes += sums.in_bytes - sums.out_bytes;
        totals.ever_blocks += sums.in_blocks;
        totals.ever_bytes += sums.in_bytes;
    }
    totals.peak_bytes = nxm_peak_most(&table->peak, class_);
    *ret_totals = totals;
}

const char *nxm_class_words(enum nxm_class class_)
{
    return classes[class_].words;
}

bool nxm_class_is_leak(enum nxm_class class_)
{
    return classes[class_].leak;
}
