#include "model.h"

#include <stdio.h>
#include <string.h>

#include "judge.h"

struct model model;

/* Modules pinned by earlier sequences of this process keep the plugin's code mapped. */
static unsigned pinned_before;

void model_fault(const char *file, int line, const char *condition)
{
    const char *name = strrchr(file, '/');

    if (model_is_sound())
        snprintf(model.fault, sizeof model.fault, "step %u, %s: %s:%d: not so: %s", model.step, model.operation,
                 name == NULL ? file : name + 1, line, condition);
}

bool model_is_sound(void)
{
    return model.fault[0] == '\0';
}

void model_begin(struct choices *choices)
{
    for (unsigned i = 0; i < model.module_count; i++)
        pinned_before += model.modules[i].pinned;
    memset(&model, 0, sizeof model);
    model.choices = choices;
    model.operation = "begin";
    nxm_module_counters(&model.counters);
}

/* --- counts --------------------------------------------------------------------------------------------------------- */

struct nxm_tallies model_tallies(unsigned module)
{
    struct nxm_tallies tallies = { 0 };

    for (unsigned i = 0; i < model.allocator_count; i++)
        tallies.allocators += model.allocators[i].open && model.allocators[i].module == module;
    for (unsigned i = 0; i < model.block_count; i++) {
        const struct model_block *block = &model.blocks[i];

        if (model.allocators[block->allocator].module != module)
            continue;
        tallies.allocations += block->where == MODEL_LIVE || block->where == MODEL_QUEUED;
        tallies.queued += block->where == MODEL_QUEUED;
    }
    return tallies;
}

uint64_t model_plugin_total(void)
{
    uint64_t total = fake_map.views + fake_map.handles;

    for (unsigned i = 0; i < model.allocator_count; i++)
        total += model.allocators[i].open;
    for (unsigned i = 0; i < model.block_count; i++)
        total += (uint64_t)model.blocks[i].held + model.blocks[i].queued;
    return total;
}

uint64_t model_outstanding(unsigned allocator)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < model.block_count; i++)
        count += model.blocks[i].allocator == allocator && model.blocks[i].where == MODEL_QUEUED;
    return count;
}

uint64_t model_plugin_queued(unsigned allocator)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < model.block_count; i++)
        count += model.blocks[i].allocator == allocator && model.blocks[i].queued;
    return count;
}

unsigned model_handles(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < model.module_count; i++)
        count += model.modules[i].handle;
    return count;
}

unsigned model_mapped(void)
{
    unsigned count = pinned_before;

    for (unsigned i = 0; i < model.module_count; i++)
        count += model.modules[i].handle || model.modules[i].pinned;
    return count;
}

/* --- blocks --------------------------------------------------------------------------------------------------------- */

struct model_block *model_block_by_id(uint64_t id)
{
    for (unsigned i = 0; i < model.block_count; i++) {
        if (model.blocks[i].block.id == id)
            return &model.blocks[i];
    }
    return NULL;
}

static uint64_t last_of(uint64_t address, uint64_t bytes)
{
    return bytes == 0 ? address : address + bytes - 1;
}

bool model_must_refuse(unsigned allocator, uint64_t address, uint64_t bytes)
{
    for (unsigned i = 0; i < model.block_count; i++) {
        const struct model_block *block = &model.blocks[i];

        if (block->where == MODEL_LIVE && block->block.address == address)
            return true;
        if (block->barred && block->allocator == allocator && address <= last_of(block->block.address, block->block.bytes) &&
            block->block.address <= last_of(address, bytes))
            return true;
    }
    return false;
}

bool model_may_refuse(unsigned allocator, uint64_t address, uint64_t bytes)
{
    const struct model_allocator *of = &model.allocators[allocator];

    return model_must_refuse(allocator, address, bytes) ||
           (address <= of->hull_last && of->hull_first <= last_of(address, bytes));
}

struct model_block *model_add_block(unsigned allocator, const struct nxm_block *block, enum model_where where)
{
    struct model_block *added = &model.blocks[model.block_count];

    for (unsigned i = 0; where == MODEL_LIVE && i < model.block_count; i++) {
        if (model.blocks[i].where == MODEL_QUEUED && model.blocks[i].block.address == block->address)
            model.blocks[i].replaced = true;
    }
    *added = (struct model_block){ .block = *block, .allocator = allocator, .where = where, .held = true };
    model.block_count++;
    return added;
}

/* --- answers -------------------------------------------------------------------------------------------------------- */

static NxmemReleaseOutcome outcome_as_set(const struct fake_answer *answer, const struct model_block *block)
{
    NxmemReleaseOutcome outcome = { .state = NXMEM_RELEASE_COMPLETE, .unmapped_bytes = block->block.bytes };

    if (!answer->set)
        return outcome;
    outcome.struct_size = answer->struct_size;
    outcome.state = answer->state;
    outcome.unmapped_bytes = answer->unmapped;
    outcome.residual_owned_bytes = answer->residual;
    outcome.failure.code = answer->state == NXMEM_RELEASE_COMPLETE ? 0 : NXMEM_STATUS_BUSY;
    return outcome;
}

struct nxm_release model_terminal_answer(const struct model_block *block)
{
    const struct fake_answer *answer = &fake.release;

    if (answer->set && answer->status != 0)
        return judge_status(answer->status, &block->block);
    if (!model.allocators[block->allocator].structured)
        return judge_deallocate(answer->set ? answer->unmapped : block->block.bytes, &block->block);
    return judge_outcome(outcome_as_set(answer, block), &block->block);
}

void model_terminal_effect(struct model_block *block)
{
    block->held = fake.release.set && (fake.release.status != 0 || fake.release.keep);
}

/* What failed is live again, unless nobody is left to release it, or something else lives where it was. */
struct nxm_release model_completion_answer(const struct model_block *block)
{
    struct nxm_release release = judge_outcome(outcome_as_set(&fake.completion, block), &block->block);
    const struct model_allocator *allocator = &model.allocators[block->allocator];

    if (release.outcome == NXM_RELEASE_FAILED && (allocator->going || !allocator->open || block->replaced))
        return judge_abandoned(&release, &block->block);
    return release;
}

void model_completion_effect(struct model_block *block)
{
    block->queued = false;
    block->held = fake.completion.set && fake.completion.keep;
}

static void keep_back(struct model_block *block, const struct nxm_release *release)
{
    struct model_allocator *allocator = &model.allocators[block->allocator];
    uint64_t first = block->block.address, last = last_of(first, block->block.bytes);

    block->barred = true;
    allocator->quarantined_blocks++;
    allocator->quarantined_bytes += release->retained;
    if (!model.starved)
        return;
    allocator->hull_first = first < allocator->hull_first ? first : allocator->hull_first;
    allocator->hull_last = last > allocator->hull_last ? last : allocator->hull_last;
}

void model_retire_views(struct model_block *block)
{
    block->views = block->view_owned = block->view_mapped = 0;
}

void model_settle(struct model_block *block, const struct nxm_release *release)
{
    block->where = release->outcome == NXM_RELEASE_FAILED ? MODEL_LIVE : MODEL_GONE;
    if (release->outcome == NXM_RELEASE_QUARANTINED)
        keep_back(block, release);
}

void model_forget_dead_state(unsigned allocator)
{
    if (model.allocators[allocator].open || model_plugin_queued(allocator) != 0)
        return;
    model.allocators[allocator].state = NULL;
    for (unsigned i = 0; i < model.block_count; i++) {
        if (model.blocks[i].allocator != allocator || !model.blocks[i].held)
            continue;
        model.blocks[i].held = false;
        fake_map_block_left(model.blocks[i].block.id); /* its views go with it */
    }
}
