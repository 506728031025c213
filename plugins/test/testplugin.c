#include "plugins/test/testplugin.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "plugins/common/factory.h"
#include "plugins/common/negotiate.h"
#include "plugins/common/status.h"
#include "plugins/common/tallies.h"

static const NxmemDeviceId device = {NXMEM_TIER_HOST, 0};

static NxmemAllocatorFactoryVtable table[TEST_MECHANISMS];
static NxmemAllocatorFactoryVtable faulty; /* the first factory once more, with nothing to open it by */
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static atomic_uint_fast64_t factory_releases, fault_slot;
static atomic_bool refuses_report;

uint64_t NxmemTestpluginFactoryReleases(void)
{
    return atomic_load(&factory_releases);
}

uint64_t NxmemTestpluginPrefixBackingFrees(void)
{
    return nxp_prefixes_freed();
}

void NxmemTestpluginSetFactoryValidationFaultSlot(uint64_t slot)
{
    atomic_store(&fault_slot, slot);
}

void NxmemTestpluginRefuseUnloadReport(void)
{
    atomic_store(&refuses_report, true);
}

static void release_factory(void *ctx)
{
    (void)ctx; /* static */
    atomic_fetch_add(&factory_releases, 1);
}

/* --- the life of a state ---------------------------------------------------------------------------------------- */

static void closing(struct nxp_allocator *allocator)
{
    struct test_state *state = (struct test_state *)allocator;

    test_parked_forget(state);
    test_published_forget(state);
    test_aside_clear(state);
    free(state->block);
}

/* Memory and books are the kit's for all of them: a mechanism is odd in its slots or in its vtable. */
static struct nxp_backend backend_of(const struct test_mechanism *mechanism)
{
    return (struct nxp_backend){
        .capabilities = mechanism->capabilities,
        .queues = true,
        .allocate = nxp_lazy_allocate,
        .release = nxp_lazy_release,
        .leaves = nxp_lazy_leaves,
        .closing = closing,
        .object_bytes = sizeof(struct test_state),
    };
}

static void fill(void)
{
    for (unsigned i = 0; i < TEST_MECHANISMS; i++) {
        struct test_mechanism *mechanism = &test_mechanisms[i];

        mechanism->backend = backend_of(mechanism);
        table[i] = (NxmemAllocatorFactoryVtable){
            .struct_size = sizeof table[i],
            .abi_minor = NXMEM_ABI_MINOR,
            .name = (const uint8_t *)mechanism->name,
            .device = device,
            .capability_flags = mechanism->capabilities,
            .ctx = mechanism,
            .open_allocator = test_open,
            .release = release_factory,
        };
    }
    faulty = table[0];
    faulty.open_allocator = NULL;
}

/* The level of a new state's vtable: its own, or what the host can read. */
static uint32_t level_for(const struct test_mechanism *mechanism, uint32_t ceiling)
{
    return mechanism->any_level || mechanism->level < ceiling ? mechanism->level : ceiling;
}

static const NxmemAllocatorVtable *publish(struct test_state *state)
{
    const struct test_mechanism *mechanism = state->mechanism;
    NxmemAllocatorVtable *vtable = &state->lazy.base.vtable;

    nxp_lazy_publish(&state->lazy);
    test_releases_install(state);
    test_queue_install(state);
    return mechanism->publish != NULL ? mechanism->publish(state) : vtable;
}

static NxmemStatus open_stateless(const struct test_mechanism *mechanism, const NxmemOpenRequest *request,
                                  const NxmemAllocatorVtable **vtable)
{
    NxmemStatus status = nxp_allocator_check_open(&mechanism->backend, device, request);
    const NxmemAllocatorVtable *published;

    if (status.code != NXMEM_STATUS_OK)
        return status;
    published = test_short_vtable();
    if (published == NULL)
        return nxp_status(NXMEM_STATUS_OUT_OF_MEMORY, "no memory for the short vtable");
    *vtable = published;
    return status;
}

NxmemStatus test_open(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **vtable)
{
    const struct test_mechanism *mechanism = ctx;
    const NxmemAllocatorVtable *published;
    struct nxp_allocator *allocator;
    struct test_state *state;
    NxmemOpenRequest own;
    NxmemStatus status;

    if (vtable == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no place for the allocator");
    if (mechanism->stateless)
        return open_stateless(mechanism, request, vtable);
    if (request != NULL && request->struct_size >= sizeof own) {
        own = *request;
        own.abi_minor = level_for(mechanism, request->abi_minor);
        request = &own;
    }
    status = nxp_allocator_open(&mechanism->backend, mechanism->name, device, request, &allocator);
    if (status.code != NXMEM_STATUS_OK)
        return status;
    state = (struct test_state *)allocator;
    state->mechanism = mechanism;
    state->kit = allocator->vtable;
    published = publish(state);
    if (published == NULL) {
        nxp_allocator_unref(allocator);
        return nxp_status(NXMEM_STATUS_OUT_OF_MEMORY, "no memory for the vtable");
    }
    test_published_set(state, published);
    if (mechanism->parks)
        test_parked_set(state);
    *vtable = published;
    return status;
}

/* --- the three exports of the ABI ------------------------------------------------------------------------------- */

NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response)
{
    return nxp_negotiate(NXMEM_CAPABILITY_KNOWN_MASK, request, response);
}

NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories,
                                          uint64_t *count)
{
    uint64_t slot = atomic_load(&fault_slot);
    NxmemStatus status;

    pthread_once(&filled, fill);
    status = nxp_factories_publish(table, TEST_MECHANISMS, factories, max_factories, count);
    if (status.code == NXMEM_STATUS_OK && slot >= 1 && slot <= TEST_MECHANISMS)
        factories[slot - 1] = &faulty;
    return status;
}

NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report)
{
    if (atomic_load(&refuses_report))
        return nxp_status(NXMEM_STATUS_INTERNAL_ERROR, "told not to say what is alive");
    return nxp_unload_report(report);
}
