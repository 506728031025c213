/* Whether the shim owes anything that a wait of the program, or its question to a stream, is the moment for: blocks on lanes, marks, a
 * drain. When it does not, those hooks are the driver's function and nothing else: what comes to be owed while such a wait lasts is
 * looked at in the next call. Owns one word, which lane.c clears; any thread; no locks.
 *
 * It is true from the start, and whenever something comes to be owed; only who has looked everywhere makes it false. Whoever owes
 * counts first and says so second; whoever looks takes the word back first and looks second: one of the two sees the other.
 */
#ifndef NXM_OWES_H
#define NXM_OWES_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/here.h"

extern NXM_HERE _Atomic bool nxm_owes_something;

static inline bool nxm_owes_nothing(void)
{
    return !atomic_load_explicit(&nxm_owes_something, memory_order_acquire);
}

/* Something has come to be owed, and can be found. Written only where it was false: all threads read it. */
static inline void nxm_owes_say(void)
{
    if (!atomic_load(&nxm_owes_something))
        atomic_store(&nxm_owes_something, true);
}

#endif
