/* Errors that cost a context: it answers nothing else from then on, until it is destroyed or reset. */
#include "driver_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static void lose_with(CUresult code)
{
    assert_ok(sim_fail("cuMemcpyDtoH_v2", 1, (int)code));
    assert_cu(code, cuMemcpyDtoH(NULL, 0, 0));
}

static void every_later_call_answers_the_error(void **state)
{
    (void)state;
    CUdeviceptr p;
    CUevent e;
    CUstream s = new_stream(), other;
    CUcontext c;
    int n = 0;
    assert_ok(cuMemAlloc(&p, 4096));
    assert_ok(cuEventCreate(&e, 0));
    lose_with(CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_cu(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&p, 4096));
    assert_cu(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemFree(p));
    assert_cu(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemsetD8Async(p, 1, 16, s));
    assert_cu(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(s));
    assert_cu(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamCreate(&other, 0));
    assert_cu(CUDA_ERROR_ILLEGAL_ADDRESS, cuEventQuery(e));
    assert_cu(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    lose_with(CUDA_ERROR_LAUNCH_FAILED); /* the first one stays */
    assert_cu(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    assert_ok(cuCtxGetCurrent(&c));
    assert_ok(cuDeviceGetCount(&n));
    assert_int_equal(sim_live_blocks("device"), 1);
}

static void other_errors_cost_nothing(void **state)
{
    (void)state;
    static const CUresult codes[] = { CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                                      CUDA_ERROR_NOT_SUPPORTED };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        lose_with(codes[i]);
        assert_ok(cuCtxSynchronize());
    }
}

static void each_error_that_costs_a_context_does(void **state)
{
    (void)state;
    static const CUresult codes[] = {
        CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_CONTAINED, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_TIMEOUT,
        CUDA_ERROR_ASSERT, CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_MISALIGNED_ADDRESS,
        CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC, CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_TENSOR_MEMORY_LEAK,
        CUDA_ERROR_EXTERNAL_DEVICE,
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        CUcontext c;
        lose_with(codes[i]);
        assert_cu(codes[i], cuCtxSynchronize());
        assert_ok(cuDevicePrimaryCtxReset(0));
        assert_ok(cuDevicePrimaryCtxRetain(&c, 0));
        assert_ok(cuCtxSetCurrent(c));
        assert_ok(cuCtxSynchronize());
    }
}

static void a_reset_begins_again(void **state)
{
    CUdeviceptr p;
    CUcontext c;
    assert_ok(cuMemAlloc(&p, 4096));
    lose_with(CUDA_ERROR_LAUNCH_FAILED);
    assert_ok(cuDevicePrimaryCtxReset(0));
    assert_ok(cuDevicePrimaryCtxRetain(&c, 0));
    assert_ptr_equal(c, *state);
    assert_ok(cuCtxSetCurrent(c));
    assert_int_equal(sim_live_blocks("device"), 0);
    assert_ok(cuMemAlloc(&p, 4096));
    assert_ok(cuMemFree(p));
}

static void a_created_context_is_lost_alone_and_may_be_destroyed(void **state)
{
    CUcontext mine;
    CUdeviceptr p;
    CUstream s;
    assert_ok(cuCtxCreate(&mine, NULL, 0, 0));
    assert_ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    lose_with(CUDA_ERROR_ASSERT);
    assert_cu(CUDA_ERROR_ASSERT, cuMemAlloc(&p, 4096));
    assert_ok(cuCtxSetCurrent(*state));
    assert_ok(cuMemAlloc(&p, 4096));
    assert_cu(CUDA_ERROR_ASSERT, cuMemsetD8Async(p, 1, 16, s)); /* in a stream of the lost one */
    assert_ok(cuMemFree(p));
    assert_ok(cuCtxDestroy(mine));
    assert_ok(cuCtxCreate(&mine, NULL, 0, 0));
    assert_ok(cuMemAlloc(&p, 4096));
    assert_ok(cuMemFree(p));
    assert_ok(cuCtxDestroy(mine));
    assert_ok(cuCtxSetCurrent(*state));
}

static void *synchronise_in_a_thread(void *context)
{
    if (cuCtxSetCurrent(context)) return NULL;
    return (void *)(uintptr_t)cuCtxSynchronize();
}

static void every_thread_of_the_context_is_told(void **state)
{
    pthread_t thread;
    void *result;
    lose_with(CUDA_ERROR_MISALIGNED_ADDRESS);
    assert_int_equal(pthread_create(&thread, NULL, synchronise_in_a_thread, *state), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_int_equal((uintptr_t)result, CUDA_ERROR_MISALIGNED_ADDRESS);
}

/* --- the log ------------------------------------------------------------------------------------------------------- */

static void assert_last_line(const char *expected)
{
    char line[256] = "";
    size_t count = 0;
    while (sim_log_get(count, line, sizeof line)) count++;
    assert_true(count > 0);
    assert_string_equal(line, expected);
}

static void calls_that_were_refused_have_lines(void **state)
{
    (void)state;
    CUdeviceptr p;
    void *host;
    assert_ok(sim_fail("cuMemAlloc_v2", 1, CUDA_ERROR_OUT_OF_MEMORY));
    assert_cu(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, 4096));
    assert_last_line("cuMemAlloc_v2 result=2 address=0x0");
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&p, 4096, 77));
    assert_last_line("cuMemAllocManaged result=1 address=0x0");
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(&host, 4096, 0x1000));
    assert_last_line("cuMemHostAlloc result=1 address=0x0");
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(NULL));
    assert_last_line("cuMemHostUnregister result=1 address=0x0");
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&p, 1, 0, 0, 0));
    assert_last_line("cuMemAddressReserve result=1 address=0x0");
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemAllocAsync(NULL, 4096, NULL));
    assert_last_line("cuMemAllocAsync result=1 address=0x0");
    lose_with(CUDA_ERROR_LAUNCH_FAILED);
    assert_cu(CUDA_ERROR_LAUNCH_FAILED, cuMemFreeAsync(0, NULL));
    assert_last_line("cuMemFreeAsync result=719 address=0x0");
}

static void calls_without_lines_get_none_when_refused(void **state)
{
    (void)state;
    char line[256];
    assert_ok(sim_fail("cuCtxSynchronize", 1, CUDA_ERROR_OUT_OF_MEMORY));
    assert_cu(CUDA_ERROR_OUT_OF_MEMORY, cuCtxSynchronize());
    assert_false(sim_log_get(0, line, sizeof line));
}

static atomic_int enough;

static void *be_refused(void *unused)
{
    CUdeviceptr p;
    while (!atomic_load(&enough)) (void)cuMemAllocManaged(&p, 64, 77);
    return unused;
}

/* A thread may be writing a line in the moment of the fork. */
__attribute__((unused)) static void a_forked_child_is_refused_and_does_not_hang(void **state)
{
    (void)state;
    enum { CHILDREN = 200 };
    pthread_t thread;
    atomic_store(&enough, 0);
    assert_int_equal(pthread_create(&thread, NULL, be_refused, NULL), 0);
    for (int i = 0; i < CHILDREN; i++) {
        int status = -1;
        CUdeviceptr p;
        pid_t child = fork();
        if (child == 0) {
            alarm(200);
            _exit(cuMemAlloc(&p, 64) != CUDA_ERROR_NOT_INITIALIZED);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    atomic_store(&enough, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(every_later_call_answers_the_error),
        on_device(other_errors_cost_nothing),
        on_device(each_error_that_costs_a_context_does),
        on_device(a_reset_begins_again),
        on_device(a_created_context_is_lost_alone_and_may_be_destroyed),
        on_device(every_thread_of_the_context_is_told),
        on_device(calls_that_were_refused_have_lines),
        on_device(calls_without_lines_get_none_when_refused),
#ifndef __SANITIZE_THREAD__ /* which hangs by itself in forks of busy processes */
        on_device(a_forked_child_is_refused_and_does_not_hang),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
