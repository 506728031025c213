/* Allocations, and what a plugin may hand out that it must not. */
#include <stddef.h>
#include <string.h>

#include "core/backing.h"
#include "judge.h"
#include "model.h"
#include "operations.h"

static const struct spans *committed; /* of the allocation that runs; NULL: a plain one */

static void reset_answers(void)
{
    fake.allocate_status = 0;
    fake.allocate_returns_null = false;
    fake.misalign = 0;
    fake.next_address = NULL;
    fake.result_size = 0;
    fake.owned = fake.mapped = fake.reclaim_first = 0;
}

static void bend_answers(void)
{
    struct choices *choices = model.choices;

    switch (choose(choices, 20)) {
    case 0:
        fake.allocate_status = one_in(choices, 2) ? NXMEM_STATUS_OUT_OF_MEMORY : random_status();
        break;
    case 1:
        fake.allocate_returns_null = true;
        break;
    case 2:
        fake.misalign = UINT64_C(8) << choose(choices, 4);
        break;
    case 3:
        fake.result_size = 8 * (1 + (uint32_t)choose(choices, 6)); /* of 32 bytes */
        break;
    case 4:
    case 5:
        fake.owned = random_bytes_near(4096);
        fake.mapped = random_bytes_near(4096);
        break;
    default:
        break;
    }
    if (one_in(choices, 4))
        fake.reclaim_first = 1 + choose(choices, 4096);
}

/* --- what must come of it ------------------------------------------------------------------------------------------------- */

/* The block as the host must record it, given what the plugin wrote. */
static struct nxm_block as_recorded(const struct nxm_block *wanted, uint64_t address)
{
    struct nxm_block block = *wanted;
    uint32_t size = fake.result_size == 0 || fake.result_size > 32 ? 32 : fake.result_size;
    uint64_t owned = committed != NULL ? bytes_of_granules(committed->bits) : fake.owned == 0 ? wanted->bytes : fake.owned;
    uint64_t mapped = committed != NULL ? owned : fake.mapped == 0 ? wanted->bytes : fake.mapped;

    block.id = fake.last_request.allocation_id;
    block.address = address;
    block.owned = size < 24 ? 0 : judge_cost(owned, wanted->bytes);
    block.mapped = size < 32 ? 0 : judge_cost(mapped, wanted->bytes);
    return block;
}

static void check_kept(unsigned index, const struct nxm_block *wanted, const struct nxm_block *kept)
{
    struct nxm_block due = as_recorded(wanted, kept->address);

    EXPECT(!model_must_refuse(index, kept->address, kept->bytes));
    EXPECT(kept->address % kept->align == 0);
    EXPECT(kept->id == due.id && kept->owned == due.owned && kept->mapped == due.mapped);
    EXPECT(kept->allocator == model.allocators[index].allocator && kept->state == NXM_BLOCK_LIVE);
    model_add_block(index, &due, MODEL_LIVE)->granules = committed == NULL ? 0 : committed->bits;
}

/* Handed back by id, once, whatever the plugin answers to that. */
static void check_handed_back(unsigned index, const struct nxm_block *wanted, uint64_t entered)
{
    struct nxm_block refused = as_recorded(wanted, 0);

    EXPECT(fake.deallocates + fake.structured == entered + 1);
    EXPECT(fake.last_allocation.allocation_id == refused.id);
    model_terminal_effect(model_add_block(index, &refused, MODEL_GONE));
}

static void check_result(unsigned index, const struct nxm_block *wanted, const struct nxm_block *got, int result,
                         uint64_t entered)
{
    uint64_t address = (uint64_t)(uintptr_t)fake.last_handed_out;

    if (fake.allocate_status != 0) {
        EXPECT(result == (fake.allocate_status == NXMEM_STATUS_OUT_OF_MEMORY ? NXM_ENOMEM : NXM_ECALL));
        EXPECT(fake.deallocates + fake.structured == entered);
    } else if (fake.allocate_returns_null || (fake.result_size != 0 && fake.result_size < 16)) {
        EXPECT(result == NXM_ECONTRACT); /* nothing to hand back: there is no address */
        EXPECT(fake.deallocates + fake.structured == entered);
        if (!fake.allocate_returns_null)
            model_add_block(index, &(struct nxm_block){ .id = fake.last_request.allocation_id }, MODEL_GONE);
    } else if (result == NXM_OK) {
        EXPECT(got->address == address);
        check_kept(index, wanted, got);
    } else {
        EXPECT(result == NXM_ECONTRACT || result == NXM_EEXIST || (result == NXM_ENOMEM && model.starved));
        EXPECT(result != NXM_ECONTRACT || address % wanted->align != 0);
        EXPECT(result != NXM_EEXIST || (model_may_refuse(index, address, wanted->bytes) && got->address == address));
        check_handed_back(index, wanted, entered);
    }
}

/* What the plugin asked of its host on the way. */
static void check_reclaim(struct model_allocator *allocator, uint64_t calls)
{
    if (fake.reclaim_first == 0) {
        EXPECT(allocator->reclaim_calls == calls);
        return;
    }
    if (!allocator->reclaims) { /* the host's own answer: there is no such path */
        allocator->reclaim_calls++;
        allocator->reclaim_failures++;
        EXPECT(fake.last_reclaim_status == NXMEM_STATUS_UNSUPPORTED_CAPABILITY && fake.last_reclaimed == 0);
    } else if (model.reclaim_answer < 0) {
        EXPECT(fake.last_reclaim_status == NXMEM_STATUS_CALLBACK_FAILED && fake.last_reclaimed == 0);
    } else {
        EXPECT(fake.last_reclaim_status == NXMEM_STATUS_OK && fake.last_reclaimed == (uint64_t)model.reclaim_answer);
    }
    EXPECT(allocator->reclaim_calls == calls + 1);
}

/* One that nothing is wrong with; NULL when the model is full. */
struct model_block *allocate_soundly(struct model_allocator *allocator)
{
    struct nxm_block block = { .bytes = 1 + choose(model.choices, 64), .align = 16, .class_ = NXM_CLASS_DEVICE }, wanted = block;
    uint64_t entered = fake.deallocates + fake.structured;
    unsigned index = index_of_allocator(allocator);
    int result;

    if (model.block_count == MODEL_BLOCKS)
        return NULL;
    result = nxm_allocator_allocate(allocator->allocator, &block, NULL, NULL, NULL);
    if (result != NXM_OK) { /* at an address that is barred */
        check_result(index, &wanted, &block, result, entered);
        return NULL;
    }
    check_kept(index, &wanted, &block);
    return model_is_sound() ? &model.blocks[model.block_count - 1] : NULL;
}

static int ask(struct nxm_allocator *allocator, struct nxm_block *block)
{
    if (committed == NULL)
        return nxm_allocator_allocate(allocator, block, NULL, NULL, NULL);
    return nxm_backing_allocate(allocator, block, committed->ranges, committed->count, NULL);
}

static void allocate(struct model_allocator *allocator, void *address, uint64_t bytes)
{
    static const uint64_t aligns[] = { 1, 8, 16, 64, 256, 512, 4096 };
    unsigned index = index_of_allocator(allocator);
    struct nxm_block block = { .class_ = NXM_CLASS_DEVICE }, wanted;
    uint64_t entered, asked, calls = allocator->reclaim_calls;
    int result;

    if (model.block_count == MODEL_BLOCKS)
        return;
    block.align = aligns[choose(model.choices, 7)];
    block.bytes = bytes;
    bend_answers();
    fake.next_address = address;
    random_answer(&fake.release);
    wanted = block;
    asked = fake.allocates;
    starve();
    entered = fake.deallocates + fake.structured;
    model.entered_in_reclaim = 0;
    result = ask(allocator->allocator, &block);
    feed();
    EXPECT(fake.allocates == asked + 1);
    if (model_is_sound())
        check_result(index, &wanted, &block, result, entered + model.entered_in_reclaim);
    check_reclaim(allocator, calls);
    reset_answers();
}

/* Refused before the plugin hears of it. */
static void allocate_impossible(struct nxm_allocator *allocator)
{
    struct nxm_block crooked = { .bytes = 64, .align = choose(model.choices, 2) * 3, .class_ = NXM_CLASS_DEVICE };
    struct nxm_block endless = { .bytes = UINT64_MAX - choose(model.choices, 255), .align = 256, .class_ = NXM_CLASS_DEVICE };
    uint64_t asked = fake.allocates;

    EXPECT(nxm_allocator_allocate(allocator, &crooked, NULL, NULL, NULL) == NXM_EINVAL);
    EXPECT(nxm_allocator_allocate(allocator, &endless, NULL, NULL, NULL) == NXM_ENOMEM);
    EXPECT(fake.allocates == asked);
}

static uint64_t random_bytes(void)
{
    return one_in(model.choices, 8) ? 0 : choose(model.choices, 3000);
}

void operation_allocate(void)
{
    struct model_allocator *allocator = pick_open_allocator();

    if (allocator == NULL)
        return;
    if (one_in(model.choices, 20))
        allocate_impossible(allocator->allocator);
    else
        allocate(allocator, NULL, random_bytes());
}

/* The plugin hears the very ranges, or nothing at all. */
void operation_allocate_committed(void)
{
    struct model_allocator *allocator = pick_open_allocator();
    struct nxm_block block = { .align = 16, .class_ = NXM_CLASS_DEVICE };
    uint64_t asked = fake.allocates;
    struct spans spans;

    if (allocator == NULL || model.block_count == MODEL_BLOCKS)
        return;
    block.bytes = choose(model.choices, 6 * FAKE_GRANULE);
    random_spans(&spans, block.bytes);
    committed = &spans;
    if (!allocator->backing) {
        EXPECT(ask(allocator->allocator, &block) == NXM_EUNSUPPORTED && fake.allocates == asked);
    } else if (!spans.fit) {
        EXPECT(ask(allocator->allocator, &block) == NXM_EINVAL && fake.allocates == asked);
    } else {
        allocate(allocator, NULL, block.bytes);
        EXPECT(fake_map.last_range_count == spans.count);
        EXPECT(memcmp(fake_map.last_ranges, spans.ranges, spans.count * sizeof *spans.ranges) == 0);
        EXPECT((fake_map.last_request.committed_ranges == NULL) == (spans.count == 0));
    }
    committed = NULL;
}

void operation_allocate_again(void)
{
    struct model_block *block = pick_block(1u << MODEL_LIVE | 1u << MODEL_QUEUED | 1u << MODEL_GONE);

    struct model_allocator *allocator = pick_open_allocator();

    if (block == NULL || allocator == NULL || block->block.address == 0)
        return;
    if (model.allocators[block->allocator].open && one_in(model.choices, 2))
        allocator = &model.allocators[block->allocator];
    /* There, or right behind it. */
    allocate(allocator, (void *)(uintptr_t)(block->block.address + (one_in(model.choices, 3) ? block->block.bytes : 0)),
             random_bytes());
}
