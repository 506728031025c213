/* The live-block table: address -> block. Owns its records; any thread; takes NXM_RANK_BLOCKS inside
 * and holds nothing on return. Records travel by value, so nobody keeps a pointer into the table.
 *
 * States: LIVE -> WAITING (behind an event on a release lane) -> RELEASING (its owner has been asked) ->
 * gone. A block stays findable until its owner has released it. One thread wins each change of state
 * (nxm_blocks_claim); the others are told the state they met, which is how a double free is seen.
 *
 * An owner may hand an address out again before the thread that released it has removed the record:
 * inserting over a RELEASING record replaces it, and removal names the id, so the late remover finds
 * nothing of its own and leaves the newcomer alone.
 */
#ifndef NXM_BLOCKS_H
#define NXM_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ids.h"

struct nxm_allocator;

enum nxm_class {
#define CLASS(name, words, leak) NXM_CLASS_##name,
#include "class.def"
#undef CLASS
    NXM_CLASS_COUNT
};

enum nxm_block_state {
    NXM_BLOCK_LIVE = 1,
    NXM_BLOCK_WAITING = 2,
    NXM_BLOCK_RELEASING = 4,
};

#define NXM_BLOCK_PLAIN 1u           /* owned and mapped are what was requested */
#define NXM_BLOCK_AGAIN 0x100u       /* it was out of the table for a while, nxm_blocks_insert_again */
#define NXM_BLOCK_UNRECORDED 0x200u  /* it still is, and may be the one that belongs there */

struct nxm_block {
    uint64_t address;
    uint64_t bytes;                  /* as requested */
    uint64_t align;                  /* as requested of the plugin; 0 where it has no meaning */
    uint64_t id;                     /* unique in the process (ids.h); never 0 */
    struct nxm_allocator *allocator; /* borrowed; NULL: not a plugin's block */
    uint64_t context;                /* opaque to core: what the block dies with; 0 none */
    uint64_t owned, mapped;          /* as the plugin stated at allocation; set and summed by its allocator */
    uint64_t tag;                    /* opaque to core: class-specific (pool, handle, size of a mapping …) */
    uint32_t stack;                  /* nxm_stack id; 0 none */
    int32_t device;                  /* ordinal; -1 unknown */
    uint16_t api;                    /* index into the API names given to the report */
    uint8_t class_;                  /* enum nxm_class */
    uint8_t state;                   /* enum nxm_block_state */
    uint32_t flags;                  /* NXM_BLOCK_PLAIN, set by who sets owned and mapped */
};

/* Sums kept by the table itself as records come and go (a counter nobody can forget to move). */
struct nxm_class_totals {
    uint64_t live_blocks, live_bytes; /* LIVE, WAITING and RELEASING alike */
    uint64_t peak_bytes;
    uint64_t ever_blocks, ever_bytes;
};

struct nxm_blocks;

int nxm_blocks_new(struct nxm_blocks **ret_table);   /* NXM_ENOMEM */
void nxm_blocks_free(struct nxm_blocks *table);      /* takes NULL; no other thread may be inside */

struct nxm_arena;
/* The table is that of a process that ended, in memory of our own: whoever held a lock of it is gone, and so are records that lie
 * outside the arena. */
void nxm_blocks_adopt(struct nxm_blocks *table, const struct nxm_arena *arena);

/* 0; NXM_EEXIST when a LIVE or WAITING record has this address; NXM_ENOMEM, and then nothing changed;
 * NXM_EINVAL: id 0, no state, or no such class. Replaces a RELEASING one. */
int nxm_blocks_insert(struct nxm_blocks *table, const struct nxm_block *block);

/* A RELEASING block that was taken out comes back, and does not count as another one. It replaces none, for what came meanwhile is newer
 * (NXM_EEXIST), unless that came back too: then nobody knows (NXM_EBUSY, and UNRECORDED is set in its flags, as with NXM_ENOMEM). */
int nxm_blocks_insert_again(struct nxm_blocks *table, struct nxm_block *block);

/* A RELEASING block is live again, an UNRECORDED one too. NXM_ENOENT: another stands there, or none; NXM_EEXIST: a live one;
 * NXM_ENOMEM: as nxm_blocks_insert. */
int nxm_blocks_revive(struct nxm_blocks *table, const struct nxm_block *block);

/* Moves the record from one of the states in mask `from` to `to`, for one winner. On success *ret_block
 * (NULL allowed) is the record as it was before. NXM_ENOENT: no such address. NXM_EBUSY: another state;
 * *ret_block is filled then too. `id` 0 matches any block, else only this one. */
int nxm_blocks_claim(struct nxm_blocks *table, uint64_t address, uint64_t id, unsigned from,
                     enum nxm_block_state to, struct nxm_block *ret_block);

/* Adds to the tag of the live block there, which counts something. At 0 the record becomes RELEASING, for the one who brought it
 * there. *ret_block is the record after that. NXM_ENOENT: no live block. */
int nxm_blocks_count(struct nxm_blocks *table, uint64_t address, int delta, struct nxm_block *ret_block);

/* Removes the record if it still is this block. NXM_ENOENT otherwise. */
int nxm_blocks_remove(struct nxm_blocks *table, uint64_t address, uint64_t id);

int nxm_blocks_find(struct nxm_blocks *table, uint64_t address, struct nxm_block *ret_block); /* exact */

/* The last block there that was freed quietly (quiet.h), as long as nothing else is recorded in its place. Takes the lock of its part. */
bool nxm_blocks_find_gone(struct nxm_blocks *table, uint64_t address, struct nxm_block *ret_block);

/* The block that starts at `address`, else the one around it (of several, the one that starts last). */
int nxm_blocks_containing(struct nxm_blocks *table, uint64_t address, struct nxm_block *ret_block);

/* Calls `visit` with a copy of each record, no lock held; records inserted or removed meanwhile may or
 * may not be seen. Stops when `visit` returns false. */
void nxm_blocks_each(struct nxm_blocks *table, bool (*visit)(void *argument, const struct nxm_block *block),
                     void *argument);

void nxm_blocks_totals(struct nxm_blocks *table, enum nxm_class class_, struct nxm_class_totals *ret_totals);
const char *nxm_class_words(enum nxm_class class_);
bool nxm_class_is_leak(enum nxm_class class_);

#endif
