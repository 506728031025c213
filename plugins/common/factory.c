#include "plugins/common/factory.h"

#include "plugins/common/slots.h"
#include "plugins/common/status.h"

static NxmemStatus open_allocator(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **vtable)
{
    const struct nxp_mechanism *mechanism = ctx;
    struct nxp_allocator *allocator;
    NxmemStatus status;

    if (vtable == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no place for the allocator");
    status = nxp_allocator_open(mechanism->backend, mechanism->name, mechanism->device, request, &allocator);
    if (status.code == NXMEM_STATUS_OK)
        *vtable = &allocator->vtable;
    return status;
}

static void release(void *ctx)
{
    (void)ctx; /* static, see the header */
}

void nxp_factories_fill(const struct nxp_mechanism *mechanisms, NxmemAllocatorFactoryVtable *table, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        NxmemAllocatorFactoryVtable *factory = &table[i];

        factory->struct_size = sizeof *factory;
        factory->abi_minor = NXMEM_ABI_MINOR;
        factory->name = (const uint8_t *)mechanisms[i].name;
        factory->device = mechanisms[i].device;
        factory->capability_flags = nxp_slots_capabilities(mechanisms[i].backend, NXMEM_ABI_MINOR);
        factory->ctx = (void *)(uintptr_t)&mechanisms[i];
        factory->open_allocator = open_allocator;
        factory->release = release;
    }
}

NxmemStatus nxp_factories_publish(const NxmemAllocatorFactoryVtable *table, uint64_t table_count,
                                  const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories,
                                  uint64_t *count)
{
    if (count == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no place for the number of factories");
    *count = 0;
    if (factories == NULL || max_factories < table_count) {
        struct nxp_message message = {.length = 0};

        nxp_message_add(&message, "the factory array needs room for ");
        nxp_message_add_number(&message, table_count);
        return nxp_status_from(NXMEM_STATUS_INVALID_ARGUMENT, &message);
    }
    for (uint64_t i = 0; i < table_count; i++)
        factories[i] = &table[i];
    *count = table_count;
    return nxp_ok();
}
