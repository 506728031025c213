#include "machine.h"

#include <stddef.h>
#include <string.h>

#include "core/mem.h"
#include "model.h"
#include "operations.h"

/* A row for each operation; the more weight, the more often. */
static const struct operation {
    const char *name;
    unsigned weight;
    void (*run)(void);
} operations[] = {
    { "load", 3, operation_load },
    { "unload", 1, operation_unload },
    { "drop", 1, operation_drop },
    { "query", 3, operation_query },
    { "open", 5, operation_open },
    { "ref", 1, operation_ref },
    { "unref", 2, operation_unref },
    { "push back", 1, operation_push_back },
    { "reclaim mistaken", 1, operation_reclaim_mistaken },
    { "allocate", 36, operation_allocate },
    { "allocate again", 6, operation_allocate_again },
    { "release", 8, operation_release },
    { "release mistaken", 3, operation_release_mistaken },
    { "enqueue", 24, operation_enqueue },
    { "enqueue many", 1, operation_enqueue_many },
    { "enqueue racing", 3, operation_enqueue_racing },
    { "drain", 4, operation_drain },
    { "pending", 2, operation_pending },
    { "complete", 10, operation_complete },
    { "share", 3, operation_share },
    { "unshare", 1, operation_unshare },
    { "view", 8, operation_view },
    { "complete mistaken", 4, operation_complete_mistaken },
    { "allocate committed", 8, operation_allocate_committed },
    { "commit", 6, operation_commit },
    { "decommit", 4, operation_decommit },
    { "committed", 3, operation_committed },
    { "cost", 3, operation_cost },
};

#define OPERATIONS (sizeof operations / sizeof *operations)

/* --- choosing -------------------------------------------------------------------------------------------------------------- */

static const struct operation *pick_operation(void)
{
    static unsigned total;
    const struct operation *operation = operations;
    uint64_t at;

    if (total == 0) {
        for (size_t i = 0; i < OPERATIONS; i++)
            total += operations[i].weight;
    }
    for (at = choose(model.choices, total); at >= operation->weight; operation++)
        at -= operation->weight;
    return operation;
}

unsigned index_of_allocator(const struct model_allocator *allocator)
{
    return (unsigned)(allocator - model.allocators);
}

struct model_allocator *pick_open_allocator(void)
{
    struct model_allocator *open[MODEL_ALLOCATORS];
    unsigned count = 0;

    for (unsigned i = 0; i < model.allocator_count; i++) {
        if (model.allocators[i].open)
            open[count++] = &model.allocators[i];
    }
    return count == 0 ? NULL : open[choose(model.choices, count)];
}

struct model_block *pick_block(unsigned where_mask)
{
    struct model_block *suitable[MODEL_BLOCKS];
    unsigned count = 0;

    for (unsigned i = 0; i < model.block_count; i++) {
        if ((where_mask >> model.blocks[i].where & 1) != 0)
            suitable[count++] = &model.blocks[i];
    }
    return count == 0 ? NULL : suitable[choose(model.choices, count)];
}

uint32_t random_status(void)
{
    static const uint32_t codes[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 999 };

    return codes[choose(model.choices, sizeof codes / sizeof *codes)];
}

uint64_t random_bytes_near(uint64_t near)
{
    switch (choose(model.choices, 4)) {
    case 0:
        return 0;
    case 1:
        return near - 1 + choose(model.choices, 3);
    case 2:
        return UINT64_C(1) << (32 + choose(model.choices, 32));
    default:
        return choose(model.choices, near + 1);
    }
}

/* A block that failed to go is still the plugin's, or it would break its own word. */
void random_answer(struct fake_answer *ret_answer)
{
    static const uint32_t states[] = { 0, 1, 2, 0x0BADF00D }, sizes[] = { 0, 0, 0, 4, 8, 24, 32, 400 };
    struct choices *choices = model.choices;

    *ret_answer = (struct fake_answer){ 0 };
    if (!one_in(choices, 2))
        return;
    ret_answer->set = true;
    ret_answer->status = one_in(choices, 3) ? random_status() : 0;
    ret_answer->state = states[choose(choices, 4)];
    ret_answer->struct_size = sizes[choose(choices, 8)];
    ret_answer->unmapped = random_bytes_near(1000);
    ret_answer->residual = one_in(choices, 2) ? random_bytes_near(1000) : 0;
    ret_answer->keep = ret_answer->state == NXMEM_RELEASE_FAILED || one_in(choices, 4);
}

void starve(void)
{
    model.starved = one_in(model.choices, 6);
    if (model.starved)
        nxm_mem_fail_at(1 + (unsigned long)choose(model.choices, 2));
}

void feed(void)
{
    nxm_mem_fail_at(0);
}

/* --- checking the whole -------------------------------------------------------------------------------------------------------- */

static void check_allocator(unsigned index)
{
    const struct model_allocator *allocator = &model.allocators[index];
    struct nxm_allocator_totals totals;
    uint64_t owned = 0, mapped = 0, views = 0, view_owned = 0, view_mapped = 0;

    EXPECT(allocator->pins == model_outstanding(index)); /* one for each, whoever is still there */
    EXPECT(allocator->ended == !allocator->table);       /* once, when the last obligation has ended */
    if (!allocator->open)
        return;
    for (unsigned i = 0; i < model.block_count; i++) {
        const struct model_block *block = &model.blocks[i];

        if (block->allocator != index || block->where == MODEL_GONE)
            continue;
        owned += block->block.owned;
        mapped += block->block.mapped;
        if (block->where != MODEL_LIVE)
            continue;
        views += block->views;
        view_owned += block->view_owned;
        view_mapped += block->view_mapped;
    }
    nxm_allocator_totals(allocator->allocator, &totals);
    EXPECT(totals.queued == model_outstanding(index));
    EXPECT(totals.quarantined_blocks == allocator->quarantined_blocks);
    EXPECT(totals.quarantined_bytes == allocator->quarantined_bytes); /* kept back for good, never refunded */
    EXPECT(totals.owned_bytes == owned && totals.mapped_bytes == mapped);
    EXPECT(totals.reclaim_calls == allocator->reclaim_calls && totals.reclaim_failures == allocator->reclaim_failures);
    EXPECT(totals.views == views && totals.view_owned_bytes == view_owned && totals.view_mapped_bytes == view_mapped);
}

static void check_module(unsigned index)
{
    struct nxm_tallies due = model_tallies(index);
    struct nxm_gate gate;

    if (model.modules[index].module == NULL)
        return;
    nxm_module_query_gate(model.modules[index].module, &gate);
    EXPECT(memcmp(&gate.host, &due, sizeof due) == 0);
    EXPECT(gate.plugin.live_allocators + gate.plugin.live_allocations + gate.plugin.queued_releases + gate.plugin.live_views +
               gate.plugin.live_capabilities ==
           model_plugin_total());
}

static void check_blocks(void)
{
    struct nxm_class_totals totals;
    uint64_t there = 0;

    for (unsigned i = 0; i < model.block_count; i++) {
        const struct model_block *block = &model.blocks[i];
        struct nxm_block found;

        if (block->replaced || (block->where != MODEL_LIVE && block->where != MODEL_QUEUED))
            continue;
        there++;
        EXPECT(nxm_blocks_find(model.table, block->block.address, &found) == NXM_OK);
        EXPECT(found.id == block->block.id);
        EXPECT(found.state == (block->where == MODEL_LIVE ? NXM_BLOCK_LIVE : NXM_BLOCK_RELEASING));
    }
    nxm_blocks_totals(model.table, NXM_CLASS_DEVICE, &totals);
    EXPECT(totals.live_blocks == there); /* no address twice, none forgotten */
}

static void check_counters(void)
{
    struct nxm_module_counters now;
    uint64_t handles = 0;

    for (unsigned i = 0; i < MODEL_PREFIXES; i++)
        handles += model.prefixes[i].shared != NULL;
    nxm_module_counters(&now);
    EXPECT(memcmp(&now, &model.counters, sizeof now) == 0);
    EXPECT(fake.opens == model.opened && fake.releases == model.released);
    EXPECT(fake.factory_releases == model.factory_releases);
    EXPECT(fake.unmapped == model.unmapped);
    EXPECT(fake_map.prefix_releases == model.prefixes_released && fake_map.handles == handles);
    EXPECT(fake.strangers == 0); /* the plugin was never asked to release what it did not hold */
}

static void check_all(void)
{
    for (unsigned i = 0; i < model.allocator_count; i++)
        model_forget_dead_state(i);
    check_blocks();
    check_counters();
    for (unsigned i = 0; i < model.allocator_count; i++)
        check_allocator(i);
    for (unsigned i = 0; i < model.module_count; i++)
        check_module(i);
}

/* --- a run ----------------------------------------------------------------------------------------------------------------------- */

static void step(const struct operation *operation)
{
    model.operation = operation->name;
    model.starved = false;
    model.ended = 0;
    fake.release = fake.completion = (struct fake_answer){ 0 };
    operation->run();
    if (model_is_sound())
        check_all();
    model.step++;
}

static void finish(void)
{
    static const struct operation ends[] = {
        { "complete all", 0, completions_finish_all },
        { "unshare all", 0, shared_drop_all },
        { "close all", 0, allocators_close_all },
        { "unload the first", 0, operation_unload_soundly },
        { "unload the second", 0, operation_unload_soundly },
    };

    for (size_t i = 0; model_is_sound() && i < sizeof ends / sizeof *ends; i++)
        step(&ends[i]);
    if (!model_is_sound())
        return;
    model.operation = "end";
    EXPECT(model_handles() == 0 && model_plugin_total() == 0);
    nxm_blocks_free(model.table);
    fake_reset();
}

const char *machine_run(struct choices *choices, unsigned steps)
{
    fake_reset();
    model_begin(choices);
    model.factories = 1 + (unsigned)choose(choices, 3);
    fake.factories = model.factories;
    fake.maps = true;
    for (unsigned i = 0; i < model.factories; i++)
        fake.factory_devices[i] = (NxmemDeviceId){ NXMEM_TIER_DEVICE, i };
    if (nxm_blocks_new(&model.table) != NXM_OK)
        return "no memory for a block table";
    operation_load_soundly();
    while (model_is_sound() && model.step < steps && !choices_over(choices))
        step(pick_operation());
    finish();
    return model_is_sound() ? NULL : model.fault;
}
