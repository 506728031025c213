/* The misbehaving plugin: what it publishes, and which mechanism does what. */
#include "plugins/faulty/faulty.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/driver.h"
#include "plugins/common/factory.h"
#include "plugins/common/negotiate.h"
#include "plugins/common/status.h"
#include "plugins/common/tallies.h"

static atomic_uint_fast64_t counters[FAULTY_COUNTER_COUNT];

#define COUNTER(name, help)                             \
    uint64_t NxmemFaulty##name(void)                    \
    {                                                   \
        return atomic_load(&counters[FAULTY_COUNT_##name]); \
    }
FAULTY_COUNTERS(COUNTER)
#undef COUNTER

void faulty_count(enum faulty_counter counter)
{
    atomic_fetch_add(&counters[counter], 1);
}

static const struct {
    const char *word;
    enum faulty_stage stage;
} faults[FAULTY_FAULTS] = {
#define FAULT(identifier, stage, word, help) {word, FAULTY_##stage},
#include "plugins/faulty/faults.def"
#undef FAULT
};

/* `faulty` first, so that it is what a host takes when no mechanism is named. */
enum {
    DEVICES = 4,
    MECHANISMS = DEVICES + FAULTY_FAULTS,
};
_Static_assert(MECHANISMS <= 64, "a module has at most 64 factories");

static struct faulty_mechanism mechanisms[MECHANISMS];
static NxmemAllocatorFactoryVtable table[MECHANISMS];
static bool word_unknown;
static struct faulty_mechanism *_Atomic reporting; /* opened last with a fault in the unload report */
static pthread_once_t filled = PTHREAD_ONCE_INIT;

struct faulty_mechanism *faulty_mechanism_of(const struct nxp_allocator *allocator)
{
    return (struct faulty_mechanism *)(uintptr_t)allocator->backend;
}

bool faulty_due(struct faulty_mechanism *mechanism, enum faulty_stage stage)
{
    if (mechanism->stage != stage)
        return false;
    return __atomic_add_fetch(&mechanism->calls, 1, __ATOMIC_RELAXED) >= mechanism->from;
}

void faulty_note_open(struct faulty_mechanism *mechanism)
{
    faulty_count(FAULTY_COUNT_Opens);
    if (mechanism->stage == FAULTY_REPORT)
        atomic_store(&reporting, mechanism);
}

static void release_factory(void *ctx)
{
    (void)ctx;
    faulty_count(FAULTY_COUNT_FactoryReleases);
}

static void fill_one(unsigned index, const char *name, uint32_t device, enum faulty_fault fault, uint64_t from,
                     bool companion)
{
    struct faulty_mechanism *mechanism = &mechanisms[index];

    mechanism->name = name;
    mechanism->device = (NxmemDeviceId){NXMEM_TIER_DEVICE, device};
    mechanism->fault = fault;
    mechanism->stage = faults[fault].stage;
    mechanism->from = from;
    mechanism->backend = (struct nxp_backend){
        .capabilities = NXMEM_CAPABILITY_ALLOCATOR | NXMEM_CAPABILITY_STRUCTURED_RELEASE,
        .traits = NXMEM_CUDA_TRAIT_RELEASE_WAITS_LIKE_DRIVER,
        .companion = companion || mechanism->stage == FAULTY_COMPANION,
        .open = nxp_driver_open,
        .allocate = faulty_backend_allocate,
        .release = faulty_backend_release,
    };
    /* A fault of the terminal slots shows only where there is no other way to release. */
    if (mechanism->stage == FAULTY_RELEASE)
        mechanism->backend.companion = false;
    else
        mechanism->backend.capabilities |= NXMEM_CAPABILITY_DEFERRED_RELEASE;
    table[index] = (NxmemAllocatorFactoryVtable){
        .struct_size = sizeof table[index],
        .abi_minor = NXMEM_ABI_MINOR,
        .name = (const uint8_t *)name,
        .device = mechanism->device,
        .capability_flags = mechanism->backend.capabilities,
        .ctx = mechanism,
        .open_allocator = faulty_open,
        .release = release_factory,
    };
}

/* NXMEM_FAULTY=word[:n] */
static void read_fault(enum faulty_fault *ret_fault, uint64_t *ret_from)
{
    const char *text = secure_getenv("NXMEM_FAULTY");
    size_t length;

    *ret_fault = FAULTY_SOUND_FAULT;
    *ret_from = 1;
    if (text == NULL || *text == '\0')
        return;
    length = strcspn(text, ":");
    if (text[length] == ':')
        *ret_from = strtoull(text + length + 1, NULL, 10);
    for (unsigned fault = 0; fault < FAULTY_FAULTS; fault++) {
        if (strlen(faults[fault].word) == length && strncmp(faults[fault].word, text, length) == 0) {
            *ret_fault = (enum faulty_fault)fault;
            return;
        }
    }
    word_unknown = true;
}

static void fill(void)
{
    const char *with_companion = secure_getenv("NXMEM_FAULTY_COMPANION");
    bool companion = with_companion != NULL && strcmp(with_companion, "1") == 0;
    enum faulty_fault chosen;
    uint64_t from;

    read_fault(&chosen, &from);
    for (uint32_t device = 0; device < DEVICES; device++)
        fill_one(device, "faulty", device, chosen, from, companion);
    for (unsigned fault = 0; fault < FAULTY_FAULTS; fault++)
        fill_one(DEVICES + fault, faults[fault].word, 0, (enum faulty_fault)fault, 1, companion);
}

NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response)
{
    return nxp_negotiate(NXMEM_CAPABILITY_KNOWN_MASK, request, response);
}

NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories,
                                          uint64_t *count)
{
    pthread_once(&filled, fill);
    if (word_unknown)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "NXMEM_FAULTY names no fault of faults.def");
    return nxp_factories_publish(table, MECHANISMS, factories, max_factories, count);
}

NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report)
{
    struct faulty_mechanism *mechanism = atomic_load(&reporting);
    uint32_t size = report != NULL ? report->struct_size : 0;
    NxmemStatus status;

    faulty_workers_join(false);
    status = nxp_unload_report(report);
    if (status.code != NXMEM_STATUS_OK)
        return status;
    report->queued_releases += faulty_workers_left();
    if (mechanism == NULL || !faulty_due(mechanism, FAULTY_REPORT))
        return status;
    if (mechanism->fault == FAULTY_REPORT_FAILS_FAULT)
        return nxp_status(NXMEM_STATUS_INTERNAL_ERROR, "this plugin cannot say what is alive");
    if (mechanism->fault == FAULTY_REPORT_LIES_FAULT)
        *report = (NxmemUnloadReport){.struct_size = size};
    else
        report->live_views++;
    return status;
}

NxmemStatus NxmemQueryCuda(const NxmemAllocatorVtable *allocator, const NxmemCudaVtable **companion)
{
    return faulty_query_cuda(allocator, companion);
}
