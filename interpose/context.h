/* What is known of contexts: the device each belongs to, and which one is a device's primary context. Owns the records, kept
 * until the context is destroyed; any thread; NXM_RANK_SCOPE inside, never across the driver.
 */
#ifndef NXM_CONTEXT_H
#define NXM_CONTEXT_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/here.h"
#include "cuda_types.h"

/* Asked of the driver once, with the context current for a moment. -1: unknown. */
int nxm_context_device(CUcontext context);

/* The driver told somebody which context is a device's primary one; the shim retains none itself. */
void nxm_context_is_primary(int device, CUcontext context);
CUcontext nxm_context_primary(int device); /* NULL: not known */

/* A green context is a share of a primary one, to which belongs what is allocated in it. */
void nxm_context_is_green(CUcontext green, CUcontext primary);
CUcontext nxm_context_owner(CUcontext context); /* the primary one of a green one; of any other itself */

/* It was destroyed or reset: its handle may come back for another. */
void nxm_context_forget(CUcontext context);

struct nxm_scope;

/* What a thread last asked about the context that is current on it, kept in its own record for as long as no context has
 * changed its meaning. */
struct nxm_place {
    CUcontext context; /* NULL: nothing is kept */
    CUcontext owner;
    int device;
    unsigned changes;
    /* For quiet calls (quiet.h): the calm in which it was last asked, and the calm for which `scope` serves synchronous memory quietly. */
    uint32_t asked, calm;
    struct nxm_scope *scope;
};
extern NXM_HERE _Atomic unsigned nxm_context_changes;
void nxm_context_find_place(CUcontext context, struct nxm_place *ret_place);

static inline const struct nxm_place *nxm_context_place(CUcontext context, struct nxm_place *place)
{
    if (__builtin_expect(place->context != context || place->changes != atomic_load_explicit(&nxm_context_changes, memory_order_acquire), 0))
        nxm_context_find_place(context, place);
    return place;
}

#endif
