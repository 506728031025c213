/* Releases, now and queued, and what lets the plugin retire the queued ones. */
#include <pthread.h>
#include <stddef.h>

#include "core/queued.h"
#include "judge.h"
#include "model.h"
#include "operations.h"

static struct nxm_allocator *host_of(const struct model_block *block)
{
    return model.allocators[block->allocator].allocator;
}

/* --- now ------------------------------------------------------------------------------------------------------------------ */

void operation_release(void)
{
    struct model_block *block = pick_block(1u << MODEL_LIVE);
    struct nxm_release release = { 0 }, due;
    struct nxm_error error = { .status = 0 };
    int result;

    if (block == NULL)
        return;
    random_answer(&fake.release);
    due = model_terminal_answer(block);
    starve();
    if (one_in(model.choices, 2))
        result = nxm_allocator_release(host_of(block), block->block.address, one_in(model.choices, 2) ? 0 : block->block.id,
                                       NXM_BLOCK_LIVE, &release, &error);
    else
        result = nxm_allocator_release_shaped(host_of(block), block->block.address, block->block.bytes, block->block.align,
                                              &release, &error);
    model_terminal_effect(block);
    model_settle(block, &due);
    feed();
    EXPECT(result == (due.outcome == NXM_RELEASE_FAILED ? NXM_ECALL : NXM_OK));
    EXPECT(result != NXM_OK || judge_same(&release, &due));
}

/* None of these reaches the plugin. */
void operation_release_mistaken(void)
{
    struct model_block *block = pick_block(1u << MODEL_LIVE | 1u << MODEL_QUEUED);
    struct model_allocator *other = pick_open_allocator();
    uint64_t entered = fake.deallocates + fake.structured;
    struct nxm_release release;
    int wanted;

    if (block == NULL || other == NULL || block->replaced || !model.allocators[block->allocator].open)
        return;
    wanted = block->where == MODEL_QUEUED ? NXM_EBUSY : NXM_EINVAL;
    EXPECT(nxm_allocator_release_shaped(host_of(block), block->block.address, block->block.bytes + 1, block->block.align,
                                        &release, NULL) == NXM_EINVAL);
    EXPECT(nxm_allocator_release_shaped(host_of(block), block->block.address, block->block.bytes,
                                        block->where == MODEL_LIVE ? block->block.align * 2 : block->block.align, &release,
                                        NULL) == wanted);
    EXPECT(nxm_allocator_release(host_of(block), block->block.address, block->block.id + 100000, NXM_BLOCK_LIVE, &release,
                                 NULL) == NXM_ENOENT);
    EXPECT(nxm_allocator_release(host_of(block), block->block.address + 1, 0, NXM_BLOCK_LIVE, &release, NULL) == NXM_ENOENT ||
           model_must_refuse(block->allocator, block->block.address + 1, 0));
    if (other->allocator != host_of(block))
        EXPECT(nxm_allocator_release(other->allocator, block->block.address, block->block.id, NXM_BLOCK_LIVE, &release,
                                     NULL) == NXM_ENOENT);
    EXPECT(fake.deallocates + fake.structured == entered);
}

/* --- queued ----------------------------------------------------------------------------------------------------------------- */

static void check_enqueued(struct model_block *block, int result, const struct nxm_release *release)
{
    uint32_t status = fake.enqueue_status;
    struct nxm_release due;

    if (status == 0)
        model_retire_views(block); /* at this moment, whatever becomes of it (14.8) */
    if (block->where != MODEL_QUEUED) { /* its completion came inside the call, and wins */
        EXPECT(result == (block->where == MODEL_LIVE ? NXM_ECALL : NXM_OK));
        EXPECT(result != NXM_OK || (model.last_ended == block && judge_same(release, &model.last_release)));
        return;
    }
    if (status == 0) {
        EXPECT(result == NXM_OK && release->outcome == NXM_RELEASE_QUEUED);
        EXPECT(release->ticket == block->ticket);
        return;
    }
    due = judge_status(status, &block->block);
    model_settle(block, &due);
    EXPECT(result == (due.outcome == NXM_RELEASE_FAILED ? NXM_ECALL : NXM_OK));
    EXPECT(result != NXM_OK || judge_same(release, &due));
}

/* In the model it is queued before the call, as it must be in the host; the plugin's side is settled by what it did. */
static int enqueue(struct model_block *block, struct nxm_release *ret_release)
{
    int result;

    block->where = MODEL_QUEUED;
    block->ended = 0;
    block->ticket = fake_last_ticket() + 1;
    block->queued = fake.enqueue_status == 0 || fake.complete_in_enqueue;
    starve();
    result = nxm_allocator_enqueue(host_of(block), block->block.address, block->block.id, NXM_BLOCK_LIVE, NULL, NULL,
                                   ret_release, NULL);
    feed();
    return result;
}

/* Our own: nothing was called, nothing changed. The first release of its shard never lacks memory. */
static void refused_for_memory(struct model_block *block)
{
    bool beside_another = false;

    block->where = MODEL_LIVE;
    block->queued = false;
    for (unsigned i = 0; i < model.block_count; i++) {
        const struct model_block *other = &model.blocks[i];

        beside_another = beside_another || (other->where == MODEL_QUEUED && other->allocator == block->allocator &&
                                            other->block.id % NXM_QUEUED_SHARDS == block->block.id % NXM_QUEUED_SHARDS);
    }
    EXPECT(model.starved && beside_another && fake_last_ticket() < block->ticket);
}

static struct model_block *pick_to_enqueue(void)
{
    struct model_block *block = pick_block(1u << MODEL_LIVE);
    struct nxm_release release;

    if (block == NULL || model.allocators[block->allocator].deferred)
        return block;
    EXPECT(nxm_allocator_enqueue(host_of(block), block->block.address, 0, NXM_BLOCK_LIVE, NULL, NULL, &release, NULL) ==
           NXM_EUNSUPPORTED);
    return NULL;
}

void operation_enqueue(void)
{
    struct model_block *block = pick_to_enqueue();
    uint64_t ended = model.ended;
    struct nxm_release release = { 0 };
    int result;

    if (block == NULL)
        return;
    random_answer(&fake.completion);
    fake.complete_in_enqueue = one_in(model.choices, 4);
    /* Completes-then-fails only where what it completes is what it fails. */
    if (one_in(model.choices, 4) && (!fake.complete_in_enqueue || model_plugin_queued(block->allocator) == 0))
        fake.enqueue_status = random_status();
    model.refuses_pins = one_in(model.choices, 8);
    result = enqueue(block, &release);
    if (result == NXM_ENOMEM) {
        refused_for_memory(block);
    } else if (model.refuses_pins) {
        EXPECT(result == NXM_ERETIRED && fake_last_ticket() < block->ticket && model.ended == ended);
        block->where = MODEL_LIVE; /* the plugin was not entered */
        block->queued = false;
    } else {
        EXPECT(model.ended == ended + fake.complete_in_enqueue);
        check_enqueued(block, result, &release);
    }
    model.refuses_pins = false;
    fake.complete_in_enqueue = false;
    fake.enqueue_status = 0;
}

/* More than teardown has passes, and than the set of queued releases has first entries. */
void operation_enqueue_many(void)
{
    struct model_allocator *allocator = pick_open_allocator();
    uint64_t wanted = 16 + choose(model.choices, 8);

    if (allocator == NULL || !allocator->deferred)
        return;
    while (wanted-- > 0 && model_is_sound()) {
        struct model_block *block = allocate_soundly(allocator);
        struct nxm_release release;
        int result;

        if (block == NULL)
            return;
        result = enqueue(block, &release);
        if (result == NXM_ENOMEM)
            refused_for_memory(block);
        else
            check_enqueued(block, result, &release);
    }
}

static pthread_t racer;
static bool racing;
static struct fake_state *racing_state;
static uint32_t racing_status;

static void *race(void *argument)
{
    (void)argument;
    fake_complete_one(racing_state, &racing_status);
    return NULL;
}

static void start_race(void)
{
    racing = pthread_create(&racer, NULL, race, NULL) == 0;
}

/* Whichever comes first, the completion or the plugin's return, the books are the same afterwards. */
void operation_enqueue_racing(void)
{
    struct model_block *block = pick_to_enqueue();
    uint64_t ended = model.ended;
    struct nxm_release release = { 0 };
    int result;

    if (block == NULL)
        return;
    random_answer(&fake.completion);
    racing = false;
    racing_state = model.allocators[block->allocator].state;
    fake.in_enqueue = start_race;
    result = enqueue(block, &release);
    fake.in_enqueue = NULL;
    if (racing) {
        pthread_join(racer, NULL);
        EXPECT(model.ended == ended + 1 && racing_status == NXMEM_STATUS_OK);
        model_retire_views(block);
        if (result == NXM_OK && release.outcome == NXM_RELEASE_QUEUED)
            EXPECT(release.ticket == block->ticket);
        else
            check_enqueued(block, result, &release);
    } else {
        EXPECT(result == NXM_ENOMEM);
        refused_for_memory(block);
    }
}

/* --- retiring ---------------------------------------------------------------------------------------------------------------- */

void operation_drain(void)
{
    struct model_allocator *allocator = pick_open_allocator();
    uint64_t ended = model.ended, budget, due, retired;

    if (allocator == NULL)
        return;
    random_answer(&fake.completion);
    fake.drain_nothing = one_in(model.choices, 4);
    fake.drain_budget = choose(model.choices, 3);
    fake.drain_status = one_in(model.choices, 4) ? random_status() : 0;
    budget = one_in(model.choices, 2) ? UINT64_MAX : choose(model.choices, 4);
    due = model_plugin_queued(index_of_allocator(allocator));
    due = fake.drain_nothing ? 0 : budget < due ? budget : due;
    due = fake.drain_budget != 0 && fake.drain_budget < due ? fake.drain_budget : due;
    retired = nxm_allocator_drain(allocator->allocator, budget);
    EXPECT(retired == due);
    EXPECT(model.ended == ended + due);
    fake.drain_nothing = false;
    fake.drain_budget = 0;
    fake.drain_status = 0;
}

void operation_pending(void)
{
    struct model_allocator *allocator = pick_open_allocator();
    unsigned index;

    if (allocator == NULL)
        return;
    index = index_of_allocator(allocator);
    fake.pending_status = one_in(model.choices, 3) ? random_status() : 0;
    EXPECT(nxm_allocator_pending(allocator->allocator) ==
           (fake.pending_status == 0 ? model_plugin_queued(index) : model_outstanding(index)));
    fake.pending_status = 0;
}
