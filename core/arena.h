/* Memory in a file, at an address that another process can map the file at too: what is written there is still to be read
 * when this process is gone, however it went. Owns the file's pages; given out upwards, bounded, never given out again. Any
 * thread; no locks.
 */
#ifndef NXM_ARENA_H
#define NXM_ARENA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lies at the start of the file. */
struct nxm_arena {
    uint64_t base, capacity; /* bytes, of the whole file */
    _Atomic uint64_t used;   /* this record included */
    _Atomic uint64_t missed; /* bytes that did not fit, or for which the disk had no room */
    uint64_t device, inode;  /* of the file */
};

/* Maps `capacity` bytes of the file, shared; nothing is allocated on the disk yet. NULL with errno: no address, no memory, a
 * file that may not grow. The descriptor stays the caller's; should it come to mean another
 * file, that one is left alone. */
struct nxm_arena *nxm_arena_new(int fd, uint64_t capacity);

/* Zero-filled pages. Their room on the disk is certain: a full disk is no SIGBUS later. NULL: no room, counted. */
void *nxm_arena_take(struct nxm_arena *arena, int fd, size_t bytes);
/* Does all of it lie in the arena? */
bool nxm_arena_holds(const struct nxm_arena *arena, const void *at, uint64_t bytes);
/* The disk gets the pages back. False: they are none of the arena's. */
bool nxm_arena_give(const struct nxm_arena *arena, void *pages, size_t bytes);

#endif
