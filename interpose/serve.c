#include "serve.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "capture.h"
#include "context.h"
#include "core/log.h"
#include "core/nap.h"
#include "core/stack.h"
#include "cuda_status.h"
#include "deferral.h"
#include "lane.h"
#include "mark.h"
#include "process.h"
#include "owned.h"
#include "pool.h"
#include "real.h"
#include "route_names.h"
#include "scope.h"
#include "stale.h"
#include "tally.h"
#include "thread.h"

/* --- records of what the driver served ----------------------------------------------------------------------- */

void nxm_record(struct nxm_blocks *table, struct nxm_block *block)
{
    block->id = nxm_block_next_id();
    block->state = NXM_BLOCK_LIVE;
    block->stack = nxm_stack_capture(nxm_options()->stacks);
    int result = nxm_blocks_insert(table, block);
    if (result == NXM_EEXIST && nxm_stale_drop(table, block->address))
        result = nxm_blocks_insert(table, block);
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
    if (freed) {
        nxm_tally_freed(block);
        nxm_blocks_remove(table, block->address, block->id);
        return;
    }
    nxm_blocks_claim(table, block->address, block->id, NXM_BLOCK_RELEASING, NXM_BLOCK_LIVE, NULL);
}

/* --- allocating ---------------------------------------------------------------------------------------------- */

static void fill_block(struct nxm_block *block, const struct nxm_order *order, uint64_t bytes, enum nxm_class class_,
                       enum nxm_api api)
{
    /* Stream-ordered memory belongs to its device's pool and outlives contexts. */
    bool of_context = order && order->cuda.kind == NXMEM_CUDA_ORDER_SYNCHRONOUS;

    /* Each for itself: to clear what is filled afterwards costs as much again. */
    block->address = 0;
    block->bytes = bytes;
    block->align = 0;
    block->id = 0;
    block->allocator = NULL;
    block->context = of_context ? (uint64_t)(uintptr_t)order->context : 0;
    block->owned = block->mapped = 0;
    block->tag = 0;
    block->stack = 0;
    block->device = order ? order->device : -1;
    block->api = (uint16_t)api;
    block->class_ = (uint8_t)class_;
    block->state = 0;
    block->flags = 0;
}

CUresult nxm_serve_native(const struct nxm_order *order, uint64_t bytes, enum nxm_class class_, enum nxm_api api,
                          uint64_t tag, nxm_native_call call, void *argument, CUdeviceptr *ret_address)
{
    struct nxm_block block;
    uint64_t given = nxm_lane_given();
    CUresult result = call(argument, ret_address);

    if (result == CUDA_ERROR_OUT_OF_MEMORY && nxm_lane_room_since(given)) {
        nxm_lane_flush(order ? order->context : NULL, nxm_options()->oom_wait_ms);
        result = call(argument, ret_address);
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

static inline int ask_plugin(struct nxm_scope *scope, const struct nxm_order *order, struct nxm_block *block,
                             struct nxm_error *error)
{
    struct nxm_companion_call call = { .companion = &scope->companion, .order = &order->cuda };
    nxm_allocate_call by = nxm_companion_allocates(&scope->companion) ? nxm_companion_allocate : NULL;

    nxm_foreign_begin();
    nxm_thread.block_is_range = scope->companion.vtable.traits & NXMEM_CUDA_TRAIT_BASE_IS_DRIVER_ALLOCATION;
    int result = nxm_allocator_allocate(scope->allocator, block, by, &call, error);
    nxm_thread.block_is_range = false;
    nxm_foreign_end();
    return result;
}

static __attribute__((noinline)) int ask_unaware(struct nxm_scope *scope, const struct nxm_order *order, struct nxm_block *block,
                                                 struct nxm_error *error)
{
    struct surroundings around = surround(order);
    int result = ask_plugin(scope, order, block, error);

    surround_end(around);
    return result;
}

/* One attempt. The block's stack is captured once, before the plugin runs. */
static inline int allocate_once(struct nxm_scope *scope, const struct nxm_order *order, struct nxm_block *block,
                                struct nxm_error *error)
{
    if (__builtin_expect(!nxm_companion_allocates(&scope->companion) && order->cuda.kind != NXMEM_CUDA_ORDER_SYNCHRONOUS, 0))
        return ask_unaware(scope, order, block, error);
    return ask_plugin(scope, order, block, error);
}

static uint64_t now_ms(void)
{
    struct timespec now = { 0, 0 };

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* What waits on release lanes may be what is missing. Another thread may have it in hand right now, or take what has come back while
 * its own blocks still wait: natively all that would be room already. So it is tried again while something waits, within bounds. */
static __attribute__((noinline)) int allocate_after_waiting(struct nxm_scope *scope, const struct nxm_order *order, struct nxm_block *block,
                                  struct nxm_error *error)
{
    uint64_t end = now_ms() + nxm_options()->oom_wait_ms;
    int result;

    for (;;) {
        nxm_lane_flush(order->context, nxm_options()->oom_wait_ms);
        uint64_t given = nxm_lane_given();
        result = allocate_once(scope, order, block, error);
        if (result != NXM_ENOMEM || !nxm_lane_room_since(given) || nxm_capture_open() || now_ms() >= end)
            break;
        nxm_nap(100000);
    }
    if (result == NXM_ENOMEM && order->cuda.stream_key != 0 && !nxm_capture_open()) {
        nxm_lane_wait(order->cuda.stream_key, nxm_options()->oom_wait_ms);
        result = allocate_once(scope, order, block, error);
    }
    return result;
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

/* Memory of the default pool as the program sees it, of which the driver knows nothing. */
static bool stands_in_for_pool(const struct nxm_scope *scope, const struct nxm_block *block)
{
    return block->context == 0 && !(scope->companion.vtable.traits & NXMEM_CUDA_TRAIT_BASE_IS_DRIVER_ALLOCATION);
}

/* What the plugin refused, or what there was no memory of our own to record. */
static __attribute__((noinline)) CUresult not_allocated(int result, const struct nxm_error *error, const struct nxm_order *order,
                                                        uint64_t bytes, enum nxm_api api, nxm_native_call call, void *argument,
                                                        CUdeviceptr *ret_address)
{
    bool ours = error->status == NXMEM_STATUS_OK && bytes <= UINT64_MAX / 2; /* beyond, no size could be rounded up */

    if (result == NXM_ENOMEM && ours && !nxm_refuse_instead()) {
        static int once;
        nxm_log_once(&once, "no memory of our own to record a block in (%s): the driver serves", error->text);
        return nxm_serve_native(order, bytes, NXM_CLASS_NATIVE, api, 0, call, argument, ret_address);
    }
    CUresult answer = nxm_cuda_status(result, error);
    say_refusal(result, api, bytes, error);
    return answer;
}

CUresult nxm_serve_answered(struct nxm_scope *scope, const struct nxm_order *order, struct nxm_block *block, uint64_t given, int result,
                            struct nxm_error *error, nxm_native_call call, void *argument, CUdeviceptr *ret_address)
{
    enum nxm_api api = (enum nxm_api)block->api;
    uint64_t bytes = block->bytes;

    if (result == NXM_ENOMEM && nxm_lane_room_since(given))
        result = allocate_after_waiting(scope, order, block, error);
    if (__builtin_expect(result != NXM_OK, 0))
        return not_allocated(result, error, order, bytes, api, call, argument, ret_address);
    *ret_address = block->address;
    if (stands_in_for_pool(scope, block))
        nxm_pool_used(block->device, block->bytes);
    if (nxm_log_shows(NXM_LOG_DEBUG))
        nxm_log(NXM_LOG_DEBUG, "%s: %llu bytes at 0x%llx from the plugin", nxm_api_names[api], (unsigned long long)bytes,
                (unsigned long long)block->address);
    return CUDA_SUCCESS;
}

CUresult nxm_serve_allocate(struct nxm_scope *scope, const struct nxm_order *order, uint64_t bytes, enum nxm_api api,
                            nxm_native_call call, void *argument, CUdeviceptr *ret_address)
{
    struct nxm_error error; /* written by every failure */
    struct nxm_block block;

    nxm_lane_poll(NXM_MOMENT_ANY);
    fill_block(&block, order, bytes, NXM_CLASS_DEVICE, api);
    block.align = NXM_DEVICE_ALIGN;
    block.tag = (uint64_t)(uintptr_t)scope;
    if (nxm_options()->stacks != 0)
        block.stack = nxm_stack_capture(nxm_options()->stacks);

    uint64_t given = nxm_lane_given();
    int result = allocate_once(scope, order, &block, &error);
    return nxm_serve_answered(scope, order, &block, given, result, &error, call, argument, ret_address);
}

/* --- freeing ------------------------------------------------------------------------------------------------- */

static void disclaim(const struct nxm_block *block)
{
    nxm_blocks_claim(nxm_table(NXM_TABLE_MEMORY), block->address, block->id, NXM_BLOCK_RELEASING, NXM_BLOCK_LIVE, NULL);
}

/* The block is claimed, or another thread is freeing it: the driver judges. */
static CUresult free_native(struct nxm_blocks *memory, const struct nxm_block *block, bool claimed, nxm_native_free call,
                            void *argument)
{
    CUresult result = call(argument);

    if (!claimed)
        return result;
    nxm_record_free_end(memory, block, result == CUDA_SUCCESS);
    if (result == CUDA_ERROR_INVALID_VALUE)
        nxm_tally_misuse(NXM_MISUSE_OTHER_KIND, block->address, block);
    return result;
}

/* Memory of a graph that was freed before: another launch has brought it back. */
static bool is_graphs_again(CUdeviceptr address)
{
    struct nxm_block gone;
    uint32_t freed;

    return nxm_tally_find_freed(address, &gone, &freed) && gone.class_ == NXM_CLASS_GRAPH;
}

struct question {
    uint64_t address;
    bool yes;
};

static void ask_scope(struct nxm_scope *scope, void *argument)
{
    struct question *question = argument;

    question->yes = question->yes || nxm_allocator_is_releasing(scope->allocator, question->address);
}

/* By another thread, quietly (quiet.h). */
static bool is_being_released(CUdeviceptr address)
{
    struct question question = { .address = address };

    nxm_scope_each(ask_scope, &question);
    return question.yes;
}

/* No block starts there. The driver judges, and what it says is noted: it takes back what we never saw (allocated by a route
 * that is not ours), or it refuses what is freed already, was never allocated, or lies inside a block. */
static CUresult free_unknown(struct nxm_blocks *memory, CUdeviceptr address, nxm_native_free call, void *argument)
{
    struct nxm_block around;

    bool inside = nxm_blocks_containing(memory, address, &around) == NXM_OK;
    if (is_being_released(address))
        return nxm_tally_misuse(NXM_MISUSE_TWICE, address, NULL);
    if (nxm_owned_contains(address))
        return nxm_tally_misuse(inside ? NXM_MISUSE_INSIDE : NXM_MISUSE_PLUGINS, address, inside ? &around : NULL);
    CUresult result = call(argument);
    if (result == CUDA_SUCCESS && !is_graphs_again(address))
        nxm_tally_add(NXM_AMOUNT_UNKNOWN_FREES, 0);
    else if (result == CUDA_ERROR_INVALID_VALUE && inside)
        nxm_tally_misuse(NXM_MISUSE_INSIDE, address, &around);
    else if (result == CUDA_ERROR_INVALID_VALUE)
        nxm_tally_misuse(NXM_MISUSE_NOT_ALLOCATED, address, NULL);
    return result;
}

/* The mechanism may do what the driver would: it gets the release with its order. The block is claimed. */
static CUresult free_through_companion(struct nxm_scope *scope, const struct nxm_block *block, const struct nxm_order *order)
{
    struct nxm_companion_call call = { .companion = &scope->companion, .order = &order->cuda };
    struct nxm_release release;
    struct nxm_error error;

    nxm_foreign_begin();
    int result = nxm_allocator_enqueue_claimed(scope->allocator, block, nxm_companion_enqueue, &call, &release, &error);
    nxm_foreign_end();
    if (result == NXM_OK)
        nxm_mark_release(scope, order, release.ticket);
    else
        nxm_log(NXM_LOG_INFO, "free of 0x%llx refused: %s", (unsigned long long)block->address, error.text);
    return nxm_cuda_status(result, &error);
}

static bool frees_are_deferred(void)
{
    static int once;

    if (nxm_options()->free == NXM_FREE_SYNC)
        return false;
    if (!nxm_names_free_unseen())
        return true;
    nxm_log_once(&once, "the program has a form of cuMemFree that this version does not know: frees wait, as natively");
    return false;
}

static CUresult free_through_lane(const struct nxm_block *block, const struct nxm_order *order, nxm_native_free call,
                                  void *argument)
{
    if (order->cuda.kind != NXMEM_CUDA_ORDER_SYNCHRONOUS) {
        if (order->capturing && !order->implicit)
            return order->unsaid != CUDA_SUCCESS ? order->unsaid : call(argument); /* only graph memory may be freed there, it says */
        return nxm_deferral_on_stream(block, order);
    }
    if (block->context == 0)
        return nxm_deferral_ordered(block, order->context);
    return nxm_deferral_on_context(block, !frees_are_deferred());
}

/* A synchronous free that shall not wait goes on the lane even where the mechanism knows CUDA's order. */
static bool deferred(const struct nxm_block *block, const struct nxm_order *order)
{
    return order->cuda.kind == NXMEM_CUDA_ORDER_SYNCHRONOUS && block->context != 0 && frees_are_deferred() && !nxm_capture_open();
}

/* Of a block of the plugin, in its scope. `claimed`: nobody else is freeing it. */
static CUresult free_in_scope(struct nxm_scope *scope, const struct nxm_block *block, bool claimed,
                              const struct nxm_order *order, nxm_native_free call, void *argument)
{
    CUresult result;

    if (nxm_companion_releases(&scope->companion) && !deferred(block, order)) {
        if (!claimed)
            return nxm_tally_misuse(NXM_MISUSE_TWICE, block->address, block);
        result = free_through_companion(scope, block, order);
    } else {
        if (claimed)
            disclaim(block);
        result = free_through_lane(block, order, call, argument);
    }
    if (result == CUDA_SUCCESS && stands_in_for_pool(scope, block))
        nxm_pool_unused(block->device, block->bytes);
    return result;
}

CUresult nxm_serve_free(CUdeviceptr address, const struct nxm_order *order, nxm_native_free call, void *argument)
{
    struct nxm_blocks *memory = nxm_table(NXM_TABLE_MEMORY);
    struct nxm_block block;

    nxm_lane_poll(NXM_MOMENT_ANY);
    int found = nxm_blocks_claim(memory, address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, &block);
    if (found == NXM_ENOENT)
        return free_unknown(memory, address, call, argument);
    bool claimed = found == NXM_OK;
    if (!block.allocator)
        return free_native(memory, &block, claimed, call, argument);
    struct nxm_scope *scope = (struct nxm_scope *)(uintptr_t)block.tag;
    if (!nxm_scope_enter(scope)) {
        if (claimed)
            disclaim(&block);
        return CUDA_ERROR_INVALID_VALUE; /* its context is being destroyed under this call */
    }
    if (order->cuda.kind == NXMEM_CUDA_ORDER_SYNCHRONOUS && order->context == scope->context)
        nxm_scope_remember(scope);
    CUresult result = free_in_scope(scope, &block, claimed, order, call, argument);
    nxm_scope_leave(scope);
    if (result == CUDA_SUCCESS)
        nxm_tally_freed(&block);
    if (nxm_log_shows(NXM_LOG_DEBUG))
        nxm_log(NXM_LOG_DEBUG, "free of 0x%llx, %llu bytes of the plugin, answered with CUDA code %d", (unsigned long long)address,
                (unsigned long long)block.bytes, (int)result);
    return result;
}

bool nxm_is_plugins_block(CUdeviceptr address)
{
    struct nxm_block block;

    return nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &block) == NXM_OK && block.allocator;
}

CUresult nxm_serve_free_late(CUdeviceptr address, nxm_native_free call, void *argument)
{
    struct nxm_blocks *memory = nxm_table(NXM_TABLE_MEMORY);
    struct nxm_block block;
    CUresult result = CUDA_SUCCESS;

    if (!memory || nxm_blocks_find(memory, address, &block) != NXM_OK) {
        if (is_being_released(address))
            return nxm_tally_misuse(NXM_MISUSE_TWICE, address, NULL);
        return nxm_owned_contains(address) ? CUDA_ERROR_INVALID_VALUE : call(argument);
    }
    if (nxm_blocks_claim(memory, address, block.id, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, &block) != NXM_OK)
        return block.allocator ? nxm_tally_misuse(NXM_MISUSE_TWICE, address, &block) : call(argument);
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
