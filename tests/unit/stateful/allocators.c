/* Opening mechanisms, right and wrong ones; giving them up, with whatever is still live or queued in them. */
#include <stddef.h>

#include "core/shared.h"
#include "model.h"
#include "operations.h"

/* --- the host's own reclaiming ---------------------------------------------------------------------------------------------- */

/* Another allocator's block is fair game (16.6). */
static void release_elsewhere(struct nxm_allocator *asked)
{
    struct model_block *block = pick_block(1u << MODEL_LIVE);
    uint64_t entered = fake.deallocates + fake.structured;
    struct nxm_allocator *owner = block == NULL ? asked : model.allocators[block->allocator].allocator;
    struct nxm_release due, release;

    if (owner == asked)
        return;
    due = model_terminal_answer(block);
    nxm_allocator_release(owner, block->block.address, block->block.id, NXM_BLOCK_LIVE, &release, NULL);
    model_terminal_effect(block);
    model_settle(block, &due);
    model.entered_in_reclaim += fake.deallocates + fake.structured - entered;
}

static int64_t reclaim(void *owner, struct nxm_allocator *asked, NxmemDeviceId device, uint64_t bytes)
{
    struct model_allocator *allocator = owner;

    EXPECT(bytes == fake.reclaim_first && device.tier == NXMEM_TIER_DEVICE);
    EXPECT(allocator->open && allocator->allocator == asked);
    allocator->reclaim_calls++;
    if (one_in(model.choices, 2))
        release_elsewhere(asked);
    model.reclaim_answer = (int64_t)choose(model.choices, 5000) - 1000;
    allocator->reclaim_failures += model.reclaim_answer < 0;
    return model.reclaim_answer;
}

static uint32_t ask(const struct model_allocator *of, NxmemDeviceId device, uint32_t size)
{
    NxmemReclaimRequest request = { .struct_size = size, .device = device, .bytes = 1 };
    uint64_t reclaimed = 77;
    uint32_t code = of->callbacks->request_reclaim(of->callbacks->host_ctx, &request, &reclaimed).code;

    EXPECT(reclaimed == 0);
    return code;
}

/* The plugin asks for what it may not have: for another device, for none, with half a struct. */
void operation_reclaim_mistaken(void)
{
    struct model_allocator *allocator = pick_open_allocator();
    uint32_t absent;

    if (allocator == NULL)
        return;
    absent = allocator->reclaims ? 0 : NXMEM_STATUS_UNSUPPORTED_CAPABILITY;
    EXPECT(ask(allocator, (NxmemDeviceId){ NXMEM_TIER_DEVICE, allocator->factory + 1 }, 32) ==
           (absent != 0 ? absent : NXMEM_STATUS_WRONG_DEVICE));
    EXPECT(ask(allocator, (NxmemDeviceId){ 3, 0 }, 32) == (absent != 0 ? absent : NXMEM_STATUS_INVALID_ARGUMENT));
    EXPECT(ask(allocator, (NxmemDeviceId){ NXMEM_TIER_DEVICE, allocator->factory }, 24) == NXMEM_STATUS_SHORT_STRUCT);
    allocator->reclaim_calls += 3;
    allocator->reclaim_failures += 3;
}

/* --- open ------------------------------------------------------------------------------------------------------------------ */

static void without_allocate(NxmemAllocatorVtable *vtable)
{
    vtable->allocate = NULL;
}

static void without_id(NxmemAllocatorVtable *vtable)
{
    vtable->mechanism_id = 0;
}

static void on_another_device(NxmemAllocatorVtable *vtable)
{
    vtable->device.index += 1;
}

static void with_unknown_bits(NxmemAllocatorVtable *vtable)
{
    vtable->capability_flags |= 1u << 5;
}

static void deferred_without_drain(NxmemAllocatorVtable *vtable)
{
    vtable->capability_flags |= NXMEM_CAPABILITY_DEFERRED_RELEASE;
    vtable->drain_releases = NULL;
}

static void with_a_bit_and_no_vtable(NxmemAllocatorVtable *vtable)
{
    vtable->capability_flags |= NXMEM_CAPABILITY_VIRTUAL_BACKING;
    vtable->virtual_backing = NULL;
}

static void with_a_vtable_and_no_bit(NxmemAllocatorVtable *vtable)
{
    vtable->capability_flags &= ~(uint64_t)NXMEM_CAPABILITY_SHARED_MAPPING;
    vtable->shared_mapping = (const NxmemSharedMappingVtable *)vtable->ctx;
}

/* All of them publish a `release`, which is owed one call. */
static void (*const broken[])(NxmemAllocatorVtable *vtable) = {
    without_allocate,         without_id,               on_another_device, with_unknown_bits, deferred_without_drain,
    with_a_bit_and_no_vtable, with_a_vtable_and_no_bit,
};

static struct model_module *pick_module(void)
{
    struct model_module *held[MODEL_MODULES];
    unsigned count = 0;

    for (unsigned i = 0; i < model.module_count; i++) {
        if (model.modules[i].handle)
            held[count++] = &model.modules[i];
    }
    return count == 0 ? NULL : held[choose(model.choices, count)];
}

static bool pin(void *context)
{
    struct model_allocator *allocator = context;

    if (model.refuses_pins)
        return false;
    atomic_fetch_add(&allocator->pins, 1);
    return true;
}

static void unpin(void *context)
{
    struct model_allocator *allocator = context;

    EXPECT(atomic_fetch_sub(&allocator->pins, 1) != 0);
}

static void told_of_end(void *owner)
{
    struct model_allocator *allocator = owner;

    allocator->ended++;
}

/* Ids of open allocators, and of those whose table is still there, are taken in their module. */
static bool id_is_taken(unsigned module, uint64_t mechanism_id)
{
    for (unsigned i = 0; i < model.allocator_count; i++) {
        const struct model_allocator *other = &model.allocators[i];

        if (other->module == module && other->mechanism_id == mechanism_id && other->table)
            return true;
    }
    return false;
}

static void accept(unsigned module, unsigned factory, bool reclaims, struct nxm_allocator *opened)
{
    struct model_allocator *allocator = &model.allocators[model.allocator_count++];

    *allocator = (struct model_allocator){
        .allocator = opened,
        .module = module,
        .factory = factory,
        .references = 1,
        .own_references = 1,
        .open = true,
        .table = true,
        .deferred = (fake.extra_flags & NXMEM_CAPABILITY_DEFERRED_RELEASE) != 0,
        .sharing = (fake.extra_flags & NXMEM_CAPABILITY_SHARED_MAPPING) != 0,
        .backing = (fake.extra_flags & NXMEM_CAPABILITY_VIRTUAL_BACKING) != 0,
        .structured = fake.without_flags == 0 && !model.modules[module].minor_0,
        .reclaims = reclaims,
        .state = fake.last_state,
        .callbacks = fake.last_callbacks,
        .mechanism_id = nxm_allocator_mechanism_id(opened),
        .hull_first = UINT64_MAX,
    };
    model.modules[module].factory_references[factory]++;
    EXPECT(nxm_allocator_structured_release(opened) == allocator->structured);
    EXPECT(fake.last_open.callbacks->abi_minor == (model.modules[module].minor_0 ? 0 : 1));
}

/* The release that a refused opening owes may call the host: its table is there until that returns. */
static void talk_while_refused(void)
{
    EXPECT(fake.last_callbacks->struct_size == sizeof *fake.last_callbacks);
    EXPECT(fake_send(fake.last_callbacks, UINT64_MAX, 1, 1, NXMEM_RELEASE_COMPLETE) == NXMEM_STATUS_WRONG_MECHANISM);
}

static void open_in(unsigned module)
{
    struct model_allocator *slot = &model.allocators[model.allocator_count];
    unsigned factory = (unsigned)choose(model.choices, model.factories);
    bool reclaims = one_in(model.choices, 2), demanding = one_in(model.choices, 12), refused, taken;
    struct nxm_allocator_options options = {
        .blocks = model.table,
        .required_capabilities = demanding ? NXMEM_CAPABILITY_VIRTUAL_BACKING : NXMEM_CAPABILITY_ALLOCATOR,
        .owner = slot,
        .reclaim = reclaims ? reclaim : NULL,
        .completed = completions_told,
        .ended = told_of_end,
        .pins = { pin, unpin, slot },
    };
    struct nxm_allocator *opened = NULL;
    uint64_t before = fake.opens;
    int result;

    starve();
    fake.in_release = talk_while_refused;
    result = nxm_allocator_open(model.modules[module].module, factory, &options, &opened, NULL);
    fake.in_release = NULL;
    feed();
    if (result == NXM_ENOMEM) {
        EXPECT((model.starved && fake.opens == before) || fake.open_status == NXMEM_STATUS_OUT_OF_MEMORY);
        return;
    }
    taken = fake.fixed_mechanism_id && id_is_taken(module, FAKE_FIXED_MECHANISM_ID);
    refused = fake.open_status != 0 || fake.open_returns_null || fake.bend != NULL || taken ||
              (demanding && (fake.extra_flags & NXMEM_CAPABILITY_VIRTUAL_BACKING) == 0);
    EXPECT((result == NXM_OK) == !refused);
    EXPECT(result == NXM_OK || result == NXM_ECALL || result == NXM_ECONTRACT);
    model.opened += fake.opens - before;
    if (result != NXM_OK)
        model.released += fake.opens - before; /* the debt: paid at once, whatever was wrong with it */
    else
        accept(module, factory, reclaims, opened);
}

void operation_open(void)
{
    struct model_module *module = pick_module();
    struct choices *choices = model.choices;

    if (module == NULL || model.allocator_count == MODEL_ALLOCATORS)
        return;
    fake.extra_flags = (one_in(choices, 4) ? 0 : NXMEM_CAPABILITY_DEFERRED_RELEASE) |
                       (one_in(choices, 3) ? 0 : NXMEM_CAPABILITY_SHARED_MAPPING) |
                       (one_in(choices, 3) ? 0 : NXMEM_CAPABILITY_VIRTUAL_BACKING);
    fake.without_flags = one_in(choices, 4) ? NXMEM_CAPABILITY_STRUCTURED_RELEASE : 0;
    fake.fixed_mechanism_id = one_in(choices, 4);
    fake.open_status = one_in(choices, 10) ? random_status() : 0;
    fake.open_returns_null = one_in(choices, 16);
    fake.bend = one_in(choices, 6) ? broken[choose(choices, sizeof broken / sizeof *broken)] : NULL;
    open_in((unsigned)(module - model.modules));
    fake.open_status = 0;
    fake.open_returns_null = fake.fixed_mechanism_id = false;
    fake.bend = NULL;
}

/* --- giving up --------------------------------------------------------------------------------------------------------------- */

/* What is live goes back through the terminal slot, whatever that answers. */
static void model_push_back(unsigned index)
{
    for (unsigned i = 0; i < model.block_count; i++) {
        struct model_block *block = &model.blocks[i];

        if (block->allocator != index || block->where != MODEL_LIVE)
            continue;
        block->where = MODEL_GONE;
        model_terminal_effect(block);
    }
}

/* One at a time is given up; its final release completes a few of what is still queued, from inside. */
static unsigned going, completed_in_release;

static void in_release(void)
{
    model_push_back(going);
    model.allocators[going].going = true;
    EXPECT(model.allocators[going].callbacks->struct_size == sizeof(NxmemHostCallbacks));
    while (completed_in_release > 0 && completions_one(going))
        completed_in_release--;
}

static void check_drains(uint64_t passes, bool any_queued)
{
    if (!any_queued)
        EXPECT(passes == 0);
    else if (fake.drain_nothing || fake.drain_status != 0)
        EXPECT(passes == 1);
    else
        EXPECT(passes >= 1 && passes <= 16);
    EXPECT(passes == 0 || fake.last_drain_budget == UINT64_MAX);
}

static void release_factory_reference(unsigned module, unsigned factory)
{
    if (--model.modules[module].factory_references[factory] == 0)
        model.factory_releases++;
}

static void give_up(unsigned index, struct nxm_shared *last)
{
    struct model_allocator *allocator = &model.allocators[index];
    uint64_t drains = fake.drains;
    bool any_queued = model_outstanding(index) != 0;

    going = index;
    fake.in_release = in_release;
    if (last != NULL)
        nxm_shared_unref(last);
    else
        nxm_allocator_unref(allocator->allocator);
    fake.in_release = NULL;
    EXPECT(allocator->going); /* it was released */
    check_drains(fake.drains - drains, any_queued);
    allocator->open = false;
    allocator->references = 0;
    model.released++;
    if (model_outstanding(index) == 0) {
        allocator->table = false;
    } else {
        model.counters.leaked_callback_tables++;
        model.modules[allocator->module].leaked_tables++;
        model.modules[allocator->module].pinned = true;
    }
    release_factory_reference(allocator->module, allocator->factory);
}

static void bend_teardown(void)
{
    random_answer(&fake.completion);
    random_answer(&fake.release);
    fake.drain_nothing = one_in(model.choices, 3);
    fake.drain_budget = choose(model.choices, 3);
    fake.drain_status = one_in(model.choices, 6) ? random_status() : 0;
    completed_in_release = (unsigned)choose(model.choices, 3);
}

static void reset_teardown(void)
{
    fake.drain_nothing = false;
    fake.drain_budget = 0;
    fake.drain_status = 0;
}

void operation_ref(void)
{
    struct model_allocator *allocator = pick_open_allocator();

    if (allocator == NULL || allocator->own_references == 3)
        return;
    nxm_allocator_ref(allocator->allocator);
    allocator->references++;
    allocator->own_references++;
}

void operation_unref(void)
{
    struct model_allocator *allocator = pick_open_allocator();

    if (allocator != NULL && allocator->own_references != 0)
        allocators_give_back(index_of_allocator(allocator), NULL);
}

void allocators_give_back(unsigned index, struct nxm_shared *shared)
{
    struct model_allocator *allocator = &model.allocators[index];

    allocator->own_references -= shared == NULL;
    if (allocator->references > 1) {
        allocator->references--;
        if (shared != NULL)
            nxm_shared_unref(shared);
        else
            nxm_allocator_unref(allocator->allocator);
        return;
    }
    bend_teardown();
    starve();
    give_up(index, shared);
    feed();
    reset_teardown();
}

void operation_push_back(void)
{
    struct model_allocator *allocator = pick_open_allocator();
    uint64_t drains = fake.drains;
    bool any_queued;

    if (allocator == NULL)
        return;
    any_queued = model_outstanding(index_of_allocator(allocator)) != 0;
    bend_teardown();
    nxm_allocator_push_back(allocator->allocator);
    model_push_back(index_of_allocator(allocator));
    check_drains(fake.drains - drains, any_queued);
    reset_teardown();
}

void allocators_close_all(void)
{
    for (unsigned i = 0; i < model.allocator_count && model_is_sound(); i++) {
        for (; model.allocators[i].references > 1; model.allocators[i].references--)
            nxm_allocator_unref(model.allocators[i].allocator);
        if (model.allocators[i].open)
            give_up(i, NULL);
    }
}
