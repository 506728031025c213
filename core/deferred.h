/* Deferred release, the host's side of it: the callback table, completions, and who frees the context (nxmem
 * spec sections 15 to 17). Works on the allocator's record; any thread; takes NXM_RANK_ALLOCATOR and
 * NXM_RANK_BLOCKS inside, holds none while the plugin or the embedder runs.
 */
#ifndef NXM_DEFERRED_H
#define NXM_DEFERRED_H

#include <stdbool.h>

#include "allocator.h"
#include "nxmem_memory_abi.h"

void nxm_deferred_init(struct nxm_allocator *allocator); /* the table, at the negotiated minor; nothing queued */

/* Teardown, step 1: lets the plugin retire what it will, in a bounded number of passes. */
void nxm_deferred_drain_all(struct nxm_allocator *allocator);

/* Is a queued release not over yet, be it that its completion has not returned? */
bool nxm_deferred_is_outstanding(const struct nxm_allocator *allocator);

/* Teardown, step 5, after the plugin's `release` returned. True: nothing is outstanding, the caller frees the record.
 * False: it belongs to the queued releases now, must not be touched any more, and the last completion frees
 * it. */
bool nxm_deferred_abandon(struct nxm_allocator *allocator);

/* The end of a release that was asked for quietly (quiet.h), when it did not end quietly: with this status and ticket, if that was OK. `complete`:
 * its completion has come to this thread, and was plain. The
 * embedder has pinned what it needs to be (pins.h). As nxm_allocator_enqueue_claimed from there on. */
struct nxm_seat;
int nxm_deferred_settle_quiet(struct nxm_allocator *allocator, struct nxm_seat *seat, const struct nxm_block *block, bool complete,
                              const NxmemStatus *status, uint64_t ticket, struct nxm_release *ret_release, struct nxm_error *ret_error);

/* Frees the record of an allocator that was open, and tells its owner: for whoever has been told that it is the last. */
void nxm_deferred_end(struct nxm_allocator *allocator);

/* Frees the record itself: of one that never opened. */
void nxm_deferred_free(struct nxm_allocator *allocator);

#endif
