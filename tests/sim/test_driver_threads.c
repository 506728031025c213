/* Many threads at once: a correct program stays correct, and nothing is left behind. */
#include "driver_fixture.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 300, BYTES = 4096 };

struct worker {
    CUcontext context;
    unsigned seed;
    int failed; /* line of the first call that failed */
};

#define expect(call)                                  \
    do {                                              \
        if ((call) != CUDA_SUCCESS && !w->failed) w->failed = __LINE__; \
    } while (0)

/* Memory made on one stream, used on another, given back on the first, in every round. */
static void *work(void *arg)
{
    struct worker *w = arg;
    CUstream a, b;
    CUevent made, used;
    expect(cuCtxSetCurrent(w->context));
    expect(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    expect(cuStreamCreate(&b, w->seed % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    expect(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
    expect(cuEventCreate(&used, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < ROUNDS && !w->failed; i++) {
        CUdeviceptr p, q;
        w->seed = w->seed * 1103515245 + 12345;
        size_t bytes = BYTES + w->seed % BYTES;
        expect(cuMemAllocAsync(&p, bytes, a));
        expect(cuEventRecord(made, a));
        expect(cuStreamWaitEvent(b, made, 0));
        expect(cuMemsetD8Async(p, (unsigned char)i, bytes, b));
        expect(cuEventRecord(used, b));
        expect(cuStreamWaitEvent(a, used, 0));
        expect(cuMemFreeAsync(p, a));
        if (i % 16) continue;
        expect(cuMemAlloc(&q, bytes));
        expect(cuMemsetD8Async(q, 1, bytes, b));
        expect(cuMemFree(q));
    }
    expect(cuStreamSynchronize(a));
    expect(cuStreamSynchronize(b));
    expect(cuEventDestroy(made));
    expect(cuEventDestroy(used));
    expect(cuStreamDestroy(a));
    expect(cuStreamDestroy(b));
    return NULL;
}

static void a_correct_program_is_never_accused(void **state)
{
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ *state, i + 1, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) assert_int_equal(workers[i].failed, 0);
    assert_int_equal(sim_violations(), 0);
    assert_ok(cuCtxSynchronize());
    assert_int_equal(sim_live_blocks("async") + sim_live_blocks("device"), 0);
    assert_int_equal(sim_live_objects("event"), 0);
    assert_int_equal(sim_live_objects("stream"), 1); /* the context's own */
    assert_int_equal(sim_device_used(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { on_device(a_correct_program_is_never_accused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
