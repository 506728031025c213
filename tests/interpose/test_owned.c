#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "interpose/owned.h"
#include "interpose/thread.h"

static void an_address_inside_a_plugins_range_is_found(void **state)
{
    (void)state;
    nxm_owned_allocated(CUDA_SUCCESS, 0x10000, 0x1000);
    assert_true(nxm_owned_contains(0x10000));
    assert_true(nxm_owned_contains(0x10FFF));
    assert_false(nxm_owned_contains(0x11000));
    assert_false(nxm_owned_contains(0xFFFF));
    assert_int_equal(nxm_owned_take(0x10000), 0x1000);
    assert_false(nxm_owned_contains(0x10000));
}

static void a_refused_free_puts_the_range_back(void **state)
{
    (void)state;
    nxm_owned_allocated(CUDA_SUCCESS, 0x20000, 64);
    uint64_t taken = nxm_owned_take(0x20000);
    assert_int_equal(nxm_owned_freed(CUDA_ERROR_ILLEGAL_ADDRESS, 0x20000, taken), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_true(nxm_owned_contains(0x20000));
    assert_int_equal(nxm_thread.nested_error, CUDA_ERROR_ILLEGAL_ADDRESS);
    taken = nxm_owned_take(0x20000);
    nxm_owned_freed(CUDA_SUCCESS, 0x20000, taken);
    assert_false(nxm_owned_contains(0x20000));
}

static void a_failed_allocation_is_remembered_for_the_thread_and_nothing_recorded(void **state)
{
    (void)state;
    nxm_thread.nested_error = CUDA_SUCCESS;
    assert_int_equal(nxm_owned_allocated(CUDA_ERROR_OUT_OF_MEMORY, 0x30000, 64), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(nxm_thread.nested_error, CUDA_ERROR_OUT_OF_MEMORY);
    assert_false(nxm_owned_contains(0x30000));
}

static void a_mechanism_that_hands_out_the_drivers_blocks_owns_no_range_beside_them(void **state)
{
    (void)state;
    nxm_thread.block_is_range = true;
    nxm_owned_allocated(CUDA_SUCCESS, 0x40000, 64);
    nxm_thread.block_is_range = false;
    assert_false(nxm_owned_contains(0x40000));
}

static void many_ranges_in_any_order_stay_apart(void **state)
{
    enum { MANY = 3000 };
    (void)state;
    for (uint64_t i = 0; i < MANY; i++) {
        uint64_t k = i * 7919 % MANY;
        nxm_owned_allocated(CUDA_SUCCESS, 0x100000 + k * 0x100, 0x80);
    }
    for (uint64_t i = 0; i < MANY; i++) {
        assert_true(nxm_owned_contains(0x100000 + i * 0x100 + 0x7F));
        assert_false(nxm_owned_contains(0x100000 + i * 0x100 + 0x80));
    }
    for (uint64_t i = 0; i < MANY; i += 2)
        assert_int_equal(nxm_owned_take(0x100000 + i * 0x100), 0x80);
    for (uint64_t i = 0; i < MANY; i++)
        assert_int_equal(nxm_owned_contains(0x100000 + i * 0x100), i % 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_inside_a_plugins_range_is_found),
        cmocka_unit_test(a_refused_free_puts_the_range_back),
        cmocka_unit_test(a_failed_allocation_is_remembered_for_the_thread_and_nothing_recorded),
        cmocka_unit_test(a_mechanism_that_hands_out_the_drivers_blocks_owns_no_range_beside_them),
        cmocka_unit_test(many_ranges_in_any_order_stay_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
