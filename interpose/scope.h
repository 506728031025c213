/* Which allocator serves which memory: one per context for synchronous blocks, one per device for stream-ordered ones.
 * Owns the allocators (one reference each). Any thread; NXM_RANK_SCOPE inside, never
 * across a foreign call.
 *
 * A scope is never freed, so a block may point at it for ever; it is *closed* when its context goes. Entering a closed
 * scope fails; the last one to leave a closed scope gives the allocator up.
 */
#ifndef NXM_SCOPE_H
#define NXM_SCOPE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "companion.h"
#include "core/allocator.h"
#include "cuda_types.h"
#include "order.h"
#include "turn.h"

struct nxm_scope {
    struct nxm_scope *next;
    struct nxm_scope *gone_before; /* among those off the list; they are never freed */
    CUcontext context; /* NULL: the device's stream-ordered memory */
    int device;
    struct nxm_turn opening;
    struct nxm_allocator *allocator; /* NULL: this scope stays native */
    bool unserved;                   /* because the plugin has nothing for this device: no failure */
    struct nxm_companion companion;
    _Atomic unsigned users; /* 1 for being open, 1 for each thread inside; the decrement to 0 gives the allocator up */
    _Atomic bool closed;
    _Atomic bool lost; /* its context went after X1: nothing was done about it, but its blocks can no longer be freed */
};

/* What a plugin that asks for memory reaches (core/allocator.h, `reclaim`; owner: the scope). Set once, at first use. */
typedef int64_t nxm_scope_reclaimer(void *owner, struct nxm_allocator *allocator, NxmemDeviceId device, uint64_t bytes);
void nxm_scope_reclaim_with(nxm_scope_reclaimer *reclaimer);

/* The scope for this order, opened on first need and entered: leave it after use. NULL: the driver serves, unless
 * *ret_refuse says that the program asked for failure instead (NXMEM_ON_ERROR=fail, and the plugin cannot be had). */
struct nxm_scope *nxm_scope_enter_for(const struct nxm_order *order, bool *ret_refuse);
bool nxm_scope_enter(struct nxm_scope *scope); /* false: closed */
void nxm_scope_leave(struct nxm_scope *scope);

const char *nxm_scope_mechanism(void);   /* the name of the first mechanism opened, or NULL */

/* Bytes that plugins hold from the driver but could hand out, on the current context's device. */
uint64_t nxm_scope_cached_bytes(void);

/* Sums over every allocator there was: what an allocator left quarantined stays quarantined when it is gone. */
void nxm_scope_totals(struct nxm_allocator_totals *ret_totals);

/* Closes what lives in this context; waits, within bounds, for threads inside. */
void nxm_scope_close_context(CUcontext context);
void nxm_scope_close_all(void); /* X1 */
void nxm_scope_lose_context(CUcontext context); /* after X1 */

/* Calls `visit` for every open scope with an allocator, entered, no lock held. */
void nxm_scope_each(void (*visit)(struct nxm_scope *scope, void *argument), void *argument);

#endif
