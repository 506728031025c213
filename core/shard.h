/* One of the parts that a block table falls into: its records, found by address through chains. Belongs to blocks.c. Writers
 * hold its lock (NXM_RANK_BLOCKS); readers of one address take none and look again when somebody wrote meanwhile.
 *
 * A record never moves and its memory stays the shard's, so a reader that has lost its way reads a record of another address, at
 * worst, and a walk needs no lock between two records. When chains get long, twice as many take over, a few at each operation
 * (`old`); until a chain has been moved it is the only one in use for its addresses. An array of chains that is done
 * with goes to another shard, and is read by those who still look at it here as chains of others.
 *
 * Everything that readers look at is written with release and read by them with acquire; it costs nothing on x86, and it is
 * what makes nxm_spin_look mean something.
 */
#ifndef NXM_SHARD_H
#define NXM_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocks.h"
#include "spin.h"
#include "starts.h"
#include "supply.h"

#define NXM_SHARD_FIRST_CHAINS 4

struct nxm_record {
    struct nxm_block block; /* state 0: nothing */
    uint64_t next;          /* a link: in its chain, or of the free ones */
};

/* A link is the address of a record and, in the upper 16 bits, one bit for each hash from there to the chain's end, or more: that
 * an address is new shows most often without a look at the records of others, which are in no cache. */
#define NXM_LINK_ADDRESS (UINT64_MAX >> 16)

static inline struct nxm_record *nxm_link_record(uint64_t link)
{
    return (struct nxm_record *)(uintptr_t)(link & NXM_LINK_ADDRESS);
}

static inline uint64_t nxm_link_mark(uint64_t hash)
{
    return UINT64_C(1) << ((hash >> 34 | 48) & 63);
}

struct nxm_chunk {
    struct nxm_chunk *next; /* taken later */
    uint32_t count;         /* of records */
    uint32_t fresh;         /* the first that was never used */
    char rest[16];          /* a record then lies in two cache lines, never in three */
    struct nxm_record records[];
};

struct nxm_sums { /* of one class */
    uint64_t in_blocks, out_blocks, in_bytes, out_bytes;
};

/* Of one cache line when all is quiet, for memory of the class that comes first. */
struct nxm_shard {
    struct nxm_spin lock;
    uint64_t chains; /* see nxm_chains_word; 0: nothing was ever recorded here */
    uint64_t old;    /* those that the chains take over from; 0: none */
    uint64_t free;   /* records used before: the first one's address, and NXM_FREE_MARKED; 0: none */
    struct nxm_sums sums[NXM_CLASS_COUNT];
    uint64_t moved;            /* so many of the old chains have been */
    struct nxm_chunk *first, *last;
    uint32_t records;          /* in all chunks */
    uint64_t own[sizeof(struct nxm_chains) / sizeof(uint64_t) + NXM_SHARD_FIRST_CHAINS] __attribute__((aligned(32))); /* the first chains */
} __attribute__((aligned(64)));

/* The block of the first free record was the last to go: as long as nobody has found out that none is left there, its start is noted. */
#define NXM_FREE_MARKED UINT64_C(1)

static inline struct nxm_chains *nxm_shard_own(struct nxm_shard *shard)
{
    return (struct nxm_chains *)(void *)shard->own;
}

/* The golden ratio spreads what lies at equal distances evenly, over the shards (10 bits), and of each over its chains (those below). */
static inline uint64_t nxm_shard_hash(uint64_t address)
{
    return (address >> NXM_GRANULE_BITS) * UINT64_C(0x9E3779B97F4A7C15);
}

/* Chains as one word: their address and, in the five bits below its alignment, how far a hash is shifted to say which chain. So
 * array and length are of one moment for who reads them without the lock, and no further line is read for the length. */
#define NXM_CHAINS_SHIFT UINT64_C(31)

static inline uint64_t nxm_chains_word(struct nxm_chains *chains)
{
    return (uintptr_t)chains | (32u - (unsigned)__builtin_ctzll(chains->length));
}

static inline struct nxm_chains *nxm_chains_of(uint64_t word)
{
    return (struct nxm_chains *)(uintptr_t)(word & ~NXM_CHAINS_SHIFT);
}

static inline uint64_t nxm_chains_index(uint64_t word, uint64_t hash)
{
    return (uint32_t)(hash >> 22) >> (word & NXM_CHAINS_SHIFT);
}

/* No chains have no head, but an address that may be fetched. */
static inline uint64_t *nxm_chains_head(uint64_t word, uint64_t hash)
{
    return (uint64_t *)(uintptr_t)((word & ~NXM_CHAINS_SHIFT) + offsetof(struct nxm_chains, heads) + sizeof(uint64_t) * nxm_chains_index(word, hash));
}

/* With the lock held. */
void nxm_shard_move_some(struct nxm_shard *shard, struct nxm_supply *supply);

static inline void nxm_shard_acquire(struct nxm_shard *shard, struct nxm_supply *supply)
{
    nxm_spin_acquire(&shard->lock, NXM_RANK_BLOCKS);
    if (shard->old != 0)
        nxm_shard_move_some(shard, supply);
}

static inline void nxm_shard_release(struct nxm_shard *shard)
{
    nxm_spin_release(&shard->lock);
}

/* --- with the lock held ---------------------------------------------------------------------------------------------- */

/* The chain of that hash. There must be chains. */
static inline uint64_t *nxm_shard_head(struct nxm_shard *shard, uint64_t hash)
{
    if (__builtin_expect(shard->old != 0, 0) && nxm_chains_index(shard->old, hash) >= shard->moved)
        return nxm_chains_head(shard->old, hash);
    return nxm_chains_head(shard->chains, hash);
}

/* The link that leads to the record of that address; NULL: there is none. */
static inline uint64_t *nxm_link_to(uint64_t *link, uint64_t hash, uint64_t address)
{
    for (uint64_t mark = nxm_link_mark(hash); (*link & mark) != 0; link = &nxm_link_record(*link)->next) {
        if (nxm_link_record(*link)->block.address == address)
            return link;
    }
    return NULL;
}

static inline uint64_t *nxm_shard_link(struct nxm_shard *shard, uint64_t hash, uint64_t address)
{
    return __builtin_expect(shard->chains == 0, 0) ? NULL : nxm_link_to(nxm_shard_head(shard, hash), hash, address);
}

static inline struct nxm_record *nxm_shard_record(struct nxm_shard *shard, uint64_t hash, uint64_t address)
{
    uint64_t *link = nxm_shard_link(shard, hash, address);

    return link == NULL ? NULL : nxm_link_record(*link);
}

static inline void nxm_link_set(uint64_t *link, uint64_t to)
{
    __atomic_store_n(link, to, __ATOMIC_RELEASE);
}

static inline void nxm_link_push(uint64_t *head, struct nxm_record *record, uint64_t hash)
{
    uint64_t first = *head;

    nxm_link_set(&record->next, first);
    nxm_link_set(head, (uintptr_t)record | (first & ~NXM_LINK_ADDRESS) | nxm_link_mark(hash));
}

/* The same, unless something of that hash is there by the marks. */
static inline bool nxm_link_push_first(uint64_t *head, struct nxm_record *record, uint64_t hash)
{
    uint64_t first = *head, marks = first;
#if NXM_STORES_IN_ORDER /* looked at and set at once */
    bool there;

    __asm__("btsq %2, %0" : "+r"(marks), "=@ccc"(there) : "r"(hash >> 34 | 48));
    if (__builtin_expect(there, 0))
        return false;
#else
    if ((first & nxm_link_mark(hash)) != 0)
        return false;
    marks |= nxm_link_mark(hash);
#endif
    nxm_link_set(&record->next, first);
    nxm_link_set(head, (uintptr_t)record | (marks >> 48 << 48));
    return true;
}

static inline struct nxm_record *nxm_shard_first_free(struct nxm_shard *shard)
{
    return (struct nxm_record *)(uintptr_t)(shard->free & ~NXM_FREE_MARKED);
}

/* A record that is in no chain; the first call makes the chains. NULL: no memory, and nothing has changed. */
struct nxm_record *nxm_shard_take_more(struct nxm_shard *shard, struct nxm_supply *supply);

static inline struct nxm_record *nxm_shard_take(struct nxm_shard *shard, struct nxm_supply *supply)
{
    struct nxm_record *record = nxm_shard_first_free(shard);

    if (__builtin_expect(record == NULL, 0))
        return nxm_shard_take_more(shard, supply);
    shard->free = record->next;
    return record;
}

/* It is in no chain any more. What it says of its block stays for nxm_shard_find_gone until it is used again. */
static inline void nxm_shard_free_quietly(struct nxm_shard *shard, struct nxm_record *record)
{
    __atomic_store_n(&record->block.state, (uint8_t)0, __ATOMIC_RELEASE);
    nxm_link_set(&record->next, shard->free & ~NXM_FREE_MARKED);
    shard->free = (uintptr_t)record | NXM_FREE_MARKED;
}

/* The same, and its block is forgotten: it was not freed, or has a grave (graves.h). */
static inline void nxm_shard_free(struct nxm_shard *shard, struct nxm_record *record)
{
    __atomic_store_n(&record->block.id, 0, __ATOMIC_RELEASE);
    nxm_shard_free_quietly(shard, record);
}

/* The block that was there, from the first of the free records; state 0. */
bool nxm_shard_find_gone(struct nxm_shard *shard, uint64_t address, struct nxm_block *ret_block);

/* Says anew at the head of the chain what hashes there are, as far as that is known before `link`. */
void nxm_shard_refresh(uint64_t *head, const uint64_t *link);

/* The record of that address becomes the first of its chain, which has another first. False: there is none. */
bool nxm_shard_bring_forward(uint64_t *head, uint64_t hash, uint64_t address);

/* Takes the record that `link` leads to out of its chain. */
static inline void nxm_shard_drop(struct nxm_shard *shard, uint64_t hash, uint64_t *link)
{
    struct nxm_record *record = nxm_link_record(*link);
    uint64_t *head = nxm_shard_head(shard, hash);

    nxm_link_set(link, record->next);
    if (__builtin_expect(link != head, 0))
        nxm_shard_refresh(head, link);
    nxm_shard_free(shard, record);
}

typedef uint64_t __attribute__((may_alias)) nxm_block_word;
#define NXM_BLOCK_WORDS (sizeof(struct nxm_block) / sizeof(nxm_block_word))

static inline void nxm_shard_write(struct nxm_record *record, const struct nxm_block *block)
{
#if NXM_STORES_IN_ORDER
    record->block = *block; /* and none passes those of the lock */
#else
    for (size_t i = 0; i < NXM_BLOCK_WORDS; i++)
        __atomic_store_n((nxm_block_word *)&record->block + i, ((const nxm_block_word *)block)[i], __ATOMIC_RELEASE);
#endif
}

/* Does a record start in it? */
bool nxm_shard_has_granule(struct nxm_shard *shard, uint64_t hash, uint64_t granule);

/* --- without ------------------------------------------------------------------------------------------------------------ */

static inline bool nxm_shard_was_used(struct nxm_shard *shard)
{
    return __atomic_load_n(&shard->chains, __ATOMIC_ACQUIRE) != 0;
}

/* The record of exactly this address. */
bool nxm_shard_find(struct nxm_shard *shard, uint64_t hash, uint64_t address, struct nxm_block *ret_block);

/* Of the records that start in `granule` and contain the address the one that starts last. *ret_any: is there a record at all? */
bool nxm_shard_around(struct nxm_shard *shard, uint64_t hash, uint64_t granule, uint64_t address, struct nxm_block *ret_block,
                      bool *ret_any);

/* --- walking: takes the lock itself -------------------------------------------------------------------------------------- */

struct nxm_shard_walk {
    struct nxm_chunk *chunk; /* NULL: the shard has not been begun */
    uint32_t at;
    bool begun;
};

/* Copies the next records; 0: there are no more. What stays in the table all the while is copied once. */
unsigned nxm_shard_next(struct nxm_shard *shard, struct nxm_shard_walk *walk, struct nxm_block *ret_blocks, unsigned capacity);

/* Of a process that is gone: what cannot be read any more is forgotten, the lock is free, and the records are chained anew. */
void nxm_shard_adopt(struct nxm_shard *shard, const struct nxm_arena *arena);

#endif
