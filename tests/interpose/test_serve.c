/* Allocating and freeing by ownership, against a driver under the test's hand and the `host` plugin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/mem.h"
#include "fake_driver.h"
#include "interpose/lifecycle.h"
#include "interpose/owned.h"
#include "interpose/process.h"
#include "interpose/serve.h"
#include "interpose/tally.h"

static CUresult no_driver(void *unused, CUdeviceptr *ret_address)
{
    (void)unused, (void)ret_address;
    return CUDA_ERROR_UNKNOWN;
}

static unsigned native_calls;
static CUresult native_result;

static CUresult native_free(void *unused)
{
    (void)unused;
    native_calls++;
    return native_result;
}

static CUresult native_allocate(void *argument, CUdeviceptr *ret_address)
{
    native_calls++;
    *ret_address = *(CUdeviceptr *)argument;
    return native_result;
}

static struct nxm_order order;

static CUdeviceptr allocate(void)
{
    bool refuse = false;
    CUdeviceptr address = 0;
    struct nxm_scope *scope = nxm_scope_enter_for(&order, &refuse);

    assert_non_null(scope);
    assert_int_equal(nxm_serve_allocate(scope, &order, 1000, NXM_API_cuMemAlloc_v2, no_driver, NULL, &address), CUDA_SUCCESS);
    nxm_scope_leave(scope);
    return address;
}

static bool is_known(CUdeviceptr address, struct nxm_block *ret_block)
{
    return nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, ret_block) == NXM_OK;
}

static void a_block_of_the_plugin_never_reaches_the_driver(void **state)
{
    struct nxm_block block;
    (void)state;
    CUdeviceptr address = allocate();

    assert_true(is_known(address, &block));
    assert_int_equal(block.bytes, 1000);
    assert_int_equal(address % NXM_DEVICE_ALIGN, 0);
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_SUCCESS);
    assert_int_equal(native_calls, 0);
    assert_false(is_known(address, &block));
}

static void an_address_nobody_here_knows_is_the_drivers_to_judge(void **state)
{
    (void)state;
    uint64_t misuse = nxm_tally(NXM_COUNT_MISUSE), unknown = nxm_tally_amount(NXM_AMOUNT_UNKNOWN_FREES).blocks;
    native_result = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(nxm_serve_free(0xABCD00, &order, native_free, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(native_calls, 1);
    assert_int_equal(nxm_tally(NXM_COUNT_MISUSE), misuse + 1);
    native_result = CUDA_SUCCESS;
    assert_int_equal(nxm_serve_free(0xABCD00, &order, native_free, NULL), CUDA_SUCCESS);
    assert_int_equal(nxm_tally(NXM_COUNT_MISUSE), misuse + 1);
    assert_int_equal(nxm_tally_amount(NXM_AMOUNT_UNKNOWN_FREES).blocks, unknown + 1);
}

static void a_plugins_own_range_is_refused_and_never_forwarded(void **state)
{
    uint64_t misuse = nxm_tally(NXM_COUNT_MISUSE);
    (void)state;
    nxm_owned_allocated(CUDA_SUCCESS, 0xC00000, 0x10000);
    assert_int_equal(nxm_serve_free(0xC00000, &order, native_free, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(nxm_serve_free(0xC08000, &order, native_free, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(native_calls, 0);
    assert_int_equal(nxm_tally(NXM_COUNT_MISUSE), misuse + 2);
    nxm_owned_take(0xC00000);
}

static void a_native_block_is_the_drivers_to_free_and_stays_when_that_failed(void **state)
{
    struct nxm_block block;
    CUdeviceptr address = 0, given = 0xE000;
    (void)state;
    assert_int_equal(nxm_serve_native(&order, 64, NXM_CLASS_NATIVE, NXM_API_cuMemAlloc_v2, 0, native_allocate, &given,
                                      &address), CUDA_SUCCESS);
    native_result = CUDA_ERROR_LAUNCH_FAILED;
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_ERROR_LAUNCH_FAILED);
    assert_true(is_known(address, &block));
    assert_int_equal(block.state, NXM_BLOCK_LIVE);
    native_result = CUDA_SUCCESS;
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_SUCCESS);
    assert_false(is_known(address, &block));
}

static void an_address_the_driver_hands_out_again_was_freed_out_of_sight(void **state)
{
    struct nxm_block block;
    CUdeviceptr address = 0, given = 0xE100;
    uint64_t before = nxm_tally_amount(NXM_AMOUNT_OUT_OF_SIGHT).blocks;
    (void)state;
    nxm_serve_native(&order, 64, NXM_CLASS_NATIVE, NXM_API_cuMemAlloc_v2, 0, native_allocate, &given, &address);
    nxm_serve_native(&order, 128, NXM_CLASS_NATIVE, NXM_API_cuMemAlloc_v2, 0, native_allocate, &given, &address);
    assert_true(is_known(address, &block));
    assert_int_equal(block.bytes, 128);
    assert_int_equal(nxm_tally_amount(NXM_AMOUNT_OUT_OF_SIGHT).blocks, before + 1);
    nxm_serve_free(address, &order, native_free, NULL);
}

/* What a mechanism answers that passes the driver's own addresses on: always the same one here. */
static NxmemStatus allocate_on(void *ctx, const NxmemCudaOrder *of, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    (void)ctx, (void)of;
    result->ptr = (uint8_t *)(uintptr_t)0xD0000;
    result->owned_bytes = result->mapped_bytes = request->bytes;
    return (NxmemStatus){ .code = NXMEM_STATUS_OK };
}

static void a_block_freed_out_of_sight_does_not_stand_in_the_way_of_the_next(void **state)
{
    bool refuse = false;
    CUdeviceptr address = 0;
    struct nxm_block block;
    struct nxm_scope *scope = nxm_scope_enter_for(&order, &refuse);
    NxmemCudaVtable none = scope->companion.vtable;
    uint64_t before = nxm_tally_amount(NXM_AMOUNT_OUT_OF_SIGHT).blocks;

    (void)state;
    scope->companion.vtable.allocate_on = allocate_on;
    assert_int_equal(nxm_serve_allocate(scope, &order, 500, NXM_API_cuMemAlloc_v2, no_driver, NULL, &address), CUDA_SUCCESS);
    /* a plugin that does not pass the driver's addresses on hands out a live one: refused */
    assert_int_equal(nxm_serve_allocate(scope, &order, 600, NXM_API_cuMemAlloc_v2, no_driver, NULL, &address), CUDA_ERROR_OUT_OF_MEMORY);
    scope->companion.vtable.traits = NXMEM_CUDA_TRAIT_BASE_IS_DRIVER_ALLOCATION;
    assert_int_equal(nxm_serve_allocate(scope, &order, 700, NXM_API_cuMemAlloc_v2, no_driver, NULL, &address), CUDA_SUCCESS);
    /* nor does one that the program has freed, and that only waits */
    assert_true(is_known(address, &block));
    assert_int_equal(block.bytes, 700);
    assert_int_equal(nxm_blocks_claim(nxm_table(NXM_TABLE_MEMORY), address, block.id, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL), NXM_OK);
    assert_int_equal(nxm_serve_allocate(scope, &order, 800, NXM_API_cuMemAlloc_v2, no_driver, NULL, &address), CUDA_SUCCESS);
    assert_true(is_known(address, &block));
    assert_int_equal(block.bytes, 800);
    /* nor where the driver itself serves again */
    CUdeviceptr given = address;
    nxm_serve_native(&order, 900, NXM_CLASS_NATIVE, NXM_API_cuMemAlloc_v2, 0, native_allocate, &given, &address);
    scope->companion.vtable = none;
    nxm_scope_leave(scope);
    assert_true(is_known(address, &block));
    assert_int_equal(block.bytes, 900);
    assert_null(block.allocator);
    assert_int_equal(nxm_tally_amount(NXM_AMOUNT_OUT_OF_SIGHT).blocks, before + 3);
    nxm_blocks_remove(nxm_table(NXM_TABLE_MEMORY), address, block.id);
}

/* The record cannot be kept: what the plugin gave goes back, and the driver serves. */
static void without_memory_of_our_own_the_driver_serves(void **state)
{
    bool refuse = false;
    CUdeviceptr address = 0, given = 0xE300;
    struct nxm_scope *scope = nxm_scope_enter_for(&order, &refuse);

    (void)state;
    for (unsigned long n = 1; n <= 6; n++) {
        native_calls = 0;
        nxm_mem_fail_at(n);
        assert_int_equal(nxm_serve_allocate(scope, &order, 500, NXM_API_cuMemAlloc_v2, native_allocate, &given, &address),
                         CUDA_SUCCESS);
        nxm_mem_fail_at(0);
        nxm_serve_free(address, &order, native_free, NULL);
    }
    nxm_scope_leave(scope);
}

static void a_late_free_of_plugin_memory_is_counted_and_not_the_drivers(void **state)
{
    struct nxm_block block;
    uint64_t before = nxm_tally_amount(NXM_AMOUNT_FREED_DURING_EXIT).blocks;
    (void)state;
    CUdeviceptr address = allocate();

    assert_int_equal(nxm_serve_free_late(address, native_free, NULL), CUDA_SUCCESS);
    assert_int_equal(native_calls, 0);
    assert_int_equal(nxm_tally_amount(NXM_AMOUNT_FREED_DURING_EXIT).blocks, before + 1);
    assert_false(is_known(address, &block));
    free((void *)(uintptr_t)address); /* nobody else does any more */
}

static void a_late_free_of_the_drivers_memory_is_the_drivers(void **state)
{
    CUdeviceptr address = 0, given = 0xE200;
    (void)state;
    nxm_serve_native(&order, 64, NXM_CLASS_NATIVE, NXM_API_cuMemAlloc_v2, 0, native_allocate, &given, &address);
    native_calls = 0;
    native_result = CUDA_ERROR_DEINITIALIZED;
    assert_int_equal(nxm_serve_free_late(address, native_free, NULL), CUDA_ERROR_DEINITIALIZED);
    assert_int_equal(native_calls, 1);
}

static int begin(void **state)
{
    (void)state;
    setenv("NXMEM_PLUGIN", NXM_TEST_PLUGIN, 1);
    setenv("NXMEM_HOST_AS_DEVICE", "1", 1);
    fake_driver_reset();
    enum nxm_mode mode = nxm_enter(NULL, true);
    nxm_leave(mode);
    return mode == NXM_MODE_SERVE && nxm_plugin() ? 0 : -1;
}

static int reset(void **state)
{
    (void)state;
    fake_driver_reset();
    native_calls = 0;
    native_result = CUDA_SUCCESS;
    return nxm_order_synchronous(&order) == CUDA_SUCCESS ? 0 : -1;
}

int main(void)
{
#define SERVE(test) cmocka_unit_test_setup(test, reset)
    const struct CMUnitTest tests[] = {
        SERVE(a_block_of_the_plugin_never_reaches_the_driver),
        SERVE(an_address_nobody_here_knows_is_the_drivers_to_judge),
        SERVE(a_plugins_own_range_is_refused_and_never_forwarded),
        SERVE(a_native_block_is_the_drivers_to_free_and_stays_when_that_failed),
        SERVE(an_address_the_driver_hands_out_again_was_freed_out_of_sight),
        SERVE(a_block_freed_out_of_sight_does_not_stand_in_the_way_of_the_next),
        SERVE(without_memory_of_our_own_the_driver_serves),
        SERVE(a_late_free_of_plugin_memory_is_counted_and_not_the_drivers),
        SERVE(a_late_free_of_the_drivers_memory_is_the_drivers),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
