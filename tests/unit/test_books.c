/* The books of the host against a shadow model: a long random mix of good and bad answers, compared after every step.
 * The seed is fixed, so a failure repeats; the failing step is printed. */
#include "core/allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support/fake.h"
#include "tests/unit/support/host.h"

#define STEPS 20000
#define SLOTS 64

enum where { NOWHERE, LIVE, QUEUED };

/* What should be the case. */
static struct {
    struct nxm_block blocks[SLOTS];
    enum where where[SLOTS];
    uint64_t live, queued, owned, quarantined, completed;
} model;

static uint64_t seed;

static uint32_t roll(uint32_t sides)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(seed >> 33) % sides;
}

static void forget(unsigned slot)
{
    model.owned -= model.blocks[slot].owned;
    model.live--;
    model.where[slot] = NOWHERE;
}

/* --- steps --------------------------------------------------------------------------------------- */

static void step_allocate(unsigned slot)
{
    struct nxm_block block = { .bytes = 1 + roll(5000), .align = UINT64_C(1) << roll(10), .class_ = NXM_CLASS_DEVICE };
    unsigned other = roll(SLOTS), trick = roll(8);
    int result;

    fake.allocate_status = trick == 0 ? 1 + roll(16) : 0;
    fake.allocate_returns_null = trick == 1;
    fake.misalign = trick == 2 && block.align > 1 ? 1 : 0;
    fake.owned = 1 + roll(100000);
    if (trick == 3 && model.where[other] == LIVE && model.blocks[other].address % block.align == 0)
        fake.next_address = (void *)(uintptr_t)model.blocks[other].address;
    else
        trick = trick == 3 ? 4 : trick;
    result = nxm_allocator_allocate(host.allocator, &block, NULL, NULL, NULL);
    if (trick <= 1 || trick == 3 || fake.misalign != 0) {
        assert_int_not_equal(result, NXM_OK);
    } else {
        assert_int_equal(result, NXM_OK);
        model.blocks[slot] = block;
        model.where[slot] = LIVE;
        model.live++;
        model.owned += fake.owned;
    }
    fake.next_address = NULL;
}

/* An answer of any kind; what it should lead to. */
static enum nxm_release_outcome bend_answer(struct fake_answer *answer, bool completion)
{
    switch (roll(completion ? 4 : 6)) {
    case 0:
        *answer = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_QUARANTINED, .residual = 1 + roll(4000) };
        return NXM_RELEASE_QUARANTINED;
    case 1:
        *answer = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_FAILED, .keep = true };
        return NXM_RELEASE_FAILED;
    case 2:
        *answer = (struct fake_answer){ .set = true, .state = 3 + roll(1000), .residual = 1 };
        return NXM_RELEASE_QUARANTINED;
    case 4:
        *answer = (struct fake_answer){ .set = true, .status = NXMEM_STATUS_BUSY };
        return NXM_RELEASE_FAILED;
    case 5:
        *answer = (struct fake_answer){ .set = true, .status = NXMEM_STATUS_INTERNAL_ERROR };
        return NXM_RELEASE_QUARANTINED;
    default:
        answer->set = false;
        return NXM_RELEASE_COMPLETE;
    }
}

static void settle(unsigned slot, enum nxm_release_outcome outcome)
{
    if (outcome == NXM_RELEASE_FAILED) {
        model.where[slot] = LIVE;
        return;
    }
    model.quarantined += outcome == NXM_RELEASE_QUARANTINED;
    forget(slot);
}

static void step_release(unsigned slot)
{
    enum nxm_release_outcome outcome = bend_answer(&fake.release, false);
    struct nxm_release release;
    int result = host_release(&model.blocks[slot], &release);

    fake.release.set = false;
    assert_int_equal(result, outcome == NXM_RELEASE_FAILED ? NXM_ECALL : NXM_OK);
    if (result == NXM_OK)
        assert_int_equal(release.outcome, outcome);
    settle(slot, outcome);
}

static void step_enqueue(unsigned slot)
{
    bool inside = model.queued == 0 && roll(2) == 0; /* the fake completes its oldest: this one */
    enum nxm_release_outcome outcome = inside ? bend_answer(&fake.completion, true) : NXM_RELEASE_QUEUED;
    struct nxm_release release;
    int result;

    fake.complete_in_enqueue = inside;
    fake.enqueue_status = roll(4) == 0 ? NXMEM_STATUS_BUSY : 0;
    result = host_enqueue(&model.blocks[slot], &release);
    if (inside) { /* whatever the plugin answered afterwards */
        assert_int_equal(result, outcome == NXM_RELEASE_FAILED ? NXM_ECALL : NXM_OK);
        model.completed++;
        settle(slot, outcome);
    } else if (fake.enqueue_status == 0) {
        assert_int_equal(result, NXM_OK);
        model.where[slot] = QUEUED;
        model.queued++;
    } else {
        assert_int_equal(result, NXM_ECALL);
    }
    fake.complete_in_enqueue = false;
    fake.completion.set = false;
}

static unsigned slot_of(uint64_t id)
{
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        if (model.where[slot] != NOWHERE && model.blocks[slot].id == id)
            return slot;
    }
    fail_msg("block %llu is unknown", (unsigned long long)id);
    return 0;
}

static void step_drain(void)
{
    enum nxm_release_outcome outcome = bend_answer(&fake.completion, true);
    unsigned calls = host_told.calls;

    nxm_allocator_drain(host.allocator, 1);
    fake.completion.set = false;
    if (host_told.calls == calls)
        return;
    model.queued--;
    model.completed++;
    settle(slot_of(host_told.block.id), outcome);
}

/* A release or completion that must change nothing. */
static void step_nonsense(unsigned slot)
{
    const struct nxm_block *block = &model.blocks[slot];
    struct nxm_release release;

    if (model.where[slot] == NOWHERE && block->id != 0)
        assert_int_equal(host_release(block, &release), NXM_ENOENT);
    if (model.where[slot] == QUEUED)
        assert_int_equal(host_release(block, &release), NXM_EBUSY);
    if (model.where[slot] == LIVE)
        assert_int_not_equal(fake_send(fake.last_callbacks, nxm_allocator_mechanism_id(host.allocator), block->id,
                                       roll(1000), NXMEM_RELEASE_COMPLETE),
                             0);
}

/* --- the comparison -------------------------------------------------------------------------------- */

static void same(int step, const char *what, uint64_t books, uint64_t expected)
{
    if (books != expected)
        fail_msg("step %d, %s: %llu where the model has %llu", step, what, (unsigned long long)books,
                 (unsigned long long)expected);
}

static void compare(int step)
{
    struct nxm_class_totals table;

    nxm_blocks_totals(host.blocks, NXM_CLASS_DEVICE, &table);
    same(step, "allocations", host_tallies().allocations, model.live);
    same(step, "queued of the module", host_tallies().queued, model.queued);
    same(step, "queued of the allocator", host_totals().queued, model.queued);
    same(step, "owned bytes", host_totals().owned_bytes, model.owned);
    same(step, "quarantined", host_totals().quarantined_blocks, model.quarantined);
    same(step, "records", table.live_blocks, model.live);
    same(step, "completions", host_told.calls, model.completed);
}

static void the_books_agree_with_a_shadow_model_after_every_step(void **state)
{
    (void)state;
    seed = 20250101;
    memset(&model, 0, sizeof model);
    for (int step = 0; step < STEPS; step++) {
        unsigned slot = roll(SLOTS);

        if (roll(8) == 0)
            step_nonsense(slot);
        else if (roll(3) == 0)
            step_drain();
        else if (model.where[slot] == NOWHERE)
            step_allocate(slot);
        else if (model.where[slot] == LIVE && roll(2) == 0)
            step_release(slot);
        else if (model.where[slot] == LIVE)
            step_enqueue(slot);
        compare(step);
    }
    fake.enqueue_status = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_books_agree_with_a_shadow_model_after_every_step, host_setup_deferred,
                                        host_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
