#include "quiet.h"

#include "core/deferred.h"
#include "core/log.h"
#include "cuda_status.h"
#include "order.h"
#include "tally.h"

static CUresult real_alloc(void *bytes, CUdeviceptr *ret_address)
{
    return nxm_real.cuMemAlloc_v2(ret_address, *(uint64_t *)bytes);
}

void nxm_quiet_retreat(void)
{
    if (nxm_thread.place.scope)
        nxm_quiet_leave(&nxm_thread, nxm_thread.place.scope);
    atomic_store_explicit(&nxm_thread.busy, 0, memory_order_relaxed);
}

static struct nxm_block block_of(const struct nxm_scope *scope, uint64_t bytes, uint64_t id)
{
    return (struct nxm_block){
        .bytes = bytes,
        .align = NXM_DEVICE_ALIGN,
        .id = id,
        .allocator = scope->allocator,
        .context = (uint64_t)(uintptr_t)scope->context,
        .tag = (uint64_t)(uintptr_t)scope,
        .device = scope->device,
        .class_ = NXM_CLASS_DEVICE,
        .state = NXM_BLOCK_LIVE,
        .flags = NXM_BLOCK_PLAIN,
    };
}

CUresult nxm_quiet_not_plainly(struct nxm_scope *scope, const struct nxm_quiet_asked *asked, const NxmemStatus *status,
                               CUdeviceptr *ret_address)
{
    struct nxm_block block = block_of(scope, asked->bytes, asked->id);
    uint64_t bytes = asked->bytes;
    struct nxm_error error = { 0 };
    struct nxm_order order;
    /* Nothing waited when it began; something may have come back since, unless it is calm still. */
    uint64_t given = nxm_lane_given() - !nxm_is_calm(nxm_thread.place.calm);

    block.stack = asked->stack;
    block.api = (uint16_t)nxm_label_take(NXM_API_cuMemAlloc_v2, bytes);
    nxm_order_init(&order, NXMEM_CUDA_ORDER_SYNCHRONOUS, scope->context, scope->device);
    int result = nxm_allocator_accept(scope->allocator, &block, status, &asked->answer, &error);
    nxm_thread.foreign--; /* from here on the plugin is asked anew, if at all */
    CUresult answered = nxm_serve_answered(scope, &order, &block, given, result, &error, real_alloc, &bytes, ret_address);
    nxm_thread.foreign++;
    nxm_quiet_leave(&nxm_thread, scope);
    return answered;
}

/* It is on its way back and can be found again, unless a newcomer stands there by now. */
static void record_again(const struct nxm_scope *scope, const struct nxm_quiet_release *release, struct nxm_block *ret_block)
{
    /* Not by the words that the plugin was shown: it may have written there. */
    uint64_t address = release->seat->releases - nxm_quiet_id(release);
    struct nxm_block gone;

    *ret_block = block_of(scope, release->bytes, nxm_quiet_id(release));
    ret_block->address = address;
    ret_block->owned = ret_block->mapped = release->bytes;
    if (nxm_blocks_find_gone(nxm_table(NXM_TABLE_MEMORY), address, &gone) && gone.id == nxm_quiet_id(release)) {
        ret_block->api = gone.api;
        ret_block->stack = gone.stack;
    }
    ret_block->state = NXM_BLOCK_RELEASING;
    if (nxm_blocks_insert_again(nxm_table(NXM_TABLE_MEMORY), ret_block) == NXM_ENOMEM)
        nxm_log(NXM_LOG_INFO, "no memory to record 0x%llx again: it is missing in a report until it is back",
                (unsigned long long)address);
    ret_block->state = NXM_BLOCK_LIVE; /* as it was */
}

CUresult nxm_quiet_not_over(struct nxm_scope *scope, const struct nxm_quiet_freed *freed, const NxmemStatus *status)
{
    const struct nxm_quiet_release *release = &freed->release;
    bool complete = nxm_quiet_is_complete();
    struct nxm_block block;
    struct nxm_release released;
    struct nxm_error error = { 0 };

    nxm_own.asking = NULL;
    record_again(scope, release, &block);
    nxm_scope_pin(scope);
    int result = nxm_deferred_settle_quiet(scope->allocator, release->seat, &block, complete, status, freed->ticket, &released, &error);
    nxm_thread.foreign--;
    if (result == NXM_OK)
        nxm_tally_freed(&block);
    else
        nxm_log(NXM_LOG_INFO, "free of 0x%llx refused: %s", (unsigned long long)block.address, error.text);
    CUresult answer = nxm_cuda_status(result, &error);
    nxm_thread.foreign++;
    nxm_quiet_leave(&nxm_thread, scope);
    return answer;
}
