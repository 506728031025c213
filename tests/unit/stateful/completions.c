/* Completions: now, later, on another thread, twice, from strangers, with a wrong ticket. */
#include <pthread.h>
#include <stddef.h>

#include "judge.h"
#include "model.h"
#include "operations.h"

/* While it runs every counter has moved but the one that keeps the table alive. */
static void check_counters_inside(const struct model_block *block)
{
    const struct model_allocator *allocator = &model.allocators[block->allocator];
    struct nxm_tallies due = model_tallies(allocator->module);
    struct nxm_allocator_totals totals;
    struct nxm_gate gate;

    nxm_module_query_gate(model.modules[allocator->module].module, &gate);
    EXPECT(gate.host.queued == due.queued);
    EXPECT(gate.host.allocations == due.allocations);
    EXPECT(allocator->pins == model_outstanding(block->allocator) + 1);
    if (!allocator->open)
        return;
    nxm_allocator_totals(allocator->allocator, &totals);
    EXPECT(totals.queued == model_outstanding(block->allocator) + 1);
}

/* A table that waited for its last completion goes with it. */
static void reclaim_table(unsigned allocator)
{
    struct model_allocator *of = &model.allocators[allocator];

    if (of->open || !of->table || model_outstanding(allocator) != 0)
        return;
    of->table = false;
    model.counters.reclaimed_callback_tables++;
}

void completions_told(void *owner, const struct nxm_block *block, const struct nxm_release *release)
{
    struct model_block *known = model_block_by_id(block->id);
    struct nxm_release due;

    EXPECT(known != NULL && known->where == MODEL_QUEUED);
    if (!model_is_sound())
        return;
    EXPECT(owner == &model.allocators[known->allocator]);
    due = model_completion_answer(known);
    EXPECT(judge_same(release, &due));
    EXPECT(known->ended == 0);
    known->ended++;
    model.ended++;
    model.last_ended = known;
    model.last_release = *release;
    if (known->queued) /* else the plugin has forgotten it already */
        model_completion_effect(known);
    model_settle(known, release);
    check_counters_inside(known);
    reclaim_table(known->allocator);
}

/* --- the plugin completes ---------------------------------------------------------------------------------------------- */

/* The fake took one of its queue; did the host take it too? */
static void check_completed(uint64_t id, uint64_t ended_before, uint32_t status, bool refused)
{
    struct model_block *block = model_block_by_id(id);

    EXPECT(block != NULL);
    EXPECT(status == (refused ? NXMEM_STATUS_UNKNOWN_ALLOCATION : NXMEM_STATUS_OK));
    EXPECT(model.ended == ended_before + !refused);
    EXPECT(refused || model.last_ended == block);
    if (refused && model_is_sound())
        model_completion_effect(block); /* the plugin has forgotten it, the host has not */
}

struct errand {
    struct fake_state *state;
    uint32_t status;
    bool done;
};

static void *run_errand(void *argument)
{
    struct errand *errand = argument;

    errand->done = fake_complete_one(errand->state, &errand->status);
    return NULL;
}

static bool complete_one(unsigned allocator, bool elsewhere, uint64_t wrong_ticket)
{
    struct errand errand = { .state = model.allocators[allocator].state };
    uint64_t ended = model.ended;
    pthread_t thread;

    if (model_plugin_queued(allocator) == 0)
        return false;
    fake.wrong_ticket = wrong_ticket;
    if (!elsewhere || pthread_create(&thread, NULL, run_errand, &errand) != 0)
        run_errand(&errand);
    else
        pthread_join(thread, NULL);
    fake.wrong_ticket = 0;
    EXPECT(errand.done);
    check_completed(fake.last_completed, ended, errand.status, wrong_ticket != 0);
    return true;
}

bool completions_one(unsigned allocator)
{
    return complete_one(allocator, false, 0);
}

static struct model_allocator *pick_busy_allocator(void)
{
    struct model_allocator *busy[MODEL_ALLOCATORS];
    unsigned count = 0;

    for (unsigned i = 0; i < model.allocator_count; i++) {
        if (model_plugin_queued(i) != 0)
            busy[count++] = &model.allocators[i];
    }
    return count == 0 ? NULL : busy[choose(model.choices, count)];
}

/* To a table that is there: after it is gone only a plugin that breaks the ABI would send. */
static uint32_t send_to(const struct model_allocator *to, uint64_t mechanism_id, uint64_t id, uint64_t ticket)
{
    return fake_send(to->callbacks, mechanism_id, id, ticket, NXMEM_RELEASE_COMPLETE);
}

void operation_complete(void)
{
    struct model_allocator *allocator = pick_busy_allocator();
    const struct model_block *block;

    if (allocator == NULL)
        return;
    random_answer(&fake.completion);
    starve();
    complete_one(index_of_allocator(allocator), one_in(model.choices, 3), one_in(model.choices, 8) ? 1 : 0);
    feed();
    block = model_block_by_id(fake.last_completed);
    if (!model_is_sound() || !allocator->table || block->where == MODEL_QUEUED || !one_in(model.choices, 3))
        return;
    EXPECT(send_to(allocator, allocator->mechanism_id, block->block.id, block->ticket) ==
           NXMEM_STATUS_UNKNOWN_ALLOCATION); /* a second time */
}

/* --- strangers ------------------------------------------------------------------------------------------------------------ */

void operation_complete_mistaken(void)
{
    struct model_allocator *to = pick_open_allocator();
    struct model_block *block = pick_block(1u << MODEL_LIVE | 1u << MODEL_QUEUED | 1u << MODEL_GONE);
    uint64_t ended = model.ended;

    if (to == NULL)
        return;
    EXPECT(send_to(to, to->mechanism_id, UINT64_MAX - choose(model.choices, 4), 1) == NXMEM_STATUS_UNKNOWN_ALLOCATION);
    if (block != NULL) {
        bool own = block->allocator == index_of_allocator(to) && block->where == MODEL_QUEUED;

        EXPECT(send_to(to, to->mechanism_id + 1, block->block.id, block->ticket) == NXMEM_STATUS_WRONG_MECHANISM);
        EXPECT(send_to(to, to->mechanism_id, block->block.id, own ? block->ticket + 1 : block->ticket) ==
               NXMEM_STATUS_UNKNOWN_ALLOCATION);
    }
    EXPECT(model.ended == ended);
}

/* --- the end --------------------------------------------------------------------------------------------------------------- */

/* Those that the plugin has still queued, and those that it completed with a wrong ticket and forgot. */
void completions_finish_all(void)
{
    for (unsigned i = 0; i < model.allocator_count && model_is_sound(); i++) {
        while (model_is_sound() && completions_one(i))
            ;
    }
    fake.completion = (struct fake_answer){ .set = true }; /* COMPLETE, nothing credited: what is sent */
    for (unsigned i = 0; i < model.block_count && model_is_sound(); i++) {
        struct model_block *block = &model.blocks[i];
        struct model_allocator *allocator = &model.allocators[block->allocator];

        if (block->where != MODEL_QUEUED)
            continue;
        EXPECT(allocator->table);
        if (!model_is_sound())
            return;
        EXPECT(send_to(allocator, allocator->mechanism_id, block->block.id, block->ticket) == NXMEM_STATUS_OK);
        EXPECT(block->where == MODEL_GONE);
    }
}
