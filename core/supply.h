/* Memory for a block table: whole pages, taken in large pieces and cut into chunks of records and arrays of chains. Any thread;
 * takes NXM_RANK_SUPPLY inside. Owns all of it until it is cleared: an array that is given back serves again as an array of that
 * length, and nothing is unmapped while somebody may still read it.
 */
#ifndef NXM_SUPPLY_H
#define NXM_SUPPLY_H

#include <stddef.h>
#include <stdint.h>

#include "spin.h"

/* The heads of a power of two of chains, two at least. */
struct nxm_chains {
    uint64_t length;
    struct nxm_chains *next; /* while it is spare */
    uint64_t heads[]; /* see shard.h */
};

/* What is left of a piece, from `at` on. Its pages up to `ready` have been touched, where the kernel can. */
struct nxm_stock {
    char *at, *ready, *end;
};

struct nxm_supply {
    struct nxm_spin lock;
    struct nxm_stock now, next; /* next: for when the first is used up, or not there yet */
    struct nxm_piece *pieces;
    struct nxm_chains *spare[32]; /* by the logarithm of the length */
};

/* Zero-filled, aligned to 32 bytes. NULL: no memory. */
void *nxm_supply_take(struct nxm_supply *supply, size_t bytes);

/* Touches pages that come next, or maps more, if few stand ready: for who takes nothing now, so that who does seldom has to. */
void nxm_supply_make_ready(struct nxm_supply *supply);

/* All heads empty. NULL: no memory. It is given back with all heads empty. */
struct nxm_chains *nxm_supply_chains(struct nxm_supply *supply, uint64_t length);
void nxm_supply_give(struct nxm_supply *supply, struct nxm_chains *chains);

void nxm_supply_clear(struct nxm_supply *supply); /* nobody may use any of it any more */

#endif
