/* Only the plugin still owns something. A program of its own: it poisons the counters. */
#include "core/allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/support/mechanism.h"

static void what_only_the_plugin_owns_shuts_the_gate(void **state)
{
    struct nxm_gate gate;

    (void)state;
    mechanism_open("self-retaining");
    mechanism_drop();
    assert_host_tallies(0, 0, 0);
    assert_int_equal(nxm_module_unload(mechanism.module, &gate), NXM_EBUSY);
    assert_int_equal(gate.reason, NXM_GATE_PLUGIN);
    assert_true(gate.handle_kept);
    assert_int_equal(gate.plugin.live_allocators, 1);
    assert_int_equal(gate.plugin.live_allocations, 0);
    assert_int_equal(counters_now().leaked_callback_tables, 0);
    nxm_module_drop(mechanism.module);
    assert_int_equal(counters_now().forced_module_leaks, 1);
    assert_int_equal(counters_now().modules_unmapped, 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_only_the_plugin_owns_shuts_the_gate, mechanism_setup,
                                        mechanism_teardown_poisoned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
