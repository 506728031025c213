#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <cmocka.h>

#include "fake_driver.h"
#include "interpose/capture.h"

static CUstream stream_number(uintptr_t n)
{
    return (CUstream)(0x9000 + n);
}

static int reset(void **state)
{
    (void)state;
    fake_driver_reset();
    return 0;
}

static void a_begin_that_failed_leaves_no_capture_open(void **state)
{
    (void)state;
    nxm_capture_announce();
    assert_true(nxm_capture_open());
    nxm_capture_begun(FAKE_STREAM, false, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_INVALID_HANDLE);
    assert_false(nxm_capture_open());
}

static void only_the_end_of_the_last_capture_says_so(void **state)
{
    (void)state;
    for (uintptr_t i = 0; i < 3; i++) {
        nxm_capture_announce();
        nxm_capture_begun(stream_number(i), false, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_SUCCESS);
    }
    assert_false(nxm_capture_ended(stream_number(1), false));
    assert_false(nxm_capture_ended(stream_number(1), false)); /* once */
    assert_false(nxm_capture_ended(stream_number(0), false));
    assert_true(nxm_capture_open());
    assert_true(nxm_capture_ended(stream_number(2), false));
    assert_false(nxm_capture_open());
}

static void an_end_that_did_not_end_it_changes_nothing(void **state)
{
    (void)state;
    nxm_capture_announce();
    nxm_capture_begun(FAKE_STREAM, false, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_SUCCESS);
    fake.capturing = true; /* ended from the wrong thread, say */
    assert_false(nxm_capture_ended(FAKE_STREAM, false));
    assert_true(nxm_capture_open());
    fake.capturing = false;
    assert_true(nxm_capture_ended(FAKE_STREAM, false));
}

static void no_context_is_recorded_while_a_capture_is_announced(void **state)
{
    (void)state;
    nxm_capture_announce();
    assert_false(nxm_capture_record_begin());
    nxm_capture_begun(FAKE_STREAM, false, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_UNKNOWN);
    assert_true(nxm_capture_record_begin());
    nxm_capture_record_end();
}

static void more_captures_than_are_named_do_not_stay_open_for_ever(void **state)
{
    enum { MANY = 100 };
    (void)state;
    for (uintptr_t i = 0; i < MANY; i++) {
        nxm_capture_announce();
        nxm_capture_begun(stream_number(i), false, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_SUCCESS);
    }
    for (uintptr_t i = 0; i < MANY; i++)
        nxm_capture_ended(stream_number(i), false);
    assert_false(nxm_capture_open());
}

static void a_begin_that_failed_may_be_what_closes_the_last_capture(void **state)
{
    (void)state;
    nxm_capture_announce();
    nxm_capture_begun(stream_number(0), false, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_SUCCESS);
    nxm_capture_announce();
    assert_false(nxm_capture_ended(stream_number(0), false)); /* another is announced */
    assert_true(nxm_capture_begun(stream_number(1), false, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_INVALID_HANDLE));
    assert_false(nxm_capture_open());
}

static void a_capture_goes_with_its_stream_or_its_context(void **state)
{
    (void)state;
    nxm_capture_announce();
    nxm_capture_begun(stream_number(0), false, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_SUCCESS);
    fake.capturing = true; /* a stream that is gone cannot be asked */
    assert_false(nxm_capture_stream_gone(stream_number(1)));
    assert_true(nxm_capture_stream_gone(stream_number(0)));
    for (uintptr_t i = 0; i < 3; i++) {
        nxm_capture_announce();
        nxm_capture_begun(stream_number(i), false, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_SUCCESS);
    }
    assert_false(nxm_capture_context_gone(OTHER_CONTEXT));
    assert_true(nxm_capture_context_gone(FAKE_CONTEXT));
    assert_false(nxm_capture_open());
}

static void a_threads_own_default_stream_has_two_names(void **state)
{
    (void)state;
    nxm_capture_announce();
    nxm_capture_begun(NULL, true, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_SUCCESS);
    assert_true(nxm_capture_ended(CU_STREAM_PER_THREAD, false));
}

static void a_begin_does_not_wait_for_the_device(void **state)
{
    (void)state;
    assert_true(nxm_capture_wait_begin()); /* by a thread that needs this one to go on */
    nxm_capture_announce();
    assert_false(nxm_capture_wait_begin());
    assert_true(nxm_capture_begun(FAKE_STREAM, false, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_UNKNOWN));
    nxm_capture_wait_end();
}

/* A begin and a record never overlap: what the one protects, the other would invalidate. */
static _Atomic int recording, overlaps;

static void *begin_captures(void *unused)
{
    for (int i = 0; i < 2000; i++) {
        nxm_capture_announce();
        overlaps += recording != 0;
        nxm_capture_begun(FAKE_STREAM, false, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_UNKNOWN);
    }
    return unused;
}

static void *record_contexts(void *unused)
{
    for (int i = 0; i < 20000; i++) {
        if (!nxm_capture_record_begin())
            continue;
        recording++;
        sched_yield(); /* one driver call long */
        recording--;
        nxm_capture_record_end();
    }
    return unused;
}

static void a_begin_waits_for_a_record_in_flight(void **state)
{
    pthread_t thread[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, i % 2 ? begin_captures : record_contexts, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(overlaps, 0);
    assert_false(nxm_capture_open());
}

/* --- what may be forbidden ------------------------------------------------------------------------------------------ */

static CUstreamCaptureMode thread_mode;

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode old = thread_mode;

    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

static void *begin_capture(void *mode)
{
    nxm_capture_announce();
    nxm_capture_begun(FAKE_STREAM, false, *(CUstreamCaptureMode *)mode, CUDA_SUCCESS);
    return NULL;
}

/* What this thread, in its mode, may be forbidden by a capture in that one. */
static bool may_forbid(CUstreamCaptureMode mine, CUstreamCaptureMode capture, bool by_another)
{
    pthread_t thread;

    thread_mode = mine;
    nxm_real.cuThreadExchangeStreamCaptureMode = exchange_mode;
    if (by_another) {
        assert_int_equal(pthread_create(&thread, NULL, begin_capture, &capture), 0);
        pthread_join(thread, NULL);
    } else {
        begin_capture(&capture);
    }
    bool may = nxm_capture_may_forbid();
    assert_int_equal(thread_mode, mine); /* as it was */
    assert_true(nxm_capture_ended(FAKE_STREAM, false));
    return may;
}

static void what_may_be_forbidden_is_what_the_manual_says(void **state)
{
    const CUstreamCaptureMode global = CU_STREAM_CAPTURE_MODE_GLOBAL, local = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                              relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)state;
    assert_true(may_forbid(global, global, false));
    assert_true(may_forbid(global, local, false));
    assert_true(may_forbid(local, global, false));
    assert_true(may_forbid(global, relaxed, false)); /* by the manual not; a driver may think otherwise */
    assert_false(may_forbid(relaxed, global, false));
    assert_true(may_forbid(global, global, true));
    assert_false(may_forbid(local, global, true));
    assert_false(may_forbid(global, local, true));
    assert_false(may_forbid(global, relaxed, true));
    assert_false(may_forbid(relaxed, global, true));
}

static void what_is_not_known_may_be_forbidden(void **state)
{
    (void)state;
    assert_false(nxm_capture_may_forbid()); /* no capture is open */
    thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    nxm_real.cuThreadExchangeStreamCaptureMode = exchange_mode;
    nxm_capture_announce(); /* whose, and in which mode, is not known yet */
    assert_true(nxm_capture_may_forbid());
    nxm_capture_begun(FAKE_STREAM, false, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_UNKNOWN);
    nxm_real.cuThreadExchangeStreamCaptureMode = NULL;
    nxm_capture_announce();
    assert_true(nxm_capture_may_forbid());
    nxm_capture_begun(FAKE_STREAM, false, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_UNKNOWN);
}

int main(void)
{
#define CAPTURE(test) cmocka_unit_test_setup(test, reset)
    const struct CMUnitTest tests[] = {
        CAPTURE(a_begin_that_failed_leaves_no_capture_open),
        CAPTURE(only_the_end_of_the_last_capture_says_so),
        CAPTURE(an_end_that_did_not_end_it_changes_nothing),
        CAPTURE(no_context_is_recorded_while_a_capture_is_announced),
        CAPTURE(more_captures_than_are_named_do_not_stay_open_for_ever),
        CAPTURE(a_begin_that_failed_may_be_what_closes_the_last_capture),
        CAPTURE(a_capture_goes_with_its_stream_or_its_context),
        CAPTURE(a_threads_own_default_stream_has_two_names),
        CAPTURE(a_begin_does_not_wait_for_the_device),
        CAPTURE(a_begin_waits_for_a_record_in_flight),
        CAPTURE(what_may_be_forbidden_is_what_the_manual_says),
        CAPTURE(what_is_not_known_may_be_forbidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
