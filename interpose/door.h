/* The door: who is inside a hook, and whether anybody may still come in. Owns the counters; any thread; no locks.
 *
 * Whoever closes the door closes it first and counts second; a thread counts itself first and looks at the door second: one
 * of the two always sees the other.
 */
#ifndef NXM_DOOR_H
#define NXM_DOOR_H

#include <stdbool.h>

void nxm_door_count_in(void);
void nxm_door_count_out(void);
bool nxm_door_is_closed(void);

void nxm_door_close(void); /* for good */

/* Waits, within bounds, until nobody is counted; not for the calling thread itself. Returns how many still are. */
unsigned nxm_door_wait(void);

#endif
