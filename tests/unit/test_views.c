/* core/views.c: the books of views, also under threads. */
#include "core/views.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/mem.h"

static struct nxm_views views;

static int empty(void **state)
{
    (void)state;
    nxm_views_init(&views);
    return 0;
}

static int clear(void **state)
{
    (void)state;
    nxm_views_clear(&views);
    return 0;
}

static void assert_totals(uint64_t count, uint64_t owned, uint64_t mapped)
{
    uint64_t seen[3];

    nxm_views_totals(&views, &seen[0], &seen[1], &seen[2]);
    assert_int_equal(seen[0], count);
    assert_int_equal(seen[1], owned);
    assert_int_equal(seen[2], mapped);
}

static void add(uint64_t block, uint64_t owned, uint64_t mapped)
{
    uint64_t serial = nxm_views_enter(&views, block);

    assert_int_not_equal(serial, 0);
    nxm_views_confirm(&views, block, serial, owned, mapped);
}

static void the_two_axes_are_kept_apart(void **state)
{
    (void)state;
    add(1, 10, 100);
    add(1, 0, 100);
    add(2, 1, 7);
    assert_totals(3, 11, 207);
    nxm_views_retire(&views, 1);
    assert_totals(1, 1, 7);
    nxm_views_retire(&views, 1);
    nxm_views_retire(&views, 2);
    assert_totals(0, 0, 0);
}

static void blocks_of_one_bucket_are_told_apart(void **state)
{
    (void)state;
    add(5, 1, 1);
    add(5 + NXM_VIEW_BUCKETS, 2, 2);
    nxm_views_retire(&views, 5);
    assert_totals(1, 2, 2);
}

static void withdrawing_takes_one(void **state)
{
    uint64_t serial;

    (void)state;
    add(3, 4, 4);
    serial = nxm_views_enter(&views, 3);
    assert_totals(2, 4, 4);
    nxm_views_withdraw(&views, 3, serial);
    assert_totals(1, 4, 4);
    nxm_views_withdraw(&views, 3, serial);
    assert_totals(1, 4, 4);
}

static void one_that_was_retired_meanwhile_is_not_confirmed(void **state)
{
    uint64_t serial = nxm_views_enter(&views, 3);

    (void)state;
    nxm_views_retire(&views, 3);
    nxm_views_confirm(&views, 3, serial, 9, 9);
    assert_totals(0, 0, 0);
}

static void without_memory_there_is_no_view(void **state)
{
    (void)state;
    nxm_mem_fail_at(1);
    assert_int_equal(nxm_views_enter(&views, 3), 0);
    nxm_mem_fail_at(0);
    assert_totals(0, 0, 0);
}

static void *come_and_go(void *argument)
{
    uint64_t first = *(const uint64_t *)argument;

    for (uint64_t i = 0; i < 2000; i++) {
        uint64_t block = first + i % 16, serial = nxm_views_enter(&views, block);

        if (i % 4 == 0)
            nxm_views_withdraw(&views, block, serial);
        else
            nxm_views_confirm(&views, block, serial, 1, 2);
        if (i % 5 == 0)
            nxm_views_retire(&views, block);
    }
    for (uint64_t i = 0; i < 16; i++)
        nxm_views_retire(&views, first + i);
    return NULL;
}

static void threads_leave_nothing(void **state)
{
    uint64_t firsts[] = { 0, 1, 64, 128 }; /* some share blocks, all share buckets */
    pthread_t threads[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &firsts[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_totals(0, 0, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, empty, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_two_axes_are_kept_apart),
        TEST(blocks_of_one_bucket_are_told_apart),
        TEST(withdrawing_takes_one),
        TEST(one_that_was_retired_meanwhile_is_not_confirmed),
        TEST(without_memory_there_is_no_view),
        TEST(threads_leave_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
