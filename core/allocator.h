/* An opened mechanism: allocates, releases, queues releases (nxmem spec sections 9 to 12, 15 to 17).
 *
 * Owns: the plugin's allocator (one `release` owed from the OK of open_allocator on), the callback context
 * behind it, the set of queued releases, the list of quarantined spans. Blocks live in the table given
 * at opening, which outlives the allocator. Any thread; takes NXM_RANK_MODULE, _ALLOCATOR and _BLOCKS
 * inside, holds none while the plugin runs.
 */
#ifndef NXM_ALLOCATOR_H
#define NXM_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "blocks.h"
#include "module.h"
#include "nxmem_memory_abi.h"
#include "pins.h"
#include "result.h"

struct nxm_allocator;

enum nxm_release_outcome {
    NXM_RELEASE_COMPLETE,    /* gone */
    NXM_RELEASE_QUARANTINED, /* gone from the table; the plugin kept `retained` bytes for good */
    NXM_RELEASE_FAILED,      /* live again (or never touched); of an allocator that is gone it is QUARANTINED */
    NXM_RELEASE_QUEUED,      /* RELEASING until its completion */
};

struct nxm_release {
    enum nxm_release_outcome outcome;
    uint64_t unmapped; /* bytes credited, never more than the block's */
    uint64_t retained;
    uint64_t ticket;   /* QUEUED */
    uint32_t status;   /* the plugin's code, 0 when OK */
};

struct nxm_allocator_options {
    struct nxm_blocks *blocks;      /* borrowed, outlives the allocator and every release queued in it */
    uint64_t required_capabilities; /* opening fails when one is absent */
    void *owner;                    /* handed to the callbacks below; outlives the same */
    /* Asked by the plugin for memory: bytes given back, or a negative nxm_result. NULL: no such path.
     * Runs inside a plugin call on its thread; must not re-enter this allocator nor block. */
    int64_t (*reclaim)(void *owner, struct nxm_allocator *allocator, NxmemDeviceId device, uint64_t bytes);
    /* The plugin handed out `newcomer`, where a record or a bar still stands. true: the owner knows better and has removed what
     * he could, so it is tried again, a few times; false: the newcomer goes back and is refused. No lock held. NULL: false. */
    bool (*stale)(void *owner, struct nxm_allocator *allocator, const struct nxm_block *newcomer);
    /* A queued release ended, inside nxm_allocator_enqueue too (which then returns the same outcome): no lock held,
     * on any thread, every counter moved but the one that keeps the callback table alive. Must not drop the
     * last reference. NULL allowed. */
    void (*completed)(void *owner, const struct nxm_block *block, const struct nxm_release *release);
    /* The allocator is no more, and nothing of these options is needed any longer: the last call, inside the last unref or,
     * when its table leaked, inside the completion that reclaimed it. Not after a failed opening. NULL allowed. */
    void (*ended)(void *owner);
    struct nxm_pin_source pins; /* the provider context it is bound to; zeros: none */
};

struct nxm_allocator_totals {
    uint64_t quarantined_blocks, quarantined_bytes; /* retained by the plugin */
    uint64_t queued;
    uint64_t owned_bytes, mapped_bytes; /* two axes as the plugin stated them, live blocks */
    uint64_t views;                     /* shared prefixes committed into live blocks */
    uint64_t view_owned_bytes, view_mapped_bytes; /* the same two axes, as stated for those */
    uint64_t reclaim_calls, reclaim_failures; /* the plugin asked for memory; it was refused */
};

/* On success the caller owns one reference. Every rejection after the plugin's OK has paid its debt. */
int nxm_allocator_open(struct nxm_module *module, size_t mechanism, const struct nxm_allocator_options *options,
                       struct nxm_allocator **ret_allocator, struct nxm_error *ret_error);
void nxm_allocator_ref(struct nxm_allocator *allocator);
/* The last one tears down in the binding order of section 17: blocks still in the table are pushed back
 * through the terminal slot and removed. Takes NULL. */
void nxm_allocator_unref(struct nxm_allocator *allocator);

/* What the last unref begins with, for when the allocator itself must live a little longer: what is queued is drained, what is
 * still live or waiting goes back through the terminal slot. */
void nxm_allocator_push_back(struct nxm_allocator *allocator);

/* The plugin's own pointer, for companions. */
const NxmemAllocatorVtable *nxm_allocator_published(const struct nxm_allocator *allocator);
uint64_t nxm_allocator_mechanism_id(const struct nxm_allocator *allocator);
const char *nxm_allocator_name(const struct nxm_allocator *allocator);
NxmemDeviceId nxm_allocator_device(const struct nxm_allocator *allocator);
uint64_t nxm_allocator_capabilities(const struct nxm_allocator *allocator); /* its own, as far as they were negotiated */
/* Our copies, NULL when absent; single slots may be NULL (10.2). */
const NxmemVirtualBackingVtable *nxm_allocator_virtual_backing(const struct nxm_allocator *allocator);
const NxmemSharedMappingVtable *nxm_allocator_shared_mapping(const struct nxm_allocator *allocator);
bool nxm_allocator_structured_release(const struct nxm_allocator *allocator); /* the slot survived negotiation (10.3) */

/* Another way into the plugin for the same request (a companion's allocate_on). NULL: the plain slot. */
typedef NxmemStatus (*nxm_allocate_call)(void *argument, const NxmemAllocRequest *request, NxmemAllocResult *result);
typedef NxmemStatus (*nxm_enqueue_call)(void *argument, const NxmemAllocation *allocation, uint64_t *ticket);

/* Serves block->bytes at block->align, recording the block: address, id, allocator, state, owned and mapped are
 * filled in *block on success, the rest is the caller's. NXM_ENOMEM: capacity, also a size that no rounding to the
 * alignment can hold. NXM_EINVAL: the alignment is no power of two. NXM_ECALL, NXM_ECONTRACT, NXM_EEXIST: refused,
 * whatever the plugin handed out was handed back; NXM_EEXIST leaves that address in block->address. */
int nxm_allocator_allocate(struct nxm_allocator *allocator, struct nxm_block *block, nxm_allocate_call call,
                           void *argument, struct nxm_error *ret_error);

/* The second half of it, for one who has asked the plugin himself (quiet.h): what it answered, for a block whose id, allocator and state are
 * filled in. */
int nxm_allocator_accept(struct nxm_allocator *allocator, struct nxm_block *block, const NxmemStatus *status, const NxmemAllocResult *answered,
                         struct nxm_error *ret_error);

/* For `stale` above. Of the bars there, those go that stand only because the plugin contradicted itself: it failed a release and
 * had given the address away already. Whether there were any. */
bool nxm_allocator_unbar(struct nxm_allocator *allocator, uint64_t address, uint64_t bytes);

/* Releases the block at `address` now, from one of the states in mask `from`. `id` 0: whichever lives there.
 * 0 with *ret_release (COMPLETE or QUARANTINED); NXM_ENOENT, NXM_EBUSY: the plugin was not called;
 * NXM_ECALL: FAILED, the block is LIVE again. */
int nxm_allocator_release(struct nxm_allocator *allocator, uint64_t address, uint64_t id, unsigned from,
                          struct nxm_release *ret_release, struct nxm_error *ret_error);

/* The same with the shape the caller believes in; a wrong one refuses with NXM_EINVAL (12.3). */
int nxm_allocator_release_shaped(struct nxm_allocator *allocator, uint64_t address, uint64_t bytes, uint64_t align,
                                 struct nxm_release *ret_release, struct nxm_error *ret_error);

/* Queues the release (15.1), counted before the plugin is entered. 0: QUEUED, or already COMPLETE /
 * QUARANTINED when the completion came inside the call, or QUARANTINED when the plugin's failure leaves in doubt
 * whether something happened (as for a release). NXM_EUNSUPPORTED: no such capability and no `call`, untouched.
 * NXM_ENOENT, NXM_EBUSY: untouched. NXM_ENOMEM (our own), NXM_ERETIRED: in the state it had, the plugin was not entered.
 * Other failures: the block is LIVE again, unless its completion had already arrived, which wins. */
int nxm_allocator_enqueue(struct nxm_allocator *allocator, uint64_t address, uint64_t id, unsigned from,
                          nxm_enqueue_call call, void *argument, struct nxm_release *ret_release,
                          struct nxm_error *ret_error);

/* The same of a block of this allocator that the caller has claimed itself: *block is its record as it was before. */
int nxm_allocator_enqueue_claimed(struct nxm_allocator *allocator, const struct nxm_block *block, nxm_enqueue_call call,
                                  void *argument, struct nxm_release *ret_release, struct nxm_error *ret_error);

/* Whether a block at that address, which no table knows, is being released by another thread's quiet call (quiet.h). */
bool nxm_allocator_is_releasing(const struct nxm_allocator *allocator, uint64_t address);

/* The blocks of such releases stand in the table again, as RELEASING: for a last report, since nobody takes them out when their release is
 * over. */
void nxm_allocator_show_releasing(struct nxm_allocator *allocator);

/* The same with the shape the caller believes in; a wrong one refuses with NXM_EINVAL, untouched (15.1). */
int nxm_allocator_enqueue_shaped(struct nxm_allocator *allocator, uint64_t address, uint64_t bytes, uint64_t align,
                                 struct nxm_release *ret_release, struct nxm_error *ret_error);

/* Lets the plugin retire queued releases; *ret_retired is how many it says it did, on failure (NXM_ECALL) too. Slot absent: 0. */
int nxm_allocator_drain_some(struct nxm_allocator *allocator, uint64_t budget, uint64_t *ret_retired,
                             struct nxm_error *ret_error);
uint64_t nxm_allocator_drain(struct nxm_allocator *allocator, uint64_t budget); /* the same, by its count alone */
uint64_t nxm_allocator_pending(struct nxm_allocator *allocator);

void nxm_allocator_totals(struct nxm_allocator *allocator, struct nxm_allocator_totals *ret_totals);

#endif
