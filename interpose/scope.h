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

#include "calm.h"
#include "companion.h"
#include "core/allocator.h"
#include "core/spread.h"
#include "cuda_types.h"
#include "door.h"
#include "order.h"
#include "thread.h"
#include "turn.h"

/* cudaMalloc promises 256; linear textures want the device's texture alignment. */
#define NXM_DEVICE_ALIGN 512

enum nxm_scope_count {
    NXM_SCOPE_USERS, /* threads inside; each lowers what it raised itself */
    /* Releases queued in the plugin: they pin the context that the scope stands for (core/pins.h). Once it is closed there are no
     * new ones, and closing waits for those that there are, within bounds. */
    NXM_SCOPE_PINS,
};

struct nxm_scope {
    struct nxm_scope *next;
    struct nxm_scope *gone_before; /* among those off the list; they are never freed */
    struct nxm_scope *next_shut;   /* in the hands of the one who closes them */
    CUcontext context; /* NULL: the device's stream-ordered memory */
    int device;
    struct nxm_turn opening;
    struct nxm_allocator *allocator; /* NULL: this scope stays native */
    bool unserved;                   /* because the plugin has nothing for this device: no failure */
    struct nxm_companion companion;
    bool quiet;            /* its calls may be (quiet.h) */
    bool block_is_range;   /* thread.h, of its allocations */
    NxmemCudaOrder order;  /* of every quiet call */
    /* enum nxm_scope_count. It is 16 KiB, so the next scope has it when nobody is inside this one any more; whoever comes here late
     * looks whether the scope is closed before he touches it. */
    struct nxm_spread *counts;
    _Atomic bool closed;
    _Atomic bool given_up; /* by the one who closed it: whoever then finds nobody inside gives the allocator up */
    _Atomic bool empty;    /* somebody has */
    _Atomic bool lost; /* its context went after X1: nothing was done about it, but its blocks can no longer be freed */
};

/* What a plugin that asks for memory reaches (core/allocator.h, `reclaim`; owner: the scope). Set once, at first use. */
typedef int64_t nxm_scope_reclaimer(void *owner, struct nxm_allocator *allocator, NxmemDeviceId device, uint64_t bytes);
void nxm_scope_reclaim_with(nxm_scope_reclaimer *reclaimer);

/* Who is shown each scope right after it was opened, entered, no lock held. Set once, at first use. */
void nxm_scope_greet_with(void (*greet)(struct nxm_scope *scope));

/* The scope for this order, opened on first need and entered: leave it after use. NULL: the driver serves, unless
 * *ret_refuse says that the program asked for failure instead (NXMEM_ON_ERROR=fail, and the plugin cannot be had). */
static inline struct nxm_scope *nxm_scope_enter_for(const struct nxm_order *order, bool *ret_refuse);
struct nxm_scope *nxm_scope_enter_another(const struct nxm_order *order, bool *ret_refuse);
void nxm_scope_leave_closed(struct nxm_scope *scope);

/* Each counts first and looks second, as closing does it the other way round: one of the two sees the other. */
static inline void nxm_scope_leave(struct nxm_scope *scope)
{
    nxm_spread_lower(scope->counts, NXM_SCOPE_USERS, 1);
    if (atomic_load(&scope->closed))
        nxm_scope_leave_closed(scope);
}

static inline bool nxm_scope_enter(struct nxm_scope *scope) /* false: closed */
{
    if (atomic_load(&scope->closed))
        return false;
    nxm_spread_raise(scope->counts, NXM_SCOPE_USERS, 1);
    if (!atomic_load(&scope->closed))
        return true;
    nxm_scope_leave(scope);
    return false;
}

/* For one who is quietly inside, and so keeps the context: a release stays queued. */
static inline void nxm_scope_pin(struct nxm_scope *scope)
{
    nxm_spread_raise(scope->counts, NXM_SCOPE_PINS, 1);
}

/* The one that this thread was in the last time, if it is for this order too. */
static inline struct nxm_scope *nxm_scope_enter_again(const struct nxm_order *order)
{
    bool synchronous = order->cuda.kind == NXMEM_CUDA_ORDER_SYNCHRONOUS;
    struct nxm_scope *scope = nxm_thread.scopes[!synchronous];

    if (!scope || scope->device != order->device || (synchronous && scope->context != order->context))
        return NULL;
    return nxm_scope_enter(scope) ? scope : NULL;
}

/* After nxm_order_synchronous, in the scope: what comes next on this thread may be quiet, for as long as the calm lasts. */
static inline void nxm_scope_remember(struct nxm_scope *scope)
{
    struct nxm_place *place = &nxm_thread.place;

    if (__builtin_expect(place->calm == NXM_NEVER_CALM && place->asked >= NXM_FIRST_CALM && scope->quiet && scope->context == place->owner &&
                             nxm_spread_is_own(nxm_spread_here()), 0)) {
        nxm_thread.here = nxm_spread_here();
        nxm_thread.announcement = nxm_door_announcement(nxm_spread_here());
        place->scope = scope;
        nxm_quiet_prepare(scope->allocator, NXM_DEVICE_ALIGN, &nxm_thread.words);
        place->calm = place->asked;
    }
}

static inline struct nxm_scope *nxm_scope_enter_for(const struct nxm_order *order, bool *ret_refuse)
{
    struct nxm_scope *scope = nxm_scope_enter_again(order);

    *ret_refuse = false;
    return __builtin_expect(scope != NULL, 1) ? scope : nxm_scope_enter_another(order, ret_refuse);
}

const char *nxm_scope_mechanism(void);   /* the name of the first mechanism opened, or NULL */

/* Bytes that plugins hold from the driver but could hand out, on the current context's device. */
uint64_t nxm_scope_cached_bytes(void);

/* Sums over every allocator there was: what an allocator left quarantined stays quarantined when it is gone. */
void nxm_scope_totals(struct nxm_allocator_totals *ret_totals);

/* A context whose end has begun: no scope is opened for it any more, the driver serves. Else what a thread allocates between
 * the closing of its scopes and the driver's own call would outlive it here. Owned by the one who ends it, on his stack. */
struct nxm_ending {
    CUcontext context;
    struct nxm_scope *shut; /* through their `next_shut` */
    struct nxm_ending *next;
};
void nxm_scope_ending_begin(struct nxm_ending *ending, CUcontext context);
void nxm_scope_ending_end(struct nxm_ending *ending); /* the driver has ended it, or has not: its handle may live again */

/* Shuts the context's scopes: nobody else gets in from here on, and within bounds those inside are waited for. What they hold is
 * still there, for `visit`, until it is given up. So nobody goes on adding to what is being given back. */
void nxm_scope_shut_context(struct nxm_ending *ending);
void nxm_scope_each_shut(struct nxm_ending *ending, void (*visit)(struct nxm_scope *scope, void *argument), void *argument);
void nxm_scope_give_up(struct nxm_ending *ending);

void nxm_scope_close_context(CUcontext context); /* all of this at once */
void nxm_scope_close_all(void); /* X1 */
void nxm_scope_lose_context(CUcontext context); /* after X1 */

/* Calls `visit` for every open scope with an allocator, entered, no lock held. */
void nxm_scope_each(void (*visit)(struct nxm_scope *scope, void *argument), void *argument);

#endif
