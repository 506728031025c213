/* Callback tables that teardown has to leak, and late completions that reclaim them. These tests pin modules for
 * ever and count in the process: a program of its own, and the order of its tests is fixed. */
#include "core/allocator.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support/fake.h"
#include "tests/unit/support/host.h"

static atomic_uint told;

static void completed(void *owner, const struct nxm_block *block, const struct nxm_release *release)
{
    (void)owner;
    (void)block;
    if (release->outcome == NXM_RELEASE_COMPLETE)
        atomic_fetch_add(&told, 1);
}

static int setup(void **state)
{
    int result = host_setup(state);

    atomic_store(&told, 0);
    fake.extra_flags = NXMEM_CAPABILITY_DEFERRED_RELEASE;
    fake.drain_nothing = true;
    host.options.completed = completed;
    if (result == 0)
        host_open();
    return result;
}

/* The module stays for ever; only what is ours goes. */
static int teardown(void **state)
{
    (void)state;
    nxm_blocks_free(host.blocks);
    fake_reset();
    return 0;
}

static struct nxm_module_counters counters(void)
{
    struct nxm_module_counters now;

    nxm_module_counters(&now);
    return now;
}

static struct nxm_block queue_one(void)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;

    assert_int_equal(host_enqueue(&block, &release), NXM_OK);
    return block;
}

static void *complete_late(void *argument)
{
    uint32_t *status = argument;

    return fake_complete_one(fake.last_state, status) ? NULL : (void *)1;
}

static void a_queued_release_leaks_one_table_and_pins_the_module(void **state)
{
    struct nxm_module_counters before = counters();
    struct nxm_gate gate;
    struct nxm_block block = queue_one();
    uint32_t status;

    (void)state;
    host_close();
    assert_int_equal(fake.drains, 1);
    assert_int_equal(fake.releases, 1);
    assert_int_equal(counters().leaked_callback_tables, before.leaked_callback_tables + 1);
    assert_int_equal(host_state(block.address), NXM_BLOCK_RELEASING); /* its completion's business */
    assert_int_equal(nxm_module_unload(host.module, &gate), NXM_EBUSY);
    assert_int_equal(gate.reason, NXM_GATE_HOST);
    assert_int_equal(gate.host.allocators, 0);
    assert_int_equal(gate.host.allocations, 1);
    assert_int_equal(gate.host.queued, 1);
    assert_int_equal(gate.plugin.queued_releases, 1);
    nxm_module_drop(host.module);
    assert_int_equal(counters().forced_module_leaks, before.forced_module_leaks + 1);
    assert_int_equal(counters().modules_unmapped, before.modules_unmapped);
    assert_int_equal(fake.unmapped, 0);
    assert_int_equal(fake.factory_releases, 1);               /* released all the same */
    assert_true(fake_complete_one(fake.last_state, &status)); /* so that the fake keeps nothing either */
}

static void a_late_completion_from_another_thread_reclaims_the_table_and_not_the_module(void **state)
{
    struct nxm_module_counters before = counters();
    struct nxm_block block = queue_one();
    struct nxm_gate gate;
    uint32_t status = 99;
    pthread_t thread;
    void *failed;

    (void)state;
    host_close();
    assert_int_equal(pthread_create(&thread, NULL, complete_late, &status), 0);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(status, 0);
    assert_int_equal(atomic_load(&told), 1);
    assert_int_equal(host_state(block.address), 0);
    assert_int_equal(counters().leaked_callback_tables, before.leaked_callback_tables + 1);
    assert_int_equal(counters().reclaimed_callback_tables, before.reclaimed_callback_tables + 1);
    /* All tallies are zero, yet the code that completed may still be running: unloading is refused for good. */
    assert_int_equal(nxm_module_unload(host.module, &gate), NXM_EBUSY);
    assert_int_equal(gate.reason, NXM_GATE_REFERENCED);
    assert_false(gate.handle_kept);
    assert_int_equal(gate.host.queued + gate.host.allocations + gate.host.allocators, 0);
    assert_int_equal(fake.factory_releases, 1);
    assert_int_equal(fake.unmapped, 0);
    assert_int_equal(counters().modules_unmapped, before.modules_unmapped);
    assert_int_equal(counters().forced_module_leaks, before.forced_module_leaks);
}

static void a_late_completion_that_failed_leaves_nothing_live(void **state)
{
    struct nxm_module_counters before = counters();
    struct nxm_block block = queue_one();
    uint32_t status = 99;

    (void)state;
    host_close();
    fake.completion = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_FAILED, .keep = true };
    assert_true(fake_complete_one(fake.last_state, &status));
    assert_int_equal(status, 0);
    assert_int_equal(host_state(block.address), 0); /* its record would name an allocator that is gone */
    assert_int_equal(host_tallies().allocations, 0);
    assert_int_equal(counters().reclaimed_callback_tables, before.reclaimed_callback_tables + 1);
    nxm_module_drop(host.module);
}

static void only_the_last_of_several_late_completions_reclaims(void **state)
{
    struct nxm_module_counters before = counters();
    uint32_t status;

    (void)state;
    for (int i = 0; i < 3; i++)
        queue_one();
    host_close();
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(counters().reclaimed_callback_tables, before.reclaimed_callback_tables);
        assert_true(fake_complete_one(fake.last_state, &status));
        assert_int_equal(status, 0);
    }
    assert_int_equal(counters().reclaimed_callback_tables, before.reclaimed_callback_tables + 1);
    nxm_module_drop(host.module);
}

static void a_duplicate_cannot_free_a_leaked_table_early(void **state)
{
    struct nxm_module_counters before = counters();
    uint64_t mechanism = nxm_allocator_mechanism_id(host.allocator);
    struct nxm_block first = queue_one();
    uint64_t ticket = fake_last_ticket();
    uint32_t status;

    (void)state;
    queue_one();
    host_close();
    assert_true(fake_complete_one(fake.last_state, &status));
    assert_int_equal(fake_send(fake.last_callbacks, mechanism, first.id, ticket, NXMEM_RELEASE_COMPLETE),
                     NXMEM_STATUS_UNKNOWN_ALLOCATION);
    assert_int_equal(counters().reclaimed_callback_tables, before.reclaimed_callback_tables);
    assert_true(fake_complete_one(fake.last_state, &status)); /* the table is still there for it */
    assert_int_equal(status, 0);
    assert_int_equal(counters().reclaimed_callback_tables, before.reclaimed_callback_tables + 1);
    nxm_module_drop(host.module);
}

static void a_stuck_release_of_one_allocator_does_not_pin_the_table_of_another(void **state)
{
    struct nxm_module_counters before = counters();
    struct nxm_allocator *stuck = host.allocator;
    struct fake_state *stuck_state = fake.last_state;
    uint32_t status;

    (void)state;
    queue_one();
    host_open(); /* a second one, idle */
    host_close();
    assert_int_equal(counters().leaked_callback_tables, before.leaked_callback_tables);
    nxm_allocator_unref(stuck);
    assert_int_equal(counters().leaked_callback_tables, before.leaked_callback_tables + 1);
    assert_true(fake_complete_one(stuck_state, &status));
    nxm_module_drop(host.module);
}

static void teardown_does_not_drain_for_ever(void **state)
{
    struct nxm_module_counters before = counters();
    uint32_t status;

    (void)state;
    fake.drain_nothing = false;
    fake.drain_budget = 1;
    for (int i = 0; i < 17; i++)
        queue_one();
    host_close();
    assert_int_equal(fake.drains, 16);
    assert_int_equal(counters().leaked_callback_tables, before.leaked_callback_tables + 1);
    assert_true(fake_complete_one(fake.last_state, &status));
    nxm_module_drop(host.module);
}

static void teardown_stops_at_the_first_drain_that_fails(void **state)
{
    uint32_t status;

    (void)state;
    fake.drain_nothing = false;
    fake.drain_budget = 1;
    fake.drain_status = NXMEM_STATUS_CALLBACK_FAILED;
    queue_one();
    queue_one();
    host_close();
    assert_int_equal(fake.drains, 1);
    assert_true(fake_complete_one(fake.last_state, &status));
    nxm_module_drop(host.module);
}

static void the_id_of_a_leaked_table_stays_taken(void **state)
{
    struct fake_state *leaked;
    uint32_t status;

    (void)state;
    host_close();
    fake.fixed_mechanism_id = true;
    host_open();
    queue_one();
    leaked = fake.last_state;
    host_close();
    assert_int_equal(host_try_open(NULL), NXM_ECONTRACT);
    assert_true(fake_complete_one(leaked, &status));
    host_open(); /* reclaimed, so free */
    host_close();
    nxm_module_drop(host.module);
}

static void a_completion_racing_the_teardown_leaves_exactly_one_to_free_the_table(void **state)
{
    struct nxm_module_counters before = counters();
    uint64_t leaked;

    (void)state;
    host_close();
    for (int round = 0; round < 300; round++) {
        uint32_t status = 99;
        pthread_t thread;
        void *failed;

        host_open();
        queue_one();
        assert_int_equal(pthread_create(&thread, NULL, complete_late, &status), 0);
        if (round % 2 == 0)
            sched_yield();
        host_close();
        pthread_join(thread, &failed);
        assert_null(failed);
        assert_int_equal(status, 0);
    }
    leaked = counters().leaked_callback_tables - before.leaked_callback_tables;
    assert_int_equal(counters().reclaimed_callback_tables - before.reclaimed_callback_tables, leaked);
    assert_int_equal(host_tallies().allocators + host_tallies().allocations + host_tallies().queued, 0);
    assert_int_equal(atomic_load(&told), 300);
    nxm_module_drop(host.module);
}

static void a_failed_completion_racing_the_teardown_leaves_nothing_live(void **state)
{
    (void)state;
    host_close();
    fake.completion = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_FAILED, .keep = true };
    for (int round = 0; round < 300; round++) {
        struct nxm_block block;
        uint32_t status = 99;
        pthread_t thread;
        void *failed;

        host_open();
        block = queue_one();
        assert_int_equal(pthread_create(&thread, NULL, complete_late, &status), 0);
        if (round % 2 == 0)
            sched_yield();
        host_close();
        pthread_join(thread, &failed);
        assert_null(failed);
        assert_int_equal(status, 0);
        assert_int_equal(host_state(block.address), 0); /* pushed back by the one, or kept back by the other */
        assert_int_equal(host_tallies().allocations, 0);
    }
    nxm_module_drop(host.module);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_queued_release_leaks_one_table_and_pins_the_module),
        TEST(a_late_completion_from_another_thread_reclaims_the_table_and_not_the_module),
        TEST(a_late_completion_that_failed_leaves_nothing_live),
        TEST(only_the_last_of_several_late_completions_reclaims),
        TEST(a_duplicate_cannot_free_a_leaked_table_early),
        TEST(a_stuck_release_of_one_allocator_does_not_pin_the_table_of_another),
        TEST(teardown_does_not_drain_for_ever),
        TEST(teardown_stops_at_the_first_drain_that_fails),
        TEST(the_id_of_a_leaked_table_stays_taken),
        TEST(a_completion_racing_the_teardown_leaves_exactly_one_to_free_the_table),
        TEST(a_failed_completion_racing_the_teardown_leaves_nothing_live),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
