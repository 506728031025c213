#include "queued.h"

#include <sched.h>
#include <stddef.h>
#include <string.h>

#include "mem.h"

static struct nxm_queued_shard *shard_of(struct nxm_queued *queued, uint64_t id)
{
    return &queued->shards[id % NXM_QUEUED_SHARDS];
}

/* Ids are handed out in sequence, so what is above the shard's bits spreads evenly as it is. */
static struct nxm_entry **bucket_of(const struct nxm_queued_shard *shard, uint64_t id)
{
    return &shard->buckets[(id / NXM_QUEUED_SHARDS) % shard->bucket_count];
}

static void push(struct nxm_queued_shard *shard, struct nxm_entry *entry)
{
    struct nxm_entry **bucket = bucket_of(shard, entry->block.id);

    entry->next = *bucket;
    *bucket = entry;
}

static struct nxm_entry **link_of(const struct nxm_queued_shard *shard, uint64_t id)
{
    struct nxm_entry **link = bucket_of(shard, id);

    while (*link != NULL && (*link)->block.id != id)
        link = &(*link)->next;
    return link;
}

static void unlink_entry(struct nxm_queued_shard *shard, struct nxm_entry **link)
{
    *link = (*link)->next;
    shard->count--;
}

/* --- the set ------------------------------------------------------------------------------------------ */

void nxm_queued_init(struct nxm_queued *queued, void *owner)
{
    for (unsigned i = 0; i < NXM_QUEUED_SEATS; i++)
        queued->seats[i] = (struct nxm_seat){ .owner = owner };
    for (unsigned i = 0; i < NXM_QUEUED_SHARDS; i++) {
        struct nxm_queued_shard *shard = &queued->shards[i];

        *shard = (struct nxm_queued_shard){ .bucket_count = NXM_QUEUED_FIRST_BUCKETS };
        shard->buckets = shard->first_buckets;
        shard->spare = &shard->first;
        nxm_lock_init(&shard->lock, NXM_RANK_ALLOCATOR);
    }
}

static void free_list(const struct nxm_queued_shard *shard, struct nxm_entry *entry)
{
    for (struct nxm_entry *next; entry != NULL; entry = next) {
        next = entry->next;
        if (entry != &shard->first)
            nxm_mem_free(entry);
    }
}

void nxm_queued_clear(struct nxm_queued *queued)
{
    for (unsigned i = 0; i < NXM_QUEUED_SEATS; i++)
        nxm_mem_free(queued->seats[i].entry);
    for (unsigned i = 0; i < NXM_QUEUED_SHARDS; i++) {
        struct nxm_queued_shard *shard = &queued->shards[i];

        for (uint64_t bucket = 0; bucket < shard->bucket_count; bucket++)
            free_list(shard, shard->buckets[bucket]);
        free_list(shard, shard->spare);
        if (shard->buckets != shard->first_buckets)
            nxm_mem_free(shard->buckets);
        nxm_lock_clear(&shard->lock);
    }
}

static void rehash(struct nxm_queued_shard *shard, struct nxm_entry **grown, uint64_t count)
{
    struct nxm_entry **old = shard->buckets;
    uint64_t old_count = shard->bucket_count;

    shard->buckets = grown;
    shard->bucket_count = count;
    for (uint64_t bucket = 0; bucket < old_count; bucket++) {
        for (struct nxm_entry *entry = old[bucket], *next; entry != NULL; entry = next) {
            next = entry->next;
            push(shard, entry);
        }
    }
    if (old != shard->first_buckets)
        nxm_mem_free(old);
}

/* Chains stay short; without memory they grow long and the set goes on working. */
static void grow_if_crowded(struct nxm_queued_shard *shard)
{
    uint64_t count = shard->bucket_count * 4;
    struct nxm_entry **grown;

    if (shard->count < shard->bucket_count * 4)
        return;
    grown = nxm_mem_new(count * sizeof(struct nxm_entry *));
    if (grown != NULL)
        rehash(shard, grown, count);
}

/* --- the enqueuer's side -------------------------------------------------------------------------------- */

static struct nxm_entry *pop_spare(struct nxm_queued_shard *shard, struct nxm_entry **link)
{
    struct nxm_entry *entry;

    nxm_lock_acquire(&shard->lock);
    if (link == NULL)
        link = shard->spare == &shard->first ? &shard->first.next : &shard->spare;
    entry = *link;
    if (entry != NULL)
        *link = entry->next;
    nxm_lock_release(&shard->lock);
    return entry;
}

/* Memory for a seat that has none yet, or for a release that found none. The shard's own first entry is the last resort: a seat would keep it. */
static struct nxm_entry *find_entry(struct nxm_queued_shard *shard, struct nxm_seat **seat)
{
    struct nxm_entry *entry = pop_spare(shard, NULL);

    if (entry == NULL)
        entry = nxm_mem_new(sizeof *entry);
    if (*seat != NULL)
        (*seat)->entry = entry;
    if (entry != NULL)
        return entry;
    if (*seat != NULL)
        atomic_store_explicit(&(*seat)->word, 0, memory_order_release);
    *seat = NULL;
    return pop_spare(shard, &shard->spare);
}

struct nxm_entry *nxm_queued_reserve_anew(struct nxm_queued *queued, struct nxm_seat *seat, const struct nxm_block *block)
{
    struct nxm_entry *entry = find_entry(shard_of(queued, block->id), &seat);

    return entry == NULL ? NULL : nxm_entry_begin(entry, seat, block);
}

uint64_t nxm_queued_begin_row(struct nxm_queued *queued)
{
    uint64_t id = nxm_ids_begin_row();
    struct nxm_seat *seat = nxm_queued_seat(queued, id);

    if (!nxm_seat_move(seat, 0, NXM_SEAT_BUSY))
        return id;
    if (seat->entry == NULL)
        seat->entry = nxm_mem_new(sizeof *seat->entry);
    atomic_store_explicit(&seat->word, 0, memory_order_release);
    return id;
}

void nxm_queued_publish_in_shard(struct nxm_queued *queued, struct nxm_entry *entry)
{
    struct nxm_queued_shard *shard = shard_of(queued, entry->block.id);

    nxm_lock_acquire(&shard->lock);
    grow_if_crowded(shard);
    push(shard, entry);
    shard->count++;
    nxm_lock_release(&shard->lock);
}

void nxm_queued_recycle_in_shard(struct nxm_queued *queued, struct nxm_entry *entry)
{
    struct nxm_queued_shard *shard = shard_of(queued, entry->block.id);

    nxm_lock_acquire(&shard->lock);
    entry->next = shard->spare;
    shard->spare = entry;
    nxm_lock_release(&shard->lock);
}

/* A completion on another thread took the entry and is moving counters: a bounded stretch of our own code, in
 * which nothing foreign runs. */
static void await(const struct nxm_entry *entry)
{
    while (!atomic_load_explicit(&entry->finished, memory_order_acquire))
        sched_yield();
}

/* Into its shard, where it can wait for as long as the plugin likes. In one stretch under the lock: at every moment a
 * completion finds it in exactly one of the two places. */
static bool move_to_shard(struct nxm_queued *queued, struct nxm_entry *entry, uint64_t word, uint64_t ticket)
{
    struct nxm_queued_shard *shard = shard_of(queued, entry->block.id);
    struct nxm_seat *seat = entry->seat;
    bool moved;

    nxm_lock_acquire(&shard->lock);
    moved = nxm_seat_move(seat, word, NXM_SEAT_BUSY);
    if (moved) {
        entry->seat = NULL;
        entry->phase = NXM_ENTRY_QUEUED;
        entry->ticket = ticket;
        grow_if_crowded(shard);
        push(shard, entry);
        shard->count++;
        seat->entry = NULL;
        atomic_store_explicit(&seat->word, 0, memory_order_release);
    }
    nxm_lock_release(&shard->lock);
    return moved;
}

static enum nxm_settled settle_in_seat(struct nxm_queued *queued, struct nxm_entry *entry, bool accepted, uint64_t ticket)
{
    if (!nxm_queued_is_over(entry)) {
        if (accepted && move_to_shard(queued, entry, entry->block.id, ticket))
            return NXM_SETTLED_STAYS;
        if (!accepted && nxm_seat_move(entry->seat, entry->block.id, NXM_SEAT_BUSY))
            return NXM_SETTLED_WITHDRAWN;
        await(entry);
    }
    return NXM_SETTLED_COMPLETED;
}

enum nxm_settled nxm_queued_settle(struct nxm_queued *queued, struct nxm_entry *entry, bool accepted, uint64_t ticket)
{
    struct nxm_queued_shard *shard = shard_of(queued, entry->block.id);
    enum nxm_settled settled = NXM_SETTLED_COMPLETED;

    if (entry->seat != NULL)
        return settle_in_seat(queued, entry, accepted, ticket);
    nxm_lock_acquire(&shard->lock);
    if (entry->phase == NXM_ENTRY_ENTERING && accepted) {
        settled = NXM_SETTLED_STAYS;
        entry->phase = NXM_ENTRY_QUEUED;
        entry->ticket = ticket;
    } else if (entry->phase == NXM_ENTRY_ENTERING) {
        settled = NXM_SETTLED_WITHDRAWN;
        unlink_entry(shard, link_of(shard, entry->block.id));
    }
    nxm_lock_release(&shard->lock);
    if (settled == NXM_SETTLED_COMPLETED)
        await(entry);
    return settled;
}

enum nxm_settled nxm_queued_settle_quiet(struct nxm_queued *queued, struct nxm_seat *seat, const struct nxm_block *block, bool complete,
                                         bool accepted, uint64_t ticket, NxmemReleaseCompletion *ret_completion, struct nxm_entry **ret_entry)
{
    uint64_t word = nxm_seat_quiet_word(block->id);
    struct nxm_entry *entry = *ret_entry = nxm_entry_begin(seat->entry, seat, block);

    if (complete)
        return NXM_SETTLED_COMPLETED;
    if (accepted && move_to_shard(queued, entry, word, ticket))
        return NXM_SETTLED_STAYS;
    if (!accepted && nxm_seat_move(seat, word, NXM_SEAT_BUSY))
        return NXM_SETTLED_WITHDRAWN;
    while (!atomic_load_explicit(&seat->said, memory_order_acquire))
        sched_yield(); /* some words long, on another thread */
    memcpy(ret_completion, seat->completion, NXM_COMPLETION_READ);
    atomic_store_explicit(&seat->said, false, memory_order_relaxed);
    return NXM_SETTLED_COMPLETED;
}

/* --- the completion's side ------------------------------------------------------------------------------ */

bool nxm_queued_is_quiet_at(const struct nxm_queued *queued, unsigned number, uint64_t *ret_address, uint64_t *ret_id)
{
    const struct nxm_seat *seat = &queued->seats[number];
    uint64_t word = atomic_load_explicit(&seat->word, memory_order_acquire);

    *ret_id = word & ~(NXM_SEAT_QUIET | NXM_SEAT_BUSY);
    *ret_address = __atomic_load_n(&seat->releases, __ATOMIC_ACQUIRE) - *ret_id;
    return (word & NXM_SEAT_QUIET) != 0;
}

bool nxm_queued_is_releasing(const struct nxm_queued *queued, uint64_t address)
{
    uint64_t at, id;

    for (unsigned i = 0; i < NXM_QUEUED_SEATS; i++) {
        if (nxm_queued_is_quiet_at(queued, i, &at, &id) && at == address)
            return true;
    }
    return false;
}

bool nxm_queued_hand_over(struct nxm_queued *queued, const NxmemReleaseCompletion *completion)
{
    uint64_t id = completion->allocation_id, word = nxm_seat_quiet_word(id);
    struct nxm_seat *seat = nxm_queued_seat(queued, id);

    if (id == 0 || (id & (NXM_SEAT_BUSY | NXM_SEAT_QUIET)) != 0 || atomic_load_explicit(&seat->word, memory_order_acquire) != word ||
        !nxm_seat_move(seat, word, word | NXM_SEAT_BUSY))
        return false;
    memcpy(seat->completion, completion, NXM_COMPLETION_READ);
    atomic_store_explicit(&seat->said, true, memory_order_release);
    return true;
}

struct nxm_entry *nxm_queued_take_from_shard(struct nxm_queued *queued, uint64_t id, uint64_t ticket, bool *ret_stayed)
{
    struct nxm_queued_shard *shard = shard_of(queued, id);
    struct nxm_entry **link, *entry;

    nxm_lock_acquire(&shard->lock);
    link = link_of(shard, id);
    entry = *link;
    if (entry != NULL && entry->phase == NXM_ENTRY_QUEUED && entry->ticket != ticket)
        entry = NULL;
    if (entry != NULL) {
        unlink_entry(shard, link);
        *ret_stayed = entry->phase == NXM_ENTRY_QUEUED;
        if (entry->phase == NXM_ENTRY_ENTERING)
            entry->phase = NXM_ENTRY_TAKEN;
    }
    nxm_lock_release(&shard->lock);
    return entry;
}
