/* Which pool is a device's default one, whether the program has put another in its place, and what of the default one's
 * memory a mechanism provides without the driver knowing. Owns small tables by device; any thread; no locks.
 */
#ifndef NXM_POOL_H
#define NXM_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_types.h"

CUmemoryPool nxm_pool_default(int device); /* NULL: not known */
int nxm_pool_default_of(CUmemoryPool pool); /* the device whose default pool this is; -1: none */
bool nxm_pool_is_default(CUmemoryPool pool, int device);
bool nxm_pool_replaced(int device); /* cuMemAllocAsync does not mean the default pool there */
void nxm_pool_chosen(int device, CUmemoryPool pool); /* after a cuDeviceSetMemPool that succeeded */
void nxm_pool_destroyed(CUmemoryPool pool);          /* where it was the current one, the default pool is again */

/* Bytes that stand in for the default pool's: given to the program, or freed by it and perhaps not yet passed. */
void nxm_pool_used(int device, uint64_t bytes);
void nxm_pool_unused(int device, uint64_t bytes);
uint64_t nxm_pool_used_now(int device);
uint64_t nxm_pool_used_high(int device);
void nxm_pool_high_from_now(int device); /* the highest figure is that of now */

#endif
