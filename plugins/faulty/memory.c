/* Faults of allocate and of the terminal releases. */
#include <string.h>
#include <unistd.h>

#include "plugins/common/driver.h"
#include "plugins/common/status.h"
#include "plugins/faulty/faulty.h"

enum {
    SLOW_MICROSECONDS = 50000,
    UNKNOWN_CODE = 77,
    UNKNOWN_STATE = 0x0BADF00D,
};

/* --- the memory itself: block->backing is what the driver gave, or NULL when nothing is behind the block --- */

static NxmemStatus allocate_misaligned(const NxmemCudaOrder *order, struct nxp_block *block)
{
    uint64_t base = 0;
    NxmemStatus status = nxp_driver_allocate(order, block->bytes + block->align, block->align, &base);

    block->backing = (void *)(uintptr_t)base;
    block->ptr = (uint8_t *)(uintptr_t)(base + block->align / 2);
    return status;
}

NxmemStatus faulty_backend_allocate(struct nxp_allocator *allocator, const NxmemCudaOrder *order,
                                    struct nxp_block *block)
{
    struct faulty_mechanism *mechanism = faulty_mechanism_of(allocator);
    uint64_t base = 0;
    uintptr_t live = __atomic_load_n(&mechanism->last_address, __ATOMIC_ACQUIRE);
    NxmemStatus status;

    if (mechanism->fault == FAULTY_MISALIGNED_FAULT && faulty_due(mechanism, FAULTY_ALLOCATE))
        return allocate_misaligned(order, block);
    if (mechanism->fault == FAULTY_DUPLICATE_FAULT && faulty_due(mechanism, FAULTY_ALLOCATE) && live != 0) {
        block->ptr = (uint8_t *)live;
        return nxp_ok();
    }
    status = nxp_driver_allocate(order, block->bytes, block->align, &base);
    block->backing = (void *)(uintptr_t)base;
    block->ptr = block->backing;
    if (status.code == NXMEM_STATUS_OK)
        __atomic_store_n(&mechanism->last_address, (uintptr_t)base, __ATOMIC_RELEASE);
    return status;
}

NxmemStatus faulty_backend_release(struct nxp_allocator *allocator, const NxmemCudaOrder *order,
                                   struct nxp_block *block)
{
    uintptr_t base = (uintptr_t)block->backing;

    if (base == 0)
        return nxp_ok();
    __atomic_compare_exchange_n(&faulty_mechanism_of(allocator)->last_address, &base, 0, false, __ATOMIC_ACQ_REL,
                                __ATOMIC_RELAXED);
    return nxp_driver_release(order, (uintptr_t)block->backing);
}

/* --- allocate --- */

/* True when the fault answers by itself. */
static bool allocate_refused(struct nxp_allocator *allocator, const NxmemAllocRequest *request,
                             NxmemAllocResult *result, NxmemStatus *ret_status)
{
    struct faulty_mechanism *mechanism = faulty_mechanism_of(allocator);

    /* Two faults lie deeper, in the backend, and are counted there. */
    if (mechanism->fault == FAULTY_MISALIGNED_FAULT || mechanism->fault == FAULTY_DUPLICATE_FAULT ||
        !faulty_due(mechanism, FAULTY_ALLOCATE))
        return false;
    switch (mechanism->fault) {
    case FAULTY_OOM_FAULT:
        result->ptr = (uint8_t *)(uintptr_t)0x40000000; /* must be ignored */
        *ret_status = nxp_status(NXMEM_STATUS_OUT_OF_MEMORY, "planted: out of memory");
        return true;
    case FAULTY_INTERNAL_FAULT:
        *ret_status = nxp_status(NXMEM_STATUS_INTERNAL_ERROR, "planted: internal error");
        return true;
    case FAULTY_UNKNOWN_STATUS_FAULT:
        *ret_status = nxp_status(UNKNOWN_CODE, "planted: a status from the future");
        return true;
    case FAULTY_OK_NULL_FAULT:
        result->ptr = NULL;
        *ret_status = nxp_ok();
        return true;
    case FAULTY_SLOW_FAULT:
        usleep(SLOW_MICROSECONDS);
        return false;
    default:
        nxp_allocator_request_reclaim(allocator, request->bytes);
        return false;
    }
}

static NxmemStatus allocate(struct nxp_allocator *allocator, const NxmemCudaOrder *order,
                            const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    NxmemStatus status;

    faulty_count(FAULTY_COUNT_Allocations);
    if (allocate_refused(allocator, request, result, &status))
        return status;
    return nxp_allocator_allocate(allocator, order, request, result);
}

NxmemStatus faulty_allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    return allocate(ctx, NULL, request, result);
}

NxmemStatus faulty_allocate_on(void *ctx, const NxmemCudaOrder *order, const NxmemAllocRequest *request,
                               NxmemAllocResult *result)
{
    NxmemStatus status = nxp_order_check(order);

    return status.code == NXMEM_STATUS_OK ? allocate(ctx, order, request, result) : status;
}

/* --- release --- */

NxmemStatus faulty_keep(struct nxp_allocator *allocator, const NxmemAllocation *allocation)
{
    struct nxp_block *block = NULL;
    NxmemStatus status = nxp_allocator_claim(allocator, allocation, &block);

    if (status.code != NXMEM_STATUS_OK)
        return status;
    pthread_mutex_lock(&allocator->lock);
    block->state = NXP_KEPT;
    pthread_mutex_unlock(&allocator->lock);
    return status;
}

static void answer(NxmemReleaseOutcome *outcome, uint32_t state, uint64_t allocation_bytes, uint64_t unmapped,
                   uint64_t residual, const NxmemStatus *failure)
{
    const NxmemReleaseOutcome whole = {.struct_size = sizeof whole,
                                       .state = state,
                                       .allocation_bytes = allocation_bytes,
                                       .unmapped_bytes = unmapped,
                                       .residual_owned_bytes = residual,
                                       .failure = *failure};

    nxp_answer(outcome, &whole, sizeof whole);
}

/* The faults both terminal slots have: those that are a status. True when that is the answer. */
static bool release_refused(struct nxp_allocator *allocator, const NxmemAllocation *allocation,
                            NxmemStatus *ret_status)
{
    switch (faulty_mechanism_of(allocator)->fault) {
    case FAULTY_RELEASE_INTERNAL_FAULT:
        *ret_status = faulty_keep(allocator, allocation);
        if (ret_status->code == NXMEM_STATUS_OK)
            *ret_status = nxp_status(NXMEM_STATUS_INTERNAL_ERROR, "planted: nobody knows what happened");
        return true;
    case FAULTY_RELEASE_BUSY_FAULT:
        *ret_status = nxp_status(NXMEM_STATUS_BUSY, "planted: not now");
        return true;
    case FAULTY_RELEASE_STATUS_12_FAULT:
        *ret_status = faulty_keep(allocator, allocation);
        if (ret_status->code == NXMEM_STATUS_OK)
            *ret_status = nxp_status(NXMEM_STATUS_RELEASE_QUARANTINED, "planted: the bytes are kept");
        return true;
    default:
        return false;
    }
}

NxmemStatus faulty_deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_bytes)
{
    struct nxp_allocator *allocator = ctx;
    NxmemStatus status;

    faulty_count(FAULTY_COUNT_TerminalReleases);
    *unmapped_bytes = 0;
    if (faulty_due(faulty_mechanism_of(allocator), FAULTY_RELEASE) && release_refused(allocator, allocation, &status))
        return status;
    return nxp_allocator_release(allocator, allocation, unmapped_bytes);
}

/* The faults only an outcome can show. */
static NxmemStatus release_with_outcome(struct nxp_allocator *allocator, const NxmemAllocation *allocation,
                                        NxmemReleaseOutcome *outcome)
{
    const NxmemStatus planted = nxp_status(NXMEM_STATUS_RELEASE_QUARANTINED, "planted: partly released");
    enum faulty_fault fault = faulty_mechanism_of(allocator)->fault;
    NxmemStatus status = nxp_ok();
    uint64_t unmapped;

    if (fault == FAULTY_RELEASE_FAILED_FAULT) {
        answer(outcome, NXMEM_RELEASE_FAILED, 0, 0, 0, &planted);
        return status;
    }
    status = fault == FAULTY_RELEASE_OVERCLAIMS_FAULT ? nxp_allocator_release(allocator, allocation, &unmapped)
                                                      : faulty_keep(allocator, allocation);
    if (status.code != NXMEM_STATUS_OK)
        answer(outcome, NXMEM_RELEASE_FAILED, 0, 0, 0, &status);
    else if (fault == FAULTY_RELEASE_OVERCLAIMS_FAULT)
        answer(outcome, NXMEM_RELEASE_COMPLETE, UINT64_C(1) << 61, UINT64_C(1) << 60, 7, &status);
    else if (fault == FAULTY_RELEASE_QUARANTINES_FAULT)
        answer(outcome, NXMEM_RELEASE_QUARANTINED, allocation->bytes, allocation->bytes / 2,
               allocation->bytes - allocation->bytes / 2, &planted);
    else
        answer(outcome, UNKNOWN_STATE, allocation->bytes, allocation->bytes, 0, &planted);
    return status;
}

NxmemStatus faulty_release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome)
{
    struct nxp_allocator *allocator = ctx;
    uint64_t unmapped = 0;
    NxmemStatus status;

    faulty_count(FAULTY_COUNT_TerminalReleases);
    if (faulty_due(faulty_mechanism_of(allocator), FAULTY_RELEASE)) {
        if (!release_refused(allocator, allocation, &status))
            return release_with_outcome(allocator, allocation, outcome);
    } else {
        status = nxp_allocator_release(allocator, allocation, &unmapped);
    }
    if (status.code == NXMEM_STATUS_OK)
        answer(outcome, NXMEM_RELEASE_COMPLETE, allocation->bytes, unmapped, 0, &status);
    else
        answer(outcome, NXMEM_RELEASE_FAILED, 0, 0, 0, &status);
    return status;
}
