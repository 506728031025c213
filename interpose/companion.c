#include "companion.h"

#include <stddef.h>
#include <string.h>

#include "core/log.h"
#include "core/prefix.h"
#include "core/status.h"
#include "thread.h"

void nxm_companion_settle(const char *name, uint64_t capabilities, NxmemCudaVtable *companion)
{
    const uint64_t waits = NXMEM_CUDA_TRAIT_RELEASE_NEVER_WAITS | NXMEM_CUDA_TRAIT_RELEASE_WAITS_LIKE_DRIVER;

    if (companion->enqueue_release_on && !(capabilities & NXMEM_CAPABILITY_DEFERRED_RELEASE)) {
        nxm_log(NXM_LOG_INFO, "%s: its CUDA companion releases, but the allocator has no deferred release; not used for that", name);
        companion->enqueue_release_on = NULL;
    }
    if ((companion->traits & waits) == waits) {
        nxm_log(NXM_LOG_WARNING, "%s: its CUDA companion says that a release never waits, and that it waits; neither is believed", name);
        companion->traits &= ~waits;
    }
}

void nxm_companion_query(struct nxm_module *module, const struct nxm_allocator *allocator,
                         struct nxm_companion *ret_companion)
{
    const NxmemCudaVtable *published = NULL;
    NxmemCudaVtable copy;
    NxmemQueryCudaFn query;
    void *symbol = nxm_module_symbol(module, NXMEM_SYMBOL_QUERY_CUDA);

    memset(ret_companion, 0, sizeof *ret_companion);
    if (!symbol)
        return;
    memcpy(&query, &symbol, sizeof query);
    nxm_foreign_begin();
    NxmemStatus status = query(nxm_allocator_published(allocator), &published);
    nxm_foreign_end();
    if (status.code != NXMEM_STATUS_OK) {
        nxm_log(NXM_LOG_INFO, "%s: no CUDA companion for this mechanism (status %u)", nxm_allocator_name(allocator),
                status.code);
        return;
    }
    status = nxm_prefix_copy(published, offsetof(NxmemCudaVtable, allocate_on), &copy, sizeof copy);
    if (status.code != NXMEM_STATUS_OK || copy.mechanism_id != nxm_allocator_mechanism_id(allocator)) {
        nxm_log(NXM_LOG_WARNING, "%s: its CUDA companion is unreadable or another mechanism's; going on without it",
                nxm_allocator_name(allocator));
        return;
    }
    nxm_companion_settle(nxm_allocator_name(allocator), nxm_allocator_capabilities(allocator), &copy);
    ret_companion->vtable = copy;
}

NxmemStatus nxm_companion_allocate(void *call, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    const struct nxm_companion_call *c = call;

    return c->companion->vtable.allocate_on(c->companion->vtable.ctx, c->order, request, result);
}

NxmemStatus nxm_companion_enqueue(void *call, const NxmemAllocation *allocation, uint64_t *ticket)
{
    const struct nxm_companion_call *c = call;

    return c->companion->vtable.enqueue_release_on(c->companion->vtable.ctx, c->order, allocation, ticket);
}
