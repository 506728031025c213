/* A queued release that never ends leaks one callback table. A program of its own: it poisons the counters. */
#include "core/allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/leaks.h"
#include "tests/unit/support/mechanism.h"

static void one_queued_release_leaks_one_table_and_pins_the_module(void **state)
{
    struct nxm_block block;
    struct nxm_gate gate;

    (void)state;
    mechanism_open("sticky");
    leaks_begin();
    block = mechanism_allocate(100);
    leaks_end();
    assert_int_equal(mechanism_enqueue(&block).outcome, NXM_RELEASE_QUEUED);
    mechanism_drop();
    assert_int_equal(testplugin_ask("DrainCalls"), 1);
    assert_int_equal(testplugin_ask("TerminalReleases"), 0);
    assert_int_equal(counters_now().leaked_callback_tables, 1);
    assert_host_tallies(0, 1, 1);
    assert_int_equal(nxm_module_unload(mechanism.module, &gate), NXM_EBUSY);
    assert_int_equal(gate.reason, NXM_GATE_HOST);
    nxm_module_drop(mechanism.module);
    assert_int_equal(counters_now().forced_module_leaks, 1);
    assert_int_equal(counters_now().modules_unmapped, 0);
    assert_int_equal(counters_now().reclaimed_callback_tables, 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_queued_release_leaks_one_table_and_pins_the_module, mechanism_setup,
                                        mechanism_teardown_poisoned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
