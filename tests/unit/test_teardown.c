/* core/allocator.c, deferred.c: the order of a teardown, and the gate while something is open. */
#include "core/allocator.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/support/fake.h"
#include "tests/unit/support/host.h"

/* --- teardown ------------------------------------------------------------------------------------ */

static void teardown_pushes_back_what_is_live_or_waiting(void **state)
{
    struct nxm_block first = host_allocate(64), second = host_allocate(64);

    (void)state;
    assert_int_equal(nxm_blocks_claim(host.blocks, second.address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL), NXM_OK);
    host_close();
    assert_int_equal(fake.structured, 2);
    assert_int_equal(fake.live, 0);
    assert_int_equal(host_state(first.address), 0);
    assert_int_equal(host_state(second.address), 0);
    assert_int_equal(host_tallies().allocations, 0);
    assert_int_equal(fake.releases, 1);
}

static void teardown_asks_once_whatever_the_plugin_answers(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    fake.release = (struct fake_answer){ .set = true, .status = NXMEM_STATUS_BUSY };
    host_close();
    assert_int_equal(fake.structured, 1);
    assert_int_equal(host_state(block.address), 0);
}

/* While the allocator lives on. */
static void a_push_back_drains_what_is_queued_and_asks_once(void **state)
{
    struct nxm_block queued = host_allocate(64), live = host_allocate(64);

    (void)state;
    host_enqueued(&queued);
    fake.release = (struct fake_answer){ .set = true, .status = NXMEM_STATUS_BUSY };
    nxm_allocator_push_back(host.allocator);
    assert_int_equal(host_state(queued.address), 0);
    assert_int_equal(host_state(live.address), 0);
    assert_int_equal(fake.structured, 1);
    host_assert_counts(0, 0);
    fake.release.set = false;
}

static void *allocate_one(void *ret_block)
{
    *(struct nxm_block *)ret_block = host_allocate(64);
    return NULL;
}

static void a_push_back_takes_the_blocks_of_every_thread(void **state)
{
    struct nxm_block mine = host_allocate(64), theirs;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, allocate_one, &theirs), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(theirs.id / NXM_IDS_ROW > mine.id / NXM_IDS_ROW);
    nxm_allocator_push_back(host.allocator);
    assert_int_equal(host_state(mine.address), 0);
    assert_int_equal(host_state(theirs.address), 0);
}

/* As if another thread had allocated it while the walk was under way. */
static void a_push_back_leaves_what_comes_meanwhile(void **state)
{
    struct nxm_block newer = { .address = 0x7000, .bytes = 64, .align = 64, .id = nxm_ids_bound() + NXM_IDS_ROW,
                               .allocator = host.allocator, .state = NXM_BLOCK_LIVE };

    (void)state;
    assert_int_equal(nxm_blocks_insert(host.blocks, &newer), NXM_OK);
    nxm_allocator_push_back(host.allocator);
    assert_int_equal(fake.structured, 0);
    assert_int_equal(host_state(newer.address), NXM_BLOCK_LIVE);
    assert_int_equal(nxm_blocks_remove(host.blocks, newer.address, newer.id), NXM_OK);
}

static void teardown_waits_for_the_last_reference(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    nxm_allocator_ref(host.allocator);
    nxm_allocator_unref(host.allocator);
    assert_int_equal(fake.releases, 0);
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE);
    nxm_allocator_unref(NULL);
}

static void teardown_of_many_blocks_forgets_none(void **state)
{
    (void)state;
    for (int i = 0; i < 3000; i++)
        host_allocate(64);
    host_close();
    assert_int_equal(fake.structured, 3000);
    assert_int_equal(fake.live, 0);
}

static void an_open_allocator_shuts_the_gate_and_holds_its_factory(void **state)
{
    struct nxm_gate gate;

    (void)state;
    assert_int_equal(nxm_module_unload(host.module, &gate), NXM_EBUSY);
    assert_int_equal(gate.reason, NXM_GATE_HOST);
    assert_int_equal(gate.host.allocators, 1);
    assert_int_equal(gate.plugin.live_allocators, 1);
    assert_true(gate.handle_kept);
    assert_int_equal(fake.factory_releases, 0);
}

static void a_live_block_shuts_the_gate(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;
    struct nxm_gate gate;

    (void)state;
    assert_int_equal(nxm_module_unload(host.module, &gate), NXM_EBUSY);
    assert_int_equal(gate.host.allocations, 1);
    assert_int_equal(gate.plugin.live_allocations, 1);
    assert_int_equal(host_release(&block, &release), NXM_OK);
}

/* --- with releases queued ------------------------------------------------------------------------ */

static void queue(int count)
{
    for (int i = 0; i < count; i++) {
        struct nxm_block block = host_allocate(64);

        host_enqueued(&block);
    }
}

static uint64_t leaked(void)
{
    struct nxm_module_counters counters;

    nxm_module_counters(&counters);
    return counters.leaked_callback_tables;
}

static void teardown_offers_an_unbounded_budget(void **state)
{
    uint64_t before = leaked();

    (void)state;
    queue(20);
    host_close();
    assert_int_equal(fake.drains, 1);
    assert_int_equal(fake.last_drain_budget, UINT64_MAX);
    assert_int_equal(host_told.calls, 20);
    assert_int_equal(leaked(), before);
}

static void teardown_drains_in_as_many_passes_as_the_plugin_needs(void **state)
{
    uint64_t before = leaked();

    (void)state;
    queue(16);
    fake.drain_budget = 1;
    host_close();
    assert_int_equal(fake.drains, 16);
    assert_int_equal(leaked(), before);
}

static void teardown_with_nothing_queued_does_not_drain(void **state)
{
    (void)state;
    host_allocate(64);
    host_close();
    assert_int_equal(fake.drains, 0);
}

static void the_table_outlives_the_plugins_own_release(void **state)
{
    uint64_t before = leaked();

    (void)state;
    queue(1);
    fake.drain_nothing = true;
    fake.complete_in_release = true;
    host_close();
    assert_int_equal(fake.drains, 1);
    assert_int_equal(fake.last_callback_status, 0);
    assert_int_equal(host_told.calls, 1);
    assert_int_equal(leaked(), before);
}

static void teardown_leaves_queued_blocks_to_their_completion(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    host_enqueued(&block);
    fake.drain_nothing = true;
    fake.complete_in_release = true;
    host_close();
    assert_int_equal(fake.structured, 0); /* never pushed back beside its queued release */
    assert_int_equal(host_state(block.address), 0);
}

static void a_release_that_fails_inside_the_final_one_leaves_nothing_live(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    host_enqueued(&block);
    fake.drain_nothing = true;
    fake.complete_in_release = true;
    fake.completion = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_FAILED, .keep = true };
    host_close();
    assert_int_equal(fake.structured, 0);
    assert_int_equal(host_told.release.outcome, NXM_RELEASE_QUARANTINED); /* nobody is left to release it */
    assert_int_equal(host_state(block.address), 0);
    assert_int_equal(host_tallies().allocations, 0);
}

static void a_release_that_fails_while_draining_is_pushed_back(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    host_enqueued(&block);
    fake.completion = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_FAILED, .keep = true };
    host_close();
    assert_int_equal(host_told.release.outcome, NXM_RELEASE_FAILED);
    assert_int_equal(fake.structured, 1);
    assert_int_equal(host_state(block.address), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, host_setup_deferred, host_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(teardown_pushes_back_what_is_live_or_waiting),
        TEST(teardown_asks_once_whatever_the_plugin_answers),
        TEST(a_push_back_drains_what_is_queued_and_asks_once),
        TEST(a_push_back_takes_the_blocks_of_every_thread),
        TEST(a_push_back_leaves_what_comes_meanwhile),
        TEST(teardown_waits_for_the_last_reference),
        TEST(teardown_of_many_blocks_forgets_none),
        TEST(an_open_allocator_shuts_the_gate_and_holds_its_factory),
        TEST(a_live_block_shuts_the_gate),
        TEST(teardown_offers_an_unbounded_budget),
        TEST(teardown_drains_in_as_many_passes_as_the_plugin_needs),
        TEST(teardown_with_nothing_queued_does_not_drain),
        TEST(the_table_outlives_the_plugins_own_release),
        TEST(teardown_leaves_queued_blocks_to_their_completion),
        TEST(a_release_that_fails_inside_the_final_one_leaves_nothing_live),
        TEST(a_release_that_fails_while_draining_is_pushed_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
