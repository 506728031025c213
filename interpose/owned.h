/* Driver memory that a plugin took for itself: the ranges it got from the driver while we, or code of its own, were
 * calling. A program's free that hits one and no live block is refused, never forwarded: forwarding it would unmap a
 * pool's segment under living blocks. Owns a sorted list of ranges; any thread; NXM_RANK_OBJECTS inside.
 */
#ifndef NXM_OWNED_H
#define NXM_OWNED_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_types.h"

/* After a nested allocation: records the range, or remembers the failure for this thread. Returns `result`. */
CUresult nxm_owned_allocated(CUresult result, uint64_t address, uint64_t bytes);

/* Around a nested free: the range is taken out before the driver may hand it to somebody else (0: not known), and put
 * back if the driver refused. */
uint64_t nxm_owned_take(uint64_t address);
CUresult nxm_owned_freed(CUresult result, uint64_t address, uint64_t taken_bytes);

bool nxm_owned_contains(uint64_t address);

#endif
