#include "plugins/faulty/host/faulty_host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "plugins/common/factory.h"
#include "plugins/common/negotiate.h"
#include "plugins/common/tallies.h"

enum {
    A = NXMEM_CAPABILITY_ALLOCATOR,
    V = NXMEM_CAPABILITY_VIRTUAL_BACKING,
    S = NXMEM_CAPABILITY_SHARED_MAPPING,
    D = NXMEM_CAPABILITY_DEFERRED_RELEASE,
    R = NXMEM_CAPABILITY_STRUCTURED_RELEASE,
};

static const struct {
    const char *word;
    uint64_t capabilities;
} faults[FH_FAULTS] = {
#define FAULT(identifier, capabilities, word, help) {word, capabilities},
#include "plugins/faulty/host/faults.def"
#undef FAULT
};
_Static_assert(FH_FAULTS <= 64, "a module has at most 64 factories");

static struct fh_mechanism mechanisms[FH_FAULTS];
static NxmemAllocatorFactoryVtable table[FH_FAULTS];
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static atomic_uint_fast64_t counters[FH_COUNTER_COUNT];

#define COUNTER(name, help)                               \
    uint64_t NxmemFaultyHost##name(void)                  \
    {                                                     \
        return atomic_load(&counters[FH_COUNT_##name]);   \
    }
FH_COUNTERS(COUNTER)
#undef COUNTER

void fh_count(enum fh_counter counter)
{
    atomic_fetch_add(&counters[counter], 1);
}

static void closing(struct nxp_allocator *allocator)
{
    struct fh_state *state = (struct fh_state *)allocator;

    free(state->kept);
    for (unsigned i = 0; i < FH_PLACES; i++)
        fh_guarded_free(&state->guarded[i]);
}

static void release_factory(void *ctx)
{
    (void)ctx; /* static */
}

static void fill(void)
{
    for (unsigned i = 0; i < FH_FAULTS; i++) {
        struct fh_mechanism *mechanism = &mechanisms[i];

        mechanism->name = faults[i].word;
        mechanism->fault = (enum fh_fault)i;
        mechanism->backend = (struct nxp_backend){
            .capabilities = faults[i].capabilities,
            .queues = true,
            .allocate = fh_backend_allocate,
            .release = nxp_lazy_release,
            .leaves = nxp_lazy_leaves,
            .closing = closing,
            .object_bytes = sizeof(struct fh_state),
        };
        table[i] = (NxmemAllocatorFactoryVtable){
            .struct_size = sizeof table[i],
            .abi_minor = NXMEM_ABI_MINOR,
            .name = (const uint8_t *)mechanism->name,
            .device = {NXMEM_TIER_HOST, 0},
            .capability_flags = faults[i].capabilities,
            .ctx = mechanism,
            .open_allocator = fh_open,
            .release = release_factory,
        };
    }
}

NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response)
{
    return nxp_negotiate(NXMEM_CAPABILITY_KNOWN_MASK, request, response);
}

NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories,
                                          uint64_t *count)
{
    pthread_once(&filled, fill);
    return nxp_factories_publish(table, FH_FAULTS, factories, max_factories, count);
}

NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report)
{
    NxmemStatus status;

    fh_workers_join();
    status = nxp_unload_report(report);
    if (status.code == NXMEM_STATUS_OK)
        report->queued_releases += fh_workers_left();
    return status;
}
