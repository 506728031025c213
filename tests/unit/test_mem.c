/* core/mem: the one door for our own memory, and the failure that a test can plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"

static void new_is_zero_filled_even_where_memory_is_reused(void **state)
{
    static const unsigned char zeros[256];

    (void)state;
    for (int i = 0; i < 8; i++) {
        unsigned char *object = nxm_mem_new(sizeof zeros);

        assert_non_null(object);
        assert_memory_equal(object, zeros, sizeof zeros);
        memset(object, 0xA5, sizeof zeros);
        nxm_mem_free(object);
    }
}

static void map_is_page_aligned_zero_filled_and_writable_to_its_end(void **state)
{
    size_t bytes = 3 * 4096 + 17;
    unsigned char *pages = nxm_mem_map(bytes);

    (void)state;
    assert_non_null(pages);
    assert_int_equal((uintptr_t)pages % 4096, 0);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(pages[i], 0);
    pages[bytes - 1] = 1;
    nxm_mem_unmap(pages, bytes);
}

static void free_and_unmap_take_null(void **state)
{
    (void)state;
    nxm_mem_free(NULL);
    nxm_mem_unmap(NULL, 4096);
}

static void zero_bytes_are_refused(void **state)
{
    (void)state;
    assert_null(nxm_mem_new(0));
    assert_null(nxm_mem_map(0));
}

static void an_impossible_size_is_null_not_a_fault(void **state)
{
    (void)state;
    assert_null(nxm_mem_map(SIZE_MAX / 2));
}

static void the_planned_request_fails_once_whichever_door_it_takes(void **state)
{
    void *first, *third;

    (void)state;
    nxm_mem_fail_at(2);
    first = nxm_mem_new(8);
    assert_non_null(first);
    assert_null(nxm_mem_map(4096));
    third = nxm_mem_new(8);
    assert_non_null(third);
    nxm_mem_free(first);
    nxm_mem_free(third);
}

static void a_planned_failure_can_be_called_off(void **state)
{
    void *object;

    (void)state;
    nxm_mem_fail_at(1);
    nxm_mem_fail_at(0);
    object = nxm_mem_new(8);
    assert_non_null(object);
    nxm_mem_free(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_is_zero_filled_even_where_memory_is_reused),
        cmocka_unit_test(map_is_page_aligned_zero_filled_and_writable_to_its_end),
        cmocka_unit_test(free_and_unmap_take_null),
        cmocka_unit_test(zero_bytes_are_refused),
        cmocka_unit_test(an_impossible_size_is_null_not_a_fault),
        cmocka_unit_test(the_planned_request_fails_once_whichever_door_it_takes),
        cmocka_unit_test(a_planned_failure_can_be_called_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
