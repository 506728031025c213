#include "plugins/common/allocator.h"

#include <string.h>

#include "plugins/common/slots.h"
#include "plugins/common/status.h"
#include "plugins/common/tallies.h"

/* Takes over the host's table by its own claim; the host may be older and its table shorter. */
static void copy_callbacks(struct nxp_allocator *allocator, const NxmemHostCallbacks *callbacks)
{
    size_t size;

    if (callbacks == NULL)
        return;
    size = callbacks->struct_size;
    if (size > sizeof allocator->callbacks)
        size = sizeof allocator->callbacks;
    /* A slot cut in half is no slot. */
    memcpy(&allocator->callbacks, callbacks, size - size % sizeof(void *));
}

NxmemStatus nxp_allocator_check_open(const struct nxp_backend *backend, NxmemDeviceId device,
                                     const NxmemOpenRequest *request)
{
    uint64_t offered;

    if (request == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no open request");
    if (request->struct_size < sizeof *request)
        return nxp_status(NXMEM_STATUS_SHORT_STRUCT, "the open request is shorter than at minor 0");
    if (request->device.tier != device.tier || request->device.index != device.index)
        return nxp_status(NXMEM_STATUS_WRONG_DEVICE, "this mechanism serves another device");
    offered = nxp_slots_capabilities(backend, request->abi_minor);
    if ((request->required_capability_flags & ~offered) != 0)
        return nxp_status(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "a required capability is not offered");
    return backend->open != NULL ? backend->open(device) : nxp_ok();
}

static size_t object_bytes(const struct nxp_backend *backend)
{
    return backend->object_bytes != 0 ? backend->object_bytes : sizeof(struct nxp_allocator);
}

NxmemStatus nxp_allocator_open(const struct nxp_backend *backend, const char *name, NxmemDeviceId device,
                               const NxmemOpenRequest *request, struct nxp_allocator **ret_allocator)
{
    NxmemStatus status = nxp_allocator_check_open(backend, device, request);
    struct nxp_allocator *allocator;

    if (status.code != NXMEM_STATUS_OK)
        return status;
    allocator = nxp_pages_map(object_bytes(backend));
    if (allocator == NULL)
        return nxp_status(NXMEM_STATUS_OUT_OF_MEMORY, "no memory for the allocator's own state");
    nxp_tally_up(NXP_TALLY_ALLOCATORS);
    allocator->backend = backend;
    allocator->references = 1;
    pthread_mutex_init(&allocator->lock, NULL);
    copy_callbacks(allocator, request->callbacks);
    nxp_slots_publish(allocator, name, device, request->abi_minor);
    if (backend->opened != NULL)
        backend->opened(allocator);
    *ret_allocator = allocator;
    return nxp_ok();
}

void nxp_allocator_ref(struct nxp_allocator *allocator)
{
    __atomic_fetch_add(&allocator->references, 1, __ATOMIC_RELAXED);
}

bool nxp_allocator_ref_if_alive(struct nxp_allocator *allocator)
{
    uint64_t references = __atomic_load_n(&allocator->references, __ATOMIC_RELAXED);

    while (references != 0 && !__atomic_compare_exchange_n(&allocator->references, &references, references + 1, true,
                                                           __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return references != 0;
}

void nxp_allocator_unref(struct nxp_allocator *allocator)
{
    const struct nxp_backend *backend = allocator->backend;

    if (__atomic_fetch_sub(&allocator->references, 1, __ATOMIC_ACQ_REL) != 1)
        return;
    if (backend->closing != NULL)
        backend->closing(allocator);
    /* Blocks still live were never given back: somebody may hold their addresses, so their bytes stay where they are
     * and in the tally, and the plugin stays loaded. Only the records go. */
    nxp_live_clear(&allocator->live);
    pthread_mutex_destroy(&allocator->lock);
    nxp_pages_unmap(allocator, object_bytes(backend));
    nxp_tally_down(NXP_TALLY_ALLOCATORS);
}

/* Mechanism before device (4.5): a request wrong in both is told the first. */
NxmemStatus nxp_allocator_check_identity(const struct nxp_allocator *allocator, uint64_t mechanism_id,
                                         NxmemDeviceId device)
{
    const NxmemAllocatorVtable *own = &allocator->vtable;

    if (mechanism_id != own->mechanism_id)
        return nxp_status(NXMEM_STATUS_WRONG_MECHANISM, "the request names another opened mechanism");
    if (device.tier != own->device.tier || device.index != own->device.index)
        return nxp_status(NXMEM_STATUS_WRONG_DEVICE, "the request names another device");
    return nxp_ok();
}

NxmemStatus nxp_allocator_check_request(const struct nxp_allocator *allocator, const NxmemAllocRequest *request,
                                        const NxmemAllocResult *result)
{
    NxmemStatus status;

    if (request == NULL || result == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "an allocation needs a request and a result");
    if (request->struct_size < sizeof *request || result->struct_size < sizeof *result)
        return nxp_status(NXMEM_STATUS_SHORT_STRUCT, "an allocation struct is shorter than at minor 0");
    status = nxp_allocator_check_identity(allocator, request->mechanism_id, request->device);
    if (status.code != NXMEM_STATUS_OK)
        return status;
    if (request->allocation_id == 0)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "allocation id 0 names no allocation");
    if (request->align == 0 || (request->align & (request->align - 1)) != 0)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "the alignment is not a power of two");
    return nxp_ok();
}

/* Reserves the record before there is memory: once the driver has allocated, nothing may fail any more. */
static NxmemStatus reserve(struct nxp_allocator *allocator, const NxmemAllocRequest *request,
                           struct nxp_block **ret_block)
{
    struct nxp_block *block;
    int exists;

    pthread_mutex_lock(&allocator->lock);
    block = nxp_live_add(&allocator->live, request->allocation_id, &exists);
    pthread_mutex_unlock(&allocator->lock);
    if (block == NULL)
        return exists ? nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "this allocation id is in use")
                      : nxp_status(NXMEM_STATUS_OUT_OF_MEMORY, "no memory for the allocator's own records");
    nxp_tally_up(NXP_TALLY_ALLOCATIONS);
    block->bytes = request->bytes;
    block->committed = request->bytes;
    block->align = request->align;
    *ret_block = block;
    return nxp_ok();
}

NxmemStatus nxp_allocator_allocate(struct nxp_allocator *allocator, const NxmemCudaOrder *order,
                                   const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    NxmemStatus status = nxp_allocator_check_request(allocator, request, result);
    NxmemAllocResult answer = {.struct_size = sizeof answer};
    struct nxp_block *block = NULL;

    if (status.code == NXMEM_STATUS_OK)
        status = reserve(allocator, request, &block);
    if (status.code != NXMEM_STATUS_OK)
        return status;
    status = allocator->backend->allocate(allocator, order, block);
    if (status.code != NXMEM_STATUS_OK) {
        nxp_allocator_retire(allocator, block);
        return status;
    }
    answer.ptr = block->ptr;
    answer.owned_bytes = block->committed;
    answer.mapped_bytes = block->committed;
    nxp_allocator_restore(allocator, block); /* live: from here on the block may be released elsewhere */
    nxp_answer(result, &answer, sizeof answer);
    return status;
}

void nxp_allocator_retire(struct nxp_allocator *allocator, struct nxp_block *block)
{
    pthread_mutex_lock(&allocator->lock);
    nxp_live_remove(&allocator->live, block);
    pthread_mutex_unlock(&allocator->lock);
    nxp_tally_down(NXP_TALLY_ALLOCATIONS);
}

void nxp_allocator_restore(struct nxp_allocator *allocator, struct nxp_block *block)
{
    pthread_mutex_lock(&allocator->lock);
    block->state = NXP_LIVE;
    pthread_mutex_unlock(&allocator->lock);
}

/* Under the lock: whether the block found by id may be released as the host describes it. */
static uint32_t releasable(const struct nxp_block *block, const NxmemAllocation *allocation)
{
    if (block == NULL)
        return NXMEM_STATUS_UNKNOWN_ALLOCATION;
    /* Whether the other release succeeds is not known yet. */
    if (block->state == NXP_RELEASING)
        return NXMEM_STATUS_BUSY;
    if (block->state != NXP_LIVE)
        return NXMEM_STATUS_UNKNOWN_ALLOCATION;
    if (block->ptr != allocation->ptr || block->bytes != allocation->bytes || block->align != allocation->align)
        return NXMEM_STATUS_INVALID_ARGUMENT;
    return NXMEM_STATUS_OK;
}

static const char *release_refusal(uint32_t code)
{
    switch (code) {
    case NXMEM_STATUS_UNKNOWN_ALLOCATION:
        return "this allocation id is not live here";
    case NXMEM_STATUS_BUSY:
        return "another release of this allocation is running";
    default:
        return "address, size or alignment are not those of this allocation";
    }
}

NxmemStatus nxp_allocator_check_allocation(const struct nxp_allocator *allocator, const NxmemAllocation *allocation)
{
    if (allocation == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no allocation named");
    if (allocation->struct_size < sizeof *allocation)
        return nxp_status(NXMEM_STATUS_SHORT_STRUCT, "the allocation is shorter than at minor 0");
    return nxp_allocator_check_identity(allocator, allocation->mechanism_id, allocation->device);
}

NxmemStatus nxp_allocator_find(struct nxp_allocator *allocator, const NxmemAllocation *allocation,
                               struct nxp_block **ret_block)
{
    struct nxp_block *block = nxp_live_find(&allocator->live, allocation->allocation_id);
    uint32_t code = releasable(block, allocation);

    if (code != NXMEM_STATUS_OK)
        return nxp_status(code, release_refusal(code));
    *ret_block = block;
    return nxp_ok();
}

NxmemStatus nxp_allocator_claim(struct nxp_allocator *allocator, const NxmemAllocation *allocation,
                                struct nxp_block **ret_block)
{
    NxmemStatus status = nxp_allocator_check_allocation(allocator, allocation);

    if (status.code != NXMEM_STATUS_OK)
        return status;
    pthread_mutex_lock(&allocator->lock);
    status = nxp_allocator_find(allocator, allocation, ret_block);
    if (status.code == NXMEM_STATUS_OK)
        (*ret_block)->state = NXP_RELEASING;
    pthread_mutex_unlock(&allocator->lock);
    return status;
}

NxmemStatus nxp_allocator_release(struct nxp_allocator *allocator, const NxmemAllocation *allocation,
                                  uint64_t *ret_unmapped)
{
    struct nxp_block *block = NULL;
    NxmemStatus status = nxp_allocator_claim(allocator, allocation, &block);

    if (status.code != NXMEM_STATUS_OK)
        return status;
    status = allocator->backend->release(allocator, NULL, block);
    if (status.code == NXMEM_STATUS_OK) {
        *ret_unmapped = block->committed;
        nxp_allocator_retire(allocator, block);
    } else {
        nxp_allocator_restore(allocator, block);
    }
    return status;
}

NxmemStatus nxp_allocator_ask_host(struct nxp_allocator *allocator, uint64_t bytes, uint64_t *ret_reclaimed)
{
    const NxmemHostCallbacks *host = &allocator->callbacks;
    NxmemReclaimRequest request = {.struct_size = sizeof request,
                                   .mechanism_id = allocator->vtable.mechanism_id,
                                   .device = allocator->vtable.device,
                                   .bytes = bytes};

    *ret_reclaimed = 0;
    if (host->request_reclaim == NULL)
        return nxp_ok();
    return host->request_reclaim(host->host_ctx, &request, ret_reclaimed);
}

uint64_t nxp_allocator_request_reclaim(struct nxp_allocator *allocator, uint64_t bytes)
{
    uint64_t reclaimed;

    if (nxp_allocator_ask_host(allocator, bytes, &reclaimed).code != NXMEM_STATUS_OK)
        return 0;
    return reclaimed;
}
