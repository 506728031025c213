#include "serve.h"

#include <stdatomic.h>
#include <string.h>

#include "capture.h"
#include "context.h"
#include "core/log.h"
#include "core/stack.h"
#include "cuda_status.h"
#include "deferral.h"
#include "lane.h"
#include "process.h"
#include "owned.h"
#include "real.h"
#include "scope.h"
#include "tally.h"
#include "thread.h"

/* --- records of what the driver served ----------------------------------------------------------------------- */

void nxm_record(struct nxm_blocks *table, struct nxm_block *block)
{
    struct nxm_block stale;

    block->id = nxm_block_next_id();
    block->state = NXM_BLOCK_LIVE;
    block->stack = nxm_stack_capture(nxm_options()->stacks);
    int result = nxm_blocks_insert(table, block);
    if (result == NXM_EEXIST && nxm_blocks_claim(table, block->address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING,
                                                 &stale) == NXM_OK) {
        /* The driver handed out an address that we believe live: it was freed by a route we do not see. */
        if (stale.allocator == NULL) {
            nxm_tally_add(NXM_AMOUNT_OUT_OF_SIGHT, stale.bytes);
            result = nxm_blocks_insert(table, block);
        } else {
            nxm_blocks_claim(table, stale.address, stale.id, NXM_BLOCK_RELEASING, NXM_BLOCK_LIVE, NULL);
        }
    }
    if (result != NXM_OK) {
        static int once;
        nxm_log_once(&once, "cannot record 0x%llx (%d): the report will miss it", (unsigned long long)block->address,
                     result);
    }
}

void nxm_record_free_begin(struct nxm_blocks *table, uint64_t address, struct nxm_block *ret_block)
{
    if (nxm_blocks_claim(table, address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, ret_block) != NXM_OK)
        ret_block->id = 0;
}

void nxm_record_free_end(struct nxm_blocks *table, const struct nxm_block *block, bool freed)
{
    if (block->id == 0)
        return;
    if (freed)
        nxm_blocks_remove(table, block->address, block->id);
    else
        nxm_blocks_claim(table, block->address, block->id, NXM_BLOCK_RELEASING, NXM_BLOCK_LIVE, NULL);
}

/* --- allocating ---------------------------------------------------------------------------------------------- */

static void fill_block(struct nxm_block *block, const struct nxm_order *order, uint64_t bytes, enum nxm_class class_,
                       enum nxm_api api)
{
    memset(block, 0, sizeof *block);
    block->bytes = bytes;
    block->class_ = (uint8_t)class_;
    block->api = (uint16_t)api;
    block->device = order ? order->device : -1;
    /* Stream-ordered memory belongs to its device's pool and outlives contexts. */
    if (order && order->cuda.kind == NXMEM_CUDA_ORDER_SYNCHRONOUS)
        block->context = (uint64_t)(uintptr_t)order->context;
}

CUresult nxm_serve_native(const struct nxm_order *order, uint64_t bytes, enum nxm_class class_, enum nxm_api api,
                          uint64_t tag, nxm_native_call call, void *argument, CUdeviceptr *ret_address)
{
    struct nxm_block block;
    uint64_t waiting = 0, waiting_bytes = 0;
    CUresult result = call(argument, ret_address);

    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        nxm_lane_amount(&waiting, &waiting_bytes);
        if (waiting > 0 || nxm_giveback_owed()) {
            nxm_lane_flush(order ? order->context : NULL, nxm_options()->oom_wait_ms);
            result = call(argument, ret_address);
        }
    }
    if (result != CUDA_SUCCESS || *ret_address == 0)
        return result;
    nxm_log(NXM_LOG_DEBUG, "%s: %llu bytes at 0x%llx from the driver", nxm_api_names[api], (unsigned long long)bytes,
            (unsigned long long)*ret_address);
    fill_block(&block, order, bytes, class_, api);
    block.address = *ret_address;
    block.tag = tag;
    nxm_record(nxm_table(NXM_TABLE_MEMORY), &block);
    return result;
}

/* A mechanism that is not told of streams makes calls which, unlike the program's own, need a current context and may be
 * forbidden by a capture. The primary context comes first: stream-ordered memory outlives a context of the program's own. */
struct surroundings {
    bool pushed;
    CUstreamCaptureMode mode;
};

static struct surroundings surround(const struct nxm_order *order)
{
    struct surroundings around = { .mode = nxm_capture_relax() };
    CUcontext current = NULL, wanted = nxm_context_primary(order->device);

    if (!wanted)
        wanted = order->context;
    if (nxm_real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != wanted)
        around.pushed = nxm_real.cuCtxPushCurrent_v2(wanted) == CUDA_SUCCESS;
    return around;
}

static void surround_end(struct surroundings around)
{
    CUcontext popped = NULL;

    if (around.pushed)
        nxm_real.cuCtxPopCurrent_v2(&popped);
    nxm_capture_restore(around.mode);
}

/* One attempt. The block's stack is captured once, before the plugin runs. */
static int allocate_once(struct nxm_scope *scope, const struct nxm_order *order, struct nxm_block *block,
                         struct nxm_error *error)
{
    struct nxm_companion_call call = { &scope->companion, &order->cuda };
    bool companion = nxm_companion_allocates(&scope->companion);
    bool unaware = !companion && order->cuda.kind != NXMEM_CUDA_ORDER_SYNCHRONOUS;
    struct surroundings around = { 0 };

    if (unaware)
        around = surround(order);
    nxm_foreign_begin();
    nxm_thread.block_is_range = scope->companion.vtable.traits & NXMEM_CUDA_TRAIT_BASE_IS_DRIVER_ALLOCATION;
    int result = nxm_allocator_allocate(scope->allocator, block, companion ? nxm_companion_allocate : NULL, &call, error);
    nxm_thread.block_is_range = false;
    nxm_foreign_end();
    if (unaware)
        surround_end(around);
    return result;
}

/* The plugin was given an address whose record still stands: that block was freed by a route we do not see. So it is with
 * every block of the driver's (a graph that took its memory along, say), and with one that a mechanism got from the driver
 * and hands out as it is. That mechanism still counts the old block, so the gate stays shut: the safe side. */
static bool drop_stale(const struct nxm_scope *scope, uint64_t address)
{
    struct nxm_blocks *memory = nxm_table(NXM_TABLE_MEMORY);
    bool as_it_is = scope->companion.vtable.traits & NXMEM_CUDA_TRAIT_BASE_IS_DRIVER_ALLOCATION;
    struct nxm_block stale;

    if (nxm_blocks_find(memory, address, &stale) != NXM_OK || (stale.allocator && !as_it_is) ||
        nxm_blocks_claim(memory, address, stale.id, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, &stale) != NXM_OK)
        return false;
    nxm_blocks_remove(memory, address, stale.id);
    nxm_tally_add(NXM_AMOUNT_OUT_OF_SIGHT, stale.bytes);
    return true;
}

/* A plugin that refuses always would fill the log: the first few, then each power of ten. */
static void say_refusal(int result, enum nxm_api api, uint64_t bytes, const struct nxm_error *error)
{
    static _Atomic unsigned long refusals;
    unsigned long count = 0, power = 1;

    if (result != NXM_ENOMEM)
        count = atomic_fetch_add(&refusals, 1) + 1;
    while (power < count)
        power *= 10;
    bool shown = count > 0 && (count <= 3 || count == power);
    nxm_log(shown ? NXM_LOG_WARNING : NXM_LOG_INFO, "%s of %llu bytes failed: %s%s", nxm_api_names[api],
            (unsigned long long)bytes, error->text, shown && count >= 3 ? " (further ones are shown now and then)" : "");
}

CUresult nxm_serve_allocate(struct nxm_scope *scope, const struct nxm_order *order, uint64_t bytes, enum nxm_api api,
                            nxm_native_call call, void *argument, CUdeviceptr *ret_address)
{
    struct nxm_error error = { 0 };
    struct nxm_block block;

    nxm_lane_poll(NXM_MOMENT_ANY);
    fill_block(&block, order, bytes, NXM_CLASS_DEVICE, api);
    block.align = NXM_DEVICE_ALIGN;
    block.tag = (uint64_t)(uintptr_t)scope;
    block.stack = nxm_stack_capture(nxm_options()->stacks);

    int result = allocate_once(scope, order, &block, &error);
    uint64_t waiting = 0, waiting_bytes = 0;
    nxm_lane_amount(&waiting, &waiting_bytes);
    if (result == NXM_EEXIST && drop_stale(scope, block.address))
        result = allocate_once(scope, order, &block, &error);
    if (result == NXM_ENOMEM && (waiting > 0 || nxm_giveback_owed())) {
        nxm_lane_flush(order ? order->context : NULL, nxm_options()->oom_wait_ms);
        result = allocate_once(scope, order, &block, &error);
        if (result == NXM_ENOMEM && order->cuda.stream_key != 0 && !nxm_capture_open()) {
            nxm_lane_wait(order->cuda.stream_key, nxm_options()->oom_wait_ms);
            result = allocate_once(scope, order, &block, &error);
        }
    }
    bool ours = error.status == NXMEM_STATUS_OK && bytes <= UINT64_MAX / 2; /* beyond, no size could be rounded up */
    if (result == NXM_ENOMEM && ours && !nxm_refuse_instead()) {
        static int once;
        nxm_log_once(&once, "no memory of our own to record a block in (%s): the driver serves", error.text);
        return nxm_serve_native(order, bytes, NXM_CLASS_NATIVE, api, 0, call, argument, ret_address);
    }
    CUresult answer = nxm_cuda_status(result, &error);
    if (result == NXM_OK) {
        *ret_address = block.address;
        nxm_log(NXM_LOG_DEBUG, "%s: %llu bytes at 0x%llx from the plugin", nxm_api_names[api], (unsigned long long)bytes,
                (unsigned long long)block.address);
    } else {
        say_refusal(result, api, bytes, &error);
    }
    return answer;
}

/* --- freeing ------------------------------------------------------------------------------------------------- */

static CUresult free_native(struct nxm_blocks *memory, const struct nxm_block *block, nxm_native_free call, void *argument)
{
    struct nxm_block claimed;

    if (nxm_blocks_claim(memory, block->address, block->id, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, &claimed) != NXM_OK)
        return call(argument); /* another thread is freeing it: the driver judges */
    CUresult result = call(argument);
    nxm_record_free_end(memory, &claimed, result == CUDA_SUCCESS);
    return result;
}

/* No block starts there. The driver judges, and what it says is noted: it takes back what we never saw (allocated by a route
 * that is not ours), or it refuses what is freed already, was never allocated, or lies inside a block. */
static CUresult free_unknown(struct nxm_blocks *memory, CUdeviceptr address, nxm_native_free call, void *argument)
{
    struct nxm_block around;

    if (nxm_owned_contains(address))
        return nxm_tally_misuse("the plugin's own memory, not a block", address);
    CUresult result = call(argument);
    if (result == CUDA_SUCCESS)
        nxm_tally_add(NXM_AMOUNT_UNKNOWN_FREES, 0);
    else if (result == CUDA_ERROR_INVALID_VALUE)
        nxm_tally_misuse(nxm_blocks_containing(memory, address, &around) == NXM_OK ? "inside a block" : "not allocated",
                         address);
    return result;
}

/* The mechanism may do what the driver would: it gets the release with its order. */
static CUresult free_through_companion(struct nxm_scope *scope, const struct nxm_block *block, const struct nxm_order *order)
{
    struct nxm_companion_call call = { &scope->companion, &order->cuda };
    struct nxm_release release;
    struct nxm_error error = { 0 };

    nxm_foreign_begin();
    int result = nxm_allocator_enqueue(scope->allocator, block->address, block->id, NXM_BLOCK_LIVE, nxm_companion_enqueue,
                                       &call, &release, &error);
    nxm_foreign_end();
    if (result == NXM_EBUSY || result == NXM_ENOENT)
        return nxm_tally_misuse("freed twice", block->address);
    if (result != NXM_OK)
        nxm_log(NXM_LOG_INFO, "free of 0x%llx refused: %s", (unsigned long long)block->address, error.text);
    return nxm_cuda_status(result, &error);
}

static CUresult free_through_lane(const struct nxm_block *block, const struct nxm_order *order, nxm_native_free call,
                                  void *argument)
{
    if (order->cuda.kind != NXMEM_CUDA_ORDER_SYNCHRONOUS) {
        if (order->capturing && !order->implicit)
            return call(argument); /* only graph memory may be freed there: the driver says so */
        return nxm_deferral_on_stream(block, order);
    }
    bool wait = nxm_options()->free == NXM_FREE_SYNC;
    if (block->context == 0)
        return nxm_deferral_ordered(block, order->context);
    return nxm_deferral_on_context(block, wait);
}

CUresult nxm_serve_free(CUdeviceptr address, const struct nxm_order *order, nxm_native_free call, void *argument)
{
    struct nxm_blocks *memory = nxm_table(NXM_TABLE_MEMORY);
    struct nxm_block block;
    CUresult result;

    nxm_lane_poll(NXM_MOMENT_ANY);
    if (nxm_blocks_find(memory, address, &block) != NXM_OK)
        return free_unknown(memory, address, call, argument);
    if (!block.allocator)
        return free_native(memory, &block, call, argument);
    struct nxm_scope *scope = (struct nxm_scope *)(uintptr_t)block.tag;
    if (!nxm_scope_enter(scope))
        return CUDA_ERROR_INVALID_VALUE; /* its context is being destroyed under this call */
    /* A synchronous free that shall not wait goes on the lane even where the mechanism knows CUDA's order. */
    bool deferred = order->cuda.kind == NXMEM_CUDA_ORDER_SYNCHRONOUS && nxm_options()->free == NXM_FREE_DEFERRED &&
                    block.context != 0 && !nxm_capture_open();
    if (nxm_companion_releases(&scope->companion) && !deferred)
        result = free_through_companion(scope, &block, order);
    else
        result = free_through_lane(&block, order, call, argument);
    nxm_scope_leave(scope);
    nxm_log(NXM_LOG_DEBUG, "free of 0x%llx, %llu bytes of the plugin, answered with CUDA code %d", (unsigned long long)address,
            (unsigned long long)block.bytes, (int)result);
    return result;
}

CUresult nxm_serve_free_late(CUdeviceptr address, nxm_native_free call, void *argument)
{
    struct nxm_blocks *memory = nxm_table(NXM_TABLE_MEMORY);
    struct nxm_block block;
    CUresult result = CUDA_SUCCESS;

    if (!memory || nxm_blocks_find(memory, address, &block) != NXM_OK)
        return nxm_owned_contains(address) ? CUDA_ERROR_INVALID_VALUE : call(argument);
    if (nxm_blocks_claim(memory, address, block.id, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, &block) != NXM_OK)
        return block.allocator ? nxm_tally_misuse("freed twice", address) : call(argument);
    const struct nxm_scope *scope = (const struct nxm_scope *)(uintptr_t)block.tag;
    if (!block.allocator || (scope->companion.vtable.traits & NXMEM_CUDA_TRAIT_BASE_IS_DRIVER_ALLOCATION))
        result = call(argument);
    else if (atomic_load(&scope->lost))
        result = CUDA_ERROR_INVALID_VALUE;
    else
        result = nxm_real.cuMemFree_v2(0); /* the driver never knew the block, but says whether it still answers */
    nxm_record_free_end(memory, &block, result == CUDA_SUCCESS);
    if (result == CUDA_SUCCESS)
        nxm_tally_add(NXM_AMOUNT_FREED_DURING_EXIT, block.bytes);
    return result;
}
