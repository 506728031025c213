/* The set of blocks an allocator has given out, keyed by allocation id: a chained hash over blocks that
 * never move.
 *
 * Owns its pages, taken from mmap: it works inside the program's own malloc and never calls it. No lock of
 * its own: every function is called under the lock of the allocator that holds the set. Blocks stay where
 * they are until removed, so whoever owns a block's state may use it after unlocking.
 */
#ifndef NXP_LIVE_H
#define NXP_LIVE_H

#include <stddef.h>
#include <stdint.h>

enum nxp_block_state {
    NXP_ALLOCATING, /* reserved; only the allocating thread may touch it */
    NXP_LIVE,       /* the host's */
    NXP_RELEASING,  /* only the releasing thread may touch it */
    NXP_QUEUED,     /* waits for a drain */
    NXP_KEPT,       /* quarantined: nobody's any more, its bytes stay */
};

struct nxp_block {
    uint64_t id;
    uint64_t bytes; /* as requested, 0 included */
    uint64_t align;
    uint64_t committed; /* bytes behind it: what it owns, and what its release unmaps */
    uint64_t ticket;  /* of a queued release */
    uint8_t *ptr;     /* as given to the host */
    void *backing;    /* the mechanism's own word, untouched here */
    enum nxp_block_state state;
    struct nxp_block *chain; /* same bucket, or the next spare one */
    struct nxp_block *next;  /* behind it in the release queue */
};

struct nxp_live {
    struct nxp_block **buckets;
    size_t bucket_count; /* a power of two, or 0 before the first block */
    size_t count;
    struct nxp_block *spare;
    struct nxp_chunk *chunks;
};

/* A new block in state ALLOCATING, all else zero. NULL when the id is already there (*ret_exists 1) or
 * the system has no memory (*ret_exists 0). */
struct nxp_block *nxp_live_add(struct nxp_live *live, uint64_t id, int *ret_exists);
struct nxp_block *nxp_live_find(const struct nxp_live *live, uint64_t id);
void nxp_live_remove(struct nxp_live *live, struct nxp_block *block);
void nxp_live_clear(struct nxp_live *live);

/* Zeroed pages straight from the system; NULL when there are none. Shared with allocator.c. */
void *nxp_pages_map(size_t bytes);
void nxp_pages_unmap(void *pages, size_t bytes);

#endif
