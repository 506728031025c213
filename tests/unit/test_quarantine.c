/* core/quarantine.c: a span that was kept back is never accepted again. */
#include "core/quarantine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"

static struct nxm_quarantine quarantine;

static int empty(void **state)
{
    (void)state;
    nxm_quarantine_init(&quarantine);
    return 0;
}

static int clear(void **state)
{
    (void)state;
    nxm_quarantine_clear(&quarantine);
    return 0;
}

static void an_empty_list_bars_nothing(void **state)
{
    (void)state;
    assert_false(nxm_quarantine_overlaps(&quarantine, 0, UINT64_MAX));
}

static void every_overlap_is_barred_and_neighbours_are_not(void **state)
{
    (void)state;
    nxm_quarantine_add(&quarantine, NXM_SPAN_KEPT, 0x1000, 0x100);
    nxm_quarantine_add(&quarantine, NXM_SPAN_KEPT, 0x5000, 0x100);
    assert_true(nxm_quarantine_overlaps(&quarantine, 0x1000, 1));
    assert_true(nxm_quarantine_overlaps(&quarantine, 0x10FF, 1));
    assert_true(nxm_quarantine_overlaps(&quarantine, 0x0FFF, 2));
    assert_true(nxm_quarantine_overlaps(&quarantine, 0x0, 0x10000));
    assert_false(nxm_quarantine_overlaps(&quarantine, 0x1100, 0x100));
    assert_false(nxm_quarantine_overlaps(&quarantine, 0x0FFF, 1));
    assert_true(nxm_quarantine_overlaps(&quarantine, 0x5080, 1));
}

static void zero_bytes_still_name_their_address(void **state)
{
    (void)state;
    nxm_quarantine_add(&quarantine, NXM_SPAN_KEPT, 0x1000, 0);
    assert_true(nxm_quarantine_overlaps(&quarantine, 0x1000, 0));
    assert_true(nxm_quarantine_overlaps(&quarantine, 0x1000, 16));
    assert_false(nxm_quarantine_overlaps(&quarantine, 0x1001, 16));
}

static void a_span_at_the_end_of_the_address_space_does_not_wrap(void **state)
{
    (void)state;
    nxm_quarantine_add(&quarantine, NXM_SPAN_KEPT, UINT64_MAX - 15, 64);
    assert_true(nxm_quarantine_overlaps(&quarantine, UINT64_MAX, 1));
    assert_false(nxm_quarantine_overlaps(&quarantine, 0, 16));
    assert_true(nxm_quarantine_overlaps(&quarantine, 0x1000, UINT64_MAX)); /* the wish does not either */
}

static void without_memory_it_bars_more_and_never_less(void **state)
{
    (void)state;
    nxm_mem_fail_at(1);
    nxm_quarantine_add(&quarantine, NXM_SPAN_KEPT, 0x1000, 0x100);
    assert_true(nxm_quarantine_overlaps(&quarantine, 0x1080, 1));
    assert_false(nxm_quarantine_overlaps(&quarantine, 0x2000, 1));
    nxm_mem_fail_at(1);
    nxm_quarantine_add(&quarantine, NXM_SPAN_KEPT, 0x9000, 0x100);
    assert_true(nxm_quarantine_overlaps(&quarantine, 0x1000, 1));
    assert_true(nxm_quarantine_overlaps(&quarantine, 0x90FF, 1));
    assert_false(nxm_quarantine_overlaps(&quarantine, 0x9100, 1));
    nxm_mem_fail_at(1);
    nxm_quarantine_add(&quarantine, NXM_SPAN_KEPT, 0x4000, 0x100); /* within what is barred: nothing shrinks */
    assert_true(nxm_quarantine_overlaps(&quarantine, 0x1000, 1));
    assert_true(nxm_quarantine_overlaps(&quarantine, 0x90FF, 1));
}

static void only_what_was_contradicted_is_lifted(void **state)
{
    (void)state;
    nxm_quarantine_add(&quarantine, NXM_SPAN_KEPT, 0x1000, 0x100);
    nxm_quarantine_add(&quarantine, NXM_SPAN_CONTRADICTED, 0x1080, 0x100);
    nxm_quarantine_add(&quarantine, NXM_SPAN_CONTRADICTED, 0x1100, 0x100);
    nxm_quarantine_add(&quarantine, NXM_SPAN_CONTRADICTED, 0x3000, 0x100);
    assert_false(nxm_quarantine_lift(&quarantine, 0x2000, 0x1000)); /* up to the next one, and not beyond */
    assert_true(nxm_quarantine_lift(&quarantine, 0x1000, 0x200));
    assert_false(nxm_quarantine_lift(&quarantine, 0x1000, 0x200));
    assert_true(nxm_quarantine_overlaps(&quarantine, 0x10FF, 1));
    assert_false(nxm_quarantine_overlaps(&quarantine, 0x1100, 0x1F00));
    assert_true(nxm_quarantine_overlaps(&quarantine, 0x3000, 1));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, empty, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_empty_list_bars_nothing),
        TEST(every_overlap_is_barred_and_neighbours_are_not),
        TEST(zero_bytes_still_name_their_address),
        TEST(a_span_at_the_end_of_the_address_space_does_not_wrap),
        TEST(without_memory_it_bars_more_and_never_less),
        TEST(only_what_was_contradicted_is_lifted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
