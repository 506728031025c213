/* Records that stand where memory was handed out again: their blocks were freed by a route that is not seen here. Owns nothing;
 * any thread; no lock across foreign code. Nobody else can have been given that address meanwhile: it is the newcomer's. */
#ifndef NXM_STALE_H
#define NXM_STALE_H

#include <stdbool.h>

#include "core/allocator.h"

/* Drops the record there, if it is of a block that the driver knows: it has the last word on such memory. true: it is gone. */
bool nxm_stale_drop(struct nxm_blocks *table, uint64_t address);

/* The same for a newcomer from a plugin (core/allocator.h, `stale`; owner: the scope). */
bool nxm_stale_make_way(void *owner, struct nxm_allocator *allocator, const struct nxm_block *newcomer);

#endif
