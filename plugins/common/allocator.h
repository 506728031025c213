/* An opened mechanism, the part every mechanism needs: identity, the live set, both releases, the queue,
 * the tallies. What memory is, a backend says.
 *
 * Owns its state from `open` until the last reference went; a reference is held by the host (one, plus its
 * retains) and by every queued release. Any thread; the allocator's own lock guards the live set and the
 * queue, and is never held while the backend (which calls the driver) or the host runs.
 */
#ifndef NXP_ALLOCATOR_H
#define NXP_ALLOCATOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "nxmem_cuda.h"
#include "nxmem_memory_abi.h"
#include "plugins/common/live.h"

struct nxp_allocator;

/* How a mechanism makes and unmakes memory. `order` is NULL when the plain slots are used. Called with no
 * lock held; each call owns its block (ALLOCATING or RELEASING). */
struct nxp_backend {
    uint64_t capabilities; /* at the newest minor */
    uint64_t traits;       /* NXMEM_CUDA_TRAIT_* */
    bool queues;           /* a queued release waits for a drain; else it is done inside enqueue */
    bool companion;        /* has the CUDA companion */
    NxmemStatus (*open)(NxmemDeviceId device); /* may refuse; NULL: always can */
    void (*opened)(struct nxp_allocator *allocator); /* NULL: nothing to do. Its part of a new allocator, before anybody sees it */
    /* Sets ptr (never NULL, aligned, also for 0 bytes) and may set backing. A failure leaves nothing. */
    NxmemStatus (*allocate)(struct nxp_allocator *allocator, const NxmemCudaOrder *order, struct nxp_block *block);
    /* A failure leaves the block as it was. */
    NxmemStatus (*release)(struct nxp_allocator *allocator, const NxmemCudaOrder *order, struct nxp_block *block);
    /* NULL: nothing to do. The block is about to be queued: what hangs on it while it is live goes now. */
    void (*leaves)(struct nxp_allocator *allocator, struct nxp_block *block);
    /* NULL: nothing to do. The last reference went; what the mechanism keeps beside the blocks goes now. */
    void (*closing)(struct nxp_allocator *allocator);
    size_t object_bytes; /* of a larger struct that begins with struct nxp_allocator; 0: that struct alone */
};

struct nxp_allocator {
    NxmemAllocatorVtable vtable; /* as published; ctx is this struct */
    NxmemCudaVtable companion;
    const struct nxp_backend *backend;
    uint64_t references; /* by __atomic builtins: the decrement to 0 is last, and destroys */
    NxmemHostCallbacks callbacks; /* our copy, what the host did not claim is NULL */
    pthread_mutex_t lock;         /* guards everything below */
    struct nxp_live live;
    struct nxp_block *queue_head, *queue_tail;
    uint64_t pending; /* queued and not yet completed, those a drain has detached included */
    bool draining;    /* one drain at a time: completions go out in the order of the tickets */
};

/* open_allocator for one mechanism: on success the host owns one reference through *ret_allocator. */
NxmemStatus nxp_allocator_open(const struct nxp_backend *backend, const char *name, NxmemDeviceId device,
                               const NxmemOpenRequest *request, struct nxp_allocator **ret_allocator);
void nxp_allocator_ref(struct nxp_allocator *allocator);
void nxp_allocator_unref(struct nxp_allocator *allocator);
/* For somebody who holds none, but keeps `closing` from going on: false when the last one went already. */
bool nxp_allocator_ref_if_alive(struct nxp_allocator *allocator);

/* What every request is checked for first: of an opening the device and the bits it requires; of the others the sizes,
 * the identity (mechanism before device, 4.5), and what is wrong whatever is live. */
NxmemStatus nxp_allocator_check_open(const struct nxp_backend *backend, NxmemDeviceId device,
                                     const NxmemOpenRequest *request);
NxmemStatus nxp_allocator_check_identity(const struct nxp_allocator *allocator, uint64_t mechanism_id,
                                         NxmemDeviceId device);
NxmemStatus nxp_allocator_check_request(const struct nxp_allocator *allocator, const NxmemAllocRequest *request,
                                        const NxmemAllocResult *result);
NxmemStatus nxp_allocator_check_allocation(const struct nxp_allocator *allocator, const NxmemAllocation *allocation);
/* The caller holds the lock: the live block that a checked allocation names, if its shape is right. */
NxmemStatus nxp_allocator_find(struct nxp_allocator *allocator, const NxmemAllocation *allocation,
                               struct nxp_block **ret_block);

/* The operations behind the slots. `order` NULL: asked through the plain slot. */
NxmemStatus nxp_allocator_allocate(struct nxp_allocator *allocator, const NxmemCudaOrder *order,
                                   const NxmemAllocRequest *request, NxmemAllocResult *result);
NxmemStatus nxp_allocator_release(struct nxp_allocator *allocator, const NxmemAllocation *allocation,
                                  uint64_t *ret_unmapped);
NxmemStatus nxp_allocator_enqueue(struct nxp_allocator *allocator, const NxmemCudaOrder *order,
                                  const NxmemAllocation *allocation, uint64_t *ticket);
NxmemStatus nxp_allocator_drain(struct nxp_allocator *allocator, uint64_t max_releases, uint64_t *retired);
NxmemStatus nxp_allocator_pending(struct nxp_allocator *allocator, uint64_t *count);

/* A release in two halves, for the three ways it can go: claim checks identity, id and shape and makes the
 * block RELEASING; then either retire (the bytes are gone) or restore (nothing happened). */
NxmemStatus nxp_allocator_claim(struct nxp_allocator *allocator, const NxmemAllocation *allocation,
                                struct nxp_block **ret_block);
void nxp_allocator_retire(struct nxp_allocator *allocator, struct nxp_block *block);
void nxp_allocator_restore(struct nxp_allocator *allocator, struct nxp_block *block);

/* OK with every field filled, or why a companion's order cannot be followed. */
NxmemStatus nxp_order_check(const NxmemCudaOrder *order);

/* Asks the host to give memory back: its answer, or OK with 0 bytes when it gave no such callback. */
NxmemStatus nxp_allocator_ask_host(struct nxp_allocator *allocator, uint64_t bytes, uint64_t *ret_reclaimed);
/* The same for who goes on either way: 0 when refused. */
uint64_t nxp_allocator_request_reclaim(struct nxp_allocator *allocator, uint64_t bytes);

/* Tells the host how the queued release of a block (a copy: it may be gone) ended. */
NxmemStatus nxp_allocator_complete(struct nxp_allocator *allocator, const struct nxp_block *block, uint32_t state,
                                   const NxmemStatus *failure);

/* The body of NxmemQueryCuda. */
NxmemStatus nxp_query_cuda(const NxmemAllocatorVtable *vtable, const NxmemCudaVtable **companion);

#endif
