/* Which driver call each runtime call becomes, and what becomes of a call that the driver refuses. */
#include "runtime_fixture.h"

#include "simcuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static uint64_t (*calls)(const char *symbol);
static int (*fail_nth)(const char *symbol, uint64_t n, int code);

extern cudaError_t cudaMallocAsync_ptsz(void **pointer, size_t size, cudaStream_t stream);
extern cudaError_t cudaFreeAsync_ptsz(void *pointer, cudaStream_t stream);
extern cudaError_t cudaMemcpy_ptds(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind);

static int find_controls(void **state)
{
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW);

    (void)state;
    if (!libcuda)
        return -1;
    calls = (uint64_t(*)(const char *))dlsym(libcuda, "sim_calls");
    fail_nth = (int (*)(const char *, uint64_t, int))dlsym(libcuda, "sim_fail");
    return calls && fail_nth && cudaFree(NULL) == cudaSuccess ? 0 : -1;
}

static int no_error_pending(void **state)
{
    (void)state;
    (void)cudaGetLastError();
    return 0;
}

/* The statement makes exactly one call of the symbol. */
#define assert_calls_once(symbol, statement)           \
    do {                                               \
        uint64_t before_ = calls(symbol);              \
        assert_ok(statement);                          \
        assert_int_equal(calls(symbol) - before_, 1);  \
    } while (0)

static void each_allocation_is_one_driver_call(void **state)
{
    size_t pitch;
    void *p;

    (void)state;
    assert_calls_once("cuMemAlloc_v2", cudaMalloc(&p, 100));
    assert_calls_once("cuMemFree_v2", cudaFree(p));
    assert_calls_once("cuMemAllocPitch_v2", cudaMallocPitch(&p, &pitch, 100, 10));
    assert_calls_once("cuMemFree_v2", cudaFree(p));
    assert_calls_once("cuMemAllocManaged", cudaMallocManaged(&p, 100, cudaMemAttachGlobal));
    assert_calls_once("cuMemFree_v2", cudaFree(p));
    assert_calls_once("cuMemHostAlloc", cudaMallocHost(&p, 100));
    assert_calls_once("cuMemFreeHost", cudaFreeHost(p));
    assert_calls_once("cuMemAllocAsync", cudaMallocAsync(&p, 100, NULL));
    assert_calls_once("cuMemFreeAsync", cudaFreeAsync(p, NULL));
}

static void nothing_asked_is_nothing_called(void **state)
{
    uint64_t allocs = calls("cuMemAlloc_v2"), frees = calls("cuMemFree_v2");
    void *p;

    (void)state;
    assert_ok(cudaMalloc(&p, 0));
    assert_ok(cudaFree(NULL));
    assert_int_equal(calls("cuMemAlloc_v2"), allocs);
    assert_int_equal(calls("cuMemFree_v2"), frees);
}

static void per_thread_names_reach_the_per_thread_entry_points(void **state)
{
    uint64_t plain = calls("cuMemAllocAsync");
    char byte = 1;
    void *p;

    (void)state;
    assert_calls_once("cuMemAllocAsync_ptsz", cudaMallocAsync_ptsz(&p, 100, NULL));
    assert_calls_once("cuMemcpyHtoD_v2_ptds", cudaMemcpy_ptds(p, &byte, 1, cudaMemcpyHostToDevice));
    assert_calls_once("cuMemFreeAsync_ptsz", cudaFreeAsync_ptsz(p, NULL));
    assert_int_equal(calls("cuMemAllocAsync"), plain);
    assert_ok(cudaDeviceSynchronize());
}

static void the_direction_picks_the_copy(void **state)
{
    char byte = 1;
    void *p;

    (void)state;
    assert_ok(cudaMalloc(&p, 2));
    assert_calls_once("cuMemcpyHtoD_v2", cudaMemcpy(p, &byte, 1, cudaMemcpyHostToDevice));
    assert_calls_once("cuMemcpyDtoH_v2", cudaMemcpy(&byte, p, 1, cudaMemcpyDeviceToHost));
    assert_calls_once("cuMemcpyDtoD_v2", cudaMemcpy((char *)p + 1, p, 1, cudaMemcpyDeviceToDevice));
    assert_calls_once("cuMemcpy", cudaMemcpy(&byte, p, 1, cudaMemcpyDefault));
    assert_ok(cudaFree(p));
}

static void the_primary_context_is_retained_once(void **state)
{
    uint64_t before = calls("cuDevicePrimaryCtxRetain");
    void *p;

    (void)state;
    assert_ok(cudaSetDevice(0));
    assert_ok(cudaMalloc(&p, 1));
    assert_ok(cudaFree(p));
    assert_int_equal(calls("cuDevicePrimaryCtxRetain"), before);
}

static void the_drivers_code_is_the_callers_code_and_the_last_error(void **state)
{
    void *p = marker();

    (void)state;
    assert_int_equal(fail_nth("cuMemAlloc_v2", 1, cudaErrorMemoryAllocation), 0);
    assert_int_equal(cudaMalloc(&p, 100), cudaErrorMemoryAllocation);
    assert_ptr_equal(p, marker());
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static void *codes_of_another_thread(void *ret_codes)
{
    cudaError_t *codes = ret_codes;
    void *p;

    codes[0] = cudaPeekAtLastError();
    codes[1] = cudaMalloc(&p, 1);
    codes[2] = cudaGetLastError();
    return NULL;
}

static void an_error_that_costs_the_context_is_everybodys_until_the_device_is_reset(void **state)
{
    cudaError_t codes[3];
    pthread_t thread;
    void *p = marker();

    (void)state;
    assert_int_equal(fail_nth("cuCtxSynchronize", 1, cudaErrorIllegalAddress), 0);
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    assert_int_equal(cudaMalloc(&p, 1), cudaErrorIllegalAddress);
    assert_ptr_equal(p, marker());
    assert_int_equal(pthread_create(&thread, NULL, codes_of_another_thread, codes), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(codes[0], cudaSuccess); /* it has not called yet */
    assert_int_equal(codes[1], cudaErrorIllegalAddress);
    assert_int_equal(codes[2], cudaErrorIllegalAddress);
    assert_ok(cudaDeviceReset());
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_ok(cudaMalloc(&p, 1));
    assert_ok(cudaFree(p));
}

static void an_error_that_costs_a_context_leaves_other_devices_alone(void **state)
{
    void *p;

    (void)state;
    assert_int_equal(fail_nth("cuCtxSynchronize", 1, cudaErrorLaunchFailure), 0);
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    assert_ok(cudaSetDevice(1));
    assert_ok(cudaMalloc(&p, 1));
    assert_ok(cudaFree(p));
    assert_ok(cudaSetDevice(0));
    assert_int_equal(cudaMalloc(&p, 1), cudaErrorLaunchFailure);
    assert_ok(cudaDeviceReset());
}

static void a_context_that_the_driver_lost_is_lost_to_the_runtime_as_well(void **state)
{
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW), *p;
    int (*synchronise)(void) = (int (*)(void))dlsym(libcuda, "cuCtxSynchronize");

    (void)state;
    assert_ok(cudaSetDevice(0));
    assert_int_equal(fail_nth("cuCtxSynchronize", 1, cudaErrorTensorMemoryLeak), 0);
    assert_int_equal(synchronise(), cudaErrorTensorMemoryLeak);
    assert_int_equal(cudaMalloc(&p, 1), cudaErrorTensorMemoryLeak);
    assert_int_equal(synchronise(), cudaErrorTensorMemoryLeak);
    assert_int_equal(cudaGetLastError(), cudaErrorTensorMemoryLeak);
    assert_int_equal(cudaGetLastError(), cudaErrorTensorMemoryLeak);
    assert_ok(cudaDeviceReset());
    assert_ok(cudaMalloc(&p, 1));
    assert_ok(cudaFree(p));
}

static void an_ordinary_error_costs_nothing(void **state)
{
    void *p;

    (void)state;
    assert_int_equal(fail_nth("cuCtxSynchronize", 1, cudaErrorNotReady), 0);
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorNotReady);
    assert_ok(cudaMalloc(&p, 1));
    assert_ok(cudaFree(p));
    assert_int_equal(cudaGetLastError(), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

#define TEST(name) cmocka_unit_test_setup(name, no_error_pending)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_allocation_is_one_driver_call),
        TEST(nothing_asked_is_nothing_called),
        TEST(per_thread_names_reach_the_per_thread_entry_points),
        TEST(the_direction_picks_the_copy),
        TEST(the_primary_context_is_retained_once),
        TEST(the_drivers_code_is_the_callers_code_and_the_last_error),
        TEST(an_error_that_costs_the_context_is_everybodys_until_the_device_is_reset),
        TEST(an_error_that_costs_a_context_leaves_other_devices_alone),
        TEST(a_context_that_the_driver_lost_is_lost_to_the_runtime_as_well),
        TEST(an_ordinary_error_costs_nothing),
    };

    setenv("SIMCUDA_DEVICES", "2", 1); /* read when the runtime first looks for its driver */
    return cmocka_run_group_tests(tests, find_controls, NULL);
}
