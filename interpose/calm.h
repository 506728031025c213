/* Whether anything is going on that a quiet call (quiet.h) would have to heed: a capture is open, blocks wait on lanes, somebody wants
 * every call to be told, the door is closed. And whether what a thread knows of its context is still so. Owns one word for both, beside the
 * mark of the process (process.h), so that a child is never calm: 0, or the number of the calm that there is; each change of either kind
 * ends one, and the next has another. Any thread; NXM_RANK_CALM inside.
 *
 * Whoever has a reason says so first and looks for quiet calls second; a quiet call announces itself first and looks here second.
 */
#ifndef NXM_CALM_H
#define NXM_CALM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/stores.h"
#include "process.h"

void nxm_calm_begin(void); /* the process has been prepared, and has a plugin */

void nxm_unrest_begin(void);
void nxm_unrest_end(void); /* each ends one that began */

/* A scope has been closed, or a context changed its meaning: who comes next looks anew. */
void nxm_calm_renew(void);

#define NXM_NEVER_CALM 1u /* no calm has that number, nor is it that there is none */
#define NXM_FIRST_CALM 2u

static inline uint32_t nxm_calm_now(void)
{
    return atomic_load_explicit(&atomic_load_explicit(&nxm_process_mark, memory_order_acquire)[NXM_MARK_CALM], memory_order_acquire);
}

static inline bool nxm_is_calm(uint32_t number) /* still that one */
{
    return nxm_load_is_32(&atomic_load_explicit(&nxm_process_mark, memory_order_acquire)[NXM_MARK_CALM], number);
}

#endif
