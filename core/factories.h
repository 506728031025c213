/* The allocator factories that a plugin publishes: taking them over, judging them, giving them back (nxmem
 * spec section 8). Owns each published factory from the plugin's OK until its `release`; any thread; no
 * locks (none may be held).
 */
#ifndef NXM_FACTORIES_H
#define NXM_FACTORIES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nxmem_memory_abi.h"
#include "result.h"

#define NXM_FACTORIES_MAX 64
#define NXM_NAME_CAPACITY 256 /* bytes of a mechanism's name, NUL included; the ABI sets no bound, we do */

/* Referenced by the module's handle and by every allocator opened from it, so that `release` comes after
 * the last of them is gone (8.11). */
struct nxm_factory {
    NxmemAllocatorFactoryVtable vtable; /* our copy; its name pointer is the plugin's, use `name` */
    char name[NXM_NAME_CAPACITY];
    atomic_uint references;
};

struct nxm_factories {
    size_t count;
    struct nxm_factory list[NXM_FACTORIES_MAX]; /* one reference each */
};

/* Fills the caller's storage. On failure everything the plugin transferred has been given back, once each. NXM_ECALL,
 * NXM_ENOMEM (the plugin's), NXM_ECONTRACT. */
int nxm_factories_take(NxmemCreateAllocatorFactoriesFn create, uint32_t ceiling, struct nxm_factories *ret_factories,
                       struct nxm_error *ret_error);

void nxm_factory_ref(struct nxm_factory *factory);
bool nxm_factory_unref(struct nxm_factory *factory); /* true when this was the last: it has been released */

/* Copies a published name when it is one: not null, NUL-terminated within the capacity, UTF-8. */
bool nxm_factory_name(const uint8_t *published, char ret_name[NXM_NAME_CAPACITY]);

#endif
