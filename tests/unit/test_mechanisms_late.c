/* A thread of the plugin completes what was queued after its allocator has gone. A program of its own: it poisons the
 * counters. */
#include "core/allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/support/mechanism.h"

static void a_plugin_thread_completes_after_the_allocator_has_gone(void **state)
{
    struct nxm_block block;
    struct nxm_gate gate;

    (void)state;
    mechanism_open("callback-after-drop");
    block = mechanism_allocate(100);
    mechanism_enqueue(&block);
    mechanism_drop();
    assert_int_equal(counters_now().leaked_callback_tables, 1);
    assert_int_equal(testplugin_ask("ParkedStateIsSet"), 1);
    assert_host_tallies(0, 1, 1);
    assert_int_equal(testplugin_ask("ReportParkedCompletion"), 1);
    assert_int_equal(mechanism.completions, 1);
    assert_int_equal(mechanism.completed[0].id, block.id);
    assert_int_equal(testplugin_ask("ParkedStateIsSet"), 0);
    assert_host_tallies(0, 0, 0);
    assert_int_equal(counters_now().leaked_callback_tables, 1); /* what happened stays counted */
    assert_int_equal(counters_now().reclaimed_callback_tables, 1);
    assert_int_equal(gate_now().reason, NXM_GATE_OPEN);
    assert_int_equal(nxm_module_unload(mechanism.module, &gate), NXM_EBUSY);
    assert_int_equal(gate.reason, NXM_GATE_REFERENCED);
    assert_false(gate.handle_kept);
    assert_int_equal(counters_now().modules_unmapped, 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_plugin_thread_completes_after_the_allocator_has_gone, mechanism_setup,
                                        mechanism_teardown_poisoned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
