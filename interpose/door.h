/* The door: who is inside a hook, and whether anybody may still come in. Owns the counters; any thread; no locks.
 *
 * Whoever closes the door closes it first and counts second; a thread counts itself first and looks at the door second: one
 * of the two always sees the other.
 */
#ifndef NXM_DOOR_H
#define NXM_DOOR_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/here.h"
#include "core/spread.h"

extern NXM_HERE struct nxm_spread nxm_door_inside; /* sum 0: threads; each lowers what it raised */
extern NXM_HERE _Atomic bool nxm_door_closed;

static inline void nxm_door_count_in(void)
{
    nxm_spread_raise(&nxm_door_inside, 0, 1);
}

static inline void nxm_door_count_out(void)
{
    nxm_spread_note_at(&nxm_door_inside, nxm_spread_here(), 0, UINT64_MAX);
}

static inline bool nxm_door_is_closed(void)
{
    return atomic_load(&nxm_door_closed);
}

void nxm_door_close(void); /* for good */

/* Waits, within bounds, until nobody is counted; not for the calling thread itself. Returns how many still are. */
unsigned nxm_door_wait(void);

#endif
