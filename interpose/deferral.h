/* Frees that cannot be done yet: of mechanisms without a CUDA companion, and synchronous ones that shall not wait. Each puts its
 * block on a release lane behind an event that it records itself. Owns nothing; any thread; no lock across the driver.
 */
#ifndef NXM_DEFERRAL_H
#define NXM_DEFERRAL_H

#include <stdbool.h>

#include "core/blocks.h"
#include "order.h"

/* Frees a plugin's block behind the work before this call. The block is WAITING on success. On failure the driver's code
 * is the free's result and the block is LIVE again. */
CUresult nxm_deferral_on_stream(const struct nxm_block *block, const struct nxm_order *order);

/* The same behind everything its context has in flight (cuMemFree). `wait`: return when that work has passed, with the
 * block released, as the driver's own free would. While a capture is open: parked, recorded when the last one closes. */
CUresult nxm_deferral_on_context(const struct nxm_block *block, bool wait);

/* A synchronous free of stream-ordered memory. The driver takes it that the program has waited, and waits for nothing: the
 * block goes behind the work of the current context (NULL: none) where that can be, and is given back at once elsewhere. */
CUresult nxm_deferral_ordered(const struct nxm_block *block, CUcontext current);

#endif
