/* Faults that show after open_allocator has said OK, and those of the companion query. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/status.h"
#include "plugins/faulty/faulty.h"

enum { TWIN_ID = 0x7717 };

/* --- a vtable on which nobody may call anything --- */

static NxmemStatus forbidden_allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    (void)ctx;
    (void)request;
    (void)result;
    faulty_count(FAULTY_COUNT_ForbiddenCalls);
    return nxp_status(NXMEM_STATUS_INTERNAL_ERROR, "called through a refused vtable");
}

static NxmemStatus forbidden_deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_bytes)
{
    (void)ctx;
    (void)allocation;
    (void)unmapped_bytes;
    faulty_count(FAULTY_COUNT_ForbiddenCalls);
    return nxp_status(NXMEM_STATUS_INTERNAL_ERROR, "called through a refused vtable");
}

static void forbidden_reference(void *ctx)
{
    (void)ctx;
    faulty_count(FAULTY_COUNT_ForbiddenCalls);
}

static const NxmemAllocatorVtable forbidden = {
    .struct_size = sizeof forbidden,
    .abi_minor = 1,
    .mechanism_id = 0xF0B1DDE4,
    .capability_flags = NXMEM_CAPABILITY_ALLOCATOR,
    .name = (const uint8_t *)"forbidden",
    .allocate = forbidden_allocate,
    .deallocate = forbidden_deallocate,
    .retain = forbidden_reference,
    .release = forbidden_reference,
};

/* --- vtables that cannot be read: no state stands behind them, for nobody could give it back --- */

/* A copy of `forbidden` in a heap block that ends where its claim ends, kept for the life of the plugin: the
 * loser of a race frees his. */
static const NxmemAllocatorVtable *exact_vtable(void *_Atomic *slot, uint32_t size, uint32_t minor)
{
    void *made = malloc(size), *none = NULL;

    if (made == NULL)
        return NULL;
    memcpy(made, &forbidden, size);
    memcpy(made, &size, sizeof size);
    memcpy((char *)made + sizeof size, &minor, sizeof minor);
    if (!atomic_compare_exchange_strong(slot, &none, made)) {
        free(made);
        made = none;
    }
    return made;
}

static const NxmemAllocatorVtable *misaligned_vtable(void)
{
    static _Alignas(8) const unsigned char storage[sizeof(NxmemAllocatorVtable) + 8] = {0, sizeof(NxmemAllocatorVtable)};

    return (const NxmemAllocatorVtable *)(const void *)(storage + 1);
}

static void *_Atomic short_vtable, *_Atomic short_of_claim, *_Atomic short_companion;

__attribute__((destructor)) static void free_exact_blocks(void)
{
    free(atomic_load(&short_vtable));
    free(atomic_load(&short_of_claim));
    free(atomic_load(&short_companion));
}

/* True when the fault is one without state behind it; *ret_status is then the whole answer. */
static bool open_unreadable(enum faulty_fault fault, const NxmemAllocatorVtable **vtable, NxmemStatus *ret_status)
{
    *ret_status = nxp_ok();
    switch (fault) {
    case FAULTY_OPEN_FAILS_FAULT:
        *vtable = &forbidden;
        *ret_status = nxp_status(NXMEM_STATUS_INTERNAL_ERROR, "opened nothing");
        return true;
    case FAULTY_NULL_VTABLE_FAULT:
        *vtable = NULL;
        return true;
    case FAULTY_MISALIGNED_VTABLE_FAULT:
        *vtable = misaligned_vtable();
        return true;
    case FAULTY_SHORT_VTABLE_FAULT:
        *vtable = exact_vtable(&short_vtable, 60, 0);
        return true;
    case FAULTY_SHORT_OF_CLAIM_FAULT:
        *vtable = exact_vtable(&short_of_claim, 120, 1);
        return true;
    default:
        return false;
    }
}

/* --- vtables with something wrong in them --- */

static const NxmemVirtualBackingVtable foreign_backing = {sizeof foreign_backing, 1, 0xF0E1, NULL, NULL, NULL, NULL,
                                                          NULL, NULL, NULL};
static const NxmemSharedMappingVtable foreign_mapping = {sizeof foreign_mapping, 1, 0xF0E1, NULL, NULL, NULL,
                                                         NULL, NULL, NULL};

static void spoil_slots(enum faulty_fault fault, NxmemAllocatorVtable *vtable)
{
    switch (fault) {
    case FAULTY_MISSING_ALLOCATE_FAULT:
        vtable->allocate = NULL;
        break;
    case FAULTY_MISSING_DEALLOCATE_FAULT:
        vtable->deallocate = NULL;
        break;
    case FAULTY_MISSING_RETAIN_FAULT:
        vtable->retain = NULL;
        break;
    case FAULTY_MISSING_RELEASE_FAULT:
        vtable->release = NULL;
        break;
    case FAULTY_DEFERRED_WITHOUT_SLOT_FAULT:
        vtable->enqueue_release = NULL;
        break;
    case FAULTY_NO_NAME_FAULT:
        vtable->name = NULL;
        break;
    case FAULTY_BAD_NAME_FAULT:
        vtable->name = (const uint8_t *)"caf\xE9";
        break;
    default:
        break;
    }
}

static void spoil_identity(enum faulty_fault fault, NxmemAllocatorVtable *vtable)
{
    switch (fault) {
    case FAULTY_ID_ZERO_FAULT:
        vtable->mechanism_id = 0;
        break;
    case FAULTY_BAD_TIER_FAULT:
        vtable->device.tier = 4242;
        break;
    case FAULTY_OTHER_DEVICE_FAULT:
        vtable->device.index++;
        break;
    case FAULTY_TWIN_ID_FAULT:
        vtable->mechanism_id = TWIN_ID;
        break;
    default:
        break;
    }
}

static void spoil_capabilities(enum faulty_fault fault, NxmemAllocatorVtable *vtable)
{
    switch (fault) {
    case FAULTY_MISSING_REQUIRED_FAULT:
        vtable->capability_flags = NXMEM_CAPABILITY_ALLOCATOR;
        break;
    case FAULTY_NO_ALLOCATOR_BIT_FAULT:
        vtable->capability_flags &= ~NXMEM_CAPABILITY_ALLOCATOR;
        break;
    case FAULTY_UNKNOWN_BIT_FAULT:
        vtable->capability_flags |= UINT64_C(1) << 40;
        break;
    case FAULTY_BACKING_FOREIGN_FAULT:
        vtable->capability_flags |= NXMEM_CAPABILITY_VIRTUAL_BACKING;
        vtable->virtual_backing = &foreign_backing;
        break;
    case FAULTY_BACKING_WITHOUT_FLAG_FAULT:
        vtable->virtual_backing = &foreign_backing;
        break;
    case FAULTY_BACKING_WITHOUT_VTABLE_FAULT:
        vtable->capability_flags |= NXMEM_CAPABILITY_VIRTUAL_BACKING;
        break;
    case FAULTY_MAPPING_FOREIGN_FAULT:
        vtable->capability_flags |= NXMEM_CAPABILITY_SHARED_MAPPING;
        vtable->shared_mapping = &foreign_mapping;
        break;
    case FAULTY_MAPPING_WITHOUT_FLAG_FAULT:
        vtable->shared_mapping = &foreign_mapping;
        break;
    case FAULTY_MAPPING_WITHOUT_VTABLE_FAULT:
        vtable->capability_flags |= NXMEM_CAPABILITY_SHARED_MAPPING;
        break;
    default:
        break;
    }
}

/* --- opening --- */

static void release_allocator(void *ctx)
{
    faulty_count(FAULTY_COUNT_AllocatorReleases);
    nxp_allocator_unref(ctx);
}

/* Our slots over the kit's, where ours misbehave or count; before any fault, which may take them away. */
static void install_slots(struct nxp_allocator *allocator)
{
    NxmemAllocatorVtable *vtable = &allocator->vtable;

    vtable->allocate = faulty_allocate;
    vtable->deallocate = faulty_deallocate;
    vtable->release = release_allocator;
    if (vtable->release_allocation != NULL)
        vtable->release_allocation = faulty_release_allocation;
    if (vtable->enqueue_release != NULL) {
        vtable->enqueue_release = faulty_enqueue_release;
        vtable->drain_releases = faulty_drain_releases;
    }
    allocator->companion.allocate_on = faulty_allocate_on;
    allocator->companion.enqueue_release_on = faulty_enqueue_release_on;
}

NxmemStatus faulty_open(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **vtable)
{
    struct faulty_mechanism *mechanism = ctx;
    bool due = faulty_due(mechanism, FAULTY_OPEN);
    struct nxp_allocator *allocator;
    NxmemOpenRequest unconditional;
    NxmemStatus status;

    faulty_note_open(mechanism);
    if (due && open_unreadable(mechanism->fault, vtable, &status))
        return status;
    if (due && mechanism->fault == FAULTY_MISSING_REQUIRED_FAULT) {
        unconditional = *request;
        unconditional.required_capability_flags = 0;
        request = &unconditional;
    }
    status = nxp_allocator_open(&mechanism->backend, mechanism->name, mechanism->device, request, &allocator);
    if (status.code != NXMEM_STATUS_OK)
        return status;
    install_slots(allocator);
    if (due) {
        spoil_slots(mechanism->fault, &allocator->vtable);
        spoil_identity(mechanism->fault, &allocator->vtable);
        spoil_capabilities(mechanism->fault, &allocator->vtable);
    }
    *vtable = &allocator->vtable;
    return status;
}

NxmemStatus faulty_query_cuda(const NxmemAllocatorVtable *vtable, const NxmemCudaVtable **companion)
{
    NxmemStatus status = nxp_query_cuda(vtable, companion);
    struct faulty_mechanism *mechanism;
    struct nxp_allocator *allocator;
    void *none = NULL, *block;

    if (status.code != NXMEM_STATUS_OK)
        return status;
    allocator = vtable->ctx;
    mechanism = faulty_mechanism_of(allocator);
    if (!faulty_due(mechanism, FAULTY_COMPANION))
        return status;
    switch (mechanism->fault) {
    case FAULTY_COMPANION_FAILS_FAULT:
        return nxp_status(NXMEM_STATUS_INTERNAL_ERROR, "the companion is not to be had");
    case FAULTY_COMPANION_NULL_FAULT:
        *companion = NULL;
        return status;
    case FAULTY_COMPANION_SHORT_FAULT:
        block = calloc(1, 32);
        if (block == NULL)
            return nxp_status(NXMEM_STATUS_OUT_OF_MEMORY, "no memory for the short companion");
        memcpy(block, &(uint32_t){32}, sizeof(uint32_t));
        if (!atomic_compare_exchange_strong(&short_companion, &none, block)) {
            free(block);
            block = none;
        }
        *companion = block;
        return status;
    default:
        allocator->companion.mechanism_id++;
        return status;
    }
}
