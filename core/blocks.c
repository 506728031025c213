/* The engine: shards chosen by a hash of the address, each a chained hash under its own lock. Records live
 * in chunks that double in size and never move, so a walk by record number needs no lock between two
 * steps and survives any growth of the buckets. */
#include "blocks.h"

#include <stdatomic.h>

#include "lock.h"
#include "mem.h"
#include "result.h"

#define SHARD_BITS 6
#define SHARD_COUNT (1u << SHARD_BITS)
#define FIRST_CHUNK_BITS 6
#define CHUNK_MAX 25 /* record numbers stay below 2^31 */
#define FIRST_BUCKETS 1024u
#define EACH_BATCH 32u

struct record {
    struct nxm_block block; /* state 0: the record is free */
    uint32_t next;          /* number + 1 of the next in its bucket or in the free list; 0 ends */
};

struct shard {
    struct nxm_lock lock;
    uint32_t *buckets; /* number + 1 of the first record */
    uint32_t bucket_count;
    uint32_t used;      /* records in buckets */
    uint32_t fresh;     /* number of the first record never used */
    uint32_t free_head; /* number + 1 of a record used before */
    struct record *chunks[CHUNK_MAX];
} __attribute__((aligned(64)));

struct totals {
    atomic_uint_fast64_t live_blocks, live_bytes, peak_bytes, ever_blocks, ever_bytes;
} __attribute__((aligned(64)));

struct nxm_blocks {
    struct shard shards[SHARD_COUNT];
    struct totals totals[NXM_CLASS_COUNT];
    /* Every address ever recorded lies within; they only widen. Spares a foreign address the scan. */
    atomic_uint_fast64_t lowest, highest;
};

static const struct {
    const char *words;
    bool leak;
} classes[NXM_CLASS_COUNT] = {
#define CLASS(name, words, leak) [NXM_CLASS_##name] = { words, leak },
#include "class.def"
#undef CLASS
};

static uint64_t hash(uint64_t address)
{
    uint64_t h = address * UINT64_C(0x9E3779B97F4A7C15);

    return h ^ (h >> 32);
}

static struct shard *shard_of(struct nxm_blocks *table, uint64_t address)
{
    return &table->shards[hash(address) >> (64 - SHARD_BITS)];
}

/* --- records -------------------------------------------------------------------------------------- */

static unsigned chunk_of(uint32_t number)
{
    return 31u - (unsigned)__builtin_clz((number >> FIRST_CHUNK_BITS) + 1);
}

static size_t chunk_records(unsigned chunk)
{
    return (size_t)1 << (FIRST_CHUNK_BITS + chunk);
}

static struct record *record_at(const struct shard *shard, uint32_t number)
{
    unsigned chunk = chunk_of(number);

    return &shard->chunks[chunk][number - (((UINT32_C(1) << chunk) - 1) << FIRST_CHUNK_BITS)];
}

static int record_new(struct shard *shard, uint32_t *ret_number)
{
    unsigned chunk;

    if (shard->free_head != 0) {
        *ret_number = shard->free_head - 1;
        shard->free_head = record_at(shard, *ret_number)->next;
        return NXM_OK;
    }
    chunk = chunk_of(shard->fresh);
    if (chunk >= CHUNK_MAX)
        return NXM_ENOMEM;
    if (shard->chunks[chunk] == NULL) {
        shard->chunks[chunk] = nxm_mem_map(chunk_records(chunk) * sizeof(struct record));
        if (shard->chunks[chunk] == NULL)
            return NXM_ENOMEM;
    }
    *ret_number = shard->fresh++;
    return NXM_OK;
}

static void record_free(struct shard *shard, uint32_t number)
{
    struct record *record = record_at(shard, number);

    record->block.state = 0;
    record->next = shard->free_head;
    shard->free_head = number + 1;
}

/* --- buckets -------------------------------------------------------------------------------------- */

static uint32_t *bucket_of(const struct shard *shard, uint64_t address)
{
    return &shard->buckets[hash(address) & (shard->bucket_count - 1)];
}

/* The link that names the record of this address, NULL when there is none. */
static uint32_t *link_of(const struct shard *shard, uint64_t address)
{
    uint32_t *link;

    if (shard->buckets == NULL)
        return NULL;
    for (link = bucket_of(shard, address); *link != 0; link = &record_at(shard, *link - 1)->next) {
        if (record_at(shard, *link - 1)->block.address == address)
            return link;
    }
    return NULL;
}

static struct record *find_record(const struct shard *shard, uint64_t address)
{
    uint32_t *link = link_of(shard, address);

    return link == NULL ? NULL : record_at(shard, *link - 1);
}

static void push(struct shard *shard, uint32_t number)
{
    struct record *record = record_at(shard, number);
    uint32_t *bucket = bucket_of(shard, record->block.address);

    record->next = *bucket;
    *bucket = number + 1;
}

/* Room for one more record. Only the first buckets are a must: later ones make chains shorter, and without
 * memory the old ones go on serving. */
static int buckets_reserve(struct shard *shard)
{
    uint32_t old_count = shard->bucket_count, *old = shard->buckets, *grown;
    uint32_t count = old == NULL ? FIRST_BUCKETS : old_count * 2;

    if (old != NULL && (shard->used < old_count || count == 0))
        return NXM_OK;
    grown = nxm_mem_map(count * sizeof *grown);
    if (grown == NULL)
        return old == NULL ? NXM_ENOMEM : NXM_OK;
    shard->buckets = grown;
    shard->bucket_count = count;
    for (uint32_t i = 0; i < old_count; i++) {
        for (uint32_t link = old[i], next; link != 0; link = next) {
            next = record_at(shard, link - 1)->next;
            push(shard, link - 1);
        }
    }
    nxm_mem_unmap(old, old_count * sizeof *old);
    return NXM_OK;
}

/* --- totals: moved under the lock of the record's shard, so a sum never runs below zero -------------- */

static void raise_to(atomic_uint_fast64_t *maximum, uint64_t value)
{
    uint_fast64_t seen = atomic_load_explicit(maximum, memory_order_relaxed);

    while (seen < value && !atomic_compare_exchange_weak_explicit(maximum, &seen, value, memory_order_relaxed,
                                                                  memory_order_relaxed)) {
    }
}

static void lower_to(atomic_uint_fast64_t *minimum, uint64_t value)
{
    uint_fast64_t seen = atomic_load_explicit(minimum, memory_order_relaxed);

    while (seen > value && !atomic_compare_exchange_weak_explicit(minimum, &seen, value, memory_order_relaxed,
                                                                  memory_order_relaxed)) {
    }
}

static void totals_enter(struct nxm_blocks *table, const struct nxm_block *block)
{
    struct totals *totals = &table->totals[block->class_];
    uint64_t before = atomic_fetch_add_explicit(&totals->live_bytes, block->bytes, memory_order_relaxed);

    raise_to(&totals->peak_bytes, before + block->bytes);
    atomic_fetch_add_explicit(&totals->live_blocks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&totals->ever_blocks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&totals->ever_bytes, block->bytes, memory_order_relaxed);
}

static void totals_leave(struct nxm_blocks *table, const struct nxm_block *block)
{
    struct totals *totals = &table->totals[block->class_];

    atomic_fetch_sub_explicit(&totals->live_bytes, block->bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&totals->live_blocks, 1, memory_order_relaxed);
}

static void bounds_widen(struct nxm_blocks *table, const struct nxm_block *block)
{
    uint64_t last = block->bytes == 0 ? block->address : block->address + (block->bytes - 1);

    lower_to(&table->lowest, block->address);
    raise_to(&table->highest, last < block->address ? UINT64_MAX : last);
}

/* --- the table ------------------------------------------------------------------------------------ */

int nxm_blocks_new(struct nxm_blocks **ret_table)
{
    struct nxm_blocks *table = nxm_mem_map(sizeof *table);

    if (table == NULL)
        return NXM_ENOMEM;
    for (unsigned i = 0; i < SHARD_COUNT; i++)
        nxm_lock_init(&table->shards[i].lock, NXM_RANK_BLOCKS);
    atomic_init(&table->lowest, UINT64_MAX);
    *ret_table = table;
    return NXM_OK;
}

void nxm_blocks_free(struct nxm_blocks *table)
{
    if (table == NULL)
        return;
    for (unsigned i = 0; i < SHARD_COUNT; i++) {
        struct shard *shard = &table->shards[i];

        for (unsigned chunk = 0; chunk < CHUNK_MAX; chunk++)
            nxm_mem_unmap(shard->chunks[chunk], chunk_records(chunk) * sizeof(struct record));
        nxm_mem_unmap(shard->buckets, shard->bucket_count * sizeof *shard->buckets);
        nxm_lock_clear(&shard->lock);
    }
    nxm_mem_unmap(table, sizeof *table);
}

uint64_t nxm_block_next_id(void)
{
    static atomic_uint_fast64_t last;

    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static bool acceptable(const struct nxm_block *block)
{
    return block->class_ < NXM_CLASS_COUNT && block->id != 0 &&
           (block->state == NXM_BLOCK_LIVE || block->state == NXM_BLOCK_WAITING || block->state == NXM_BLOCK_RELEASING);
}

static int insert_new(struct shard *shard, const struct nxm_block *block)
{
    uint32_t number;

    if (buckets_reserve(shard) != NXM_OK || record_new(shard, &number) != NXM_OK)
        return NXM_ENOMEM;
    record_at(shard, number)->block = *block;
    push(shard, number);
    shard->used++;
    return NXM_OK;
}

static int insert_locked(struct nxm_blocks *table, struct shard *shard, const struct nxm_block *block)
{
    struct record *there = find_record(shard, block->address);

    if (there != NULL && there->block.state != NXM_BLOCK_RELEASING)
        return NXM_EEXIST;
    if (there != NULL) {
        totals_leave(table, &there->block);
        there->block = *block;
    } else if (insert_new(shard, block) != NXM_OK) {
        return NXM_ENOMEM;
    }
    bounds_widen(table, block);
    totals_enter(table, block);
    return NXM_OK;
}

int nxm_blocks_insert(struct nxm_blocks *table, const struct nxm_block *block)
{
    struct shard *shard = shard_of(table, block->address);
    int result;

    if (!acceptable(block))
        return NXM_EINVAL;
    nxm_lock_acquire(&shard->lock);
    result = insert_locked(table, shard, block);
    nxm_lock_release(&shard->lock);
    return result;
}

int nxm_blocks_claim(struct nxm_blocks *table, uint64_t address, uint64_t id, unsigned from,
                     enum nxm_block_state to, struct nxm_block *ret_block)
{
    struct shard *shard = shard_of(table, address);
    int result = NXM_ENOENT;
    struct record *record;

    nxm_lock_acquire(&shard->lock);
    record = find_record(shard, address);
    if (record != NULL && (id == 0 || record->block.id == id)) {
        if (ret_block != NULL)
            *ret_block = record->block;
        result = NXM_EBUSY;
        if ((record->block.state & from) != 0) {
            record->block.state = (uint8_t)to;
            result = NXM_OK;
        }
    }
    nxm_lock_release(&shard->lock);
    return result;
}

int nxm_blocks_count(struct nxm_blocks *table, uint64_t address, int delta, struct nxm_block *ret_block)
{
    struct shard *shard = shard_of(table, address);
    int result = NXM_ENOENT;

    nxm_lock_acquire(&shard->lock);
    struct record *record = find_record(shard, address);
    if (record != NULL && record->block.state == NXM_BLOCK_LIVE) {
        record->block.tag += (uint64_t)(int64_t)delta;
        if (record->block.tag == 0)
            record->block.state = NXM_BLOCK_RELEASING;
        *ret_block = record->block;
        result = NXM_OK;
    }
    nxm_lock_release(&shard->lock);
    return result;
}

int nxm_blocks_remove(struct nxm_blocks *table, uint64_t address, uint64_t id)
{
    struct shard *shard = shard_of(table, address);
    int result = NXM_ENOENT;
    uint32_t *link;

    nxm_lock_acquire(&shard->lock);
    link = link_of(shard, address);
    if (link != NULL && record_at(shard, *link - 1)->block.id == id) {
        uint32_t number = *link - 1;

        totals_leave(table, &record_at(shard, number)->block);
        *link = record_at(shard, number)->next;
        record_free(shard, number);
        shard->used--;
        result = NXM_OK;
    }
    nxm_lock_release(&shard->lock);
    return result;
}

/* --- looking ---------------------------------------------------------------------------------------- */

int nxm_blocks_find(struct nxm_blocks *table, uint64_t address, struct nxm_block *ret_block)
{
    struct shard *shard = shard_of(table, address);
    struct record *record;

    nxm_lock_acquire(&shard->lock);
    record = find_record(shard, address);
    if (record != NULL)
        *ret_block = record->block;
    nxm_lock_release(&shard->lock);
    return record == NULL ? NXM_ENOENT : NXM_OK;
}

/* Makes *best the record of this shard that contains the address and starts behind *best. */
static bool scan_shard(struct shard *shard, uint64_t address, bool found, struct nxm_block *best)
{
    nxm_lock_acquire(&shard->lock);
    for (uint32_t number = 0; number < shard->fresh; number++) {
        const struct nxm_block *block = &record_at(shard, number)->block;

        if (block->state != 0 && block->address <= address && address - block->address < block->bytes &&
            (!found || block->address > best->address)) {
            *best = *block;
            found = true;
        }
    }
    nxm_lock_release(&shard->lock);
    return found;
}

int nxm_blocks_containing(struct nxm_blocks *table, uint64_t address, struct nxm_block *ret_block)
{
    struct nxm_block best;
    bool found = false;

    if (address < atomic_load_explicit(&table->lowest, memory_order_relaxed) ||
        address > atomic_load_explicit(&table->highest, memory_order_relaxed))
        return NXM_ENOENT;
    if (nxm_blocks_find(table, address, ret_block) == NXM_OK)
        return NXM_OK;
    for (unsigned i = 0; i < SHARD_COUNT; i++)
        found = scan_shard(&table->shards[i], address, found, &best);
    if (!found)
        return NXM_ENOENT;
    *ret_block = best;
    return NXM_OK;
}

/* Copies records from number `from` on; returns the number behind the last one looked at. */
static uint32_t copy_batch(struct shard *shard, uint32_t from, struct nxm_block *ret_batch, unsigned *ret_count)
{
    unsigned count = 0;

    nxm_lock_acquire(&shard->lock);
    for (; from < shard->fresh && count < EACH_BATCH; from++) {
        if (record_at(shard, from)->block.state != 0)
            ret_batch[count++] = record_at(shard, from)->block;
    }
    nxm_lock_release(&shard->lock);
    *ret_count = count;
    return from;
}

void nxm_blocks_each(struct nxm_blocks *table, bool (*visit)(void *argument, const struct nxm_block *block),
                     void *argument)
{
    struct nxm_block batch[EACH_BATCH];

    for (unsigned i = 0; i < SHARD_COUNT; i++) {
        uint32_t next = 0;
        unsigned count;

        do {
            next = copy_batch(&table->shards[i], next, batch, &count);
            for (unsigned j = 0; j < count; j++) {
                if (!visit(argument, &batch[j]))
                    return;
            }
        } while (count == EACH_BATCH);
    }
}

void nxm_blocks_totals(struct nxm_blocks *table, enum nxm_class class_, struct nxm_class_totals *ret_totals)
{
    struct totals *totals = &table->totals[class_];

    *ret_totals = (struct nxm_class_totals){
        .live_blocks = atomic_load_explicit(&totals->live_blocks, memory_order_relaxed),
        .live_bytes = atomic_load_explicit(&totals->live_bytes, memory_order_relaxed),
        .peak_bytes = atomic_load_explicit(&totals->peak_bytes, memory_order_relaxed),
        .ever_blocks = atomic_load_explicit(&totals->ever_blocks, memory_order_relaxed),
        .ever_bytes = atomic_load_explicit(&totals->ever_bytes, memory_order_relaxed),
    };
}

const char *nxm_class_words(enum nxm_class class_)
{
    return classes[class_].words;
}

bool nxm_class_is_leak(enum nxm_class class_)
{
    return classes[class_].leak;
}
