/* When a companion is told that an order has passed: by marks behind its releases. The companion is the test's own, put over the
 * real `host` plugin's allocators; it completes what it is given.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/mem.h"
#include "fake_driver.h"
#include "interpose/capture.h"
#include "interpose/hook.h"
#include "interpose/lane.h"
#include "interpose/lifecycle.h"
#include "interpose/mark.h"
#include "interpose/process.h"
#include "interpose/scope.h"
#include "interpose/serve.h"

#define OTHER_STREAM ((CUstream)(uintptr_t)0x88880)

static struct {
    unsigned calls;
    uint64_t key, ticket;
} told;
static uint64_t given; /* the latest ticket */
static const NxmemAllocatorVtable *plain;
static NxmemStatus (*enqueue_plainly)(void *, const NxmemAllocation *, uint64_t *);

static void order_passed(void *ctx, uint64_t key, uint64_t ticket)
{
    assert_ptr_equal(ctx, &told);
    told.calls++;
    told.key = key;
    told.ticket = ticket;
}

static NxmemStatus enqueue_on(void *ctx, const NxmemCudaOrder *order, const NxmemAllocation *allocation, uint64_t *ticket)
{
    (void)ctx, (void)order;
    NxmemStatus status = enqueue_plainly(plain->ctx, allocation, ticket);

    given = *ticket;
    return status;
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

static bool has_slot = true;

static struct nxm_scope *companion_of(const struct nxm_order *order)
{
    bool refuse = false;
    struct nxm_scope *scope = nxm_scope_enter_for(order, &refuse);

    assert_non_null(scope);
    plain = nxm_allocator_published(scope->allocator);
    enqueue_plainly = plain->enqueue_release;
    scope->companion.vtable.ctx = &told;
    scope->companion.vtable.enqueue_release_on = enqueue_on;
    scope->companion.vtable.order_passed = has_slot ? order_passed : NULL;
    return scope;
}

/* Allocates on the order and releases there. */
static void release_one(const struct nxm_order *order)
{
    CUdeviceptr address = 0;
    struct nxm_scope *scope = companion_of(order);

    assert_int_equal(nxm_serve_allocate(scope, order, 100, NXM_API_cuMemAllocAsync, no_driver, NULL, &address), CUDA_SUCCESS);
    nxm_scope_leave(scope);
    assert_int_equal(nxm_serve_free(address, order, no_free, NULL), CUDA_SUCCESS);
}

static struct nxm_order on(CUstream stream)
{
    struct nxm_order order;

    assert_int_equal(nxm_order_stream(stream, false, &order), CUDA_SUCCESS);
    return order;
}

static void a_key_has_passed_when_the_mark_behind_its_release_has(void **state)
{
    struct nxm_order order = on(FAKE_STREAM);
    (void)state;

    fake.passed = false;
    release_one(&order);
    for (int i = 0; i < 10; i++)
        nxm_lane_poll(i % 2 ? NXM_MOMENT_ANY : NXM_MOMENT_WAIT);
    nxm_lane_flush(NULL, 0);
    assert_int_equal(told.calls, 0);
    fake.passed = true;
    nxm_lane_poll(NXM_MOMENT_ANY);
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.key, order.cuda.stream_key);
    assert_int_equal(told.ticket, given);
    nxm_lane_poll(NXM_MOMENT_ANY);
    nxm_lane_flush(NULL, 0);
    assert_int_equal(told.calls, 1);
    assert_false(nxm_mark_any());
}

static CUresult stream_wait(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

static void the_programs_waits_are_moments_to_tell(void **state)
{
    struct nxm_order order = on(FAKE_STREAM);
    (void)state;

    release_one(&order);
    nxm_real.cuStreamSynchronize = stream_wait;
    assert_int_equal(hook_cuStreamSynchronize(FAKE_STREAM), CUDA_SUCCESS);
    assert_int_equal(told.calls, 1);
    release_one(&order);
    assert_int_equal(hook_cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(told.calls, 2);
}

/* However much is released on a stream that gets nowhere, it keeps two events; and what passes first is told first. */
static void a_stream_keeps_two_marks(void **state)
{
    struct nxm_order order = on(FAKE_STREAM);
    (void)state;

    fake.passed = false;
    release_one(&order);
    uint64_t first = given;
    for (int i = 0; i < 100; i++)
        release_one(&order);
    assert_in_range(fake.events_made, 0, 3);
    assert_int_equal(fake.records, 101); /* a mark stands behind its own release, never before it */
    fake.only_passed = fake.first_recorded;
    nxm_lane_poll(NXM_MOMENT_ANY);
    assert_int_equal(told.ticket, first);
    fake.passed = true;
    nxm_lane_poll(NXM_MOMENT_ANY);
    assert_int_equal(told.calls, 2);
    assert_int_equal(told.ticket, given);
}

static void streams_are_told_apart(void **state)
{
    struct nxm_order one = on(FAKE_STREAM), other = on(OTHER_STREAM);
    (void)state;

    fake.passed = false;
    release_one(&one);
    release_one(&other);
    uint64_t of_other = given;
    fake.only_passed = fake.last_recorded;
    nxm_lane_flush(NULL, 0);
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.key, other.cuda.stream_key);
    assert_int_equal(told.ticket, of_other);
    fake.passed = true;
    nxm_lane_flush(NULL, 0);
    assert_int_equal(told.calls, 2);
    assert_int_equal(told.key, one.cuda.stream_key);
}

static CUresult destroy_stream(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

static void a_destroyed_stream_is_still_told_of(void **state)
{
    struct nxm_order order = on(FAKE_STREAM);
    (void)state;

    fake.passed = false;
    release_one(&order);
    nxm_real.cuStreamDestroy_v2 = destroy_stream;
    assert_int_equal(hook_cuStreamDestroy_v2(FAKE_STREAM), CUDA_SUCCESS);
    assert_int_equal(told.calls, 0);
    fake.passed = true;
    nxm_lane_poll(NXM_MOMENT_ANY);
    assert_int_equal(told.key, order.cuda.stream_key);
}

static CUresult destroy_context(CUcontext context)
{
    (void)context;
    return CUDA_SUCCESS;
}

/* Its events go with it, and say nothing any more; its work has passed. */
static void what_went_with_its_context_has_passed(void **state)
{
    struct nxm_order order = on(FAKE_STREAM);
    (void)state;

    fake.passed = false;
    release_one(&order);
    release_one(&order);
    nxm_real.cuCtxDestroy_v2 = destroy_context;
    assert_int_equal(hook_cuCtxDestroy_v2(OTHER_CONTEXT), CUDA_SUCCESS);
    assert_int_equal(told.calls, 0);
    assert_int_equal(hook_cuCtxDestroy_v2(FAKE_CONTEXT), CUDA_SUCCESS);
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.ticket, given);
    assert_int_equal(fake.events_destroyed, 0);
    assert_false(nxm_mark_any());
}

static void releases_without_a_key_are_not_marked(void **state)
{
    struct nxm_order order = on(FAKE_STREAM), synchronous;
    (void)state;

    order.capturing = true; /* an event recorded there would be the capture's */
    release_one(&order);
    assert_int_equal(nxm_order_synchronous(&synchronous), CUDA_SUCCESS);
    release_one(&synchronous);
    assert_int_equal(fake.records, 0);
    assert_int_equal(fake.context_records, 0);
    assert_false(nxm_mark_any());
}

static void who_does_not_ask_costs_nothing(void **state)
{
    struct nxm_order order = on(FAKE_STREAM);
    (void)state;

    has_slot = false;
    release_one(&order);
    nxm_lane_poll(NXM_MOMENT_ANY);
    assert_int_equal(fake.records, 0);
    assert_int_equal(fake.queries, 0);
}

/* A plugin that asks for memory is inside a call of its own: it hears nothing there. */
static void a_companion_that_is_being_called_is_not_told(void **state)
{
    struct nxm_order order = on(FAKE_STREAM);
    bool refuse = false;
    (void)state;

    release_one(&order);
    struct nxm_scope *scope = nxm_scope_enter_for(&order, &refuse);
    nxm_lane_reclaim(scope, scope->allocator, (NxmemDeviceId){ NXMEM_TIER_DEVICE, 0 }, 1);
    nxm_scope_leave(scope);
    assert_int_equal(told.calls, 0);
    nxm_lane_poll(NXM_MOMENT_ANY);
    assert_int_equal(told.calls, 1);
}

static void a_release_that_could_not_be_marked_is_covered_by_the_next(void **state)
{
    struct nxm_order order = on(FAKE_STREAM);
    (void)state;

    fake.record_result = CUDA_ERROR_ILLEGAL_ADDRESS;
    release_one(&order); /* which is none the worse for it */
    fake.record_result = CUDA_SUCCESS;
    nxm_lane_poll(NXM_MOMENT_ANY);
    assert_int_equal(told.calls, 0);
    assert_false(nxm_mark_any());
    release_one(&order);
    nxm_lane_poll(NXM_MOMENT_ANY);
    assert_int_equal(told.ticket, given);
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
    nxm_event_context_gone(FAKE_CONTEXT, false); /* no idle events of the last test */
    told = (__typeof__(told)){ 0 };
    has_slot = true;
    return 0;
}

int main(void)
{
#define MARK(test) cmocka_unit_test_setup(test, reset)
    const struct CMUnitTest tests[] = {
        MARK(a_key_has_passed_when_the_mark_behind_its_release_has),
        MARK(the_programs_waits_are_moments_to_tell),
        MARK(a_stream_keeps_two_marks),
        MARK(streams_are_told_apart),
        MARK(a_destroyed_stream_is_still_told_of),
        MARK(what_went_with_its_context_has_passed),
        MARK(releases_without_a_key_are_not_marked),
        MARK(who_does_not_ask_costs_nothing),
        MARK(a_companion_that_is_being_called_is_not_told),
        MARK(a_release_that_could_not_be_marked_is_covered_by_the_next),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
