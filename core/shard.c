#include "shard.h"

#include "arena.h"

#define MOVES 4u         /* chains moved at an operation */
#define FIRST_CHUNK 4u   /* records */
#define LARGEST_CHUNK 64u
#define SIZES 16u        /* of chunks, down to half of it: shards fill evenly, and are not all to need the next one at once */
#define SECOND_CHAINS 64u
#define AHEAD 8          /* records that a walk fetches before it reads them */
#define TRIES 32         /* before a reader waits for its turn */

#define READ(from) __atomic_load_n(&(from), __ATOMIC_ACQUIRE)

/* --- growth --------------------------------------------------------------------------------------------------------- */

static void move_chain(struct nxm_shard *shard, uint64_t *head)
{
    struct nxm_record *record = nxm_link_record(*head);

    while (record != NULL) {
        struct nxm_record *next = nxm_link_record(record->next);
        uint64_t hash = nxm_shard_hash(record->block.address);

        nxm_link_push(nxm_chains_head(shard->chains, hash), record, hash);
        record = next;
    }
    nxm_link_set(head, 0);
}

void nxm_shard_move_some(struct nxm_shard *shard, struct nxm_supply *supply)
{
    struct nxm_chains *old = nxm_chains_of(shard->old);

    for (unsigned i = 0; i < MOVES && shard->moved < old->length; i++) {
        move_chain(shard, &old->heads[shard->moved]);
        __atomic_store_n(&shard->moved, shard->moved + 1, __ATOMIC_RELEASE);
    }
    if (shard->moved < old->length)
        return;
    __atomic_store_n(&shard->old, UINT64_C(0), __ATOMIC_RELEASE);
    if (old != nxm_shard_own(shard))
        nxm_supply_give(supply, old);
}

/* At most three records for two chains, if there is memory; shorter chains are no must. The first step is a large one: what is left
 * behind serves shards that are smaller, of which there may be none. */
static bool grow_chains(struct nxm_shard *shard, struct nxm_supply *supply)
{
    uint64_t length = nxm_chains_of(shard->chains)->length;
    struct nxm_chains *more;

    if (shard->old != 0 || shard->records <= length + length / 2)
        return false;
    more = nxm_supply_chains(supply, length < SECOND_CHAINS ? SECOND_CHAINS : 2 * length);
    if (more == NULL)
        return false;
    __atomic_store_n(&shard->moved, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&shard->old, shard->chains, __ATOMIC_RELEASE);
    __atomic_store_n(&shard->chains, nxm_chains_word(more), __ATOMIC_RELEASE);
    return true;
}

static bool add_chunk(struct nxm_shard *shard, struct nxm_supply *supply)
{
    uint32_t count = shard->records / 8;
    struct nxm_chunk *chunk;

    count = count < FIRST_CHUNK ? FIRST_CHUNK : count > LARGEST_CHUNK ? LARGEST_CHUNK : count;
    count -= count * (uint32_t)((uintptr_t)shard / sizeof *shard % SIZES) / (2 * SIZES);
    chunk = nxm_supply_take(supply, sizeof *chunk + count * sizeof *chunk->records);
    if (chunk == NULL)
        return false;
    chunk->count = count;
    if (shard->last == NULL)
        shard->first = chunk;
    else
        shard->last->next = chunk; /* at the end: in a journal, what did not fit any more comes after what did */
    shard->last = chunk;
    shard->records += count;
    if (shard->chains == 0) {
        nxm_shard_own(shard)->length = NXM_SHARD_FIRST_CHAINS;
        __atomic_store_n(&shard->chains, nxm_chains_word(nxm_shard_own(shard)), __ATOMIC_RELEASE);
    }
    return true;
}

struct nxm_record *nxm_shard_take_more(struct nxm_shard *shard, struct nxm_supply *supply)
{
    /* Each touches new pages, or populates some: one of them at once. */
    if (shard->last == NULL || shard->last->fresh == shard->last->count) {
        if (!add_chunk(shard, supply))
            return NULL;
    } else if (!grow_chains(shard, supply)) {
        nxm_supply_make_ready(supply);
    }
    return &shard->last->records[shard->last->fresh++];
}

void nxm_shard_refresh(uint64_t *head, const uint64_t *link)
{
    uint64_t marks = *link & ~NXM_LINK_ADDRESS;

    for (const uint64_t *at = head; at != link; at = &nxm_link_record(*at)->next)
        marks |= nxm_link_mark(nxm_shard_hash(nxm_link_record(*at)->block.address));
    nxm_link_set(head, (*head & NXM_LINK_ADDRESS) | marks);
}

#define GONE_LOOKED_AT 256

bool nxm_shard_find_gone(struct nxm_shard *shard, uint64_t address, struct nxm_block *ret_block)
{
    const struct nxm_record *record = nxm_shard_first_free(shard);

    for (int i = 0; i < GONE_LOOKED_AT && record != NULL; i++) {
        if (record->block.address == address && record->block.id != 0) {
            *ret_block = record->block;
            return true;
        }
        record = nxm_link_record(record->next);
    }
    return false;
}

bool nxm_shard_bring_forward(uint64_t *head, uint64_t hash, uint64_t address)
{
    uint64_t *link = nxm_link_to(head, hash, address);
    struct nxm_record *record;

    if (link == NULL)
        return false;
    record = nxm_link_record(*link);
    nxm_link_set(link, record->next);
    nxm_shard_refresh(head, link);
    nxm_link_push(head, record, hash);
    return true;
}

/* --- reading ---------------------------------------------------------------------------------------------------------- */

static void copy(const struct nxm_block *block, struct nxm_block *ret_block)
{
    for (size_t i = 0; i < NXM_BLOCK_WORDS; i++)
        ((nxm_block_word *)ret_block)[i] = __atomic_load_n((const nxm_block_word *)block + i, __ATOMIC_ACQUIRE);
}

/* As nxm_shard_head, for one without the lock: any chain there is when somebody writes meanwhile, none when there are none. */
static uint64_t first_of(struct nxm_shard *shard, uint64_t hash)
{
    uint64_t chains = READ(shard->chains), old = READ(shard->old);

    if (chains == 0)
        return 0;
    if (old != 0 && nxm_chains_index(old, hash) >= READ(shard->moved))
        return READ(*nxm_chains_head(old, hash));
    return READ(*nxm_chains_head(chains, hash));
}

enum outcome { FOUND, MISSED, DISTURBED };

static enum outcome try_find(struct nxm_shard *shard, uint64_t hash, uint64_t address, struct nxm_block *ret_block)
{
    uint64_t looked = nxm_spin_look(&shard->lock), link = first_of(shard, hash), mark = nxm_link_mark(hash);
    struct nxm_block block;

    while ((link & mark) != 0 && READ(nxm_link_record(link)->block.address) != address) {
        if (!nxm_spin_was_quiet(&shard->lock, looked))
            return DISTURBED; /* and the chain may lead anywhere, round in circles too */
        link = READ(nxm_link_record(link)->next);
    }
    if ((link & mark) != 0)
        copy(&nxm_link_record(link)->block, &block);
    if (!nxm_spin_was_quiet(&shard->lock, looked))
        return DISTURBED;
    if ((link & mark) == 0)
        return MISSED;
    *ret_block = block;
    return FOUND;
}

bool nxm_shard_find(struct nxm_shard *shard, uint64_t hash, uint64_t address, struct nxm_block *ret_block)
{
    struct nxm_record *record;

    for (int i = 0; i < TRIES; i++) {
        enum outcome outcome = try_find(shard, hash, address, ret_block);

        if (outcome != DISTURBED)
            return outcome == FOUND;
    }
    nxm_spin_acquire(&shard->lock, NXM_RANK_BLOCKS);
    record = nxm_shard_record(shard, hash, address);
    if (record != NULL)
        *ret_block = record->block;
    nxm_spin_release(&shard->lock);
    return record != NULL;
}

struct around {
    uint64_t granule, address;
    struct nxm_block best;
    bool found, any;
};

static void consider(struct around *around, const struct nxm_block *block)
{
    uint64_t start = READ(block->address);

    if (start >> NXM_GRANULE_BITS != around->granule)
        return;
    around->any = true;
    if (start > around->address || (around->found && start <= around->best.address) ||
        around->address - start >= READ(block->bytes))
        return;
    around->found = true;
    copy(block, &around->best);
}

static bool try_around(struct nxm_shard *shard, uint64_t hash, struct around *around)
{
    uint64_t looked = nxm_spin_look(&shard->lock);

    around->found = around->any = false;
    for (uint64_t link = first_of(shard, hash); (link & nxm_link_mark(hash)) != 0; link = READ(nxm_link_record(link)->next)) {
        if (!nxm_spin_was_quiet(&shard->lock, looked))
            return false;
        consider(around, &nxm_link_record(link)->block);
    }
    return nxm_spin_was_quiet(&shard->lock, looked);
}

static void around_locked(struct nxm_shard *shard, uint64_t hash, struct around *around)
{
    around->found = around->any = false;
    nxm_spin_acquire(&shard->lock, NXM_RANK_BLOCKS);
    if (shard->chains != 0) {
        for (uint64_t link = *nxm_shard_head(shard, hash); nxm_link_record(link) != NULL; link = nxm_link_record(link)->next)
            consider(around, &nxm_link_record(link)->block);
    }
    nxm_spin_release(&shard->lock);
}

bool nxm_shard_around(struct nxm_shard *shard, uint64_t hash, uint64_t granule, uint64_t address, struct nxm_block *ret_block,
                      bool *ret_any)
{
    struct around around = { .granule = granule, .address = address };
    int left = TRIES;

    while (left > 0 && !try_around(shard, hash, &around))
        left--;
    if (left == 0)
        around_locked(shard, hash, &around);
    *ret_any = around.any;
    if (around.found)
        *ret_block = around.best;
    return around.found;
}

bool nxm_shard_has_granule(struct nxm_shard *shard, uint64_t hash, uint64_t granule)
{
    uint64_t link = shard->chains == 0 ? 0 : *nxm_shard_head(shard, hash);

    while (nxm_link_record(link) != NULL && nxm_link_record(link)->block.address >> NXM_GRANULE_BITS != granule)
        link = nxm_link_record(link)->next;
    return nxm_link_record(link) != NULL;
}

/* --- walking ---------------------------------------------------------------------------------------------------------- */

/* The records of a chunk from the one given on; what comes some records later is fetched meanwhile. */
static unsigned copy_some(const struct nxm_chunk *chunk, uint32_t *at, struct nxm_block *ret_blocks, unsigned capacity)
{
    unsigned count = 0;

    while (*at < chunk->fresh && count < capacity) {
        const struct nxm_record *record = &chunk->records[(*at)++];

        __builtin_prefetch(record + AHEAD);
        __builtin_prefetch((const char *)(record + AHEAD) + 64);
        if (record->block.state != 0)
            ret_blocks[count++] = record->block;
    }
    return count;
}

unsigned nxm_shard_next(struct nxm_shard *shard, struct nxm_shard_walk *walk, struct nxm_block *ret_blocks, unsigned capacity)
{
    unsigned count = 0;

    if (!nxm_shard_was_used(shard))
        return 0;
    nxm_spin_acquire(&shard->lock, NXM_RANK_BLOCKS);
    if (!walk->begun)
        *walk = (struct nxm_shard_walk){ .chunk = shard->first, .begun = true };
    while (walk->chunk != NULL && count < capacity) {
        count += copy_some(walk->chunk, &walk->at, ret_blocks + count, capacity - count);
        if (walk->at < walk->chunk->fresh || walk->chunk->next == NULL)
            break; /* more may come to lie here before the next call */
        walk->chunk = walk->chunk->next;
        walk->at = 0;
        __builtin_prefetch(walk->chunk->next);
    }
    nxm_spin_release(&shard->lock);
    return count;
}

/* --- a dead process's --------------------------------------------------------------------------------------------------- */

static bool is_a_block(const struct nxm_block *block)
{
    return block->id != 0 && block->class_ < NXM_CLASS_COUNT &&
           (block->state == NXM_BLOCK_LIVE || block->state == NXM_BLOCK_WAITING || block->state == NXM_BLOCK_RELEASING);
}

static void chain_chunk(struct nxm_shard *shard, struct nxm_chunk *chunk)
{
    chunk->fresh = chunk->fresh < chunk->count ? chunk->fresh : chunk->count;
    for (uint32_t i = 0; i < chunk->fresh; i++) {
        struct nxm_record *record = &chunk->records[i];
        uint64_t hash = nxm_shard_hash(record->block.address);

        if (!is_a_block(&record->block)) { /* it died while it wrote it */
            record->block.state = 0;
            continue;
        }
        nxm_link_push(nxm_chains_head(shard->chains, hash), record, hash);
    }
}

static bool holds_chunk(const struct nxm_arena *arena, const struct nxm_chunk *chunk)
{
    return nxm_arena_holds(arena, chunk, sizeof *chunk) && chunk->count <= LARGEST_CHUNK &&
           nxm_arena_holds(arena, chunk, sizeof *chunk + chunk->count * sizeof *chunk->records);
}

void nxm_shard_adopt(struct nxm_shard *shard, const struct nxm_arena *arena)
{
    uint64_t most = arena->capacity / sizeof(struct nxm_chunk); /* a damaged list may lead round in circles */
    struct nxm_chunk **link = &shard->first;

    atomic_store(&shard->lock.turns, 0);
    nxm_shard_own(shard)->length = NXM_SHARD_FIRST_CHAINS;
    for (unsigned i = 0; i < NXM_SHARD_FIRST_CHAINS; i++)
        nxm_shard_own(shard)->heads[i] = 0;
    shard->chains = nxm_chains_word(nxm_shard_own(shard));
    shard->old = 0;
    shard->free = 0;
    shard->last = NULL;
    while (holds_chunk(arena, *link) && most-- > 0) {
        chain_chunk(shard, *link);
        shard->last = *link;
        link = &(*link)->next;
    }
    *link = NULL;
}
