/* core/spread.c and core/ids.c: numbers that many threads move at once. */
#include "core/spread.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <cmocka.h>

#include "core/ids.h"

enum { FIRST, SECOND };

#define THREADS 8
#define ROUNDS 20000u

static struct nxm_spread spread;

static void a_sum_is_what_was_raised_less_what_was_lowered(void **state)
{
    (void)state;
    memset(&spread, 0, sizeof spread);
    nxm_spread_raise(&spread, FIRST, 5);
    nxm_spread_raise(&spread, SECOND, 100);
    nxm_spread_lower(&spread, FIRST, 2);
    assert_int_equal(nxm_spread_sum(&spread, FIRST), 3);
    assert_int_equal(nxm_spread_sum(&spread, SECOND), 100);
}

static void *move_both_ways(void *unused)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        nxm_spread_raise(&spread, FIRST, 3);
        nxm_spread_note_at(&spread, nxm_spread_here(), SECOND, 5);
        nxm_spread_lower(&spread, FIRST, 2);
        nxm_spread_note_at(&spread, nxm_spread_here(), SECOND, 0 - (uint64_t)4);
    }
    return unused;
}

static void *move_on_its_own_line(void *unused)
{
    assert_true(nxm_spread_assign() >= NXM_SPREAD_SHARED * sizeof(struct nxm_spread_line));
    return move_both_ways(unused);
}

static void nothing_is_lost_between_threads(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    memset(&spread, 0, sizeof spread);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i % 2 ? move_both_ways : move_on_its_own_line, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(nxm_spread_sum(&spread, FIRST), (uint64_t)THREADS * ROUNDS);
    assert_int_equal(nxm_spread_sum(&spread, SECOND), (uint64_t)THREADS * ROUNDS);
}

#define MEETINGS 1000u
#define MOST 20000000u /* where there is one processor they hardly ever meet */

static atomic_bool have_met;

/* A thread's line may be another's too: there are more threads than lines. Threads that have little to do are done before the next
 * one begins, so these go on until they have often come between each other's additions. Returns how many times it added. */
static void *move_on_the_seventh_line(void *ret_added)
{
    atomic_uint_fast64_t *sums = spread.lines[7].sums;
    uint64_t added = 0, before;
    unsigned met = 0;

    nxm_own.spread = 7 * (uint32_t)sizeof(struct nxm_spread_line);
    for (; met < MEETINGS && added < MOST && !atomic_load_explicit(&have_met, memory_order_relaxed); added++) {
        before = atomic_load_explicit(&sums[SECOND], memory_order_relaxed);
        nxm_spread_raise(&spread, FIRST, 1);
        nxm_spread_note_at(&spread, nxm_spread_here(), SECOND, 1);
        met += atomic_load_explicit(&sums[SECOND], memory_order_relaxed) != before + 1;
    }
    atomic_store_explicit(&have_met, true, memory_order_relaxed);
    *(uint64_t *)ret_added = added;
    return NULL;
}

static void nothing_is_lost_on_a_line_that_threads_share(void **state)
{
    pthread_t threads[THREADS];
    uint64_t added[THREADS], all = 0;

    (void)state;
    memset(&spread, 0, sizeof spread);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, move_on_the_seventh_line, &added[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        all += added[i];
    }
    assert_int_equal(spread.lines[7].sums[FIRST], all);
    assert_int_equal(spread.lines[7].sums[SECOND], all);
}

static volatile unsigned interrupted;

static void add_in_handler(int unused)
{
    (void)unused;
    nxm_spread_note_at(&spread, nxm_spread_here(), FIRST, 1);
    interrupted++;
}

/* A program's handler may allocate: what it adds to its thread's own line stays. */
static void nothing_is_lost_when_a_handler_comes_between(void **state)
{
    const struct itimerval often = { { 0, 100 }, { 0, 100 } }, never = { { 0, 0 }, { 0, 0 } };
    uint64_t added = 0;

    (void)state;
    memset(&spread, 0, sizeof spread);
    assert_true(nxm_spread_assign() >= NXM_SPREAD_SHARED * sizeof(struct nxm_spread_line));
    signal(SIGALRM, add_in_handler);
    setitimer(ITIMER_REAL, &often, NULL);
    while (interrupted < 500 || added < 100000)
        for (int i = 0; i < 1000; i++, added++)
            nxm_spread_note_at(&spread, nxm_spread_here(), FIRST, 1);
    setitimer(ITIMER_REAL, &never, NULL);
    assert_int_equal(nxm_spread_sum(&spread, FIRST), added + interrupted);
}

static void every_line_is_in_the_sum(void **state)
{
    uint32_t mine = nxm_own.spread;

    (void)state;
    memset(&spread, 0, sizeof spread);
    for (uint32_t line = 0; line < NXM_SPREAD_LINES; line++) {
        nxm_own.spread = line * (uint32_t)sizeof(struct nxm_spread_line);
        nxm_spread_raise(&spread, SECOND, line + 1);
        assert_int_equal(nxm_spread_sum(&spread, SECOND), (line + 1) * (line + 2) / 2);
    }
    nxm_own.spread = mine;
}

static void *note_line(void *ret_line)
{
    *(uint32_t *)ret_line = nxm_spread_assign();
    return nxm_spread_assign() == *(uint32_t *)ret_line && nxm_spread_here() == *(uint32_t *)ret_line ? NULL : ret_line; /* it keeps it */
}

static void threads_one_after_the_other_get_lines_of_their_own(void **state)
{
    uint32_t lines[2] = { 0 };
    pthread_t thread;
    void *moved;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&thread, NULL, note_line, &lines[i]), 0);
        assert_int_equal(pthread_join(thread, &moved), 0);
        assert_null(moved);
    }
    assert_int_not_equal(lines[0], lines[1]);
    assert_int_not_equal(lines[0], 0);
}

/* Only this thread is given lines here. Those that are one thread's alone run out, and are not given again. */
static void lines_that_are_given_out_lie_inside(void **state)
{
    uint32_t mine = nxm_own.spread;
    unsigned given[NXM_SPREAD_LINES] = { 0 };

    (void)state;
    for (uint32_t i = 0; i < 3 * NXM_SPREAD_LINES; i++) {
        nxm_own.spread = 0;
        assert_in_range(nxm_spread_assign(), 1, sizeof spread - 1);
        assert_int_equal(nxm_own.spread % sizeof(struct nxm_spread_line), 0);
        given[nxm_own.spread / sizeof(struct nxm_spread_line)]++;
    }
    for (uint32_t line = 0; line < NXM_SPREAD_LINES; line++)
        assert_in_range(given[line], line > 0 && line < NXM_SPREAD_SHARED, line == 0 ? 0 : line < NXM_SPREAD_SHARED ? UINT32_MAX : 1);
    nxm_own.spread = mine;
}

static void *allocate_an_id(void *ret_line)
{
    nxm_block_next_id();
    *(uint32_t *)ret_line = nxm_spread_here();
    return NULL;
}

static void who_begins_a_row_of_ids_has_a_line(void **state)
{
    uint32_t line = 0;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, allocate_an_id, &line), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_not_equal(line, 0);
}

static void *lower_five(void *unused)
{
    nxm_spread_lower(&spread, FIRST, 5);
    return unused;
}

static void what_one_thread_raised_another_may_lower(void **state)
{
    pthread_t thread;

    (void)state;
    memset(&spread, 0, sizeof spread);
    nxm_spread_raise(&spread, FIRST, 5);
    assert_int_equal(pthread_create(&thread, NULL, lower_five, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(nxm_spread_sum(&spread, FIRST), 0);
}

static void a_count_is_never_below_zero(void **state)
{
    (void)state;
    memset(&spread, 0, sizeof spread);
    nxm_spread_lower(&spread, FIRST, 1);
    assert_int_equal(nxm_spread_sum(&spread, FIRST), UINT64_MAX);
    assert_int_equal(nxm_spread_count(&spread, FIRST), 0);
}

/* --- ids ------------------------------------------------------------------------------------------------ */

static void *take_ids(void *ids)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        ((uint64_t *)ids)[i] = nxm_block_next_id();
    return NULL;
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

static void no_id_is_given_twice_nor_is_it_zero(void **state)
{
    static uint64_t ids[THREADS][ROUNDS];
    uint64_t *all = ids[0];
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_ids, ids[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    qsort(all, (size_t)THREADS * ROUNDS, sizeof *all, compare);
    assert_int_not_equal(all[0], 0);
    for (size_t i = 1; i < (size_t)THREADS * ROUNDS; i++)
        assert_true(all[i - 1] < all[i]);
}

static void a_threads_own_ids_rise(void **state)
{
    uint64_t last = 0;

    (void)state;
    for (unsigned i = 0; i < 10 * NXM_IDS_ROW; i++) {
        uint64_t id = nxm_block_next_id();
        assert_true(id > last);
        last = id;
    }
}

static bool is_of_another_line(uint64_t id)
{
    return id / NXM_IDS_ROW % NXM_SPREAD_LINES != nxm_spread_here() / sizeof(struct nxm_spread_line);
}

static void *take_rows(void *ret_others)
{
    for (unsigned i = 0; i < 3 * NXM_SPREAD_LINES; i++)
        *(unsigned *)ret_others += is_of_another_line(nxm_ids_begin_row());
    for (unsigned i = 0; i < 3 * NXM_IDS_ROW; i++) /* a row ends where it ends */
        *(unsigned *)ret_others += is_of_another_line(nxm_block_next_id());
    return NULL;
}

/* So nobody else's ids meet its own where the row chooses. */
static void a_threads_rows_have_the_number_of_its_line(void **state)
{
    unsigned others[THREADS + 1] = { 0 };
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_rows, &others[i]), 0);
    take_rows(&others[THREADS]);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i <= THREADS; i++)
        assert_int_equal(others[i], 0);
}

/* Nor are the numbers used up sooner than they must. */
static void rows_rise_and_the_bound_lies_between(void **state)
{
    uint64_t last = nxm_ids_begin_row();

    (void)state;
    for (int i = 0; i < 10; i++) {
        uint64_t bound = nxm_ids_bound(), next = nxm_ids_begin_row();
        assert_int_equal(next, last + NXM_SPREAD_LINES * NXM_IDS_ROW);
        assert_in_range(bound, last + NXM_IDS_ROW, next);
        last = next;
    }
}

static void a_line_that_was_one_threads_alone_is_given_to_no_later_one(void **state)
{
    uint64_t others = NXM_SPREAD_LINES - NXM_SPREAD_SHARED;

    (void)state;
    for (; others < UINT64_MAX / 2; others *= 2)
        assert_in_range(nxm_spread_place_after(others), sizeof(struct nxm_spread_line),
                        (NXM_SPREAD_SHARED - 1) * sizeof(struct nxm_spread_line));
    assert_in_range(nxm_spread_place_after(UINT64_C(1) << 32), 1, (NXM_SPREAD_SHARED - 1) * sizeof(struct nxm_spread_line));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_is_what_was_raised_less_what_was_lowered),
        cmocka_unit_test(nothing_is_lost_between_threads),
        cmocka_unit_test(nothing_is_lost_on_a_line_that_threads_share),
        cmocka_unit_test(nothing_is_lost_when_a_handler_comes_between),
        cmocka_unit_test(every_line_is_in_the_sum),
        cmocka_unit_test(threads_one_after_the_other_get_lines_of_their_own),
        cmocka_unit_test(lines_that_are_given_out_lie_inside),
        cmocka_unit_test(a_line_that_was_one_threads_alone_is_given_to_no_later_one),
        cmocka_unit_test(what_one_thread_raised_another_may_lower),
        cmocka_unit_test(a_count_is_never_below_zero),
        cmocka_unit_test(no_id_is_given_twice_nor_is_it_zero),
        cmocka_unit_test(a_threads_own_ids_rise),
        cmocka_unit_test(a_threads_rows_have_the_number_of_its_line),
        cmocka_unit_test(rows_rise_and_the_bound_lies_between),
        cmocka_unit_test(who_begins_a_row_of_ids_has_a_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
