/* core/supply by itself: memory is given out once, empty, and stands ready before it is needed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "core/mem.h"
#include "core/populate.h"
#include "core/supply.h"

#define PAGE NXM_POPULATE_PAGE

static struct nxm_supply supply;

static int end(void **state)
{
    (void)state;
    nxm_mem_fail_at(0);
    nxm_supply_clear(&supply);
    return 0;
}

static void what_is_taken_is_empty_and_nobody_elses(void **state)
{
    (void)state;
    for (size_t bytes = 32; bytes < 1 << 20; bytes += bytes / 3 + 32) {
        unsigned char *memory = nxm_supply_take(&supply, bytes);

        assert_int_equal((uintptr_t)memory % 32, 0);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(memory[i], 0);
        memset(memory, 1, bytes);
    }
}

/* --- pages that stand ready ------------------------------------------------------------------------------------------- */

static size_t ready(void)
{
    return (size_t)(supply.now.ready - supply.now.at + (supply.next.ready - supply.next.at)) / PAGE;
}

static bool is_resident(const char *at)
{
    unsigned char there;

    assert_int_equal(mincore((void *)((uintptr_t)at / PAGE * PAGE), PAGE, &there), 0);
    return (there & 1) != 0;
}

/* Kernels before 5.14 cannot; an emulator says that it has, and has not. */
static bool kernel_populates(void)
{
    char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int error = nxm_populate(page, PAGE);
    bool populates = error == 0 && is_resident(page);

    munmap(page, PAGE);
    assert_true(error == 0 || error == EINVAL);
    return populates;
}

/* As a table does: pages are made ready as they are taken. */
static char *take_a_page(void)
{
    char *page = nxm_supply_take(&supply, PAGE);

    assert_non_null(page);
    nxm_supply_make_ready(&supply);
    nxm_supply_make_ready(&supply);
    return page;
}

static void each_page_is_touched_before_it_is_taken(void **state)
{
    bool populates = kernel_populates();

    (void)state;
    take_a_page();
    for (size_t i = 0; i < 1000; i++) {
        nxm_supply_make_ready(&supply);
        assert_true(!populates || is_resident(supply.now.at + PAGE > supply.now.end ? supply.next.at : supply.now.at));
        take_a_page();
    }
}

static void a_few_pages_stand_ready_and_no_more(void **state)
{
    bool populates = kernel_populates();

    (void)state;
    for (size_t i = 0; i < 300; i++)
        take_a_page();
    for (size_t i = 0; i < 100; i++)
        nxm_supply_make_ready(&supply);
    assert_in_range(ready(), 4, 8);
    if (populates && supply.now.ready != supply.now.end)
        assert_true(is_resident(supply.now.ready - 1) && !is_resident(supply.now.ready));
}

static void one_call_is_made_at_a_time(void **state)
{
    (void)state;
    take_a_page();
    for (size_t i = 0; i < 1000; i++) {
        size_t before = ready();
        bool mapped = supply.next.at != NULL;

        nxm_supply_make_ready(&supply);
        assert_true(ready() <= before + 4 && (ready() == before || (supply.next.at != NULL) == mapped));
        assert_non_null(nxm_supply_take(&supply, PAGE));
    }
}

static void a_small_supply_maps_nothing_that_it_does_not_need(void **state)
{
    (void)state;
    assert_non_null(nxm_supply_take(&supply, 64));
    for (int i = 0; i < 10; i++)
        nxm_supply_make_ready(&supply);
    assert_in_range(ready(), 0, 8);
    assert_null(supply.next.at);
}

/* Up to the end of a piece and beyond it. */
static void what_stands_ready_goes_on_in_the_next_piece_and_is_nobody_elses(void **state)
{
    unsigned char *taken[400];

    (void)state;
    for (size_t i = 0; i < 400; i++) {
        taken[i] = nxm_supply_take(&supply, 3 * PAGE + 32 * (i % 5));
        assert_non_null(taken[i]);
        for (size_t j = 0; j < 3 * PAGE; j++)
            assert_int_equal(taken[i][j], 0);
        memset(taken[i], 7, 3 * PAGE);
        for (size_t j = 0; j < i % 7; j++)
            nxm_supply_make_ready(&supply);
    }
    for (size_t i = 0; i < 400; i++) {
        for (size_t j = 0; j < 3 * PAGE; j++)
            assert_int_equal(taken[i][j], 7);
    }
}

static void use_up_the_piece(void)
{
    const struct nxm_piece *piece;

    take_a_page();
    piece = supply.pieces;
    while (supply.pieces == piece && supply.next.at == NULL)
        take_a_page();
    while (supply.pieces == piece)
        take_a_page();
    while ((size_t)(supply.now.end - supply.now.at) >= 2 * PAGE)
        assert_non_null(nxm_supply_take(&supply, PAGE));
    while (supply.now.ready != supply.now.end)
        nxm_supply_make_ready(&supply);
    assert_null(supply.next.at);
}

static void where_nothing_can_be_mapped_ahead_it_is_mapped_when_it_is_needed(void **state)
{
    (void)state;
    use_up_the_piece();
    nxm_mem_fail_at(1);
    nxm_supply_make_ready(&supply);
    assert_null(supply.next.at);
    nxm_mem_fail_at(1);
    assert_null(nxm_supply_take(&supply, 2 * PAGE));
    assert_non_null(nxm_supply_take(&supply, 2 * PAGE));
}

static void what_was_mapped_ahead_goes_with_the_rest(void **state)
{
    unsigned char there;
    char *next;

    (void)state;
    use_up_the_piece();
    nxm_supply_make_ready(&supply);
    next = supply.next.at;
    assert_non_null(next);
    nxm_supply_clear(&supply);
    assert_null(supply.next.at);
    assert_true(mincore(next, PAGE, &there) != 0 && errno == ENOMEM);
}

static void errno_stays_as_it_was(void **state)
{
    bool populates = kernel_populates();

    (void)state;
    errno = 77;
    assert_true(nxm_populate((void *)(uintptr_t)PAGE, PAGE) != 0 || !populates);
    assert_int_equal(errno, 77);
}

#define TEST(test) cmocka_unit_test_teardown(test, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_taken_is_empty_and_nobody_elses),
        TEST(each_page_is_touched_before_it_is_taken),
        TEST(a_few_pages_stand_ready_and_no_more),
        TEST(one_call_is_made_at_a_time),
        TEST(a_small_supply_maps_nothing_that_it_does_not_need),
        TEST(what_stands_ready_goes_on_in_the_next_piece_and_is_nobody_elses),
        TEST(where_nothing_can_be_mapped_ahead_it_is_mapped_when_it_is_needed),
        TEST(what_was_mapped_ahead_goes_with_the_rest),
        TEST(errno_stays_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
