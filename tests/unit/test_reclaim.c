/* core/deferred.c: the plugin asks its host for memory. */
#include "core/allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/support/fake.h"
#include "tests/unit/support/host.h"

static int setup(void **state)
{
    int result = host_setup(state);

    host.options.owner = &host;
    if (result == 0)
        host_open();
    return result;
}

static int64_t reclaim_answer;
static uint64_t reclaim_asked, reclaim_inside;

static int64_t reclaim(void *owner, struct nxm_allocator *allocator, NxmemDeviceId device, uint64_t bytes)
{
    assert_ptr_equal(owner, &host);
    assert_ptr_equal(allocator, host.allocator);
    assert_int_equal(device.tier, NXMEM_TIER_DEVICE);
    reclaim_asked = bytes;
    reclaim_inside = host_tallies().inside;
    return reclaim_answer;
}

static void reopen_with_reclaim(int64_t answer)
{
    host_close();
    reclaim_answer = answer;
    host.options.reclaim = reclaim;
    host_open();
    fake.reclaim_first = 4096;
}

static void a_host_without_reclaim_says_so(void **state)
{
    (void)state;
    fake.reclaim_first = 4096;
    host_allocate(64);
    assert_int_equal(fake.last_reclaim_status, NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
    assert_int_equal(fake.last_reclaimed, 0);
    assert_int_equal(host_totals().reclaim_calls, 1);
    assert_int_equal(host_totals().reclaim_failures, 1);
}

static void what_was_reclaimed_is_reported(void **state)
{
    (void)state;
    reopen_with_reclaim(1234);
    host_allocate(64);
    assert_int_equal(fake.last_reclaim_status, 0);
    assert_int_equal(fake.last_reclaimed, 1234);
    assert_int_equal(reclaim_asked, 4096);
    assert_int_equal(reclaim_inside, 1);
    assert_int_equal(host_tallies().inside, 0);
    assert_int_equal(host_totals().reclaim_calls, 1);
    assert_int_equal(host_totals().reclaim_failures, 0);
}

static void zero_reclaimed_is_a_success(void **state)
{
    (void)state;
    reopen_with_reclaim(0);
    host_allocate(64);
    assert_int_equal(fake.last_reclaim_status, 0);
    assert_int_equal(fake.last_reclaimed, 0);
}

static void a_failing_reclaim_writes_zero(void **state)
{
    (void)state;
    reopen_with_reclaim(NXM_EBUSY);
    host_allocate(64);
    assert_int_equal(fake.last_reclaim_status, NXMEM_STATUS_CALLBACK_FAILED);
    assert_int_equal(fake.last_reclaimed, 0);
    assert_int_equal(host_totals().reclaim_failures, 1);
}

static uint32_t ask(NxmemDeviceId device, uint32_t struct_size)
{
    NxmemReclaimRequest request = { .struct_size = struct_size, .device = device, .bytes = 1 };
    uint64_t reclaimed = 77;
    uint32_t code = fake.last_callbacks->request_reclaim(fake.last_callbacks->host_ctx, &request, &reclaimed).code;

    if (code != 0)
        assert_int_equal(reclaimed, 0);
    return code;
}

static void reclaim_for_another_device_is_refused(void **state)
{
    (void)state;
    reopen_with_reclaim(5);
    assert_int_equal(ask((NxmemDeviceId){ NXMEM_TIER_DEVICE, 1 }, 32), NXMEM_STATUS_WRONG_DEVICE);
    assert_int_equal(ask((NxmemDeviceId){ NXMEM_TIER_HOST, 0 }, 32), NXMEM_STATUS_WRONG_DEVICE);
    assert_int_equal(ask((NxmemDeviceId){ 3, 0 }, 32), NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(ask((NxmemDeviceId){ NXMEM_TIER_DEVICE, 0 }, 16), NXMEM_STATUS_SHORT_STRUCT);
    assert_int_equal(ask((NxmemDeviceId){ NXMEM_TIER_DEVICE, 0 }, 32), 0);
    assert_int_equal(host_totals().reclaim_calls, 5);
    assert_int_equal(host_totals().reclaim_failures, 4);
}

static void null_pointers_in_reclaim_are_refused(void **state)
{
    const NxmemHostCallbacks *callbacks = fake.last_callbacks;
    NxmemReclaimRequest request = { .struct_size = sizeof request };
    uint64_t reclaimed = 77;

    (void)state;
    assert_int_equal(callbacks->request_reclaim(NULL, &request, &reclaimed).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(reclaimed, 0);
    assert_int_equal(callbacks->request_reclaim(callbacks->host_ctx, NULL, &reclaimed).code,
                     NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(callbacks->request_reclaim(callbacks->host_ctx, &request, NULL).code,
                     NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(host_totals().reclaim_calls, 0); /* nothing was asked for */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, host_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_host_without_reclaim_says_so),
        TEST(what_was_reclaimed_is_reported),
        TEST(zero_reclaimed_is_a_success),
        TEST(a_failing_reclaim_writes_zero),
        TEST(reclaim_for_another_device_is_refused),
        TEST(null_pointers_in_reclaim_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
