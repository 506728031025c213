/* core/starts by itself: which of its pages it touches, and when. What it answers is test_blocks's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/mem.h"
#include "core/result.h"
#include "core/starts.h"

#define BASE UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)

static struct nxm_starts starts;
static unsigned calls;
static uintptr_t populated_from, populated_to;

/* Instead of libc's. */
int madvise(void *at, size_t bytes, int advice)
{
    calls++;
    populated_from = (uintptr_t)at;
    populated_to = populated_from + bytes;
    return (int)syscall(SYS_madvise, at, bytes, advice);
}

static int begin(void **state)
{
    (void)state;
    starts = (struct nxm_starts){ 0 };
    return nxm_starts_init(&starts);
}

static int end(void **state)
{
    (void)state;
    nxm_starts_clear_all(&starts);
    return 0;
}

static unsigned calls_to_mark(uint64_t address, uint64_t last)
{
    unsigned before = calls;

    assert_int_equal(nxm_starts_mark(&starts, address, last), NXM_OK);
    return calls - before;
}

static bool is_populated(const void *at)
{
    return (uintptr_t)at >= populated_from && (uintptr_t)at < populated_to;
}

static void a_page_of_words_is_populated_once_and_before_it_is_read(void **state)
{
    (void)state;
    assert_int_equal(calls_to_mark(BASE, BASE + 1023), 2); /* and what comes first in a new leaf */
    assert_true(is_populated(nxm_starts_word(&starts, BASE)));
    assert_true(is_populated(nxm_starts_word(&starts, BASE + 16 * MIB - 1)));
    assert_false(is_populated(nxm_starts_word(&starts, BASE + 16 * MIB)));
    for (uint64_t at = BASE; at < BASE + 16 * MIB; at += 1024 * 17)
        assert_int_equal(calls_to_mark(at, at + 1023), 0);
    for (uint64_t at = BASE + 16 * MIB; at < BASE + 4096 * MIB; at += 80 * MIB) {
        assert_int_equal(calls_to_mark(at, at + MIB), 1);
        assert_true(is_populated(nxm_starts_word(&starts, at)));
    }
}

static void who_comes_back_to_a_page_that_is_empty_again_populates_nothing(void **state)
{
    uint64_t granule = BASE >> NXM_GRANULE_BITS;

    (void)state;
    calls_to_mark(BASE, BASE + 1023);
    nxm_starts_clear(&starts, granule);
    assert_int_equal(calls_to_mark(BASE, BASE + 1023), 0);
    assert_true(nxm_starts_before(&starts, BASE, &granule));
}

static void the_words_of_a_region_lie_in_one_page(void **state)
{
    const struct nxm_stretch *first, *last;

    (void)state;
    calls_to_mark(BASE, BASE + 1023);
    for (uint64_t region = BASE; region < BASE + 64 * MIB; region += UINT64_C(1) << NXM_REGION_BITS) {
        first = nxm_starts_word(&starts, region);
        last = nxm_starts_word(&starts, region + (UINT64_C(1) << NXM_REGION_BITS) - 1);
        assert_int_equal((uintptr_t)first / NXM_POPULATE_PAGE, ((uintptr_t)(last + 1) - 1) / NXM_POPULATE_PAGE);
    }
}

static void what_is_noted_is_noted_once_and_further_when_a_block_reaches_further(void **state)
{
    uint64_t granule = (BASE + 3 * MIB) >> NXM_GRANULE_BITS, turns;

    (void)state;
    calls_to_mark(BASE, BASE + MIB);
    turns = nxm_spin_look(&starts.leaves[BASE >> NXM_LEAF_BITS]->lock);
    calls_to_mark(BASE, BASE + MIB);
    calls_to_mark(BASE, BASE + MIB - 1);
    assert_int_equal(nxm_spin_look(&starts.leaves[BASE >> NXM_LEAF_BITS]->lock), turns);
    assert_false(nxm_starts_before(&starts, BASE + 3 * MIB, &granule));
    calls_to_mark(BASE, BASE + 3 * MIB);
    assert_true(nxm_starts_before(&starts, BASE + 3 * MIB, &granule));
    assert_int_equal(granule, BASE >> NXM_GRANULE_BITS);
}

static void only_what_is_noted_is_said_to_be(void **state)
{
    uint64_t far = BASE | UINT64_C(1) << 50; /* for which there are no bits */

    (void)state;
    assert_false(nxm_starts_has(nxm_starts_word(&starts, BASE), BASE, BASE));
    calls_to_mark(BASE, BASE + 1023);
    assert_true(nxm_starts_has(nxm_starts_word(&starts, BASE + 1023), BASE + 1023, BASE + 1023));
    assert_false(nxm_starts_has(nxm_starts_word(&starts, BASE), BASE, BASE + 1024));
    assert_false(nxm_starts_has(nxm_starts_word(&starts, BASE + 1024), BASE + 1024, BASE));
    assert_false(nxm_starts_has(nxm_starts_word(&starts, far), far, BASE));
}

/* The end of a leaf, where there is no next page to look at. */
static void the_last_regions_of_a_leaf_are_noted_like_others(void **state)
{
    uint64_t end_of_leaf = BASE + (UINT64_C(1) << NXM_LEAF_BITS), granule = (end_of_leaf - 1) >> NXM_GRANULE_BITS;

    (void)state;
    for (uint64_t at = end_of_leaf - 600 * MIB; at < end_of_leaf; at += MIB)
        assert_int_equal(nxm_starts_mark(&starts, at, at + MIB - 1), NXM_OK);
    assert_true(nxm_starts_before(&starts, end_of_leaf - 1, &granule));
    assert_int_equal(granule, (end_of_leaf - MIB) >> NXM_GRANULE_BITS);
}

static void without_memory_for_its_leaf_nothing_is_noted(void **state)
{
    uint64_t granule = BASE >> NXM_GRANULE_BITS;

    (void)state;
    nxm_mem_fail_at(1);
    assert_int_equal(nxm_starts_mark(&starts, BASE, BASE + 1023), NXM_ENOMEM);
    nxm_mem_fail_at(0);
    assert_null(nxm_starts_word(&starts, BASE));
    assert_false(nxm_starts_before(&starts, BASE, &granule));
    assert_int_equal(nxm_starts_mark(&starts, BASE, BASE + 1023), NXM_OK);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_page_of_words_is_populated_once_and_before_it_is_read),
        TEST(who_comes_back_to_a_page_that_is_empty_again_populates_nothing),
        TEST(the_words_of_a_region_lie_in_one_page),
        TEST(what_is_noted_is_noted_once_and_further_when_a_block_reaches_further),
        TEST(only_what_is_noted_is_said_to_be),
        TEST(the_last_regions_of_a_leaf_are_noted_like_others),
        TEST(without_memory_for_its_leaf_nothing_is_noted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
