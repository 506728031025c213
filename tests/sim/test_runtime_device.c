/* Devices as the runtime shows them: what each thread has current, both layouts of the properties, first use by many. */
#include "runtime_fixture.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *other_thread(void *unused)
{
    int device = -1;
    void *p;
    cudaError_t first = cudaPeekAtLastError();

    (void)unused;
    if (cudaGetDevice(&device) || cudaMalloc(&p, 64) || cudaFree(p))
        return (void *)"a call failed";
    if (first != cudaSuccess)
        return (void *)"the error of another thread";
    return device == 0 ? NULL : (void *)"the device of another thread";
}

static void each_thread_has_its_own_device_and_its_own_last_error(void **state)
{
    void *complaint = NULL;
    pthread_t thread;
    int device = -1;

    (void)state;
    assert_ok(cudaSetDevice(1));
    assert_int_equal(cudaMalloc(NULL, 1), cudaErrorInvalidValue);
    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, &complaint), 0);
    assert_null(complaint);
    assert_ok(cudaGetDevice(&device));
    assert_int_equal(device, 1);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    assert_ok(cudaSetDevice(0));
}

static void a_device_that_is_not_there_is_refused_and_the_choice_stays(void **state)
{
    int count = 0, device = -1;

    (void)state;
    assert_ok(cudaGetDeviceCount(&count));
    assert_int_equal(count, 2);
    assert_int_equal(cudaSetDevice(count), cudaErrorInvalidDevice);
    assert_int_equal(cudaSetDevice(-1), cudaErrorInvalidDevice);
    assert_ok(cudaGetDevice(&device));
    assert_int_equal(device, 0);
    (void)cudaGetLastError();
}

static void memory_belongs_to_the_device_that_was_current(void **state)
{
    struct cudaPointerAttributes a;
    void *p;

    (void)state;
    assert_ok(cudaSetDevice(1));
    assert_ok(cudaMalloc(&p, 100));
    assert_ok(cudaSetDevice(0));
    assert_ok(cudaPointerGetAttributes(&a, p));
    assert_int_equal(a.device, 1);
    assert_ok(cudaFree(p));
}

static void *first_use(void *barrier)
{
    void *p;

    pthread_barrier_wait(barrier);
    return cudaMalloc(&p, 4096) || cudaFree(p) ? marker() : NULL;
}

static void many_threads_may_all_be_first(void **state)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    void *failed = NULL;

    (void)state;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, first_use, &barrier), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;

        assert_int_equal(pthread_join(threads[i], &result), 0);
        failed = result ? result : failed;
    }
    assert_null(failed);
    pthread_barrier_destroy(&barrier);
}

static void properties_agree_with_the_attributes(void **state)
{
    struct cudaDeviceProp prop;
    int value;

    (void)state;
    memset(&prop, 0xff, sizeof prop);
    assert_ok(cudaGetDeviceProperties(&prop, 0));
    assert_int_not_equal(prop.name[0], 0);
    assert_int_equal(prop.warpSize, 32);
    assert_ok(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
    assert_int_equal(prop.multiProcessorCount, value);
    assert_ok(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    assert_int_equal(prop.sharedMemPerBlockOptin, value);
    assert_ok(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0));
    assert_int_equal(prop.major, value);
    assert_int_equal(cudaGetDeviceProperties(&prop, 99), cudaErrorInvalidDevice);
    (void)cudaGetLastError();
}

/* A program that was compiled for CUDA 12 reads these offsets: facts of its headers, written down by hand. */
static void properties_of_cuda_12_lie_where_its_programs_look(void **state)
{
    void *runtime = dlopen("libcudart.so.12", RTLD_NOW | RTLD_LOCAL);
    cudaError_t (*get)(void *, int);
    unsigned char bytes[1032 + 16];
    struct cudaDeviceProp now;
    size_t total;
    int value;

    (void)state;
    assert_non_null(runtime);
    get = (cudaError_t(*)(void *, int))dlsym(runtime, "cudaGetDeviceProperties_v2");
    assert_non_null(get);
    assert_ok(cudaGetDeviceProperties(&now, 0));
    memset(bytes, 0xa5, sizeof bytes);
    assert_ok(get(bytes, 0));
    assert_memory_equal(bytes, now.name, 256);
    memcpy(&total, bytes + 288, sizeof total);
    assert_int_equal(total, now.totalGlobalMem);
    memcpy(&value, bytes + 308, sizeof value);
    assert_int_equal(value, now.warpSize);
    memcpy(&value, bytes + 360, sizeof value);
    assert_int_equal(value, now.major);
    memcpy(&value, bytes + 388, sizeof value);
    assert_int_equal(value, now.multiProcessorCount);
    for (size_t i = 1032; i < sizeof bytes; i++)
        assert_int_equal(bytes[i], 0xa5);
    assert_int_equal(dlclose(runtime), 0);
}

static void versions_are_those_of_the_release_it_plays(void **state)
{
    int runtime = 0, driver = 0;

    (void)state;
    assert_ok(cudaRuntimeGetVersion(&runtime));
    assert_int_equal(runtime, 13000);
    assert_ok(cudaDriverGetVersion(&driver));
    assert_int_equal(driver, 13000);
    assert_string_equal(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    assert_string_equal(cudaGetErrorName((cudaError_t)4242), "unrecognized error code");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_may_all_be_first),
        cmocka_unit_test(each_thread_has_its_own_device_and_its_own_last_error),
        cmocka_unit_test(a_device_that_is_not_there_is_refused_and_the_choice_stays),
        cmocka_unit_test(memory_belongs_to_the_device_that_was_current),
        cmocka_unit_test(properties_agree_with_the_attributes),
        cmocka_unit_test(properties_of_cuda_12_lie_where_its_programs_look),
        cmocka_unit_test(versions_are_those_of_the_release_it_plays),
    };

    setenv("SIMCUDA_DEVICES", "2", 1); /* read at the driver's first call, which no constructor makes */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
