/* A mechanism's CUDA companion (include/nxmem_cuda.h), read once after its allocator was opened. Owns the copy of
 * the vtable. Any thread; no locks; calls are bracketed as foreign by the caller.
 */
#ifndef NXM_COMPANION_H
#define NXM_COMPANION_H

#include <stdbool.h>

#include "core/allocator.h"
#include "core/module.h"
#include "nxmem_cuda.h"

struct nxm_companion {
    NxmemCudaVtable vtable; /* zeros when there is none */
};

/* Leaves zeros, and says why, when the plugin has none or breaks its rules. */
void nxm_companion_query(struct nxm_module *module, const struct nxm_allocator *allocator,
                         struct nxm_companion *ret_companion);

/* Takes out of a companion what contradicts its allocator or itself: the plain slots do without. */
void nxm_companion_settle(const char *name, uint64_t capabilities, NxmemCudaVtable *companion);

static inline bool nxm_companion_allocates(const struct nxm_companion *companion)
{
    return companion->vtable.allocate_on != NULL;
}

static inline bool nxm_companion_releases(const struct nxm_companion *companion)
{
    return companion->vtable.enqueue_release_on != NULL;
}

/* Adapters for core's call parameters: the order travels as the argument. */
struct nxm_companion_call {
    const struct nxm_companion *companion;
    const NxmemCudaOrder *order;
};
NxmemStatus nxm_companion_allocate(void *call, const NxmemAllocRequest *request, NxmemAllocResult *result);
NxmemStatus nxm_companion_enqueue(void *call, const NxmemAllocation *allocation, uint64_t *ticket);

#endif
