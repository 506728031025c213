/* A plugin that does next to nothing: a place and a count each way, with the companion's two doors as `direct` has them. What a
 * redirected pair costs beyond these is the shim's own. Its tallies are per thread, so that threads share nothing here. */
#define CHEAP_BASE (UINT64_C(1) << 45)
#include "cheap.h"

#include <string.h>

#include "nxmem_cuda.h"
#include "nxmem_memory_abi.h"

#define CAPABILITIES (NXMEM_CAPABILITY_ALLOCATOR | NXMEM_CAPABILITY_DEFERRED_RELEASE)

struct allocator {
    NxmemAllocatorVtable vtable;
    NxmemCudaVtable companion;
    const NxmemHostCallbacks *callbacks;
    _Atomic unsigned references;
};

static _Atomic uint64_t allocators, last_mechanism;
static __thread uint64_t *tally; /* one cell of the table below, of this thread's own */
static struct {
    _Alignas(64) uint64_t live;
} tallies[1024];

static uint64_t *mine(void)
{
    static _Atomic unsigned threads;

    if (!tally)
        tally = &tallies[atomic_fetch_add(&threads, 1) % 1024].live;
    return tally;
}

static NxmemStatus status(uint32_t code)
{
    NxmemStatus result;

    result.code = code;
    result.message_len = 0;
    result.message[0] = 0;
    return result;
}

static NxmemStatus serve(void *context, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    (void)context;
    result->ptr = (uint8_t *)(uintptr_t)cheap_take(request->bytes);
    result->owned_bytes = result->mapped_bytes = request->bytes;
    ++*mine();
    return status(NXMEM_STATUS_OK);
}

static NxmemStatus serve_on(void *context, const NxmemCudaOrder *order, const NxmemAllocRequest *request,
                            NxmemAllocResult *result)
{
    (void)order;
    return serve(context, request, result);
}

static void take_back(const NxmemAllocation *allocation)
{
    cheap_give((uint64_t)(uintptr_t)allocation->ptr);
    --*mine();
}

static NxmemStatus deallocate(void *context, const NxmemAllocation *allocation, uint64_t *unmapped_bytes)
{
    (void)context;
    take_back(allocation);
    *unmapped_bytes = allocation->bytes;
    return status(NXMEM_STATUS_OK);
}

static NxmemStatus enqueue(void *context, const NxmemAllocation *allocation, uint64_t *ticket)
{
    const struct allocator *self = context;
    NxmemReleaseCompletion completion = {
        .struct_size = sizeof completion,
        .mechanism_id = allocation->mechanism_id,
        .allocation_id = allocation->allocation_id,
        .ticket = *ticket = allocation->allocation_id,
        .outcome = { .struct_size = sizeof completion.outcome,
                     .state = NXMEM_RELEASE_COMPLETE,
                     .allocation_bytes = allocation->bytes,
                     .unmapped_bytes = allocation->bytes },
    };

    take_back(allocation);
    self->callbacks->release_completed(self->callbacks->host_ctx, &completion);
    return status(NXMEM_STATUS_OK);
}

static NxmemStatus enqueue_on(void *context, const NxmemCudaOrder *order, const NxmemAllocation *allocation, uint64_t *ticket)
{
    (void)order;
    return enqueue(context, allocation, ticket);
}

static NxmemStatus drain(void *context, uint64_t budget, uint64_t *retired)
{
    (void)context;
    (void)budget;
    *retired = 0;
    return status(NXMEM_STATUS_OK);
}

static void retain(void *context)
{
    ((struct allocator *)context)->references++;
}

static void release(void *context)
{
    struct allocator *self = context;

    if (--self->references != 0)
        return;
    allocators--;
    free(self);
}

static NxmemStatus open_allocator(void *context, const NxmemOpenRequest *request, const NxmemAllocatorVtable **vtable)
{
    const NxmemAllocatorFactoryVtable *factory = context;
    struct allocator *self = calloc(1, sizeof *self);

    if (!self || !request->callbacks)
        return status(NXMEM_STATUS_OUT_OF_MEMORY);
    self->callbacks = request->callbacks;
    self->references = 1;
    self->vtable = (NxmemAllocatorVtable){
        .struct_size = sizeof self->vtable,
        .abi_minor = 1,
        .mechanism_id = ++last_mechanism,
        .device = factory->device,
        .capability_flags = CAPABILITIES,
        .name = factory->name,
        .ctx = self,
        .allocate = serve,
        .deallocate = deallocate,
        .retain = retain,
        .release = release,
        .enqueue_release = enqueue,
        .drain_releases = drain,
    };
    self->companion = (NxmemCudaVtable){
        .struct_size = sizeof self->companion,
        .mechanism_id = self->vtable.mechanism_id,
        .traits = NXMEM_CUDA_TRAIT_RELEASE_NEVER_WAITS,
        .ctx = self,
        .allocate_on = serve_on,
        .enqueue_release_on = enqueue_on,
    };
    allocators++;
    *vtable = &self->vtable;
    return status(NXMEM_STATUS_OK);
}

static void release_factory(void *context)
{
    (void)context; /* static */
}

/* --- exports ---------------------------------------------------------------------------------------------------- */

#define EXPORT __attribute__((visibility("default")))
EXPORT NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response);
EXPORT NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories,
                                                 uint64_t *count);
EXPORT NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report);
EXPORT NxmemStatus NxmemQueryCuda(const NxmemAllocatorVtable *allocator, const NxmemCudaVtable **companion);

NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response)
{
    (void)request;
    response->agreed_major = 1;
    response->agreed_minor = 1;
    response->capability_flags = CAPABILITIES;
    response->plugin_range = (NxmemVersionRange){ .major_min = 1, .major_max = 1, .minor_min = 0, .minor_max = 1 };
    return status(NXMEM_STATUS_OK);
}

NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories,
                                          uint64_t *count)
{
    static NxmemAllocatorFactoryVtable only;

    only = (NxmemAllocatorFactoryVtable){
        .struct_size = sizeof only,
        .abi_minor = 1,
        .name = (const uint8_t *)"bench",
        .device = { .tier = NXMEM_TIER_DEVICE, .index = 0 },
        .capability_flags = CAPABILITIES,
        .ctx = &only,
        .open_allocator = open_allocator,
        .release = release_factory,
    };
    *count = max_factories > 0;
    if (*count)
        factories[0] = &only;
    return status(NXMEM_STATUS_OK);
}

NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report)
{
    report->live_allocators = allocators;
    report->live_allocations = 0;
    for (unsigned i = 0; i < 1024; i++)
        report->live_allocations += tallies[i].live;
    return status(NXMEM_STATUS_OK);
}

NxmemStatus NxmemQueryCuda(const NxmemAllocatorVtable *allocator, const NxmemCudaVtable **companion)
{
    *companion = &((struct allocator *)allocator->ctx)->companion;
    return status(NXMEM_STATUS_OK);
}
