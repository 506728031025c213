/* Opening a mechanism: nxm_allocator_open of allocator.h (nxmem spec sections 9 and 10). From the plugin's OK on one
 * `release` is owed; it is paid in one place, unless the allocator has taken the debt over. */
#include "allocator.h"

#include <string.h>

#include "allocator_state.h"
#include "deferred.h"
#include "error.h"
#include "lock.h"
#include "log.h"
#include "mem.h"
#include "prefix.h"
#include "status.h"

/* --- the record before and after ------------------------------------------------------------------------- */

static struct nxm_allocator *record_new(struct nxm_module *module, struct nxm_factory *factory,
                                        const struct nxm_allocator_options *options)
{
    struct nxm_allocator *allocator = nxm_mem_new(sizeof *allocator);

    if (allocator == NULL)
        return NULL;
    atomic_init(&allocator->references, 1);
    atomic_init(&allocator->going, false);
    allocator->options = *options;
    allocator->module = module;
    allocator->tallies = nxm_module_tallies(module);
    allocator->tenant.sums = &allocator->sums;
    allocator->factory = factory;
    allocator->device = factory->vtable.device;
    memcpy(allocator->name, factory->name, sizeof allocator->name);
    nxm_quarantine_init(&allocator->quarantine);
    nxm_views_init(&allocator->views);
    nxm_deferred_init(allocator);
    return allocator;
}

/* --- judging what was handed back ------------------------------------------------------------------------- */

static int broken(struct nxm_allocator *allocator, struct nxm_error *ret_error, const char *why)
{
    return nxm_error_set(ret_error, NXM_ECONTRACT, 0,
                         "mechanism %s: allocator vtable: %s (report it to the plugin's author)", allocator->name, why);
}

static int check_identity(struct nxm_allocator *allocator, struct nxm_error *ret_error)
{
    const NxmemDeviceId *device = &allocator->vtable.device;

    if (device->tier > NXMEM_TIER_DISK)
        return broken(allocator, ret_error, "unknown memory tier");
    if (device->tier != allocator->device.tier || device->index != allocator->device.index)
        return broken(allocator, ret_error, "another device than its factory's");
    return NXM_OK;
}

static int check_required(struct nxm_allocator *allocator, struct nxm_error *ret_error)
{
    uint64_t missing = allocator->options.required_capabilities & ~allocator->capabilities;

    if (missing == 0)
        return NXM_OK;
    return nxm_error_set(ret_error, NXM_ECONTRACT, 0,
                         "mechanism %s: opened without the required capability bits 0x%llx", allocator->name,
                         (unsigned long long)missing);
}

/* What its plugin did not agree to is not used, whatever the vtable says (24.11). */
static int limit_capabilities(struct nxm_allocator *allocator, struct nxm_error *ret_error)
{
    uint64_t flags = allocator->vtable.capability_flags, agreed = nxm_module_capabilities(allocator->module), unused;

    (void)ret_error;
    allocator->capabilities = flags & agreed;
    unused = flags & NXMEM_CAPABILITY_KNOWN_MASK & ~agreed & ~NXMEM_CAPABILITY_STRUCTURED_RELEASE; /* that goes with a minor */
    if (unused != 0)
        nxm_log(NXM_LOG_WARNING, "mechanism %s: capability bits 0x%llx were not negotiated and are not used",
                allocator->name, (unsigned long long)unused);
    return NXM_OK;
}

/* 10.1, for both kinds: 1 when the capability is there, 0 when it is absent, else a refusal. */
static int presence(struct nxm_allocator *allocator, uint64_t bit, const void *pointer, struct nxm_error *ret_error)
{
    bool flagged = (allocator->vtable.capability_flags & bit) != 0;

    if (flagged && pointer == NULL)
        return broken(allocator, ret_error, "a capability bit without its vtable");
    if (!flagged && pointer != NULL)
        return broken(allocator, ret_error, "a capability vtable without its bit");
    return (allocator->capabilities & bit) != 0;
}

static int read_virtual_backing(struct nxm_allocator *allocator, struct nxm_error *ret_error)
{
    const NxmemVirtualBackingVtable *source = allocator->vtable.virtual_backing;
    int there = presence(allocator, NXMEM_CAPABILITY_VIRTUAL_BACKING, source, ret_error);
    NxmemStatus status;

    if (there <= 0)
        return there;
    status = nxm_prefix_read_virtual_backing(source, nxm_module_minor(allocator->module),
                                             allocator->vtable.mechanism_id, &allocator->virtual_backing);
    return status.code == NXMEM_STATUS_OK ? NXM_OK
                                          : nxm_status_error(&status, "virtual backing capability vtable", ret_error);
}

static int read_shared_mapping(struct nxm_allocator *allocator, struct nxm_error *ret_error)
{
    const NxmemSharedMappingVtable *source = allocator->vtable.shared_mapping;
    int there = presence(allocator, NXMEM_CAPABILITY_SHARED_MAPPING, source, ret_error);
    NxmemStatus status;

    if (there <= 0)
        return there;
    status = nxm_prefix_read_shared_mapping(source, nxm_module_minor(allocator->module), allocator->vtable.mechanism_id,
                                            &allocator->shared_mapping);
    return status.code == NXMEM_STATUS_OK ? NXM_OK
                                          : nxm_status_error(&status, "shared mapping capability vtable", ret_error);
}

static int check_flags(struct nxm_allocator *allocator, struct nxm_error *ret_error)
{
    const NxmemAllocatorVtable *vtable = &allocator->vtable;
    uint64_t flags = vtable->capability_flags;

    if ((flags & NXMEM_CAPABILITY_ALLOCATOR) == 0)
        return broken(allocator, ret_error, "the allocator capability bit is clear");
    if ((flags & ~NXMEM_CAPABILITY_KNOWN_MASK) != 0)
        return broken(allocator, ret_error, "unknown capability bits");
    if ((flags & NXMEM_CAPABILITY_DEFERRED_RELEASE) != 0 &&
        (vtable->enqueue_release == NULL || vtable->drain_releases == NULL))
        return broken(allocator, ret_error, "deferred release without its slots");
    return NXM_OK;
}

/* 10.3: all four, or the slot is never entered. */
static bool may_release_structured(const struct nxm_allocator *allocator)
{
    return (allocator->capabilities & NXMEM_CAPABILITY_STRUCTURED_RELEASE) != 0 &&
           nxm_module_minor(allocator->module) >= 1 && allocator->vtable.abi_minor >= 1 &&
           allocator->vtable.release_allocation != NULL;
}

/* In the order of 9.6; the last step takes the debt over. */
static int accept(struct nxm_allocator *allocator, const NxmemAllocatorVtable *published, struct nxm_error *ret_error)
{
    static int (*const checks[])(struct nxm_allocator *, struct nxm_error *) = {
        check_identity, limit_capabilities, check_required, read_virtual_backing, read_shared_mapping, check_flags,
    };
    NxmemStatus status = nxm_prefix_read_allocator(published, nxm_module_minor(allocator->module), &allocator->vtable);
    int result = NXM_OK;

    if (status.code != NXMEM_STATUS_OK)
        return nxm_status_error(&status, "allocator vtable", ret_error);
    for (size_t i = 0; result == NXM_OK && i < sizeof checks / sizeof checks[0]; i++)
        result = checks[i](allocator, ret_error);
    if (result != NXM_OK)
        return result;
    allocator->published = published;
    allocator->structured = may_release_structured(allocator);
    nxm_factory_name(allocator->vtable.name, allocator->name); /* else the factory's name stays */
    if (nxm_module_admit(allocator->module, &allocator->tenant, allocator->vtable.mechanism_id) != NXM_OK)
        return broken(allocator, ret_error, "its mechanism id belongs to another open allocator");
    return NXM_OK;
}

/* --- the debt ----------------------------------------------------------------------------------------------- */

/* Never through the validation: what it refused it would refuse again, and the state behind it would be lost. */
static void pay(struct nxm_allocator *allocator, const NxmemAllocatorVtable *published)
{
    NxmemStatus status;
    NxmemAllocatorVtable copy;

    status = nxm_prefix_read_allocator_unvalidated(published, nxm_module_minor(allocator->module), &copy);
    if (status.code != NXMEM_STATUS_OK || copy.release == NULL) {
        nxm_log(NXM_LOG_WARNING, "mechanism %s was opened and refused, and publishes no readable `release`",
                allocator->name);
        return;
    }
    nxm_lock_assert_none();
    copy.release(copy.ctx);
}

static int open_record(struct nxm_allocator *allocator, struct nxm_error *ret_error)
{
    const NxmemAllocatorFactoryVtable *factory = &allocator->factory->vtable;
    const NxmemAllocatorVtable *published = NULL;
    NxmemOpenRequest request = {
        .struct_size = sizeof request,
        .abi_minor = nxm_module_minor(allocator->module),
        .device = allocator->device,
        .required_capability_flags = allocator->options.required_capabilities,
        .callbacks = &allocator->callbacks,
    };
    NxmemStatus status;
    int result;

    nxm_lock_assert_none();
    status = factory->open_allocator(factory->ctx, &request, &published);
    if (status.code != NXMEM_STATUS_OK)
        return nxm_status_error(&status, "open_allocator", ret_error); /* nothing is owed */
    result = accept(allocator, published, ret_error);
    if (result != NXM_OK)
        pay(allocator, published);
    return result;
}

int nxm_allocator_open(struct nxm_module *module, size_t mechanism, const struct nxm_allocator_options *options,
                       struct nxm_allocator **ret_allocator, struct nxm_error *ret_error)
{
    struct nxm_factory *factory = nxm_module_ref_factory(module, mechanism);
    struct nxm_allocator *allocator;
    int result;

    if (factory == NULL)
        return nxm_error_set(ret_error, NXM_ENOMECHANISM, 0, "the plugin has no mechanism number %zu", mechanism);
    allocator = record_new(module, factory, options);
    if (allocator == NULL) {
        nxm_module_unref_factory(module, factory);
        return nxm_error_set(ret_error, NXM_ENOMEM, 0, "no memory for an allocator's records");
    }
    nxm_module_ref(module); /* the allocator's */
    nxm_module_ref(module); /* its callback context's */
    result = open_record(allocator, ret_error);
    if (result == NXM_OK) {
        *ret_allocator = allocator;
        return NXM_OK;
    }
    nxm_deferred_free(allocator); /* after `release`: the plugin could call back until then */
    nxm_module_unref_factory(module, factory);
    nxm_module_unref(module);
    nxm_module_unref(module);
    return result;
}
