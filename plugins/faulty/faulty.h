/* The misbehaving plugin: real driver memory, and one planted fault per mechanism. For tests only, never
 * installed. Owns its mechanisms (static) and the threads of completes-later, which count as queued releases
 * until they are joined. Any thread. */
#ifndef NXP_FAULTY_H
#define NXP_FAULTY_H

#include <stdbool.h>
#include <stdint.h>

#include "nxmem_cuda.h"
#include "nxmem_memory_abi.h"
#include "plugins/common/allocator.h"
#include "plugins/common/exports.h"

enum faulty_stage {
    FAULTY_NONE,
    FAULTY_OPEN,
    FAULTY_COMPANION,
    FAULTY_ALLOCATE,
    FAULTY_RELEASE,
    FAULTY_ENQUEUE,
    FAULTY_REPORT,
};

enum faulty_fault {
#define FAULT(identifier, stage, word, help) FAULTY_##identifier##_FAULT,
#include "plugins/faulty/faults.def"
#undef FAULT
    FAULTY_FAULTS
};

/* What tests may ask by dlsym, as uint64_t NxmemFaulty<Name>(void): COUNTER(Name, "what it counts"). */
#define FAULTY_COUNTERS(COUNTER)                                                           \
    COUNTER(Opens, "entries into open_allocator")                                          \
    COUNTER(Allocations, "entries into allocate and allocate_on")                          \
    COUNTER(TerminalReleases, "entries into deallocate and release_allocation")            \
    COUNTER(Enqueues, "entries into enqueue_release and enqueue_release_on")               \
    COUNTER(Drains, "entries into drain_releases")                                         \
    COUNTER(AllocatorReleases, "entries into an allocator's release")                      \
    COUNTER(FactoryReleases, "entries into a factory's release")                           \
    COUNTER(ForbiddenCalls, "entries into a vtable for which no call was owed or allowed") \
    COUNTER(BogusCompletions, "completions reported that must be refused")                 \
    COUNTER(BogusAccepted, "how many of them the host answered with OK")

enum faulty_counter {
#define COUNTER(name, help) FAULTY_COUNT_##name,
    FAULTY_COUNTERS(COUNTER)
#undef COUNTER
    FAULTY_COUNTER_COUNT
};

#define COUNTER(name, help) NXP_EXPORT uint64_t NxmemFaulty##name(void);
FAULTY_COUNTERS(COUNTER)
#undef COUNTER

void faulty_count(enum faulty_counter counter);

/* One mechanism. The backend comes first: an allocator finds its mechanism by it. */
struct faulty_mechanism {
    struct nxp_backend backend;
    const char *name;
    NxmemDeviceId device;
    enum faulty_fault fault;
    enum faulty_stage stage;
    uint64_t from;          /* the first call of the stage that misbehaves, from 1 */
    uint64_t calls;         /* of the stage; by __atomic builtins */
    uintptr_t last_address; /* a live block for `duplicate` to give again, 0 for none; likewise */
};

struct faulty_mechanism *faulty_mechanism_of(const struct nxp_allocator *allocator);

/* Counts one call of this stage and says whether the fault is due in it. */
bool faulty_due(struct faulty_mechanism *mechanism, enum faulty_stage stage);

/* An open_allocator begins: counted, and a fault of the unload report is armed. */
void faulty_note_open(struct faulty_mechanism *mechanism);

/* The parts, by stage. */
NxmemStatus faulty_open(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **vtable);
NxmemStatus faulty_query_cuda(const NxmemAllocatorVtable *vtable, const NxmemCudaVtable **companion);

NxmemStatus faulty_backend_allocate(struct nxp_allocator *allocator, const NxmemCudaOrder *order,
                                    struct nxp_block *block);
NxmemStatus faulty_backend_release(struct nxp_allocator *allocator, const NxmemCudaOrder *order,
                                   struct nxp_block *block);

NxmemStatus faulty_allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result);
NxmemStatus faulty_allocate_on(void *ctx, const NxmemCudaOrder *order, const NxmemAllocRequest *request,
                               NxmemAllocResult *result);
NxmemStatus faulty_deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_bytes);
NxmemStatus faulty_release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome);

/* Keeps the bytes of a block for good: no later release finds it, and it stays counted as live, for it outlives
 * its allocator. */
NxmemStatus faulty_keep(struct nxp_allocator *allocator, const NxmemAllocation *allocation);

NxmemStatus faulty_enqueue_release(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket);
NxmemStatus faulty_enqueue_release_on(void *ctx, const NxmemCudaOrder *order, const NxmemAllocation *allocation,
                                      uint64_t *ticket);
NxmemStatus faulty_drain_releases(void *ctx, uint64_t max_releases, uint64_t *retired);

/* Threads of completes-later: starts one that frees the claimed block and reports `ticket`. False: there is no
 * thread to be had, nothing was done. */
bool faulty_worker_start(struct nxp_allocator *allocator, struct nxp_block *block);
/* Joins the threads, all of them or those that are through with the host; returns how many. */
uint64_t faulty_workers_join(bool all);
uint64_t faulty_workers_left(void);

#endif
