/* Calls of virtual memory management on a mechanism's own range, of which parts may be mapped and others not yet: the driver is asked about
 * nothing in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fake_driver.h"
#include "interpose/hook.h"
#include "interpose/lifecycle.h"
#include "interpose/owned.h"

/* The mechanism's range. */
#define OWNED 0x7000000u
#define BYTES 0x100000u

static CUdeviceptr asked; /* what the driver was asked about */

static CUresult answer(CUdeviceptr address)
{
    asked = address;
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    (void)bytes, (void)offset, (void)handle, (void)flags;
    return answer(address);
}

static CUresult address_free(CUdeviceptr address, size_t bytes)
{
    (void)bytes;
    return answer(address);
}

static void nothing_is_mapped_in_a_mechanisms_range(void **state)
{
    (void)state;
    assert_int_equal(hook_cuMemMap(OWNED + 0x10000, 0x10000, 0, 7, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(asked, 0);
    hook_cuMemMap(OWNED + BYTES, 0x10000, 0, 7, 0);
    assert_int_equal(asked, OWNED + BYTES);
}

static void a_mechanisms_range_is_not_given_back_by_the_program(void **state)
{
    (void)state;
    assert_int_equal(hook_cuMemAddressFree(OWNED, BYTES), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(asked, 0);
    assert_true(nxm_owned_contains(OWNED));
    hook_cuMemAddressFree(OWNED + BYTES, BYTES);
    assert_int_equal(asked, OWNED + BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_mapped_in_a_mechanisms_range),
        cmocka_unit_test(a_mechanisms_range_is_not_given_back_by_the_program),
    };
    fake_driver_reset();
    setenv("NXMEM_PLUGIN", NXM_TEST_PLUGIN, 1);
    setenv("NXMEM_HOST_AS_DEVICE", "1", 1);
    nxm_leave(nxm_enter(NULL, true));
    nxm_real.cuMemMap = map;
    nxm_real.cuMemAddressFree = address_free;
    nxm_owned_allocated(CUDA_SUCCESS, OWNED, BYTES);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
