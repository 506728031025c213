/* A process that ends with leaked callback tables. test_exit.sh runs it under valgrind and compares what is there at the
 * end with the counters that it prints. */
#include "core/allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/support/fake.h"
#include "tests/unit/support/host.h"

#define TABLES 3

static struct nxm_module_counters counters(void)
{
    struct nxm_module_counters now;

    nxm_module_counters(&now);
    return now;
}

/* One more opened and dropped with `queued` releases that nobody will drain. */
static void open_and_leak(unsigned queued)
{
    host_open();
    for (unsigned i = 0; i < queued; i++) {
        struct nxm_block block = host_allocate(64);

        host_enqueued(&block);
    }
    host_close();
}

static void a_process_may_end_with_leaked_tables(void **state)
{
    uint32_t status;

    assert_int_equal(host_setup(state), 0);
    fake.extra_flags = NXMEM_CAPABILITY_DEFERRED_RELEASE;
    fake.drain_nothing = true;
    for (unsigned i = 0; i < TABLES; i++)
        open_and_leak(1 + 40 * i); /* more than one entry of each shard, too */
    assert_int_equal(counters().leaked_callback_tables, TABLES);
    open_and_leak(1);
    assert_true(fake_complete_one(fake.last_state, &status)); /* reclaims the fourth */
    assert_int_equal(counters().reclaimed_callback_tables, 1);
    nxm_module_drop(host.module);
    assert_int_equal(counters().forced_module_leaks, 1);
    nxm_blocks_free(host.blocks);
    fprintf(stderr, "tables %d modules %d\n",
            (int)(counters().leaked_callback_tables - counters().reclaimed_callback_tables),
            (int)counters().forced_module_leaks);
}

static void a_process_that_leaves_nothing_ends_with_nothing(void **state)
{
    assert_int_equal(host_setup_deferred(state), 0);
    for (unsigned i = 0; i < 40; i++) {
        struct nxm_block block = host_allocate(64);

        host_enqueued(&block);
    }
    host_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_leaves_nothing_ends_with_nothing),
        cmocka_unit_test(a_process_may_end_with_leaked_tables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
