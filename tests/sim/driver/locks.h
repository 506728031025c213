/* Locks that the program under test registered: it should hold none of them when it calls the driver. Any thread, no
 * lock needed. */
#ifndef SIM_LOCKS_H
#define SIM_LOCKS_H

#include <stdbool.h>

/* False when there is no more room. */
bool sim_locks_add(void *lock, int (*is_held_by_me)(void *));
void sim_locks_remove(void *lock);
/* A call begins: is one of them held by this thread? */
bool sim_locks_held(void);

#endif
