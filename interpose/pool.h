/* Which pool is a device's default one, and whether the program has put another in its place. Owns two small tables by
 * device; any thread; no locks.
 */
#ifndef NXM_POOL_H
#define NXM_POOL_H

#include <stdbool.h>

#include "cuda_types.h"

bool nxm_pool_is_default(CUmemoryPool pool, int device);
bool nxm_pool_replaced(int device); /* cuMemAllocAsync does not mean the default pool there */
void nxm_pool_chosen(int device, CUmemoryPool pool); /* after a cuDeviceSetMemPool that succeeded */
void nxm_pool_destroyed(CUmemoryPool pool);          /* where it was the current one, the default pool is again */

#endif
