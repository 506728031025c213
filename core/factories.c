#include "factories.h"

#include <string.h>

#include "error.h"
#include "lock.h"
#include "log.h"
#include "prefix.h"
#include "status.h"

/* One distinct pointer that the plugin transferred. `release` was found before anything was judged. */
struct transferred {
    const NxmemAllocatorFactoryVtable *source;
    void (*release)(void *ctx); /* NULL: unreadable, nothing can be given back */
    void *ctx;
    bool kept;
};

struct transfer {
    size_t count;
    struct transferred list[NXM_FACTORIES_MAX];
};

/* --- the debt ----------------------------------------------------------------------------------------- */

static struct transferred *find_transferred(struct transfer *transfer, const NxmemAllocatorFactoryVtable *source)
{
    for (size_t i = 0; i < transfer->count; i++) {
        if (transfer->list[i].source == source)
            return &transfer->list[i];
    }
    return NULL;
}

static void capture(struct transfer *transfer, const NxmemAllocatorFactoryVtable *source)
{
    struct transferred *entry = &transfer->list[transfer->count++];
    NxmemAllocatorFactoryVtable copy;

    *entry = (struct transferred){ .source = source };
    if (nxm_prefix_copy(source, sizeof copy, &copy, sizeof copy).code == NXMEM_STATUS_OK) {
        entry->release = copy.release;
        entry->ctx = copy.ctx;
    }
    if (entry->release == NULL)
        nxm_log(NXM_LOG_WARNING, "a plugin published a factory without a readable `release`: it cannot be given back");
}

/* From the plugin's OK on every slot it wrote is ours, whatever it says of their number (8.3). */
static void capture_all(struct transfer *transfer, const NxmemAllocatorFactoryVtable *const *slots)
{
    transfer->count = 0;
    for (size_t i = 0; i < NXM_FACTORIES_MAX; i++) {
        if (slots[i] != NULL && find_transferred(transfer, slots[i]) == NULL)
            capture(transfer, slots[i]);
    }
}

/* The one place where the debt is paid: everything on failure, what is past the count on success. */
static void give_back(struct transfer *transfer, bool everything)
{
    for (size_t i = 0; i < transfer->count; i++) {
        struct transferred *entry = &transfer->list[i];

        if ((entry->kept && !everything) || entry->release == NULL)
            continue;
        nxm_lock_assert_none();
        entry->release(entry->ctx);
    }
}

/* --- judging ------------------------------------------------------------------------------------------ */

bool nxm_factory_name(const uint8_t *published, char ret_name[NXM_NAME_CAPACITY])
{
    size_t length;

    if (published == NULL)
        return false;
    length = strnlen((const char *)published, NXM_NAME_CAPACITY);
    if (length == NXM_NAME_CAPACITY || !nxm_status_is_utf8(published, length))
        return false;
    memcpy(ret_name, published, length + 1);
    return true;
}

static int judge(const NxmemAllocatorFactoryVtable *source, uint32_t ceiling, struct nxm_factory *factory,
                 struct nxm_error *ret_error)
{
    NxmemStatus status = nxm_prefix_read_factory(source, ceiling, &factory->vtable);

    if (status.code != NXMEM_STATUS_OK)
        return nxm_status_error(&status, "factory vtable", ret_error);
    if (factory->vtable.device.tier > NXMEM_TIER_DISK)
        return nxm_error_set(ret_error, NXM_ECONTRACT, 0, "factory vtable: unknown memory tier %u",
                             factory->vtable.device.tier);
    if (!nxm_factory_name(factory->vtable.name, factory->name))
        return nxm_error_set(ret_error, NXM_ECONTRACT, 0,
                             "factory vtable: the name is null, longer than %d bytes or not UTF-8",
                             NXM_NAME_CAPACITY - 1);
    if ((factory->vtable.capability_flags & ~NXMEM_CAPABILITY_KNOWN_MASK) != 0)
        nxm_log(NXM_LOG_INFO, "mechanism %s: its factory states unknown capability bits, which are left out", factory->name);
    factory->vtable.capability_flags &= NXMEM_CAPABILITY_KNOWN_MASK; /* for information only: no reason to refuse (8.10) */
    atomic_init(&factory->references, 1);
    return NXM_OK;
}

static int judge_all(struct transfer *transfer, const NxmemAllocatorFactoryVtable *const *slots, uint64_t count,
                     uint32_t ceiling, struct nxm_factories *ret_factories, struct nxm_error *ret_error)
{
    if (count > NXM_FACTORIES_MAX)
        return nxm_error_set(ret_error, NXM_ECONTRACT, 0,
                             "the plugin counts %llu factories where %d were asked for at most",
                             (unsigned long long)count, NXM_FACTORIES_MAX);
    for (size_t i = 0; i < count; i++) {
        struct transferred *entry = find_transferred(transfer, slots[i]); /* NULL for a hole: judge refuses it */
        int result;

        if (entry != NULL && entry->kept)
            continue; /* listed twice: one factory, one release */
        result = judge(slots[i], ceiling, &ret_factories->list[ret_factories->count], ret_error);
        if (result != NXM_OK)
            return result;
        entry->kept = true;
        ret_factories->count++;
    }
    return NXM_OK;
}

int nxm_factories_take(NxmemCreateAllocatorFactoriesFn create, uint32_t ceiling, struct nxm_factories *ret_factories,
                       struct nxm_error *ret_error)
{
    const NxmemAllocatorFactoryVtable *slots[NXM_FACTORIES_MAX] = { NULL };
    struct transfer transfer;
    uint64_t count = 0;
    NxmemStatus status;
    int result;

    ret_factories->count = 0;
    nxm_lock_assert_none();
    status = create(slots, NXM_FACTORIES_MAX, &count);
    if (status.code != NXMEM_STATUS_OK)
        return nxm_status_error(&status, NXMEM_SYMBOL_CREATE_ALLOCATOR_FACTORIES,
                                ret_error); /* nothing was transferred */
    capture_all(&transfer, slots);
    result = judge_all(&transfer, slots, count, ceiling, ret_factories, ret_error);
    if (result != NXM_OK)
        ret_factories->count = 0;
    give_back(&transfer, result != NXM_OK);
    return result;
}

/* --- references --------------------------------------------------------------------------------------- */

void nxm_factory_ref(struct nxm_factory *factory)
{
    atomic_fetch_add_explicit(&factory->references, 1, memory_order_relaxed);
}

bool nxm_factory_unref(struct nxm_factory *factory)
{
    if (atomic_fetch_sub_explicit(&factory->references, 1, memory_order_acq_rel) != 1)
        return false;
    nxm_lock_assert_none();
    factory->vtable.release(factory->vtable.ctx);
    return true;
}
