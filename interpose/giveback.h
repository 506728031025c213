/* Giving a block whose work has passed back to its plugin: queued where the mechanism queues, else released at once. Owns the
 * memory that a drain is owed; any thread; no lock across the plugin.
 */
#ifndef NXM_GIVEBACK_H
#define NXM_GIVEBACK_H

#include <stdbool.h>

#include "core/result.h"
#include "waiting.h"

/* NXM_EUNSUPPORTED: not now, its release might wait for the device and this call must not; the block stays WAITING. Any other
 * failure is said here, and the block is LIVE again. */
int nxm_giveback(const struct nxm_waiting *entry, bool waiting_call, struct nxm_error *ret_error);

/* Lets every allocator but that of `except` (NULL: none) retire what was queued since the last time. */
void nxm_giveback_drain(struct nxm_scope *except);

#endif
