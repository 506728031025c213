/* Streams run by themselves, in the orders that CUDA promises and in no other. */
#include "driver_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

/* Waits for something that must happen; a hang is the test runner's to end. */
#define wait_until(condition)            \
    while (!(condition)) sched_yield()

static void CUDA_CB set_flag(void *flag)
{
    atomic_store((atomic_int *)flag, 1);
}

/* Before a flag in the test's frame goes away. */
static void let_run(CUstream s)
{
    assert_ok(sim_release(s));
    assert_ok(cuStreamSynchronize(s));
}

static void a_launch_returns_before_its_work_runs(void **state)
{
    (void)state;
    atomic_int flag = 0;
    CUstream s = new_stream();
    assert_ok(sim_hold(s));
    assert_ok(cuLaunchHostFunc(s, set_flag, &flag));
    assert_cu(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    assert_int_equal(flag, 0);
    assert_ok(sim_release(s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(flag, 1);
    assert_ok(cuStreamQuery(s));
}

static void a_step_lets_exactly_that_many_pieces_run(void **state)
{
    (void)state;
    atomic_int flag[3] = { 0 };
    CUstream s = new_stream();
    assert_ok(sim_hold(s));
    for (int i = 0; i < 3; i++) assert_ok(cuLaunchHostFunc(s, set_flag, &flag[i]));
    assert_ok(sim_step(s, 2));
    wait_until(flag[1]);
    wait_until(sim_pending(s) == 1);
    assert_int_equal(flag[0], 1);
    assert_int_equal(flag[2], 0);
    assert_ok(sim_release(s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(flag[2], 1);
}

static void streams_that_are_not_ordered_pass_each_other(void **state)
{
    (void)state;
    CUstream a = new_stream(), b = new_stream();
    atomic_int flag = 0;
    assert_ok(sim_hold(a));
    assert_ok(cuLaunchHostFunc(a, set_flag, &flag));
    assert_ok(cuLaunchHostFunc(b, set_flag, &flag));
    assert_ok(cuStreamSynchronize(b));
    assert_cu(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
    let_run(a);
}

static void a_stream_waits_for_the_event_as_it_was_recorded_when_it_was_told_to(void **state)
{
    (void)state;
    CUstream a = new_stream(), b = new_stream();
    CUevent e;
    atomic_int first = 0, after = 0;
    assert_ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuEventQuery(e));
    assert_ok(sim_hold(a));
    assert_ok(cuLaunchHostFunc(a, set_flag, &first));
    assert_ok(cuEventRecord(e, a));
    assert_cu(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    assert_ok(cuStreamWaitEvent(b, e, 0));
    assert_ok(cuLaunchHostFunc(b, set_flag, &after));
    assert_ok(cuLaunchHostFunc(a, set_flag, &first));
    assert_ok(cuEventRecord(e, a)); /* b does not care any more */
    assert_cu(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
    assert_int_equal(after, 0);
    assert_ok(sim_step(a, 2));
    assert_ok(cuStreamSynchronize(b));
    assert_int_equal(after, 1);
    assert_cu(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    assert_ok(sim_release(a));
    assert_ok(cuEventSynchronize(e));
    assert_ok(cuEventDestroy(e));
}

static void the_legacy_stream_waits_for_blocking_streams_and_they_for_it(void **state)
{
    (void)state;
    CUstream blocking, free_one = new_stream();
    CUevent e;
    atomic_int legacy = 0, later = 0, beside = 0;
    assert_ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    assert_ok(sim_hold(blocking));
    assert_ok(cuLaunchHostFunc(blocking, set_flag, &later));
    assert_ok(cuLaunchHostFunc(NULL, set_flag, &legacy));
    assert_ok(cuLaunchHostFunc(free_one, set_flag, &beside));
    assert_ok(cuStreamSynchronize(free_one));
    assert_int_equal(beside, 1);
    usleep(20000); /* it would have run by now, if nothing held it */
    assert_cu(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_LEGACY));
    assert_int_equal(legacy, 0);
    assert_ok(sim_release(blocking));
    assert_ok(cuStreamSynchronize(NULL));
    assert_int_equal(legacy, 1);

    later = 0;
    assert_ok(sim_hold(NULL));
    assert_ok(cuLaunchHostFunc(NULL, set_flag, &legacy));
    assert_ok(cuEventRecord(e, blocking));
    assert_ok(cuLaunchHostFunc(blocking, set_flag, &later));
    assert_cu(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    assert_int_equal(later, 0);
    assert_ok(sim_release(NULL));
    assert_ok(cuStreamSynchronize(blocking));
    assert_int_equal(later, 1);
    assert_ok(cuEventDestroy(e));
}

static void *per_thread_id(void *context)
{
    unsigned long long id = 0;
    if (cuCtxSetCurrent(context) || cuStreamGetId(CU_STREAM_PER_THREAD, &id)) return NULL;
    return (void *)(uintptr_t)id;
}

static void each_thread_has_a_default_stream_of_its_own(void **state)
{
    pthread_t t;
    void *theirs;
    void *mine = per_thread_id(*state);
    assert_non_null(mine);
    assert_int_equal(pthread_create(&t, NULL, per_thread_id, *state), 0);
    assert_int_equal(pthread_join(t, &theirs), 0);
    assert_non_null(theirs);
    assert_ptr_not_equal(mine, theirs);
    assert_ptr_equal(mine, per_thread_id(*state));
}

static CUresult inside;

static void CUDA_CB call_cuda(void *unused)
{
    (void)unused;
    CUdeviceptr p;
    inside = cuMemAlloc(&p, 8);
}

static void a_host_function_may_not_call_cuda(void **state)
{
    (void)state;
    CUstream s = new_stream();
    inside = CUDA_SUCCESS;
    assert_ok(cuLaunchHostFunc(s, call_cuda, NULL));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(inside, CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(sim_misuses(), 1);
}

static void a_destroyed_stream_still_runs_what_it_was_given(void **state)
{
    (void)state;
    CUstream s = new_stream();
    atomic_int flag = 0;
    assert_ok(sim_hold(s));
    assert_ok(cuLaunchHostFunc(s, set_flag, &flag));
    assert_ok(cuStreamDestroy(s));
    wait_until(flag);
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(s));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(s));
}

static void an_asynchronous_copy_from_pageable_memory_takes_a_snapshot(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p;
    char from = 'a', to = 0;
    assert_ok(cuMemAlloc(&p, 1));
    assert_ok(sim_hold(s));
    assert_ok(cuMemcpyHtoDAsync(p, &from, 1, s));
    from = 'b';
    assert_ok(sim_release(s));
    assert_ok(cuMemcpyDtoHAsync(&to, p, 1, s)); /* to pageable memory: done when it returns */
    assert_int_equal(to, 'a');
    assert_ok(cuMemFree(p));
}

struct release {
    CUstream stream;
    CUcontext context;
    atomic_int *done;
    int done_before;
};

static void *release_later(void *arg)
{
    struct release *r = arg;
    if (cuCtxSetCurrent(r->context)) return NULL;
    for (int i = 0; i < 1000; i++) sched_yield();
    r->done_before = *r->done;
    sim_release(r->stream);
    return r;
}

static void a_free_waits_for_the_contexts_work(void **state)
{
    CUstream s = new_stream();
    CUdeviceptr p;
    pthread_t t;
    void *released;
    atomic_int done = 0, flag = 0;
    struct release r = { s, *state, &done, -1 };
    assert_ok(cuMemAlloc(&p, 64));
    assert_ok(sim_hold(s));
    assert_ok(cuLaunchHostFunc(s, set_flag, &flag));
    assert_int_equal(pthread_create(&t, NULL, release_later, &r), 0);
    assert_ok(cuMemFree(p));
    assert_int_equal(flag, 1);
    done = 1;
    assert_int_equal(pthread_join(t, &released), 0);
    assert_non_null(released);
    assert_int_equal(r.done_before, 0);
}

static void a_free_that_does_not_wait_is_a_setting(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p;
    atomic_int flag = 0;
    assert_ok(cuMemAlloc(&p, 64));
    assert_ok(sim_hold(s));
    assert_ok(cuLaunchHostFunc(s, set_flag, &flag));
    sim_set_free_waits(0);
    assert_ok(cuMemFree(p));
    sim_set_free_waits(1);
    assert_int_equal(flag, 0);
    let_run(s);
}

static void a_context_event_covers_every_stream(void **state)
{
    CUstream a = new_stream(), b = new_stream();
    CUevent e;
    atomic_int flag = 0;
    assert_ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    assert_ok(sim_hold(a));
    assert_ok(cuLaunchHostFunc(a, set_flag, &flag));
    assert_ok(cuCtxRecordEvent(*state, e));
    assert_ok(cuStreamSynchronize(b));
    assert_cu(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    assert_ok(sim_release(a));
    assert_ok(cuEventSynchronize(e));
    assert_ok(cuEventDestroy(e));
}

static void an_idle_stream_is_idle_whatever_the_legacy_stream_does(void **state)
{
    (void)state;
    CUstream s;
    assert_ok(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    sim_hold(CU_STREAM_LEGACY);
    assert_int_equal(sim_launch_touch(CU_STREAM_LEGACY, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuLaunchKernel(any_function(), 1, 1, 1, 1, 1, 1, 0, CU_STREAM_LEGACY, NULL, NULL));
    assert_ok(cuStreamQuery(s));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuLaunchKernel(any_function(), 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
    assert_cu(CUDA_ERROR_NOT_READY, cuStreamQuery(s)); /* its piece is behind the legacy stream's */
    sim_release(CU_STREAM_LEGACY);
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuStreamDestroy(s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(an_idle_stream_is_idle_whatever_the_legacy_stream_does),
        on_device(a_launch_returns_before_its_work_runs),
        on_device(a_step_lets_exactly_that_many_pieces_run),
        on_device(streams_that_are_not_ordered_pass_each_other),
        on_device(a_stream_waits_for_the_event_as_it_was_recorded_when_it_was_told_to),
        on_device(the_legacy_stream_waits_for_blocking_streams_and_they_for_it),
        on_device(each_thread_has_a_default_stream_of_its_own),
        on_device(a_host_function_may_not_call_cuda),
        on_device(a_destroyed_stream_still_runs_what_it_was_given),
        on_device(an_asynchronous_copy_from_pageable_memory_takes_a_snapshot),
        on_device(a_free_waits_for_the_contexts_work),
        on_device(a_free_that_does_not_wait_is_a_setting),
        on_device(a_context_event_covers_every_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
