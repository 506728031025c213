#include "allocator.h"

#include <string.h>

#include "accounts.h"
#include "allocator_state.h"
#include "deferred.h"
#include "error.h"
#include "lock.h"
#include "prefix.h"
#include "status.h"
#include "terminal.h"
#include "text.h"

#define STALE_PASSES 16

/* --- what it is --------------------------------------------------------------------------------------------- */

const NxmemAllocatorVtable *nxm_allocator_published(const struct nxm_allocator *allocator)
{
    return allocator->published;
}

uint64_t nxm_allocator_mechanism_id(const struct nxm_allocator *allocator)
{
    return allocator->vtable.mechanism_id;
}

const char *nxm_allocator_name(const struct nxm_allocator *allocator)
{
    return allocator->name;
}

NxmemDeviceId nxm_allocator_device(const struct nxm_allocator *allocator)
{
    return allocator->device;
}

uint64_t nxm_allocator_capabilities(const struct nxm_allocator *allocator)
{
    return allocator->capabilities;
}

const NxmemVirtualBackingVtable *nxm_allocator_virtual_backing(const struct nxm_allocator *allocator)
{
    return allocator->virtual_backing.struct_size == 0 ? NULL : &allocator->virtual_backing;
}

const NxmemSharedMappingVtable *nxm_allocator_shared_mapping(const struct nxm_allocator *allocator)
{
    return allocator->shared_mapping.struct_size == 0 ? NULL : &allocator->shared_mapping;
}

bool nxm_allocator_structured_release(const struct nxm_allocator *allocator)
{
    return allocator->structured;
}

void nxm_allocator_totals(struct nxm_allocator *allocator, struct nxm_allocator_totals *ret_totals)
{
    uint64_t bytes = nxm_spread_sum(&allocator->sums, NXM_SUM_BYTES);
    /* In the order in which a release goes from one to the other: none is missed. */
    uint64_t queued = nxm_spread_count(&allocator->sums, NXM_SUM_QUEUED);
    uint64_t telling = nxm_spread_count(&allocator->sums, NXM_SUM_TELLING);

    *ret_totals = (struct nxm_allocator_totals){
        .quarantined_blocks = atomic_load_explicit(&allocator->quarantined_blocks, memory_order_relaxed),
        .quarantined_bytes = atomic_load_explicit(&allocator->quarantined_bytes, memory_order_relaxed),
        .queued = queued + telling,
        .owned_bytes = nxm_spread_shown(bytes + nxm_spread_sum(&allocator->sums, NXM_SUM_OWNED_BEYOND)),
        .mapped_bytes = nxm_spread_shown(bytes + nxm_spread_sum(&allocator->sums, NXM_SUM_MAPPED_BEYOND)),
        .reclaim_calls = atomic_load_explicit(&allocator->reclaim_calls, memory_order_relaxed),
        .reclaim_failures = atomic_load_explicit(&allocator->reclaim_failures, memory_order_relaxed),
    };
    nxm_views_totals(&allocator->views, &ret_totals->views, &ret_totals->view_owned_bytes,
                     &ret_totals->view_mapped_bytes);
}

/* --- allocate ------------------------------------------------------------------------------------------------- */

static int check_request(const struct nxm_block *block, struct nxm_error *ret_error)
{
    unsigned long long bytes = block->bytes, align = block->align;

    if (align == 0 || (align & (align - 1)) != 0)
        return nxm_error_set(ret_error, NXM_EINVAL, 0, "alignment %llu is not a power of two", align);
    if (block->bytes > UINT64_MAX - (block->align - 1))
        return nxm_error_set(ret_error, NXM_ENOMEM, 0, "%llu bytes cannot be rounded up to %llu", bytes, align);
    return NXM_OK;
}

/* By id, through the terminal slot; what it answers changes nothing for us. */
static void hand_back(struct nxm_allocator *allocator, const struct nxm_block *block)
{
    struct nxm_release ignored;

    nxm_terminal_release(&allocator->vtable, allocator->structured, block, &ignored);
}

static bool usable(const struct nxm_block *block)
{
    return (block->address & (block->align - 1)) == 0 && block->bytes <= UINT64_MAX - block->address;
}

/* Until nothing stands in the way of `block`: what another thread puts there meanwhile is stale as well. */
static int enter_again(struct nxm_allocator *allocator, const struct nxm_block *block, int result)
{
    const struct nxm_allocator_options *options = &allocator->options;

    for (int pass = 0; result == NXM_EEXIST && pass < STALE_PASSES && options->stale != NULL; pass++) {
        nxm_lock_assert_none();
        if (!options->stale(options->owner, allocator, block))
            break;
        result = nxm_accounts_enter(allocator, block);
    }
    return result;
}

/* At the first attempt it could not be recorded. At last it is, or handed back. */
static __attribute__((noinline)) int record_anyhow(struct nxm_allocator *allocator, const struct nxm_block *block, int result,
                                                   struct nxm_error *ret_error)
{
    unsigned long long address = block->address, bytes = block->bytes;

    result = enter_again(allocator, block, result);
    if (result == NXM_OK)
        return NXM_OK;
    hand_back(allocator, block);
    if (result == NXM_ECONTRACT)
        return nxm_error_set(ret_error, NXM_ECONTRACT, 0,
                             "mechanism %s: handed out 0x%llx for %llu bytes aligned to %llu", allocator->name, address,
                             bytes, (unsigned long long)block->align);
    if (result == NXM_EEXIST)
        return nxm_error_set(ret_error, NXM_EEXIST, 0, "mechanism %s: handed out 0x%llx, which is live or quarantined",
                             allocator->name, address);
    return nxm_error_set(ret_error, (enum nxm_result)result, 0, "no memory to record a block of %llu bytes", bytes);
}

bool nxm_allocator_unbar(struct nxm_allocator *allocator, uint64_t address, uint64_t bytes)
{
    return nxm_quarantine_lift(&allocator->quarantine, address, bytes);
}

static NxmemStatus call_plugin(struct nxm_allocator *allocator, const struct nxm_block *block, nxm_allocate_call call,
                               void *argument, NxmemAllocResult *ret_result)
{
    NxmemAllocRequest request = {
        .struct_size = sizeof request,
        .mechanism_id = allocator->vtable.mechanism_id,
        .allocation_id = block->id,
        .device = allocator->device,
        .bytes = block->bytes,
        .align = block->align,
    };

    *ret_result = (NxmemAllocResult){ .struct_size = sizeof *ret_result };
    nxm_lock_assert_none();
    if (call != NULL)
        return call(argument, &request, ret_result);
    return allocator->vtable.allocate(allocator->vtable.ctx, &request, ret_result);
}

static __attribute__((noinline)) int allocation_failed(const struct nxm_allocator *allocator, const NxmemStatus *status, uint64_t bytes,
                             struct nxm_error *ret_error)
{
    char operation[128];
    struct nxm_text text;

    nxm_text_init(&text, operation, sizeof operation);
    nxm_text_printf(&text, "allocation of %llu bytes on %s:%u failed", (unsigned long long)bytes,
                    nxm_tier_word(allocator->device.tier), allocator->device.index);
    nxm_status_error(status, operation, ret_error);
    if (ret_error != NULL)
        ret_error->what = "allocate"; /* the text is of this call only */
    return status->code == NXMEM_STATUS_OUT_OF_MEMORY ? NXM_ENOMEM : NXM_ECALL;
}

int nxm_allocator_allocate(struct nxm_allocator *allocator, struct nxm_block *block, nxm_allocate_call call,
                           void *argument, struct nxm_error *ret_error)
{
    NxmemAllocResult answer;
    int result = check_request(block, ret_error);

    if (result != NXM_OK)
        return result;
    block->id = nxm_block_next_id();
    block->allocator = allocator;
    block->state = NXM_BLOCK_LIVE;
    NxmemStatus status = call_plugin(allocator, block, call, argument, &answer);
    return nxm_allocator_accept(allocator, block, &status, &answer, ret_error);
}

int nxm_allocator_accept(struct nxm_allocator *allocator, struct nxm_block *block, const NxmemStatus *status, const NxmemAllocResult *answered,
                         struct nxm_error *ret_error)
{
    NxmemAllocResult answer = *answered;
    uint64_t before;
    int result;

    if (status->code != NXMEM_STATUS_OK)
        return allocation_failed(allocator, status, block->bytes, ret_error);
    if (nxm_prefix_trim(&answer, sizeof answer), answer.ptr == NULL)
        return nxm_error_set(ret_error, NXM_ECONTRACT, 0, "mechanism %s: said OK and handed out nothing for %llu bytes",
                             allocator->name, (unsigned long long)block->bytes);
    before = block->address;
    block->address = (uint64_t)(uintptr_t)answer.ptr;
    block->owned = nxm_accounts_believe(allocator, answer.owned_bytes, block->bytes);
    block->mapped = nxm_accounts_believe(allocator, answer.mapped_bytes, block->bytes);
    block->flags = block->owned == block->bytes && block->mapped == block->bytes ? NXM_BLOCK_PLAIN : 0;
    result = usable(block) ? nxm_accounts_enter(allocator, block) : NXM_ECONTRACT;
    if (__builtin_expect(result == NXM_OK, 1))
        return NXM_OK;
    result = record_anyhow(allocator, block, result, ret_error);
    if (result != NXM_OK && result != NXM_EEXIST) /* then the caller may know why that one still stands */
        block->address = before;
    return result;
}

/* --- release -------------------------------------------------------------------------------------------------- */

static int release_claimed(struct nxm_allocator *allocator, const struct nxm_block *block,
                           struct nxm_release *ret_release, struct nxm_error *ret_error)
{
    struct nxm_release release;
    NxmemStatus status = nxm_terminal_release(&allocator->vtable, allocator->structured, block, &release);

    nxm_accounts_settle(allocator, block, &release);
    if (release.outcome != NXM_RELEASE_FAILED) {
        *ret_release = release;
        return NXM_OK;
    }
    return nxm_status_refusal(&status, allocator->structured ? "release_allocation" : "deallocate", ret_error);
}

int nxm_allocator_release(struct nxm_allocator *allocator, uint64_t address, uint64_t id, unsigned from,
                          struct nxm_release *ret_release, struct nxm_error *ret_error)
{
    struct nxm_block block;
    int result = nxm_accounts_claim(allocator, address, id, from, NULL, &block, ret_error);

    return result != NXM_OK ? result : release_claimed(allocator, &block, ret_release, ret_error);
}

int nxm_allocator_release_shaped(struct nxm_allocator *allocator, uint64_t address, uint64_t bytes, uint64_t align,
                                 struct nxm_release *ret_release, struct nxm_error *ret_error)
{
    struct nxm_shape shape = { bytes, align };
    struct nxm_block block;
    int result = nxm_accounts_claim(allocator, address, 0, NXM_BLOCK_LIVE, &shape, &block, ret_error);

    return result != NXM_OK ? result : release_claimed(allocator, &block, ret_release, ret_error);
}

/* --- teardown ------------------------------------------------------------------------------------------------- */

struct push_back {
    struct nxm_allocator *allocator;
    uint64_t before; /* this id: where the allocator lives on, threads that go on allocating keep nobody here */
    bool found;
};

static bool push_back_block(void *argument, const struct nxm_block *seen)
{
    struct push_back *push_back = argument;
    struct nxm_allocator *allocator = push_back->allocator;
    struct nxm_release release = { .outcome = NXM_RELEASE_COMPLETE };
    struct nxm_block block;

    if (seen->allocator != allocator || seen->id >= push_back->before ||
        nxm_accounts_claim(allocator, seen->address, seen->id, NXM_BLOCK_LIVE | NXM_BLOCK_WAITING, NULL, &block,
                           NULL) != NXM_OK)
        return true; /* somebody else's, or RELEASING: it belongs to a queued release */
    hand_back(allocator, &block);
    nxm_accounts_settle(allocator, &block, &release); /* gone whatever the plugin said: nobody is left to ask again */
    push_back->found = true;
    return true;
}

/* Until a pass finds none: a walk may miss records that move while others are removed. */
static void push_back_all(struct nxm_allocator *allocator, uint64_t before)
{
    struct push_back push_back = { .allocator = allocator, .before = before };

    do {
        push_back.found = false;
        nxm_blocks_each(allocator->options.blocks, push_back_block, &push_back);
    } while (push_back.found);
}

void nxm_allocator_push_back(struct nxm_allocator *allocator)
{
    nxm_deferred_drain_all(allocator);
    push_back_all(allocator, nxm_ids_bound());
}

/* The order is binding (section 17): `release` may still complete what is queued, so only after it is the
 * outstanding count read. */
static void tear_down(struct nxm_allocator *allocator)
{
    struct nxm_module *module = allocator->module;
    struct nxm_factory *factory = allocator->factory;

    nxm_deferred_drain_all(allocator);
    atomic_store(&allocator->going, true);
    push_back_all(allocator, UINT64_MAX);
    nxm_lock_assert_none();
    allocator->vtable.release(allocator->vtable.ctx);
    nxm_module_discount_allocator(module);
    if (nxm_deferred_is_outstanding(allocator))
        nxm_module_let_callbacks_leave(module); /* the last completion may be about to return */
    if (nxm_deferred_abandon(allocator)) {
        nxm_module_unlist(module, &allocator->tenant);
        nxm_deferred_end(allocator);
        nxm_module_unref(module); /* the callback context's */
    } else {
        nxm_module_leak_table(module); /* with the callback context's reference */
    }
    nxm_module_unref_factory(module, factory);
    nxm_module_unref(module);
}

void nxm_allocator_ref(struct nxm_allocator *allocator)
{
    atomic_fetch_add_explicit(&allocator->references, 1, memory_order_relaxed);
}

void nxm_allocator_unref(struct nxm_allocator *allocator)
{
    if (allocator != NULL && atomic_fetch_sub_explicit(&allocator->references, 1, memory_order_acq_rel) == 1)
        tear_down(allocator);
}
