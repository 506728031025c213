/* Shared prefixes, and the views of them in blocks: both live as long as they must, in either order. */
#include "core/shared.h"

#include <stddef.h>

#include "judge.h"
#include "model.h"
#include "operations.h"

static struct model_prefix *pick_prefix(void)
{
    struct model_prefix *held[MODEL_PREFIXES];
    unsigned count = 0;

    for (unsigned i = 0; i < MODEL_PREFIXES; i++) {
        if (model.prefixes[i].shared != NULL)
            held[count++] = &model.prefixes[i];
    }
    return count == 0 ? NULL : held[choose(model.choices, count)];
}

static struct model_prefix *free_prefix(void)
{
    for (unsigned i = 0; i < MODEL_PREFIXES; i++) {
        if (model.prefixes[i].shared == NULL)
            return &model.prefixes[i];
    }
    return NULL;
}

/* --- a prefix --------------------------------------------------------------------------------------------------------------- */

static void create(struct model_allocator *allocator, struct model_prefix *prefix)
{
    uint64_t created = fake_map.prefix_creates, bytes = 1 + choose(model.choices, 200);
    bool foreign = fake_map.prefix_other_mechanism != 0 || fake_map.prefix_other_device != 0;
    struct nxm_shared *shared = NULL;
    int result;

    starve();
    result = nxm_shared_new(allocator->allocator, bytes, &shared, NULL);
    feed();
    if (!allocator->sharing) {
        EXPECT(result == NXM_EUNSUPPORTED && fake_map.prefix_creates == created);
    } else if (fake_map.prefix_creates == created) {
        EXPECT(result == NXM_ENOMEM && model.starved);
    } else if (fake_map.prefix_status != 0) {
        EXPECT(result == (fake_map.prefix_status == NXMEM_STATUS_OUT_OF_MEMORY ? NXM_ENOMEM : NXM_ECALL));
    } else if (foreign) {
        EXPECT(result == NXM_ECONTRACT);
        model.prefixes_released++; /* given back as it came */
    } else {
        EXPECT(result == NXM_OK);
        *prefix = (struct model_prefix){ shared, index_of_allocator(allocator), bytes };
        allocator->references++;
    }
}

void operation_share(void)
{
    struct model_allocator *allocator = pick_open_allocator();
    struct model_prefix *prefix = free_prefix();

    if (allocator == NULL || prefix == NULL)
        return;
    fake_map.prefix_status = one_in(model.choices, 8) ? random_status() : 0;
    fake_map.prefix_other_mechanism = one_in(model.choices, 10);
    fake_map.prefix_other_device = one_in(model.choices, 10);
    create(allocator, prefix);
    fake_map.prefix_status = 0;
    fake_map.prefix_other_mechanism = 0;
    fake_map.prefix_other_device = 0;
}

static void unshare(struct model_prefix *prefix)
{
    struct nxm_shared *shared = prefix->shared;
    unsigned allocator = prefix->allocator;

    prefix->shared = NULL;
    model.prefixes_released++;
    allocators_give_back(allocator, shared);
}

void operation_unshare(void)
{
    struct model_prefix *prefix = pick_prefix();

    if (prefix != NULL)
        unshare(prefix);
}

void shared_drop_all(void)
{
    for (unsigned i = 0; i < MODEL_PREFIXES && model_is_sound(); i++) {
        if (model.prefixes[i].shared != NULL)
            unshare(&model.prefixes[i]);
    }
}

/* --- a view ------------------------------------------------------------------------------------------------------------------- */

static struct model_block *released_meanwhile;

/* Inside the plugin's slot, as another thread might: the view goes with its block, whatever is answered. */
static void release_meanwhile(void)
{
    struct model_block *block = released_meanwhile;
    struct nxm_release release;

    EXPECT(nxm_allocator_release(model.allocators[block->allocator].allocator, block->block.address, block->block.id,
                                 NXM_BLOCK_LIVE, &release, NULL) == NXM_OK);
    block->held = false;
    block->where = MODEL_GONE;
}

static void view(const struct model_prefix *prefix, struct model_block *block)
{
    struct model_allocator *of = &model.allocators[block->allocator];
    bool own = prefix->allocator == block->allocator, fits, meanwhile = one_in(model.choices, 6);
    uint64_t offset = random_bytes_near(block->block.bytes), commits = fake_map.prefix_commits;
    uint64_t bytes = block->block.bytes + one_in(model.choices, 10);
    struct nxm_shared_commit commit;
    int result;

    fits = bytes == block->block.bytes && offset <= bytes && prefix->bytes <= bytes - offset;
    fake_map.prefix_commit_status = one_in(model.choices, 6) ? random_status() : 0;
    fake_map.view_owned = one_in(model.choices, 8) ? UINT64_MAX : choose(model.choices, 3) * FAKE_GRANULE;
    fake_map.view_mapped = choose(model.choices, 3) * FAKE_GRANULE;
    released_meanwhile = block;
    fake_map.in_prefix_commit = meanwhile ? release_meanwhile : NULL;
    starve();
    result = nxm_shared_commit(of->allocator, prefix->shared, block->block.address, bytes, offset, &commit, NULL);
    feed();
    fake_map.in_prefix_commit = NULL;
    if (!own || !fits) {
        EXPECT((result == NXM_EINVAL || (!own && result == NXM_EUNSUPPORTED)) && fake_map.prefix_commits == commits);
    } else if (fake_map.prefix_commits == commits) {
        EXPECT(result == NXM_ENOMEM && model.starved);
    } else if (fake_map.prefix_commit_status != 0) {
        EXPECT(result == (fake_map.prefix_commit_status == NXMEM_STATUS_OUT_OF_MEMORY ? NXM_ENOMEM : NXM_ECALL));
    } else {
        EXPECT(result == NXM_OK && commit.owned == judge_cost(fake_map.view_owned, prefix->bytes) && commit.mapped == fake_map.view_mapped);
        block->views++; /* counted for a block that is live only */
        block->view_owned += commit.owned;
        block->view_mapped += commit.mapped;
    }
    fake_map.prefix_commit_status = 0;
}

void operation_view(void)
{
    struct model_prefix *prefix = pick_prefix();
    struct model_block *block = pick_block(1u << MODEL_LIVE);

    if (prefix != NULL && block != NULL)
        view(prefix, block);
}
