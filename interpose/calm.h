/* Whether anything is going on that a quiet call (quiet.h) would have to heed: a capture is open, blocks wait on lanes, somebody wants
 * every call to be told, the door is closed. Owns the number of reasons; what is looked at is one word, beside the mark of the process
 * (process.h), so that a child is never calm. Any thread; no locks.
 *
 * Whoever has a reason says so first and looks for quiet calls second; a quiet call announces itself first and looks here second.
 */
#ifndef NXM_CALM_H
#define NXM_CALM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/stores.h"
#include "process.h"

void nxm_calm_begin(void); /* the process has been prepared, and has a plugin */

void nxm_unrest_begin(void);
void nxm_unrest_end(void); /* each ends one that began */

static inline bool nxm_is_calm(void)
{
    return nxm_load_is_32(&atomic_load_explicit(&nxm_process_mark, memory_order_acquire)[NXM_MARK_CALM], 1);
}

#endif
