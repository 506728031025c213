#include "plugins/common/slots.h"

#include <stddef.h>
#include <string.h>

#include "plugins/common/negotiate.h"
#include "plugins/common/status.h"
#include "plugins/common/tallies.h"

static NxmemStatus slot_allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    return nxp_allocator_allocate(ctx, NULL, request, result);
}

static NxmemStatus slot_deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_bytes)
{
    NxmemStatus status;

    if (unmapped_bytes == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no place for the bytes unmapped");
    *unmapped_bytes = 0;
    status = nxp_allocator_release(ctx, allocation, unmapped_bytes);
    return status;
}

NxmemStatus nxp_slot_release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome)
{
    NxmemReleaseOutcome answer;
    uint64_t unmapped = 0;
    NxmemStatus status;

    if (outcome == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no outcome to write to");
    if (outcome->struct_size < sizeof *outcome)
        return nxp_status(NXMEM_STATUS_SHORT_STRUCT, "the outcome has no room for the answer");
    status = nxp_allocator_release(ctx, allocation, &unmapped);
    memset(&answer, 0, sizeof answer);
    answer.struct_size = sizeof answer;
    answer.state = status.code == NXMEM_STATUS_OK ? NXMEM_RELEASE_COMPLETE : NXMEM_RELEASE_FAILED;
    answer.failure = status;
    if (status.code == NXMEM_STATUS_OK) {
        answer.allocation_bytes = allocation->bytes;
        answer.unmapped_bytes = unmapped;
    }
    nxp_answer(outcome, &answer, sizeof answer);
    return status;
}

static void slot_retain(void *ctx)
{
    nxp_allocator_ref(ctx);
}

static void slot_release(void *ctx)
{
    nxp_allocator_unref(ctx);
}

static NxmemStatus slot_enqueue_release(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket)
{
    return nxp_allocator_enqueue(ctx, NULL, allocation, ticket);
}

static NxmemStatus slot_drain_releases(void *ctx, uint64_t max_releases, uint64_t *retired)
{
    return nxp_allocator_drain(ctx, max_releases, retired);
}

static NxmemStatus slot_pending_release_count(void *ctx, uint64_t *count)
{
    return nxp_allocator_pending(ctx, count);
}

NxmemStatus nxp_order_check(const NxmemCudaOrder *order)
{
    if (order == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no order given");
    if (order->struct_size < sizeof *order)
        return nxp_status(NXMEM_STATUS_SHORT_STRUCT, "the order is shorter than at companion minor 0");
    if (order->kind > NXMEM_CUDA_ORDER_POOL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "this kind of order is not known here");
    if ((order->flags & ~NXMEM_CUDA_ORDER_FLAG_PER_THREAD) != 0)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "the order has a flag that is not known here");
    return nxp_ok();
}

static NxmemStatus slot_allocate_on(void *ctx, const NxmemCudaOrder *order, const NxmemAllocRequest *request,
                                    NxmemAllocResult *result)
{
    NxmemStatus status = nxp_order_check(order);

    return status.code == NXMEM_STATUS_OK ? nxp_allocator_allocate(ctx, order, request, result) : status;
}

static NxmemStatus slot_enqueue_release_on(void *ctx, const NxmemCudaOrder *order, const NxmemAllocation *allocation,
                                           uint64_t *ticket)
{
    NxmemStatus status = nxp_order_check(order);

    if (status.code == NXMEM_STATUS_OK && order->kind == NXMEM_CUDA_ORDER_POOL)
        status = nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "memory is released on a stream, not into a pool");
    return status.code == NXMEM_STATUS_OK ? nxp_allocator_enqueue(ctx, order, allocation, ticket) : status;
}

uint64_t nxp_slots_capabilities(const struct nxp_backend *backend, uint32_t minor)
{
    return nxp_capabilities_at(backend->capabilities, minor);
}

void nxp_slots_publish(struct nxp_allocator *allocator, const char *name, NxmemDeviceId device, uint32_t minor)
{
    NxmemAllocatorVtable *vtable = &allocator->vtable;
    NxmemCudaVtable *companion = &allocator->companion;
    const struct nxp_backend *backend = allocator->backend;

    vtable->struct_size = (uint32_t)offsetof(NxmemAllocatorVtable, release_allocation);
    vtable->abi_minor = 0;
    vtable->mechanism_id = nxp_next_mechanism_id();
    vtable->device = device;
    vtable->capability_flags = nxp_slots_capabilities(backend, minor);
    vtable->name = (const uint8_t *)name;
    vtable->ctx = allocator;
    vtable->allocate = slot_allocate;
    vtable->deallocate = slot_deallocate;
    vtable->retain = slot_retain;
    vtable->release = slot_release;
    if ((backend->capabilities & NXMEM_CAPABILITY_DEFERRED_RELEASE) != 0) {
        vtable->enqueue_release = slot_enqueue_release;
        vtable->drain_releases = slot_drain_releases;
        vtable->pending_release_count = slot_pending_release_count;
    }
    if (minor >= 1) {
        vtable->struct_size = sizeof *vtable;
        vtable->abi_minor = 1;
        if ((backend->capabilities & NXMEM_CAPABILITY_STRUCTURED_RELEASE) != 0)
            vtable->release_allocation = nxp_slot_release_allocation;
    }

    companion->struct_size = sizeof *companion;
    companion->companion_minor = NXMEM_CUDA_COMPANION_MINOR;
    companion->mechanism_id = vtable->mechanism_id;
    companion->traits = backend->traits;
    companion->ctx = allocator;
    companion->allocate_on = slot_allocate_on;
    companion->enqueue_release_on = slot_enqueue_release_on;
}

NxmemStatus nxp_query_cuda(const NxmemAllocatorVtable *vtable, const NxmemCudaVtable **companion)
{
    const struct nxp_allocator *allocator;

    if (vtable == NULL || companion == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "the query needs an allocator and a place for the answer");
    /* Only our own vtables have our retain; their ctx is what we put there. */
    if (vtable->retain != slot_retain)
        return nxp_status(NXMEM_STATUS_WRONG_MECHANISM, "this allocator is not of this plugin");
    allocator = vtable->ctx;
    if (!allocator->backend->companion)
        return nxp_status(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "this mechanism has no CUDA companion");
    *companion = &allocator->companion;
    return nxp_ok();
}
