/* core/pile: bounded memory that only grows, and one copy of each string. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"
#include "core/pile.h"

static void pieces_are_aligned_zeroed_and_do_not_overlap(void **state)
{
    struct nxm_pile pile = NXM_PILE_INIT(4);
    unsigned char *last = NULL;

    (void)state;
    for (size_t i = 1; i < 2000; i++) {
        unsigned char *taken = nxm_pile_take(&pile, i % 37 + 1);

        assert_non_null(taken);
        assert_int_equal((uintptr_t)taken % 8, 0);
        for (size_t j = 0; j < i % 37 + 1; j++)
            assert_int_equal(taken[j], 0);
        memset(taken, 0xff, i % 37 + 1);
        assert_ptr_not_equal(taken, last);
        last = taken;
    }
}

static void a_pile_ends_at_its_bound(void **state)
{
    struct nxm_pile pile = NXM_PILE_INIT(2);

    (void)state;
    assert_non_null(nxm_pile_take(&pile, NXM_PILE_PIECE));
    assert_non_null(nxm_pile_take(&pile, NXM_PILE_PIECE - 8));
    assert_null(nxm_pile_take(&pile, 16));
    assert_non_null(nxm_pile_take(&pile, 8));
    assert_null(nxm_pile_take(&pile, 1));
}

static void a_pile_that_may_be_larger_than_any_ends_all_the_same(void **state)
{
    struct nxm_pile pile = NXM_PILE_INIT(NXM_PILE_PIECES_MAX + 1);

    (void)state;
    pile.used = (uint64_t)NXM_PILE_PIECES_MAX * NXM_PILE_PIECE;
    assert_null(nxm_pile_take(&pile, 8));
}

static void more_than_a_piece_is_never_given(void **state)
{
    struct nxm_pile pile = NXM_PILE_INIT(9);

    (void)state;
    assert_null(nxm_pile_take(&pile, NXM_PILE_PIECE + 1));
    assert_int_equal(pile.used, 0);
    assert_null(pile.pieces[0]);
}

static void a_failed_piece_leaves_the_pile_usable(void **state)
{
    struct nxm_pile pile = NXM_PILE_INIT(2);

    (void)state;
    nxm_mem_fail_at(1);
    assert_null(nxm_pile_take(&pile, 8));
    assert_non_null(nxm_pile_take(&pile, 8));
    assert_non_null(pile.pieces[0]);
    assert_null(pile.pieces[1]);
}

static void equal_strings_share_one_copy_that_is_not_the_callers(void **state)
{
    struct nxm_strings strings = NXM_STRINGS_INIT(2);
    char text[16] = "libfoo.so";
    const char *first = nxm_strings_intern(&strings, text), *second;

    (void)state;
    assert_non_null(first);
    assert_ptr_not_equal(first, text);
    strcpy(text, "overwritten");
    assert_string_equal(first, "libfoo.so");
    second = nxm_strings_intern(&strings, "libfoo.so");
    assert_ptr_equal(first, second);
    assert_ptr_not_equal(nxm_strings_intern(&strings, "libbar.so"), first);
    assert_string_equal(nxm_strings_intern(&strings, ""), "");
}

static void when_the_slots_run_low_new_strings_are_refused_and_old_ones_found(void **state)
{
    struct nxm_strings strings = NXM_STRINGS_INIT(64);
    const char *first = nxm_strings_intern(&strings, "the first");
    unsigned kept = 1;
    char text[24];

    (void)state;
    for (unsigned i = 0; i < 2 * NXM_STRINGS_SLOTS; i++) {
        snprintf(text, sizeof text, "string %u", i);
        kept += nxm_strings_intern(&strings, text) != NULL;
    }
    assert_int_equal(kept, NXM_STRINGS_SLOTS / 4 * 3);
    assert_ptr_equal(nxm_strings_intern(&strings, "the first"), first);
}

static void a_string_without_memory_is_refused(void **state)
{
    struct nxm_strings strings = NXM_STRINGS_INIT(1);

    (void)state;
    nxm_mem_fail_at(1);
    assert_null(nxm_strings_intern(&strings, "no slots"));
    nxm_mem_fail_at(2);
    assert_null(nxm_strings_intern(&strings, "no piece"));
    nxm_mem_fail_at(0);
    assert_non_null(nxm_strings_intern(&strings, "no piece"));
}

#define THREADS 4
#define STRINGS 3000

static struct nxm_strings shared = NXM_STRINGS_INIT(8);
static struct nxm_pile shared_pile = NXM_PILE_INIT(32);
static pthread_barrier_t barrier;

static void *intern_all(void *ret_copies)
{
    const char **copies = ret_copies;
    char text[32];

    pthread_barrier_wait(&barrier);
    for (int i = 0; i < STRINGS; i++) {
        unsigned char *taken = nxm_pile_take(&shared_pile, 64);

        snprintf(text, sizeof text, "string number %d", i);
        copies[i] = nxm_strings_intern(&shared, text);
        for (int j = 0; j < 64; j++) { /* nobody else's */
            assert_int_equal(taken[j], 0);
            taken[j] = 1;
        }
    }
    return NULL;
}

static void threads_get_memory_of_their_own_and_one_copy_of_each_string(void **state)
{
    static const char *copies[THREADS][STRINGS];
    pthread_t threads[THREADS];
    char text[32];

    (void)state;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, intern_all, copies[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    pthread_barrier_destroy(&barrier);
    for (int i = 0; i < STRINGS; i++) {
        snprintf(text, sizeof text, "string number %d", i);
        for (int thread = 0; thread < THREADS; thread++) {
            assert_ptr_equal(copies[thread][i], copies[0][i]);
            assert_string_equal(copies[thread][i], text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_zeroed_and_do_not_overlap),
        cmocka_unit_test(a_pile_ends_at_its_bound),
        cmocka_unit_test(a_pile_that_may_be_larger_than_any_ends_all_the_same),
        cmocka_unit_test(more_than_a_piece_is_never_given),
        cmocka_unit_test(a_failed_piece_leaves_the_pile_usable),
        cmocka_unit_test(equal_strings_share_one_copy_that_is_not_the_callers),
        cmocka_unit_test(when_the_slots_run_low_new_strings_are_refused_and_old_ones_found),
        cmocka_unit_test(a_string_without_memory_is_refused),
        cmocka_unit_test(threads_get_memory_of_their_own_and_one_copy_of_each_string),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
