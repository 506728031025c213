/* The misbehaving plugin over host memory: what shows without a driver. One planted fault per mechanism, HOST:0, over the
 * kit's lazy memory. For tests only, never installed. Owns its mechanisms (static), the states opened from them, and
 * its threads, which count as queued releases until they are joined. Any thread. */
#ifndef NXP_FAULTY_HOST_H
#define NXP_FAULTY_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nxmem_memory_abi.h"
#include "plugins/common/exports.h"
#include "plugins/common/lazy.h"

enum fh_fault {
#define FAULT(identifier, capabilities, word, help) FH_##identifier,
#include "plugins/faulty/host/faults.def"
#undef FAULT
    FH_FAULTS
};

/* Asked by dlsym as uint64_t NxmemFaultyHost<Name>(void). */
#define FH_COUNTERS(COUNTER)                                                          \
    COUNTER(TerminalReleases, "entries into deallocate and release_allocation")       \
    COUNTER(Drains, "entries into drain_releases")                                    \
    COUNTER(BackingCalls, "entries into virtual-backing slots that take a span")      \
    COUNTER(PrefixReleases, "entries into release_shared_prefix")                     \
    COUNTER(AllocatorReleases, "entries into an allocator's release")                 \
    COUNTER(BogusCalls, "calls of the host's callbacks that must be refused")         \
    COUNTER(BogusAccepted, "how many of them the host answered with OK")

enum fh_counter {
#define COUNTER(name, help) FH_COUNT_##name,
    FH_COUNTERS(COUNTER)
#undef COUNTER
    FH_COUNTER_COUNT
};

#define COUNTER(name, help) NXP_EXPORT uint64_t NxmemFaultyHost##name(void);
FH_COUNTERS(COUNTER)
#undef COUNTER

NXP_EXPORT void NxmemFaultyHostLetGo(void); /* of holds-release, for good */

void fh_count(enum fh_counter counter);

struct fh_mechanism {
    struct nxp_backend backend;
    const char *name;
    enum fh_fault fault;
};

enum { FH_PLACES = 4 };

/* Memory that ends with a page, in front of one that is none. */
struct fh_guarded {
    void *pages;
    size_t bytes;
};

struct fh_state {
    struct nxp_lazy lazy; /* first: a slot's ctx is all of these */
    enum fh_fault fault;
    NxmemAllocatorVtable kit; /* as the kit filled them */
    NxmemVirtualBackingVtable kit_backing;
    NxmemSharedMappingVtable kit_mapping;
    struct fh_guarded guarded[FH_PLACES];
    void *kept;         /* of the last release that kept its bytes; freed with the state */
    uint8_t *reissue;   /* where the next block shall be, or NULL */
    bool reissued;
};

static inline struct fh_state *fh_of_backing(void *ctx)
{
    return (struct fh_state *)((char *)ctx - offsetof(struct nxp_lazy, backing));
}

static inline struct fh_state *fh_of_mapping(void *ctx)
{
    return (struct fh_state *)((char *)ctx - offsetof(struct nxp_lazy, mapping));
}

/* --- the parts ---------------------------------------------------------------------------------------------- */

NxmemStatus fh_open(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **vtable);

/* A copy that ends with its page; NULL without memory. */
void *fh_guarded_new(struct fh_guarded *guarded, const void *bytes, size_t size);
void fh_guarded_free(struct fh_guarded *guarded);

void fh_memory_install(struct fh_state *state);
void fh_queue_install(struct fh_state *state);
void fh_ranges_install(struct fh_state *state);

NxmemStatus fh_backend_allocate(struct nxp_allocator *allocator, const NxmemCudaOrder *order, struct nxp_block *block);

/* Calls of the host that it must refuse, counted. */
void fh_ask_wrongly(struct fh_state *state);
void fh_complete_bogus(struct fh_state *state, const NxmemReleaseCompletion *completion);

/* Joins the threads of completes-slowly; how many are left to be joined. */
void fh_workers_join(void);
uint64_t fh_workers_left(void);

#endif
