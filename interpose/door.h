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

enum nxm_door_word {
    NXM_DOOR_COUNT, /* threads; each lowers what it raised */
    NXM_DOOR_QUIET, /* no number: the scope that the thread, whose own line this is, is quietly inside (quiet.h) */
};
extern NXM_HERE struct nxm_spread nxm_door_inside;
extern NXM_HERE _Atomic bool nxm_door_closed;

static inline void nxm_door_count_in(void)
{
    nxm_spread_raise(&nxm_door_inside, NXM_DOOR_COUNT, 1);
}

static inline void nxm_door_count_out(void)
{
    nxm_spread_note_at(&nxm_door_inside, nxm_spread_here(), NXM_DOOR_COUNT, UINT64_MAX);
}

static inline bool nxm_door_is_closed(void)
{
    return atomic_load(&nxm_door_closed);
}

/* Where a thread announces that, whose own line is `here`. */
static inline _Atomic uint64_t *nxm_door_announcement(uint64_t here)
{
    struct nxm_spread_line *line = (struct nxm_spread_line *)(void *)((char *)nxm_door_inside.lines + here);

    return &line->sums[NXM_DOOR_QUIET];
}

/* Others see it before anything that is looked at afterwards. */
static inline void nxm_door_announce(_Atomic uint64_t *announcement, const void *scope)
{
    atomic_exchange(announcement, (uintptr_t)scope);
}

/* So many threads are quietly inside this scope (NULL: inside any), each of them at some moment since the call began. */
unsigned nxm_door_announced(const void *scope);

void nxm_door_close(void); /* for good */

/* Waits, within bounds, until nobody is counted; not for the calling thread itself. Returns how many still are. */
unsigned nxm_door_wait(void);

#endif
