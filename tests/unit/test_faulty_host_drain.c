/* Drains that retire nothing, whatever they say. A program of its own: what is left queued poisons the counters. */
#include "core/allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/leaks.h"
#include "tests/unit/support/mechanism.h"

static void assert_drop_leaks_after(const char *name, uint64_t drains)
{
    uint64_t before = faulty_host_ask("Drains"), leaked = counters_now().leaked_callback_tables;
    struct nxm_block block;

    mechanism_open(name);
    leaks_begin();
    block = mechanism_allocate(100);
    leaks_end();
    mechanism_enqueue(&block);
    mechanism_drop();
    assert_int_equal(faulty_host_ask("Drains") - before, drains);
    assert_int_equal(counters_now().leaked_callback_tables, leaked + 1);
    assert_int_equal(mechanism.completions, 0);
    assert_host_tallies(0, 1, 1);
    nxm_module_drop(mechanism.module);
}

static void a_drain_that_lies_is_tried_sixteen_times(void **state)
{
    (void)state;
    assert_drop_leaks_after("drain-lies", 16);
}

static void a_drain_that_fails_is_tried_once(void **state)
{
    (void)state;
    assert_drop_leaks_after("drain-fails", 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, mechanism_setup_faulty, mechanism_teardown_poisoned)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(a_drain_that_lies_is_tried_sixteen_times),
        TEST(a_drain_that_fails_is_tried_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
