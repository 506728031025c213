/* From first use to exit: every hook enters here and learns how to treat its call. Owns the turn of first use; any thread; no
 * lock across foreign code.
 *
 * Phases only move forward: nothing has happened -> one thread prepares and loads the plugin, others wait -> serving
 * (redirecting, or only observing when the plugin could not be had) -> the door is closed (exit moment X1 has begun: no plugin
 * slot is entered any more).
 */
#ifndef NXM_LIFECYCLE_H
#define NXM_LIFECYCLE_H

#include <stdbool.h>

#include "door.h"
#include "thread.h"

/* How a hook must treat the call it was entered for. */
enum nxm_mode {
    NXM_MODE_SERVE,  /* the program's call, the shim at work: must be left with nxm_leave */
    NXM_MODE_NESTED, /* a plugin's own call: real function, remembered as the plugin's */
    NXM_MODE_NATIVE, /* a child after fork, or nothing has begun: the real function and nothing else */
    NXM_MODE_LATE,   /* after X1: real function, counted */
};

/* `caller`: the hook's return address. `begin`: this call may be the first use (an allocation); otherwise a
 * process in which nothing began stays so. */
enum nxm_mode nxm_enter(const void *caller, bool begin);
static inline void nxm_leave(enum nxm_mode mode) /* takes every mode */
{
    if (mode == NXM_MODE_SERVE) {
        nxm_thread.inside--;
        nxm_door_count_out();
    } else if (mode == NXM_MODE_LATE) {
        nxm_thread.inside--;
    }
}

/* Whether code at `caller` is the plugin's, or this thread is inside it: for hooks of the runtime, whose driver calls come from
 * the runtime's code. */
bool nxm_is_plugins_call(const void *caller);

#endif
