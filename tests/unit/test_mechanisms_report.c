/* A plugin that cannot say what is alive is never unmapped. A program of its own: the refusal is for good. */
#include "core/allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support/mechanism.h"

static void a_plugin_that_cannot_report_is_neither_unloaded_nor_unmapped(void **state)
{
    void *found = nxm_module_symbol(mechanism.module, "NxmemTestpluginRefuseUnloadReport");
    void (*refuse)(void);
    struct nxm_gate gate;

    (void)state;
    assert_non_null(found);
    memcpy(&refuse, &found, sizeof refuse);
    refuse();
    assert_int_equal(nxm_module_unload(mechanism.module, &gate), NXM_EBUSY);
    assert_int_equal(gate.reason, NXM_GATE_QUERY_FAILED);
    assert_true(gate.handle_kept);
    assert_int_equal(gate.plugin.live_allocators, 0);
    nxm_module_drop(mechanism.module);
    assert_int_equal(counters_now().forced_module_leaks, 1);
    assert_int_equal(counters_now().modules_unmapped, 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_plugin_that_cannot_report_is_neither_unloaded_nor_unmapped, mechanism_setup,
                                        mechanism_teardown_poisoned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
