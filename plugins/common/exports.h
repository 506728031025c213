/* The functions a plugin exports (nxmem_memory_abi.h, nxmem_cuda.h), and nothing else is: the tree is
 * compiled with hidden visibility, and exports.map lets only these names through. */
#ifndef NXP_EXPORTS_H
#define NXP_EXPORTS_H

#include <stdint.h>

#include "nxmem_cuda.h"
#include "nxmem_memory_abi.h"

#define NXP_EXPORT __attribute__((visibility("default")))

NXP_EXPORT NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response);
NXP_EXPORT NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **factories,
                                                     uint64_t max_factories, uint64_t *count);
NXP_EXPORT NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report);
NXP_EXPORT NxmemStatus NxmemQueryCuda(const NxmemAllocatorVtable *allocator, const NxmemCudaVtable **companion);

#endif
