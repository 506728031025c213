/* Which devices may reach which device's memory, by the program's wish: a mechanism's blocks become as reachable as the driver's
 * would be, those that exist and later ones. Owns a list of grants; any thread; NXM_RANK_SCOPE inside, never across
 * the driver or a plugin.
 */
#ifndef NXM_PEERS_H
#define NXM_PEERS_H

#include <stdbool.h>

#include "cuda_types.h"
#include "scope.h"

/* `accessor` may reach cuMemAlloc's memory of `owner`'s device, as cuCtxEnablePeerAccess has it. False: a mechanism refuses, and
 * nothing has changed. `tell`: whether mechanisms may be entered. */
bool nxm_peers_enabled(CUcontext accessor, CUcontext owner, bool tell);
void nxm_peers_disabled(CUcontext accessor, CUcontext owner, bool tell);
void nxm_peers_context_gone(CUcontext context, bool tell); /* and every grant with it */

/* Access to the default pool of a device, which is granted apart. */
void nxm_peers_of_pool(int device, int accessor_device, bool enabled, bool tell);

/* A scope was opened: what is granted already. */
void nxm_peers_tell(struct nxm_scope *scope);

#endif
