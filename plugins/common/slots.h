/* The tables an allocator publishes, by the level its host asked for. Owns nothing; any thread. */
#ifndef NXP_SLOTS_H
#define NXP_SLOTS_H

#include <stdint.h>

#include "plugins/common/allocator.h"

/* What a vtable of this level claims for the backend. */
uint64_t nxp_slots_capabilities(const struct nxp_backend *backend, uint32_t minor);

/* Fills the vtable and the companion of a new allocator with a mechanism id of its own. `name` is borrowed
 * for the allocator's life. */
void nxp_slots_publish(struct nxp_allocator *allocator, const char *name, NxmemDeviceId device, uint32_t minor);

/* The structured slot, for a mechanism that publishes it in its own way. */
NxmemStatus nxp_slot_release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome);

#endif
