/* The mechanisms a plugin publishes (nxmem 1.1, section 8). Owns nothing: the table is the plugin's, static,
 * and lives as long as the plugin is loaded, which is why a factory's release has nothing to do and an
 * allocator outlives it without care. Any thread. */
#ifndef NXP_FACTORY_H
#define NXP_FACTORY_H

#include <stdint.h>

#include "nxmem_memory_abi.h"
#include "plugins/common/allocator.h"

struct nxp_mechanism {
    const char *name;
    NxmemDeviceId device;
    const struct nxp_backend *backend;
};

/* Fills one factory per mechanism. Both arrays stay with the caller and must not move or change after. */
void nxp_factories_fill(const struct nxp_mechanism *mechanisms, NxmemAllocatorFactoryVtable *table, uint64_t count);

/* The body of NxmemCreateAllocatorFactories. On failure nothing was handed over and *count is 0. */
NxmemStatus nxp_factories_publish(const NxmemAllocatorFactoryVtable *table, uint64_t table_count,
                                  const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories,
                                  uint64_t *count);

#endif
