/* A queued release that has not retired. A program of its own: it poisons the counters. */
#include "core/allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/leaks.h"
#include "tests/unit/support/mechanism.h"

static void a_queued_release_shuts_the_gate_on_both_sides(void **state)
{
    struct nxm_block block;
    struct nxm_gate gate;

    (void)state;
    mechanism_open("sticky");
    leaks_begin();
    block = mechanism_allocate(100);
    leaks_end();
    mechanism_enqueue(&block);
    for (int open = 1; open >= 0; open--) {
        assert_int_equal(nxm_module_unload(mechanism.module, &gate), NXM_EBUSY);
        assert_int_equal(gate.reason, NXM_GATE_HOST);
        assert_true(gate.handle_kept);
        assert_int_equal(gate.host.queued, 1);
        assert_int_equal(gate.host.allocators, open);
        assert_int_equal(gate.plugin.queued_releases, 1);
        assert_int_equal(gate.plugin.live_allocations, 1);
        if (open)
            mechanism_drop();
    }
    nxm_module_drop(mechanism.module);
    assert_int_equal(counters_now().modules_unmapped, 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_queued_release_shuts_the_gate_on_both_sides, mechanism_setup,
                                        mechanism_teardown_poisoned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
