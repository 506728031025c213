/* Where blocks start: one bit for every 1024 bytes of addresses, and for larger stretches whether there is any, and how far the
 * blocks that start there reach. Answers, for an address inside of a block, where to look for that block. Owns the bits.
 *
 * The bit of a granule may be looked at and changed by who holds the lock of its shard only. A bit stays when its block goes: a
 * free must not write what other threads read. Who meets a granule without a block clears it (nxm_starts_clear), and what
 * says more of the stretches around it. Any thread; takes NXM_RANK_STARTS inside.
 */
#ifndef NXM_STARTS_H
#define NXM_STARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "populate.h"
#include "spin.h"

#define NXM_GRANULE_BITS 10  /* blocks that start in the same granule share a chain of shard.h, and a bit here */
#define NXM_STARTS_BITS 48   /* addresses beyond are not kept */
#define NXM_LEAF_BITS 32
#define NXM_REGION_BITS (NXM_GRANULE_BITS + 12)
#define NXM_WORD_BITS (NXM_GRANULE_BITS + 6)
#define NXM_LEAVES (1u << (NXM_STARTS_BITS - NXM_LEAF_BITS))
#define NXM_REGIONS (1u << (NXM_LEAF_BITS - NXM_REGION_BITS))
#define NXM_WORDS (1u << (NXM_LEAF_BITS - NXM_WORD_BITS))

/* 64 smaller stretches. `last`: no block that starts in there has a later byte; it only grows as long as there is a bit. */
struct nxm_stretch {
    uint64_t bits; /* which are not empty */
    uint64_t last;
};

#define NXM_WORDS_OF_PAGE (NXM_POPULATE_PAGE / sizeof(struct nxm_stretch))

struct nxm_leaf { /* 4 GiB of addresses; only what is used of it is ever touched */
    struct nxm_spin lock;
    uint64_t last;
    uint64_t regions[NXM_REGIONS / 64]; /* which are not empty */
    uint64_t pages[NXM_WORDS / NXM_WORDS_OF_PAGE / 64]; /* of words, to which somebody has come */
    struct nxm_stretch region[NXM_REGIONS];
    struct nxm_stretch words[NXM_WORDS] __attribute__((aligned(NXM_POPULATE_PAGE)));
};

struct nxm_starts {
    struct nxm_leaf **leaves; /* NULL: of a process that is gone */
    struct nxm_spin lock;     /* new leaves */
    uint64_t present[NXM_LEAVES / 64];
};

int nxm_starts_init(struct nxm_starts *starts); /* NXM_ENOMEM */
void nxm_starts_clear_all(struct nxm_starts *starts);

/* Notes that a block starts at `address` and ends with the byte at `last`, unless that is noted. NXM_ENOMEM, and then it is not. */
int nxm_starts_mark(struct nxm_starts *starts, uint64_t address, uint64_t last);

static inline const struct nxm_stretch *nxm_starts_word(const struct nxm_starts *starts, uint64_t address)
{
    struct nxm_leaf *leaf = __atomic_load_n(&starts->leaves[address << 16 >> 16 >> NXM_LEAF_BITS], __ATOMIC_ACQUIRE);

    return leaf == NULL ? NULL : &leaf->words[(uint32_t)address >> NXM_WORD_BITS];
}

/* Is that noted there? Then there is nothing to be done. */
static inline bool nxm_starts_has(const struct nxm_stretch *word, uint64_t address, uint64_t last)
{
    return word != NULL && __atomic_load_n(&word->last, __ATOMIC_RELAXED) >= last && address >> NXM_STARTS_BITS == 0 &&
           (__atomic_load_n(&word->bits, __ATOMIC_RELAXED) >> (address >> NXM_GRANULE_BITS & 63) & 1) != 0;
}

/* The last granule up to *granule that has its bit, where a block that starts around there may reach `address`. */
bool nxm_starts_before(struct nxm_starts *starts, uint64_t address, uint64_t *granule);

/* No block starts there any more. */
void nxm_starts_clear(struct nxm_starts *starts, uint64_t granule);

#endif
