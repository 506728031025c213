/* Marks on streams: behind each release that a CUDA companion took over with its order an event is recorded, so that the companion
 * can be told when everything up to that release has passed (include/nxmem_cuda.h, order_passed). Owns the marks; any thread;
 * NXM_RANK_LANE inside, never across the driver or a plugin. Nothing is kept, nor asked, for a companion without that slot.
 *
 * A stream keeps few marks, whatever is released on it: a later release takes the place of the last one but the first.
 */
#ifndef NXM_MARK_H
#define NXM_MARK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/here.h"
#include "order.h"
#include "scope.h"

/* The scope's companion took a release on this order, and gave it this ticket. The scope is entered. */
void nxm_mark_behind(struct nxm_scope *scope, const struct nxm_order *order, uint64_t ticket);
static inline void nxm_mark_release(struct nxm_scope *scope, const struct nxm_order *order, uint64_t ticket)
{
    if (scope->companion.vtable.order_passed)
        nxm_mark_behind(scope, order, ticket);
}

#define NXM_MARK_ALL (~0u)

/* Looks at the marks of so many streams, and tells of what has passed; never the companion of `except` (NULL: none), which is being
 * called right now. One load when there are no marks. */
void nxm_mark_poll(unsigned most, const struct nxm_scope *except);

extern NXM_HERE _Atomic uint64_t nxm_marks; /* that there are */
static inline bool nxm_mark_any(void)
{
    return atomic_load_explicit(&nxm_marks, memory_order_relaxed) != 0;
}

/* The context's work has passed, and its events go with it. */
void nxm_mark_context_gone(CUcontext context);

#endif
