/* Which live blocks have shared prefixes committed into them (nxmem spec 14.8): a view belongs to its block and goes with it.
 * Owns the records. Any thread; takes NXM_RANK_ALLOCATOR inside.
 *
 * A view is entered before the plugin is asked for it, so that a release of the block at the same time retires it: then it is
 * no longer found, whatever the plugin answered.
 */
#ifndef NXM_VIEWS_H
#define NXM_VIEWS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lock.h"

#define NXM_VIEW_BUCKETS 64u

struct nxm_view {
    struct nxm_view *next;
    uint64_t block, serial;
    uint64_t owned, mapped;
};

struct nxm_views {
    struct nxm_lock lock;
    struct nxm_view *buckets[NXM_VIEW_BUCKETS]; /* by block id */
    uint64_t last_serial;
    uint64_t owned, mapped;  /* two axes, as the plugin stated them for the views that are left */
    atomic_uint_fast64_t count; /* spares the usual case the lock */
};

void nxm_views_init(struct nxm_views *views);
void nxm_views_clear(struct nxm_views *views);

/* 0: no memory. Else the serial, by which the view is confirmed or withdrawn. */
uint64_t nxm_views_enter(struct nxm_views *views, uint64_t block);
void nxm_views_confirm(struct nxm_views *views, uint64_t block, uint64_t serial, uint64_t owned, uint64_t mapped);
void nxm_views_drop(struct nxm_views *views, uint64_t block, uint64_t serial); /* 0: all of this block */

static inline void nxm_views_withdraw(struct nxm_views *views, uint64_t block, uint64_t serial)
{
    nxm_views_drop(views, block, serial);
}

static inline void nxm_views_retire(struct nxm_views *views, uint64_t block) /* all of this block; most often there is none at all */
{
    if (__builtin_expect(atomic_load_explicit(&views->count, memory_order_acquire) != 0, 0))
        nxm_views_drop(views, block, 0);
}

void nxm_views_totals(struct nxm_views *views, uint64_t *ret_count, uint64_t *ret_owned, uint64_t *ret_mapped);

#endif
