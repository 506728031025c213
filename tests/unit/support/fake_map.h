/* The fake plugin's virtual backing and shared mapping, conforming unless a knob of fake_map says otherwise. Granules of 4096
 * bytes; blocks of up to 64 of them. One mutex, never across a callback. */
#ifndef FAKE_MAP_H
#define FAKE_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "nxmem_memory_abi.h"

#define FAKE_GRANULE 4096u
#define FAKE_MAP_RANGES 8

struct fake_map {
    /* virtual backing */
    uint32_t commit_status, decommit_status, committed_status, cost_status; /* of the slots; not 0: nothing happens */
    uint64_t unmapped_more; /* added to what a decommit says */
    void (*bend_backing)(NxmemVirtualBackingVtable *vtable); /* before it is published */
    /* shared mapping */
    uint32_t prefix_status, prefix_commit_status, prefix_cost_status;
    bool prefix_handle_zero;
    uint64_t prefix_other_mechanism; /* added to the mechanism id of a new prefix */
    uint32_t prefix_other_device;    /* added to its device's index */
    uint32_t prefix_size, info_size; /* returned struct_size; 0: the real one */
    uint64_t view_owned, view_mapped;
    void (*in_prefix_commit)(void); /* inside the slot, after the view is there */
    void (*bend_sharing)(NxmemSharedMappingVtable *vtable);

    /* what happened */
    atomic_ullong commits, decommits, committed_calls, costs;
    atomic_ullong prefix_creates, prefix_releases, prefix_commits, prefix_costs, prefix_frees;
    atomic_ullong views, handles; /* live */
    void *last_ctx;               /* of the last slot of either vtable */
    NxmemAllocRequest last_request;
    NxmemByteRange last_ranges[FAKE_MAP_RANGES]; /* of the last request that had some */
    uint64_t last_range_count;
    NxmemRangeRequest last_range;
    NxmemSharedPrefixHandle last_prefix, last_released, last_made_before; /* the last as the host prepared it */
    NxmemSharedPrefixCommitRequest last_commit;
    NxmemSharedPrefixCommitInfo last_info_before;
};

extern struct fake_map fake_map;

void fake_map_reset(void);
bool fake_map_backs(uint64_t allocation_id); /* it was allocated with backing, and has neither been released nor queued */

/* For fake.c: the vtables of a state, filled in; `allocate` and its ctx are the state's own. */
typedef NxmemStatus (*fake_allocate)(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result);
void fake_map_publish(uint64_t mechanism_id, NxmemDeviceId device, void *ctx, fake_allocate allocate,
                      NxmemVirtualBackingVtable *ret_backing, NxmemSharedMappingVtable *ret_sharing);
void fake_map_block_left(uint64_t allocation_id); /* the live set: released, or queued */

#endif
