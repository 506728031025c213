/* One allocator's stuck release does not leak the table of another. A program of its own: it poisons the counters. */
#include "core/allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/leaks.h"
#include "tests/unit/support/mechanism.h"

static void a_stuck_release_pins_its_own_table_only(void **state)
{
    struct nxm_allocator *other;
    struct nxm_block block;

    (void)state;
    mechanism_open("sticky");
    other = mechanism_open_beside("lazy");
    leaks_begin();
    block = mechanism_allocate(100);
    leaks_end();
    mechanism_enqueue(&block);
    assert_host_tallies(2, 1, 1);
    nxm_allocator_unref(other);
    assert_int_equal(counters_now().leaked_callback_tables, 0);
    mechanism_drop();
    assert_int_equal(counters_now().leaked_callback_tables, 1);
    nxm_module_drop(mechanism.module);
    assert_int_equal(counters_now().modules_unmapped, 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_stuck_release_pins_its_own_table_only, mechanism_setup,
                                        mechanism_teardown_poisoned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
