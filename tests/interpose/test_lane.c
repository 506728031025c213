/* Lanes against a driver under the test's hand and the real `host` plugin, which poisons what it frees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/mem.h"
#include "fake_driver.h"
#include "interpose/capture.h"
#include "interpose/deferral.h"
#include "interpose/event.h"
#include "interpose/lane.h"
#include "interpose/lifecycle.h"
#include "interpose/process.h"
#include "interpose/order.h"
#include "interpose/serve.h"

static CUresult no_driver(void *unused, CUdeviceptr *ret_address)
{
    (void)unused, (void)ret_address;
    return CUDA_ERROR_UNKNOWN;
}

static CUresult native_free(void *unused)
{
    (void)unused;
    return CUDA_ERROR_INVALID_VALUE; /* the driver knows none of the plugin's pointers */
}

static CUdeviceptr allocate(struct nxm_order *order)
{
    bool refuse = false;
    CUdeviceptr address = 0;
    struct nxm_scope *scope = nxm_scope_enter_for(order, &refuse);

    assert_non_null(scope);
    assert_int_equal(nxm_serve_allocate(scope, order, 4096, NXM_API_cuMemAlloc_v2, no_driver, NULL, &address), CUDA_SUCCESS);
    nxm_scope_leave(scope);
    return address;
}

static CUdeviceptr allocate_synchronous(struct nxm_order *order)
{
    assert_int_equal(nxm_order_synchronous(order), CUDA_SUCCESS);
    return allocate(order);
}

static CUdeviceptr allocate_on_stream(struct nxm_order *order)
{
    assert_int_equal(nxm_order_stream(FAKE_STREAM, false, order), CUDA_SUCCESS);
    return allocate(order);
}

static void begin_capture(void)
{
    nxm_capture_announce();
    nxm_capture_begun(FAKE_STREAM, false, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_SUCCESS);
}

static uint64_t waiting(void)
{
    uint64_t blocks, bytes;

    nxm_lane_amount(&blocks, &bytes);
    assert_int_equal(bytes, blocks * 4096);
    return blocks;
}

static bool is_known(CUdeviceptr address)
{
    struct nxm_block block;

    return nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &block) == NXM_OK;
}

static enum nxm_block_state state_of(CUdeviceptr address)
{
    struct nxm_block block = { .state = 0 };

    nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &block);
    return (enum nxm_block_state)block.state;
}

static void a_block_freed_on_a_stream_stays_until_its_event_has_passed(void **state)
{
    struct nxm_order order;
    (void)state;
    CUdeviceptr address = allocate_on_stream(&order);

    fake.passed = false;
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_SUCCESS);
    assert_int_equal(fake.records, 1);
    for (int i = 0; i < 10; i++)
        nxm_lane_poll_context(NULL);
    nxm_lane_flush(NULL, 0);
    assert_int_equal(state_of(address), NXM_BLOCK_WAITING);
    assert_int_equal(waiting(), 1);
    fake.passed = true;
    nxm_lane_poll_context(NULL);
    assert_int_equal(waiting(), 0);
    assert_false(is_known(address));
}

static void a_second_free_of_a_waiting_block_is_answered_here(void **state)
{
    struct nxm_order order;
    (void)state;
    CUdeviceptr address = allocate_on_stream(&order);

    fake.passed = false;
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_SUCCESS);
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(waiting(), 1);
    fake.passed = true;
    nxm_lane_flush(NULL, 0);
    assert_int_equal(waiting(), 0);
}

/* What a thread does that looked the block up before another one freed it. */
static void of_two_threads_that_saw_it_live_one_frees_it(void **state)
{
    struct nxm_order order;
    struct nxm_block seen;
    (void)state;
    CUdeviceptr address = allocate_on_stream(&order);

    assert_int_equal(nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &seen), NXM_OK);
    fake.passed = false;
    assert_int_equal(nxm_deferral_on_stream(&seen, &order), CUDA_SUCCESS);
    assert_int_equal(nxm_deferral_on_stream(&seen, &order), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(nxm_deferral_on_context(&seen, true), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(waiting(), 1);
    fake.passed = true;
    nxm_lane_flush(NULL, 0);
    assert_false(is_known(address));
}

static void a_record_that_fails_is_the_frees_result_and_the_block_stays_live(void **state)
{
    struct nxm_order order;
    (void)state;
    CUdeviceptr address = allocate_on_stream(&order);

    fake.record_result = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(state_of(address), NXM_BLOCK_LIVE);
    assert_int_equal(waiting(), 0);
    fake.record_result = CUDA_SUCCESS;
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_SUCCESS);
    nxm_lane_flush(NULL, 0);
    assert_false(is_known(address));
}

static void a_synchronous_free_waits_for_its_context_and_releases_at_once(void **state)
{
    struct nxm_order order;
    (void)state;
    CUdeviceptr address = allocate_synchronous(&order);

    fake.passed = false; /* waiting is not asking */
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_SUCCESS);
    assert_int_equal(fake.context_records, 1);
    assert_int_equal(fake.waits, 1);
    assert_int_equal(fake.context_waits, 0);
    assert_false(is_known(address));
    assert_int_equal(waiting(), 0);
}

static void a_driver_without_context_records_is_waited_for(void **state)
{
    struct nxm_order order;
    (void)state;
    CUdeviceptr address = allocate_synchronous(&order);

    nxm_real.cuCtxRecordEvent = NULL;
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_SUCCESS);
    assert_int_equal(fake.context_waits, 1);
    assert_false(is_known(address));
}

static void a_free_from_a_thread_without_context_uses_the_blocks_own(void **state)
{
    struct nxm_order order, none = { .device = -1 };
    (void)state;
    CUdeviceptr address = allocate_synchronous(&order);

    fake.current = NULL;
    none.cuda.kind = NXMEM_CUDA_ORDER_SYNCHRONOUS;
    assert_int_equal(nxm_serve_free(address, &none, native_free, NULL), CUDA_SUCCESS);
    assert_null(fake.current); /* pushed for the record, and popped again */
    assert_int_equal(fake.context_records, 1);
    assert_false(is_known(address));
}

static void a_synchronous_free_of_stream_ordered_memory_adds_no_wait(void **state)
{
    struct nxm_order on_stream, order;
    (void)state;
    CUdeviceptr address = allocate_on_stream(&on_stream);

    fake.passed = false;
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_SUCCESS);
    assert_int_equal(fake.waits, 0);
    assert_int_equal(state_of(address), NXM_BLOCK_WAITING);
    fake.passed = true;
    nxm_lane_flush(NULL, 0);
    assert_false(is_known(address));
}

static void a_synchronous_free_of_stream_ordered_memory_needs_no_context(void **state)
{
    struct nxm_order on_stream, none = { .device = -1 };
    (void)state;
    CUdeviceptr address = allocate_on_stream(&on_stream);

    fake.current = NULL;
    none.cuda.kind = NXMEM_CUDA_ORDER_SYNCHRONOUS;
    assert_int_equal(nxm_serve_free(address, &none, native_free, NULL), CUDA_SUCCESS);
    assert_false(is_known(address));
    assert_int_equal(waiting(), 0);
}

static void a_block_that_outlives_the_context_it_waited_on_is_given_back(void **state)
{
    struct nxm_order order;
    (void)state;
    CUdeviceptr address = allocate_on_stream(&order);

    fake.passed = false; /* nobody may ask: the event went with the context */
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_SUCCESS);
    nxm_lane_context_gone(OTHER_CONTEXT, true);
    assert_int_equal(state_of(address), NXM_BLOCK_WAITING);
    nxm_lane_context_gone(FAKE_CONTEXT, true);
    assert_false(is_known(address));
    assert_int_equal(waiting(), 0);
    assert_int_equal(fake.queries, 0);
}

static uint64_t most_waiting_while_given_back;

/* The shim relaxes the thread's capture mode around what it asks of a plugin. */
static CUresult look_while_given_back(CUstreamCaptureMode *mode)
{
    if (waiting() > most_waiting_while_given_back)
        most_waiting_while_given_back = waiting();
    *mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    return CUDA_SUCCESS;
}

/* Whoever lacks memory meanwhile must see that some is on its way. */
static void a_block_whose_context_has_gone_counts_until_it_is_back(void **state)
{
    struct nxm_order order;
    (void)state;
    CUdeviceptr address = allocate_on_stream(&order);

    fake.passed = false;
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_SUCCESS);
    most_waiting_while_given_back = 0;
    nxm_real.cuThreadExchangeStreamCaptureMode = look_while_given_back;
    nxm_lane_context_gone(FAKE_CONTEXT, true);
    nxm_real.cuThreadExchangeStreamCaptureMode = NULL;
    assert_int_equal(most_waiting_while_given_back, 1);
    assert_int_equal(waiting(), 0);
}

static void a_call_that_waits_for_nothing_gives_back_a_bounded_number_of_blocks(void **state)
{
    enum { MANY = 200 };
    struct nxm_order order;
    CUdeviceptr address[MANY];
    (void)state;
    for (int i = 0; i < MANY; i++)
        address[i] = allocate_on_stream(&order);
    fake.passed = false;
    for (int i = 0; i < MANY; i++)
        assert_int_equal(nxm_serve_free(address[i], &order, native_free, NULL), CUDA_SUCCESS);
    fake.passed = true;
    nxm_lane_poll(NXM_MOMENT_ANY);
    assert_in_range(waiting(), 1, MANY - 1);
    nxm_lane_poll(NXM_MOMENT_WAIT); /* one that waits itself gives back all that waited when it began */
    assert_int_equal(waiting(), 0);
}

static void what_a_capture_forbids_is_asked_in_the_blocks_own_context(void **state)
{
    struct nxm_order order, none = { .device = -1 };
    (void)state;
    CUdeviceptr address = allocate_synchronous(&order);

    begin_capture();
    fake.current = NULL;
    none.cuda.kind = NXMEM_CUDA_ORDER_SYNCHRONOUS;
    assert_int_equal(nxm_serve_free(address, &none, native_free, NULL), CUDA_SUCCESS);
    assert_null(fake.current);
    assert_true(nxm_capture_ended(FAKE_STREAM, false));
    nxm_lane_captures_closed();
    nxm_lane_flush(NULL, 0);
    assert_false(is_known(address));
}

static void a_free_during_a_capture_is_parked_and_released_after_it(void **state)
{
    struct nxm_order order;
    (void)state;
    CUdeviceptr address = allocate_synchronous(&order);

    begin_capture();
    fake.capturing = true;
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_SUCCESS);
    assert_int_equal(fake.context_records, 0); /* a record would invalidate the capture */
    assert_int_equal(fake.context_waits, 0);
    assert_int_equal(fake.waits, 0);
    nxm_lane_flush(NULL, 0);
    assert_int_equal(state_of(address), NXM_BLOCK_WAITING);
    fake.capturing = false;
    assert_true(nxm_capture_ended(FAKE_STREAM, false));
    nxm_lane_captures_closed();
    assert_int_equal(fake.context_records, 1);
    nxm_lane_flush(NULL, 0);
    assert_false(is_known(address));
}

/* Another thread destroys the context and polls while this one is at the driver for the block's event. */
static void context_goes_meanwhile(void)
{
    nxm_lane_context_gone(FAKE_CONTEXT, true);
    nxm_lane_poll_context(NULL);
    assert_int_equal(waiting(), 1);
}

static void a_block_in_the_hands_of_a_recorder_is_nobody_elses(void **state)
{
    struct nxm_order order;
    (void)state;
    CUdeviceptr address = allocate_synchronous(&order);

    begin_capture();
    fake.capturing = true;
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_SUCCESS);
    fake.capturing = false;
    assert_true(nxm_capture_ended(FAKE_STREAM, false));
    fake.while_recording = context_goes_meanwhile;
    nxm_lane_captures_closed();
    assert_null(fake.while_recording);
    nxm_lane_flush(NULL, 0);
    assert_int_equal(waiting(), 0);
    assert_false(is_known(address));
}

static void record_again(void)
{
    fake.record_result = CUDA_SUCCESS;
}

static void record_not(void)
{
    fake.record_result = CUDA_ERROR_NOT_SUPPORTED;
    fake.while_recording = record_again;
}

static void an_event_that_is_not_to_be_had_keeps_no_other_block_waiting(void **state)
{
    struct nxm_order order;
    CUdeviceptr addresses[3];
    (void)state;
    for (int i = 0; i < 3; i++)
        addresses[i] = allocate_synchronous(&order);
    begin_capture();
    fake.capturing = true;
    for (int i = 0; i < 3; i++)
        assert_int_equal(nxm_serve_free(addresses[i], &order, native_free, NULL), CUDA_SUCCESS);
    fake.capturing = false;
    assert_true(nxm_capture_ended(FAKE_STREAM, false));
    fake.while_recording = record_not;
    assert_int_equal(nxm_lane_captures_closed(), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(fake.context_records, 3); /* each was asked for, once */
    assert_int_equal(nxm_lane_captures_closed(), CUDA_SUCCESS);
    assert_int_equal(fake.context_records, 4); /* the one that was left */
    nxm_lane_flush(NULL, 0);
    for (int i = 0; i < 3; i++)
        assert_false(is_known(addresses[i]));
}

static void what_a_capture_forbids_is_the_frees_result(void **state)
{
    struct nxm_order order;
    (void)state;
    CUdeviceptr address = allocate_synchronous(&order);

    begin_capture();
    fake.capturing = true;
    fake.alloc_result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(state_of(address), NXM_BLOCK_LIVE);
    fake.capturing = false;
    fake.alloc_result = CUDA_SUCCESS;
    nxm_capture_ended(FAKE_STREAM, false);
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_SUCCESS);
    assert_false(is_known(address));
}

static void events_are_used_again(void **state)
{
    struct nxm_order order;
    (void)state;
    for (int i = 0; i < 50; i++) {
        CUdeviceptr address = allocate_on_stream(&order);
        assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_SUCCESS);
        nxm_lane_poll_context(NULL);
        assert_false(is_known(address));
    }
    assert_int_equal(fake.records, 50);
    assert_true(fake.events_made <= 1);
}

/* Each of the few requests of ours on this path fails in its turn. */
static void without_our_own_memory_a_free_succeeds_all_the_same(void **state)
{
    struct nxm_order order;
    (void)state;
    for (unsigned long n = 1; n <= 4; n++) {
        CUdeviceptr address = allocate_on_stream(&order);
        nxm_mem_fail_at(n);
        assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_SUCCESS);
        nxm_mem_fail_at(0);
        nxm_lane_flush(NULL, 0);
        assert_false(is_known(address));
    }
}

/* A block of a mechanism that knows CUDA's order and makes no promise about waiting: until the caller clears its companion's size. */
static struct nxm_scope *allocate_what_may_wait(struct nxm_order *order, struct nxm_block *ret_block)
{
    CUdeviceptr address = allocate_on_stream(order);

    assert_int_equal(nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, ret_block), NXM_OK);
    struct nxm_scope *scope = (struct nxm_scope *)(uintptr_t)ret_block->tag;
    scope->companion.vtable.struct_size = sizeof scope->companion.vtable;
    return scope;
}

static struct nxm_scope *free_by_a_release_that_may_wait(void)
{
    struct nxm_order order;
    struct nxm_block block;
    struct nxm_scope *scope = allocate_what_may_wait(&order, &block);

    assert_int_equal(nxm_deferral_on_stream(&block, &order), CUDA_SUCCESS);
    return scope;
}

/* A synchronous free of stream-ordered memory under an open capture, which forbids every wait of ours. */
static void a_free_whose_release_may_wait_lasts_as_long_as_the_capture(void **state)
{
    CUcontext contexts[] = { FAKE_CONTEXT, NULL };
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct nxm_order order;
        struct nxm_block block;
        struct nxm_scope *scope = allocate_what_may_wait(&order, &block);
        nxm_capture_announce();
        assert_int_equal(nxm_deferral_ordered(&block, contexts[i]), CUDA_SUCCESS);
        assert_int_equal(nxm_deferral_ordered(&block, contexts[i]), CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(waiting(), 1);
        assert_int_equal(state_of(block.address), NXM_BLOCK_WAITING);
        nxm_capture_begun(FAKE_STREAM, false, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_UNKNOWN);
        nxm_lane_captures_closed();
        nxm_lane_poll_context(FAKE_CONTEXT);
        assert_int_equal(waiting(), 0);
        assert_false(is_known(block.address));
        scope->companion.vtable.struct_size = 0;
    }
}

static void a_release_that_may_wait_is_left_to_calls_that_may(void **state)
{
    (void)state;
    struct nxm_scope *scope = free_by_a_release_that_may_wait();

    nxm_lane_poll(NXM_MOMENT_ANY);
    nxm_lane_poll(NXM_MOMENT_WAIT); /* of one stream: its release may wait for all */
    assert_int_equal(waiting(), 1);
    fake.context_busy = true;
    nxm_lane_flush(NULL, 2);
    assert_int_equal(waiting(), 1);
    nxm_capture_announce();
    nxm_lane_poll_context(NULL); /* an open capture forbids it */
    assert_int_equal(waiting(), 1);
    nxm_capture_begun(FAKE_STREAM, false, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_UNKNOWN);
    nxm_lane_poll_context(NULL);
    assert_int_equal(waiting(), 0);
    scope->companion.vtable.struct_size = 0;
}

static void where_nothing_is_in_flight_room_is_made_at_once(void **state)
{
    (void)state;
    struct nxm_scope *scope = free_by_a_release_that_may_wait();

    nxm_lane_flush(NULL, 0);
    assert_int_equal(waiting(), 0);
    scope->companion.vtable.struct_size = 0;
}

static void a_wait_for_one_context_enters_no_release_that_waits_for_another(void **state)
{
    (void)state;
    struct nxm_scope *scope = free_by_a_release_that_may_wait();

    nxm_lane_poll_context(OTHER_CONTEXT);
    fake.context_busy = true;
    nxm_lane_flush(OTHER_CONTEXT, 0);
    assert_int_equal(waiting(), 1);
    nxm_lane_poll_context(FAKE_CONTEXT);
    assert_int_equal(waiting(), 0);
    scope->companion.vtable.struct_size = 0;
}

static void where_another_context_is_idle_what_waits_there_is_room_too(void **state)
{
    (void)state;
    struct nxm_scope *scope = free_by_a_release_that_may_wait();

    nxm_lane_flush(OTHER_CONTEXT, 0);
    assert_int_equal(waiting(), 0);
    scope->companion.vtable.struct_size = 0;
}

/* What another thread does between the free's look at the open capture and its block's place on a lane. */
static CUresult alloc_while_the_capture_ends(CUdeviceptr *address, size_t bytes)
{
    (void)bytes;
    *address = 0xD000;
    assert_true(nxm_capture_ended(FAKE_STREAM, false));
    nxm_lane_captures_closed();
    return CUDA_SUCCESS;
}

static void a_free_that_is_parked_as_the_last_capture_ends_is_not_forgotten(void **state)
{
    struct nxm_order order;
    (void)state;
    CUdeviceptr address = allocate_synchronous(&order);

    begin_capture();
    nxm_real.cuMemAlloc_v2 = alloc_while_the_capture_ends;
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_SUCCESS);
    nxm_lane_flush(NULL, 0);
    assert_int_equal(waiting(), 0);
    assert_false(is_known(address));
}

static void an_event_that_is_gone_is_replaced(void **state)
{
    struct nxm_order order;
    (void)state;
    CUdeviceptr first = allocate_synchronous(&order), second = allocate_synchronous(&order);
    CUevent event = NULL;

    assert_int_equal(nxm_serve_free(first, &order, native_free, NULL), CUDA_SUCCESS);
    assert_int_equal(nxm_event_record_on_context(FAKE_CONTEXT, &event), CUDA_SUCCESS);
    nxm_event_give(FAKE_CONTEXT, event);
    fake.dead_up_to = event;
    assert_int_equal(nxm_serve_free(second, &order, native_free, NULL), CUDA_SUCCESS);
    assert_false(is_known(second));
}

static void nothing_waits_costs_no_question(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        nxm_lane_poll_context(NULL);
    assert_int_equal(fake.queries, 0);
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

static int reset(void **state)
{
    (void)state;
    alarm(200); /* what would hang ends */
    fake_driver_reset();
    return 0;
}

int main(void)
{
#define LANE(test) cmocka_unit_test_setup(test, reset)
    const struct CMUnitTest tests[] = {
        LANE(a_block_freed_on_a_stream_stays_until_its_event_has_passed),
        LANE(a_second_free_of_a_waiting_block_is_answered_here),
        LANE(of_two_threads_that_saw_it_live_one_frees_it),
        LANE(a_record_that_fails_is_the_frees_result_and_the_block_stays_live),
        LANE(a_synchronous_free_waits_for_its_context_and_releases_at_once),
        LANE(a_driver_without_context_records_is_waited_for),
        LANE(a_free_from_a_thread_without_context_uses_the_blocks_own),
        LANE(a_synchronous_free_of_stream_ordered_memory_adds_no_wait),
        LANE(a_synchronous_free_of_stream_ordered_memory_needs_no_context),
        LANE(a_block_that_outlives_the_context_it_waited_on_is_given_back),
        LANE(a_block_whose_context_has_gone_counts_until_it_is_back),
        LANE(a_call_that_waits_for_nothing_gives_back_a_bounded_number_of_blocks),
        LANE(what_a_capture_forbids_is_asked_in_the_blocks_own_context),
        LANE(a_free_during_a_capture_is_parked_and_released_after_it),
        LANE(a_block_in_the_hands_of_a_recorder_is_nobody_elses),
        LANE(an_event_that_is_not_to_be_had_keeps_no_other_block_waiting),
        LANE(what_a_capture_forbids_is_the_frees_result),
        LANE(events_are_used_again),
        LANE(without_our_own_memory_a_free_succeeds_all_the_same),
        LANE(a_release_that_may_wait_is_left_to_calls_that_may),
        LANE(a_free_whose_release_may_wait_lasts_as_long_as_the_capture),
        LANE(where_nothing_is_in_flight_room_is_made_at_once),
        LANE(a_wait_for_one_context_enters_no_release_that_waits_for_another),
        LANE(where_another_context_is_idle_what_waits_there_is_room_too),
        LANE(a_free_that_is_parked_as_the_last_capture_ends_is_not_forgotten),
        LANE(an_event_that_is_gone_is_replaced),
        LANE(nothing_waits_costs_no_question),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
