/* Virtual backing: ranges of a block that are committed and decommitted while its address stays. The model keeps a bit for each
 * granule; the host keeps none, so what it tells must be what the plugin said, bounded. */
#include "core/backing.h"

#include <stddef.h>

#include "model.h"
#include "operations.h"

/* --- spans ------------------------------------------------------------------------------------------------------------------ */

uint64_t bytes_of_granules(uint64_t bits)
{
    uint64_t bytes = 0;

    for (; bits != 0; bits >>= 1)
        bytes += (bits & 1) * FAKE_GRANULE;
    return bytes;
}

/* Inside the block, or (one in eight) out of it, by a byte or by so much that its end wraps. */
static bool random_span(NxmemByteRange *ret_range, uint64_t bytes)
{
    struct choices *choices = model.choices;

    ret_range->offset = choose(choices, bytes + 1);
    ret_range->bytes = choose(choices, bytes - ret_range->offset + 1);
    if (!one_in(choices, 8))
        return true;
    if (one_in(choices, 2))
        ret_range->bytes = bytes - ret_range->offset + 1;
    else if (one_in(choices, 2))
        ret_range->bytes = UINT64_MAX - choose(choices, ret_range->offset + 1);
    else
        *ret_range = (NxmemByteRange){ bytes + 1, 0 };
    return false;
}

static uint64_t granules_of(const NxmemByteRange *range)
{
    uint64_t bits = 0;

    for (uint64_t i = 0; i < 64; i++) {
        uint64_t first = i * FAKE_GRANULE, last = first + FAKE_GRANULE - 1;

        if (range->bytes != 0 && range->offset <= last && range->offset + range->bytes > first)
            bits |= UINT64_C(1) << i;
    }
    return bits;
}

void random_spans(struct spans *ret_spans, uint64_t bytes)
{
    *ret_spans = (struct spans){ .count = choose(model.choices, SPANS + 1), .fit = true };
    for (uint64_t i = 0; i < ret_spans->count; i++) {
        if (random_span(&ret_spans->ranges[i], bytes))
            ret_spans->bits |= granules_of(&ret_spans->ranges[i]);
        else
            ret_spans->fit = false;
    }
}

/* --- a block and its shape -------------------------------------------------------------------------------------------------- */

/* One that its address still means: live or on its way out. */
static struct model_block *pick_named(void)
{
    struct model_block *block = pick_block(1u << MODEL_LIVE | 1u << MODEL_QUEUED);

    return block == NULL || block->replaced || !model.allocators[block->allocator].open ? NULL : block;
}

/* What the host must say before it asks the plugin; NXM_OK: it asks. */
static int due_before(const struct model_block *block, const struct nxm_shape *shape, bool fits)
{
    if (!model.allocators[block->allocator].backing)
        return NXM_EUNSUPPORTED;
    if (shape->bytes != block->block.bytes || shape->align != block->block.align)
        return NXM_EINVAL;
    if (block->where != MODEL_LIVE)
        return NXM_EBUSY;
    return fits ? NXM_OK : NXM_EINVAL;
}

/* What a slot's status must come to. A block of plain allocation, or one that a failed completion revived, is none of the backed. */
static int due_after(const struct model_block *block, uint32_t status, bool may_be_memory)
{
    if (status == NXMEM_STATUS_OUT_OF_MEMORY && may_be_memory)
        return NXM_ENOMEM;
    return status != 0 || !fake_map_backs(block->block.id) ? NXM_ECALL : NXM_OK;
}

static struct nxm_shape random_shape(const struct model_block *block)
{
    struct nxm_shape shape = { block->block.bytes, block->block.align };

    if (one_in(model.choices, 12))
        shape.bytes++;
    else if (one_in(model.choices, 12))
        shape.align *= 2;
    return shape;
}

static uint32_t random_failure(void)
{
    return one_in(model.choices, 5) ? random_status() : 0;
}

/* --- operations ------------------------------------------------------------------------------------------------------------- */

void operation_commit(void)
{
    struct model_block *block = pick_named();
    struct nxm_shape shape;
    NxmemByteRange range;
    uint64_t commits = fake_map.commits;
    int due, result;
    bool fits;

    if (block == NULL)
        return;
    shape = random_shape(block);
    fits = random_span(&range, block->block.bytes);
    fake_map.commit_status = random_failure();
    result = nxm_backing_commit(model.allocators[block->allocator].allocator, block->block.address, &shape, &range, NULL);
    due = due_before(block, &shape, fits);
    EXPECT(fake_map.commits == commits + (due == NXM_OK));
    if (due == NXM_OK) {
        due = due_after(block, fake_map.commit_status, true);
        EXPECT(fake_map.last_range.allocation.allocation_id == block->block.id);
        EXPECT(fake_map.last_range.range.offset == range.offset && fake_map.last_range.range.bytes == range.bytes);
    }
    EXPECT(result == due);
    if (due == NXM_OK)
        block->granules |= granules_of(&range);
    fake_map.commit_status = 0;
}

void operation_decommit(void)
{
    struct model_block *block = pick_named();
    struct nxm_shape shape;
    NxmemByteRange range;
    uint64_t decommits = fake_map.decommits, unmapped = 55, went;
    int due, result;
    bool fits;

    if (block == NULL)
        return;
    shape = random_shape(block);
    fits = random_span(&range, block->block.bytes);
    fake_map.decommit_status = random_failure();
    fake_map.unmapped_more = one_in(model.choices, 4) ? random_bytes_near(block->block.bytes) : 0;
    result = nxm_backing_decommit(model.allocators[block->allocator].allocator, block->block.address, &shape, &range, &unmapped,
                                  NULL);
    due = due_before(block, &shape, fits);
    EXPECT(fake_map.decommits == decommits + (due == NXM_OK));
    if (due == NXM_OK)
        due = due_after(block, fake_map.decommit_status, false);
    EXPECT(result == due);
    if (due == NXM_OK) {
        went = bytes_of_granules(block->granules & granules_of(&range)) + fake_map.unmapped_more;
        EXPECT(unmapped == (went < block->block.bytes ? went : block->block.bytes));
        block->granules &= ~granules_of(&range);
    } else {
        EXPECT(unmapped == 55);
    }
    fake_map.decommit_status = 0;
    fake_map.unmapped_more = 0;
}

/* It has no way to tell of a failure: 0 (13.8). */
void operation_committed(void)
{
    struct model_block *block = pick_named();
    struct nxm_shape shape;
    uint64_t calls = fake_map.committed_calls, committed;
    bool asked, answered;

    if (block == NULL)
        return;
    shape = random_shape(block);
    fake_map.committed_status = random_failure();
    committed = nxm_backing_committed(model.allocators[block->allocator].allocator, block->block.address, &shape);
    asked = due_before(block, &shape, true) == NXM_OK;
    answered = asked && fake_map.committed_status == 0 && fake_map_backs(block->block.id);
    EXPECT(fake_map.committed_calls == calls + asked);
    EXPECT(committed == (answered ? bytes_of_granules(block->granules) : 0));
    fake_map.committed_status = 0;
}

static void cost_of_ranges(const struct model_block *block, const struct spans *spans)
{
    struct nxm_shape shape = random_shape(block);
    int due = due_before(block, &shape, spans->fit), result;
    uint64_t costs = fake_map.costs, mapped = 55;

    starve();
    result = nxm_backing_cost_of_ranges(model.allocators[block->allocator].allocator, block->block.address, &shape,
                                        spans->ranges, spans->count, &mapped, NULL);
    feed();
    if (due == NXM_OK && result == NXM_ENOMEM) {
        EXPECT(model.starved && fake_map.costs == costs);
        return;
    }
    EXPECT(fake_map.costs == costs + (due == NXM_OK && spans->count != 0));
    if (due == NXM_OK && spans->count != 0 && fake_map.cost_status != 0)
        due = NXM_ECALL;
    EXPECT(result == due && mapped == (due == NXM_OK ? bytes_of_granules(spans->bits) : 55));
}

/* Of a block that does not exist. */
static void cost_of_block(const struct model_allocator *allocator, uint64_t bytes, const struct spans *spans)
{
    struct nxm_shape shape = { bytes, one_in(model.choices, 8) ? 3 : 64 };
    uint64_t costs = fake_map.costs, mapped = 55;
    int due = !allocator->backing ? NXM_EUNSUPPORTED : shape.align == 3 || !spans->fit ? NXM_EINVAL : NXM_OK, result;

    result = nxm_backing_cost_of_block(allocator->allocator, &shape, spans->ranges, spans->count, &mapped, NULL);
    EXPECT(fake_map.costs == costs + (due == NXM_OK));
    if (due == NXM_OK)
        EXPECT(fake_map.last_request.allocation_id == 0 && fake_map.last_range_count == spans->count);
    if (due == NXM_OK && fake_map.cost_status != 0)
        due = NXM_ECALL;
    EXPECT(result == due && mapped == (due == NXM_OK ? bytes_of_granules(spans->bits) : 55));
}

void operation_cost(void)
{
    struct model_block *block = pick_named();
    struct model_allocator *allocator = pick_open_allocator();
    uint64_t bytes = block != NULL ? block->block.bytes : choose(model.choices, 6 * FAKE_GRANULE);
    struct spans spans;

    random_spans(&spans, bytes);
    fake_map.cost_status = random_failure();
    if (block != NULL && one_in(model.choices, 2))
        cost_of_ranges(block, &spans);
    else if (allocator != NULL)
        cost_of_block(allocator, bytes, &spans);
    fake_map.cost_status = 0;
}
