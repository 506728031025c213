/* Our host against the mechanisms of the test plugin that queue releases. */
#include "core/allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/support/mechanism.h"

static void queued_releases_retire_in_order_and_shut_the_gate(void **state)
{
    struct nxm_block blocks[4];
    struct nxm_gate gate;

    (void)state;
    mechanism_open("lazy");
    for (unsigned i = 0; i < 4; i++) {
        blocks[i] = mechanism_allocate(1000 * (i + 1));
        assert_int_equal(mechanism_enqueue(&blocks[i]).outcome, NXM_RELEASE_QUEUED);
    }
    assert_host_tallies(1, 4, 4);
    assert_int_equal(nxm_allocator_pending(mechanism.allocator), 4);
    assert_int_equal(nxm_module_unload(mechanism.module, &gate), NXM_EBUSY);
    assert_int_equal(gate.plugin.queued_releases, 4);
    assert_int_equal(nxm_allocator_drain(mechanism.allocator, 2), 2);
    assert_host_tallies(1, 2, 2);
    assert_int_equal(nxm_allocator_drain(mechanism.allocator, UINT64_MAX), 2);
    assert_int_equal(mechanism.completions, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(mechanism.completed[i].id, blocks[i].id);
        assert_int_equal(mechanism.outcomes[i].unmapped, blocks[i].bytes);
        assert_int_equal(mechanism.outcomes[i].outcome, NXM_RELEASE_COMPLETE);
    }
}

static void enqueue_many(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct nxm_block block = mechanism_allocate(64);

        mechanism_enqueue(&block);
    }
}

static void a_drop_drains_what_the_plugin_will_retire(void **state)
{
    (void)state;
    mechanism_open("lazy");
    enqueue_many(3);
    mechanism_drop();
    assert_int_equal(mechanism.completions, 3);
    assert_host_tallies(0, 0, 0);
}

static void a_drop_offers_an_unbounded_budget_in_one_pass(void **state)
{
    (void)state;
    mechanism_open("lazy");
    enqueue_many(20);
    mechanism_drop();
    assert_int_equal(testplugin_ask("DrainCalls"), 1);
    assert_int_equal(mechanism.completions, 20);
}

static void a_drop_drains_in_as_many_passes_as_it_takes(void **state)
{
    (void)state;
    mechanism_open("drip");
    enqueue_many(3);
    mechanism_drop();
    assert_int_equal(testplugin_ask("DrainCalls"), 3);
    assert_int_equal(mechanism.completions, 3);
}

static void a_completion_inside_the_call_sees_counters_at_rest(void **state)
{
    struct nxm_block block;

    (void)state;
    mechanism_give_reclaim(0);
    mechanism_open("reentrant-completion");
    block = mechanism_allocate(700);
    assert_int_equal(mechanism_enqueue(&block).outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(mechanism.completions, 1);
    assert_int_equal(mechanism.reclaim_asked, 700);
    assert_int_equal(mechanism.reclaim_tallies.queued, 0);
    assert_int_equal(mechanism.reclaim_tallies.allocations, 0);
    assert_host_tallies(1, 0, 0);
}

static void a_refused_enqueue_leaves_the_block_releasable(void **state)
{
    struct nxm_release release;
    struct nxm_error error;
    struct nxm_block block;

    (void)state;
    mechanism_open("refusing-deferred");
    block = mechanism_allocate(100);
    assert_int_equal(nxm_allocator_enqueue(mechanism.allocator, block.address, block.id, NXM_BLOCK_LIVE, NULL, NULL,
                                           &release, &error), NXM_ECALL);
    assert_int_equal(error.status, NXMEM_STATUS_BUSY);
    assert_host_tallies(1, 1, 0);
    assert_int_equal(mechanism_release(&block).outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(testplugin_ask("TerminalReleases"), 1);
}

static void the_callback_table_outlives_the_plugins_own_release(void **state)
{
    (void)state;
    mechanism_open("complete-on-release");
    enqueue_many(1);
    mechanism_drop();
    assert_int_equal(testplugin_ask("DrainCalls"), 1);
    assert_int_equal(mechanism.completions, 1);
    assert_host_tallies(0, 0, 0);
    assert_int_equal(counters_now().leaked_callback_tables, 0);
}

static void an_abandoned_park_goes_with_its_state(void **state)
{
    (void)state;
    mechanism_open("callback-after-drop");
    assert_int_equal(testplugin_ask("ParkedStateIsSet"), 1);
    mechanism_drop();
    assert_int_equal(testplugin_ask("ParkedStateIsSet"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, mechanism_setup, mechanism_teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(queued_releases_retire_in_order_and_shut_the_gate),
        TEST(a_drop_drains_what_the_plugin_will_retire),
        TEST(a_drop_offers_an_unbounded_budget_in_one_pass),
        TEST(a_drop_drains_in_as_many_passes_as_it_takes),
        TEST(a_completion_inside_the_call_sees_counters_at_rest),
        TEST(a_refused_enqueue_leaves_the_block_releasable),
        TEST(the_callback_table_outlives_the_plugins_own_release),
        TEST(an_abandoned_park_goes_with_its_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
