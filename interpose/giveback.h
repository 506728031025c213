/* Giving a block whose work has passed back to its plugin: queued where the mechanism queues, else released at once. Owns the
 * memory that a drain is owed; any thread; no lock across the plugin.
 */
#ifndef NXM_GIVEBACK_H
#define NXM_GIVEBACK_H

#include <stdbool.h>

#include "core/here.h"
#include "core/result.h"
#include "waiting.h"

/* What the program's call may itself wait for: a release that might wait for as much, but no more, may be entered inside it. */
enum nxm_moment {
    NXM_MOMENT_ANY,     /* nothing */
    NXM_MOMENT_WAIT,    /* some stream; or it is out of memory, or asks for totals */
    NXM_MOMENT_CONTEXT, /* everything its context has in flight */
};

/* NXM_EUNSUPPORTED: not now, its release might wait for more than this call does; the block stays WAITING. Any other failure is
 * said here, and the block is LIVE again. */
int nxm_giveback(const struct nxm_waiting *entry, enum nxm_moment moment, struct nxm_error *ret_error);

bool nxm_giveback_owed(void); /* something is queued in a plugin, or a thread is draining it */

extern NXM_HERE _Atomic uint64_t nxm_given; /* times that something was given back, before it is no longer owed */

/* Lets every allocator but that of `except` (NULL: none) retire what is queued, if a drain is owed. */
void nxm_giveback_drain(struct nxm_scope *except);

#endif
