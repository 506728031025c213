/* Shared prefixes: memory of a mechanism that is mapped into several blocks (nxmem spec section 14). Owns one handle reference
 * in the plugin and a reference on the allocator. Any thread; takes NXM_RANK_BLOCKS and NXM_RANK_ALLOCATOR inside, holds
 * none while the plugin runs.
 *
 * Handle and views may die in either order: a prefix that is given up leaves the views that it has, and a view goes with the
 * block it is in (released, or queued for it), not with the prefix. The plugin frees the memory after both.
 */
#ifndef NXM_SHARED_H
#define NXM_SHARED_H

#include <stdint.h>

#include "allocator.h"

struct nxm_shared;

struct nxm_shared_facts {
    uint64_t bytes;                                   /* as requested */
    uint64_t device_address, committed_bytes, mapped; /* as the plugin stated them */
};

struct nxm_shared_commit {
    uint64_t owned;  /* newly owned: charged once for a prefix */
    uint64_t mapped; /* newly mapped */
    uint64_t granules;
};

/* One reference. NXM_EUNSUPPORTED: no shared mapping, or no way to give a prefix back. NXM_ECONTRACT: the plugin answered
 * with a prefix that is not its own; it was given back. NXM_ENOMEM, NXM_ECALL. */
int nxm_shared_new(struct nxm_allocator *allocator, uint64_t bytes, struct nxm_shared **ret_shared,
                   struct nxm_error *ret_error);
void nxm_shared_ref(struct nxm_shared *shared);
void nxm_shared_unref(struct nxm_shared *shared); /* the last one gives the handle up, once; takes NULL */
void nxm_shared_describe(const struct nxm_shared *shared, struct nxm_shared_facts *ret_facts);

/* Both refuse a prefix of another allocator (NXM_EINVAL) before anything is asked. */

/* Bytes that one more view would newly own. */
int nxm_shared_cost(struct nxm_allocator *allocator, const struct nxm_shared *shared, uint64_t *ret_owned,
                    struct nxm_error *ret_error);

/* Maps the prefix at `offset` of the live block of `bytes` at `address`: all of it, or nothing. NXM_EINVAL: it is of another
 * size, or the prefix does not fit there. */
int nxm_shared_commit(struct nxm_allocator *allocator, const struct nxm_shared *shared, uint64_t address, uint64_t bytes,
                      uint64_t offset, struct nxm_shared_commit *ret_commit, struct nxm_error *ret_error);

#endif
