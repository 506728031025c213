/* With nothing owed a wait of the program, and its question to a stream, is the driver's function and nothing else. The driver is under
 * the test's hand; the plugin is the real `host`, which queues what it is given back until it is drained. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/allocator_state.h"
#include "fake_driver.h"
#include "interpose/event.h"
#include "interpose/hook.h"
#include "interpose/lane.h"
#include "interpose/mark.h"
#include "interpose/owes.h"
#include "interpose/scope.h"
#include "interpose/serve.h"

static unsigned calls, through_the_shim;
static CUresult answer;

static CUresult stream_call(CUstream stream)
{
    assert_ptr_equal(stream, FAKE_STREAM);
    calls++;
    through_the_shim += nxm_thread.inside != 0;
    return answer;
}

static CUresult context_call(void)
{
    return stream_call(FAKE_STREAM);
}

/* Whether each of these goes through the shim. */
static bool waits_go_through(void)
{
    unsigned calls_before = calls, before = through_the_shim;

    assert_int_equal(hook_cuStreamQuery(FAKE_STREAM), answer);
    bool first = through_the_shim == before + 1;
    assert_int_equal(hook_cuStreamQuery_ptsz(FAKE_STREAM), answer);
    assert_int_equal(hook_cuStreamSynchronize(FAKE_STREAM), answer);
    assert_int_equal(hook_cuStreamSynchronize_ptsz(FAKE_STREAM), answer);
    assert_int_equal(hook_cuCtxSynchronize(), answer);
    assert_int_equal(calls, calls_before + 5);
    assert_int_equal(through_the_shim - before, first ? 5 : 0);
    return first;
}

static CUresult no_driver(void *unused, CUdeviceptr *ret_address)
{
    (void)unused, (void)ret_address;
    return CUDA_ERROR_UNKNOWN;
}

static CUresult no_free(void *unused)
{
    (void)unused;
    return CUDA_ERROR_INVALID_VALUE;
}

static CUdeviceptr free_on_stream(void)
{
    struct nxm_order order;
    bool refuse = false;
    CUdeviceptr address = 0;

    assert_int_equal(nxm_order_stream(FAKE_STREAM, false, &order), CUDA_SUCCESS);
    struct nxm_scope *scope = nxm_scope_enter_for(&order, &refuse);
    assert_non_null(scope);
    assert_int_equal(nxm_serve_allocate(scope, &order, 100, NXM_API_cuMemAllocAsync, no_driver, NULL, &address), CUDA_SUCCESS);
    nxm_scope_leave(scope);
    assert_int_equal(nxm_serve_free(address, &order, no_free, NULL), CUDA_SUCCESS);
    return address;
}

static bool is_known(CUdeviceptr address)
{
    struct nxm_block block;

    return nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &block) == NXM_OK;
}

static void at_first_one_looks(void **state)
{
    (void)state;
    assert_false(nxm_owes_nothing());
    assert_int_equal(hook_cuStreamQuery(FAKE_STREAM), CUDA_SUCCESS);
    assert_int_equal(through_the_shim, 1);
    assert_true(nxm_owes_nothing());
}

static void with_nothing_owed_the_driver_is_called_in_the_hooks_place(void **state)
{
    (void)state;
    assert_false(waits_go_through());
    answer = CUDA_ERROR_NOT_READY;
    assert_false(waits_go_through());
}

static void what_waits_on_a_lane_is_looked_at_until_it_has_passed(void **state)
{
    (void)state;
    fake.passed = false;
    CUdeviceptr address = free_on_stream();
    assert_true(waits_go_through());
    assert_true(waits_go_through());
    assert_true(is_known(address));
    fake.passed = true;
    assert_int_equal(hook_cuStreamSynchronize(FAKE_STREAM), CUDA_SUCCESS);
    assert_false(is_known(address));
    assert_false(waits_go_through());
}

static uint64_t told;

static void order_passed(void *ctx, uint64_t key, uint64_t ticket)
{
    (void)ctx, (void)key;
    told = ticket;
}

static void a_mark_is_looked_at_until_it_has_passed(void **state)
{
    struct nxm_order order;
    bool refuse = false;
    (void)state;
    assert_int_equal(nxm_order_stream(FAKE_STREAM, false, &order), CUDA_SUCCESS);
    struct nxm_scope *scope = nxm_scope_enter_for(&order, &refuse);
    scope->companion.vtable.order_passed = order_passed;
    fake.passed = false;
    nxm_mark_behind(scope, &order, 7);
    nxm_scope_leave(scope);
    assert_true(waits_go_through());
    assert_true(waits_go_through());
    assert_int_equal(told, 0);
    fake.passed = true;
    assert_int_equal(hook_cuStreamQuery(FAKE_STREAM), CUDA_SUCCESS);
    assert_int_equal(told, 7);
    assert_false(waits_go_through());
}

/* A question gives it to the plugin, and only a wait drains that. */
static void a_drain_is_owed_until_a_wait(void **state)
{
    (void)state;
    CUdeviceptr address = free_on_stream();
    assert_int_equal(hook_cuStreamQuery(FAKE_STREAM), CUDA_SUCCESS);
    assert_true(nxm_giveback_owed());
    assert_true(is_known(address));
    assert_int_equal(hook_cuStreamSynchronize(FAKE_STREAM), CUDA_SUCCESS);
    assert_false(is_known(address));
    assert_false(waits_go_through());
}

static NxmemStatus drains_nothing(void *ctx, uint64_t budget, uint64_t *retired)
{
    (void)ctx, (void)budget;
    *retired = 0;
    return (NxmemStatus){ .code = NXMEM_STATUS_OK };
}

/* A plugin in which another thread is draining answers so at once. */
static void a_drain_that_left_something_is_owed_still(void **state)
{
    struct nxm_block block;
    (void)state;
    CUdeviceptr address = free_on_stream();
    assert_int_equal(nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &block), NXM_OK);
    struct nxm_allocator *allocator = ((struct nxm_scope *)(uintptr_t)block.tag)->allocator;
    __typeof__(allocator->vtable.drain_releases) drain = allocator->vtable.drain_releases;
    allocator->vtable.drain_releases = drains_nothing;
    assert_int_equal(hook_cuStreamSynchronize(FAKE_STREAM), CUDA_SUCCESS);
    assert_true(is_known(address));
    assert_true(nxm_giveback_owed());
    allocator->vtable.drain_releases = drain;
    assert_int_equal(hook_cuStreamSynchronize(FAKE_STREAM), CUDA_SUCCESS);
    assert_false(is_known(address));
    assert_false(waits_go_through());
}

static void a_failed_wait_gives_nothing_back_and_is_looked_behind(void **state)
{
    (void)state;
    CUdeviceptr address = free_on_stream();
    answer = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_true(waits_go_through());
    assert_true(is_known(address));
    answer = CUDA_SUCCESS;
    assert_int_equal(hook_cuCtxSynchronize(), CUDA_SUCCESS);
    assert_false(is_known(address));
}

/* As in an older driver: the hook answers for it. */
static void a_driver_without_one_of_them_is_never_called_blindly(void **state)
{
    (void)state;
    nxm_real.cuStreamQuery_ptsz = NULL;
    free_on_stream();
    assert_int_equal(hook_cuStreamSynchronize(FAKE_STREAM), CUDA_SUCCESS);
    assert_false(nxm_owes_nothing());
    assert_int_equal(hook_cuStreamQuery_ptsz(FAKE_STREAM), CUDA_ERROR_NOT_FOUND);
}

static int begin(void **state)
{
    (void)state;
    setenv("NXMEM_PLUGIN", NXM_TEST_PLUGIN, 1);
    setenv("NXMEM_HOST_AS_DEVICE", "1", 1);
    setenv("NXMEM_STACKS", "0", 1);
    fake_driver_reset();
    enum nxm_mode mode = nxm_enter(NULL, true);
    nxm_leave(mode);
    return mode == NXM_MODE_SERVE && nxm_plugin() ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    nxm_scope_close_all();
    return 0;
}

static int reset(void **state)
{
    (void)state;
    fake_driver_reset();
    nxm_real.cuStreamQuery = nxm_real.cuStreamQuery_ptsz = stream_call;
    nxm_real.cuStreamSynchronize = nxm_real.cuStreamSynchronize_ptsz = stream_call;
    nxm_real.cuCtxSynchronize = context_call;
    nxm_event_context_gone(FAKE_CONTEXT, false); /* no idle events of the last test */
    answer = CUDA_SUCCESS;
    calls = through_the_shim = 0;
    return 0;
}

int main(void)
{
#define OWES(test) cmocka_unit_test_setup(test, reset)
    const struct CMUnitTest tests[] = {
        OWES(at_first_one_looks), /* it must be the first */
        OWES(with_nothing_owed_the_driver_is_called_in_the_hooks_place),
        OWES(what_waits_on_a_lane_is_looked_at_until_it_has_passed),
        OWES(a_mark_is_looked_at_until_it_has_passed),
        OWES(a_drain_is_owed_until_a_wait),
        OWES(a_drain_that_left_something_is_owed_still),
        OWES(a_failed_wait_gives_nothing_back_and_is_looked_behind),
        OWES(a_driver_without_one_of_them_is_never_called_blindly), /* it must be the last */
    };
    return cmocka_run_group_tests(tests, begin, end);
}
