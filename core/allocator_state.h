/* The record behind struct nxm_allocator, for core/opening.c, allocator.c, accounts.[ch], deferred.c,
 * backing.c and shared.c only.
 *
 * One heap object holds the allocator and its callback context, because blocks and plugins keep pointers to
 * both for equally long: until the last reference is gone, the plugin's `release` has returned and no queued
 * release is outstanding. `outstanding` decides that last point, see core/deferred.c.
 */
#ifndef NXM_ALLOCATOR_STATE_H
#define NXM_ALLOCATOR_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "allocator.h"
#include "factories.h"
#include "module_tenancy.h"
#include "nxmem_memory_abi.h"
#include "quarantine.h"
#include "queued.h"
#include "spread.h"
#include "views.h"

struct nxm_allocator {
    atomic_uint references;
    struct nxm_allocator_options options;
    struct nxm_module *module;   /* two references: ours and the callback context's */
    struct nxm_spread *tallies;  /* the module's */
    struct nxm_factory *factory; /* one reference */
    struct nxm_tenant tenant;

    /* What was opened: our copies, fixed from the acceptance on. */
    const NxmemAllocatorVtable *published;
    NxmemAllocatorVtable vtable;
    NxmemVirtualBackingVtable virtual_backing; /* struct_size 0: absent */
    NxmemSharedMappingVtable shared_mapping;   /* struct_size 0: absent */
    uint64_t capabilities;                     /* its flags, as far as they were negotiated */
    bool structured;                           /* 10.3: the structured slot may be entered */
    NxmemDeviceId device;                      /* the factory's, known before the vtable is */
    char name[NXM_NAME_CAPACITY];

    struct nxm_spread sums; /* enum nxm_tenant_sum */
    atomic_uint_fast64_t quarantined_blocks, quarantined_bytes;
    atomic_uint_fast64_t reclaim_calls, reclaim_failures;
    struct nxm_quarantine quarantine;
    struct nxm_views views;
    atomic_bool going; /* torn down: what is live is being given back, and nothing can be live again */

    /* The callback context. */
    NxmemHostCallbacks callbacks;
    struct nxm_queued queued;
    atomic_uint_fast64_t outstanding; /* queued releases that stayed, and a bit for "torn down" */
};

#endif
