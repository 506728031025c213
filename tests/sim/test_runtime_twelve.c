/* What a program compiled for CUDA 12 calls under names that mean something else in CUDA 13. The forms are facts of its
 * headers, written down by hand. */
#include "runtime_fixture.h"

#include <dlfcn.h>

static void *runtime, *libcuda;

static void *entry(const char *name)
{
    void *found = dlsym(runtime, name);

    assert_non_null(found);
    return found;
}

static uint64_t calls(const char *symbol)
{
    return ((uint64_t(*)(const char *))dlsym(libcuda, "sim_calls"))(symbol);
}

static int open_both(void **state)
{
    (void)state;
    runtime = dlopen("libcudart.so.12", RTLD_NOW | RTLD_LOCAL);
    libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    return runtime && libcuda ? 0 : -1;
}

static void hints_about_managed_memory_name_a_device_by_ordinal(void **state)
{
    cudaError_t (*allocate)(void **, size_t, unsigned) = (cudaError_t(*)(void **, size_t, unsigned))entry("cudaMallocManaged");
    cudaError_t (*release)(void *) = (cudaError_t(*)(void *))entry("cudaFree");
    cudaError_t (*advise)(const void *, size_t, int, int) = (cudaError_t(*)(const void *, size_t, int, int))entry("cudaMemAdvise");
    cudaError_t (*prefetch)(const void *, size_t, int, cudaStream_t) =
        (cudaError_t(*)(const void *, size_t, int, cudaStream_t))entry("cudaMemPrefetchAsync");
    cudaError_t (*prefetch_ptsz)(const void *, size_t, int, cudaStream_t) =
        (cudaError_t(*)(const void *, size_t, int, cudaStream_t))entry("cudaMemPrefetchAsync_ptsz");
    uint64_t before;
    void *p;

    (void)state;
    assert_ok(allocate(&p, 4096, cudaMemAttachGlobal));
    assert_ok(advise(p, 4096, cudaMemAdviseSetReadMostly, 0));
    before = calls("cuMemPrefetchAsync");
    assert_ok(prefetch(p, 4096, 0, NULL));
    assert_int_equal(calls("cuMemPrefetchAsync") - before, 1);
    before = calls("cuMemPrefetchAsync_ptsz");
    assert_ok(prefetch_ptsz(p, 4096, cudaCpuDeviceId, NULL));
    assert_int_equal(calls("cuMemPrefetchAsync_ptsz") - before, 1);
    assert_ok(release(p));
}

static void a_capture_is_asked_about_in_three_forms(void **state)
{
    cudaError_t (*create)(cudaStream_t *, unsigned) = (cudaError_t(*)(cudaStream_t *, unsigned))entry("cudaStreamCreateWithFlags");
    cudaError_t (*begin)(cudaStream_t, int) = (cudaError_t(*)(cudaStream_t, int))entry("cudaStreamBeginCapture");
    cudaError_t (*end)(cudaStream_t, cudaGraph_t *) = (cudaError_t(*)(cudaStream_t, cudaGraph_t *))entry("cudaStreamEndCapture");
    cudaError_t (*destroy)(cudaGraph_t) = (cudaError_t(*)(cudaGraph_t))entry("cudaGraphDestroy");
    cudaError_t (*ask)(cudaStream_t, int *, unsigned long long *) =
        (cudaError_t(*)(cudaStream_t, int *, unsigned long long *))entry("cudaStreamGetCaptureInfo");
    cudaError_t (*ask2)(cudaStream_t, int *, unsigned long long *, cudaGraph_t *, const cudaGraphNode_t **, size_t *) =
        (cudaError_t(*)(cudaStream_t, int *, unsigned long long *, cudaGraph_t *, const cudaGraphNode_t **,
                        size_t *))entry("cudaStreamGetCaptureInfo_v2");
    unsigned long long id = 0, id2 = 1;
    int status = -1, status2 = -1;
    cudaGraph_t graph, made;
    cudaStream_t stream;

    (void)state;
    assert_ok(create(&stream, cudaStreamNonBlocking));
    assert_ok(begin(stream, cudaStreamCaptureModeRelaxed));
    assert_ok(ask(stream, &status, &id));
    assert_ok(ask2(stream, &status2, &id2, &graph, NULL, NULL));
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    assert_int_equal(status2, status);
    assert_int_equal(id2, id);
    assert_ok(end(stream, &made));
    assert_ptr_equal(made, graph);
    assert_ok(destroy(made));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hints_about_managed_memory_name_a_device_by_ordinal),
        cmocka_unit_test(a_capture_is_asked_about_in_three_forms),
    };

    return cmocka_run_group_tests(tests, open_both, NULL);
}
