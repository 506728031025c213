/* Stream memory operations: values written and waited for in stream order, by themselves, in batches and in graphs, and what
 * the oracle makes of the order that they bring. */
#include "driver_fixture.h"

#include <pthread.h>
#include <unistd.h>

enum { BYTES = 4096, SEEDS = 200 };

/* Sixteen words of zero in pinned memory, which the program sees too. */
static volatile uint32_t *new_words(CUdeviceptr *ret_at)
{
    void *p;
    assert_ok(cuMemHostAlloc(&p, 64, 0));
    assert_ok(cuMemHostGetDevicePointer(ret_at, p, 0));
    return p;
}

static void put(volatile uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static uint32_t get(volatile uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* --- values ------------------------------------------------------------------------------------------------------ */

static void values_are_written_in_stream_order(void **state)
{
    (void)state;
    CUdeviceptr p;
    uint64_t seen[2];
    CUstream s = new_stream();
    assert_ok(cuMemAlloc(&p, BYTES));
    assert_ok(cuMemsetD8Async(p, 0xff, BYTES, s));
    assert_ok(cuStreamWriteValue32(s, p, 0x11223344, 0));
    assert_ok(cuStreamWriteValue64(s, p + 8, 0x1122334455667788ull, 0));
    assert_ok(cuMemcpyDtoHAsync(seen, p, sizeof seen, s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(seen[0], 0xffffffff11223344ull);
    assert_int_equal(seen[1], 0x1122334455667788ull);
    assert_ok(cuMemFree(p));
    assert_ok(cuStreamDestroy(s));
}

static void a_wait_ends_where_its_condition_says(void **state)
{
    (void)state;
    static const struct { unsigned how; uint32_t waits_for, not_yet, then; } rows[] = {
        { CU_STREAM_WAIT_VALUE_EQ, 5, 6, 5 },
        { CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 6 },
        { CU_STREAM_WAIT_VALUE_GEQ, 0xfffffff0u, 0xffffffefu, 3 }, /* cyclic */
        { CU_STREAM_WAIT_VALUE_AND, 6, 9, 10 },
        { CU_STREAM_WAIT_VALUE_NOR, 0xffff0000u, 0x0000ffffu, 0x0000fffeu },
        { CU_STREAM_WAIT_VALUE_EQ | CU_STREAM_WAIT_VALUE_FLUSH, 1, 0, 1 },
    };
    CUdeviceptr at;
    volatile uint32_t *word = new_words(&at);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (uint64_t seed = 0; seed <= 3; seed++) {
            sim_seed(seed);
            CUstream s = new_stream();
            put(word, rows[i].not_yet);
            assert_ok(cuStreamWaitValue32(s, at, rows[i].waits_for, rows[i].how));
            for (int n = 0; n < 50; n++) assert_cu(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
            put(word, rows[i].then);
            assert_ok(cuStreamSynchronize(s));
            assert_ok(cuStreamDestroy(s));
            sim_seed(0);
        }
    assert_ok(cuMemFreeHost((void *)word));
}

static void a_wide_wait_looks_at_all_of_it(void **state)
{
    (void)state;
    CUdeviceptr at;
    volatile uint32_t *word = new_words(&at);
    CUstream s = new_stream();
    assert_ok(cuStreamWaitValue64(s, at, 1ull << 32, CU_STREAM_WAIT_VALUE_GEQ));
    put(word, 0xffffffffu);
    assert_cu(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    put(word + 1, 1);
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuStreamWaitValue64(s, at, ~(1ull << 32), CU_STREAM_WAIT_VALUE_AND));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuStreamDestroy(s));
    assert_ok(cuMemFreeHost((void *)word));
}

static void arguments_are_checked(void **state)
{
    (void)state;
    CUdeviceptr p, managed;
    CUstream s = new_stream();
    uint32_t pageable = 0;
    assert_ok(cuMemAlloc(&p, BYTES));
    assert_ok(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(s, p + 2, 1, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue64(s, p + 4, 1, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(s, 0, 1, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(s, p, 1, 8));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(s, p, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(s, managed, 1, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue64(s, managed, 1, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(s, (CUdeviceptr)(uintptr_t)&pageable, 1, 0));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuStreamWriteValue32((CUstream)&pageable, p, 1, 0));
    assert_int_equal(sim_pending(s), 0);
    assert_ok(cuMemFree(managed));
    assert_ok(cuMemFree(p));
    assert_ok(cuStreamDestroy(s));
}

typedef CUresult write32(CUstream, CUdeviceptr, cuuint32_t, unsigned);

static void the_first_form_takes_what_the_second_no_longer_does(void **state)
{
    (void)state;
    void *first = NULL;
    CUdeviceptr p;
    assert_ok(cuMemAlloc(&p, BYTES));
    assert_ok(cuGetProcAddress("cuStreamWriteValue32", &first, 8000, 0, NULL));
    assert_ok(((write32 *)first)(NULL, p, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
    assert_ok(cuMemFree(p));
}

static void the_device_says_that_it_can(void **state)
{
    (void)state;
    static const CUdevice_attribute names[] = {
        CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR,
        CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1,
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int value = 0;
        assert_ok(cuDeviceGetAttribute(&value, names[i], 0));
        assert_int_equal(value, 1);
    }
}

/* --- batches ------------------------------------------------------------------------------------------------------- */

static CUstreamBatchMemOpParams write_op(CUdeviceptr at, uint32_t value)
{
    return (CUstreamBatchMemOpParams){
        .writeValue = { .operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = at, .value = value }
    };
}

static CUstreamBatchMemOpParams wait_op(CUdeviceptr at, uint32_t value)
{
    return (CUstreamBatchMemOpParams){ .waitValue = { .operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = at, .value = value,
                                                      .flags = CU_STREAM_WAIT_VALUE_EQ } };
}

static void a_batch_runs_in_its_order(void **state)
{
    (void)state;
    CUdeviceptr at;
    volatile uint32_t *word = new_words(&at);
    CUstream s = new_stream();
    CUstreamBatchMemOpParams ops[] = { write_op(at, 1), wait_op(at + 4, 7), { .operation = CU_STREAM_MEM_OP_BARRIER },
                                       { .operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES }, write_op(at, 2) };
    assert_ok(cuStreamBatchMemOp(s, 5, ops, 0));
    while (get(word) != 1) assert_cu(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    assert_int_equal(sim_pending(s), 4);
    put(word + 1, 7);
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(get(word), 2);
    assert_ok(cuStreamDestroy(s));
    assert_ok(cuMemFreeHost((void *)word));
}

static void a_batch_with_a_bad_operation_does_nothing(void **state)
{
    (void)state;
    CUdeviceptr at;
    volatile uint32_t *word = new_words(&at);
    CUstream s = new_stream();
    CUstreamBatchMemOpParams ops[] = { write_op(at, 1), write_op(at + 1, 1) };
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(s, 2, ops, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(s, 1, ops, 1));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(s, 256, ops, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(s, 1, NULL, 0));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(get(word), 0);
    assert_ok(cuStreamDestroy(s));
    assert_ok(cuMemFreeHost((void *)word));
}

/* --- the device's work under the test's hand ------------------------------------------------------------------------- */

static void a_wait_that_is_met_stays_where_its_stream_is_held(void **state)
{
    (void)state;
    CUdeviceptr at;
    volatile uint32_t *word = new_words(&at);
    for (uint64_t seed = 0; seed <= 2; seed++) {
        sim_seed(seed);
        CUstream s = new_stream();
        assert_ok(sim_hold(s));
        assert_ok(cuStreamWaitValue32(s, at, 0, CU_STREAM_WAIT_VALUE_EQ));
        assert_ok(cuStreamWriteValue32(s, at + 4, 1, 0));
        for (int n = 0; n < 50; n++) assert_cu(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
        assert_int_equal(sim_pending(s), 2);
        assert_ok(sim_step(s, 1));
        while (sim_pending(s) == 2) (void)cuStreamQuery(s);
        assert_int_equal(get(word + 1), 0);
        assert_ok(sim_release(s));
        assert_ok(cuStreamSynchronize(s));
        assert_int_equal(get(word + 1), 1);
        put(word + 1, 0);
        assert_ok(cuStreamDestroy(s));
        sim_seed(0);
    }
    assert_ok(cuMemFreeHost((void *)word));
}

static void set_word(void *word)
{
    put(word, 1);
}

/* Many waits, and only a host function behind them all to end them: none may stand in its way. */
static void waits_do_not_hold_up_host_functions(void **state)
{
    (void)state;
    enum { WAITERS = 4 };
    CUdeviceptr at;
    volatile uint32_t *word = new_words(&at);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        sim_seed(seed);
        CUstream waiters[WAITERS], other = new_stream();
        put(word, 0);
        for (int i = 0; i < WAITERS; i++) {
            waiters[i] = new_stream();
            assert_ok(cuStreamWaitValue32(waiters[i], at, 1, CU_STREAM_WAIT_VALUE_GEQ));
            assert_ok(cuLaunchHostFunc(waiters[i], set_word, (void *)(word + 4 + i)));
        }
        assert_ok(cuLaunchHostFunc(other, set_word, (void *)word));
        for (int i = 0; i < WAITERS; i++) {
            assert_ok(cuStreamSynchronize(waiters[i]));
            assert_ok(cuStreamDestroy(waiters[i]));
        }
        assert_ok(cuStreamDestroy(other));
        sim_seed(0);
    }
    assert_ok(cuMemFreeHost((void *)word));
}

static void *set_after_a_while(void *word)
{
    usleep(2000);
    put(word, 1);
    return NULL;
}

static void a_program_that_waits_is_served_when_another_thread_writes(void **state)
{
    (void)state;
    CUdeviceptr at;
    volatile uint32_t *word = new_words(&at);
    for (uint64_t seed = 0; seed <= 3; seed++) {
        pthread_t thread;
        sim_seed(seed);
        put(word, 0);
        assert_ok(cuStreamWaitValue32(NULL, at, 1, CU_STREAM_WAIT_VALUE_EQ));
        assert_int_equal(pthread_create(&thread, NULL, set_after_a_while, (void *)word), 0);
        assert_ok(cuCtxSynchronize());
        assert_int_equal(pthread_join(thread, NULL), 0);
        sim_seed(0);
    }
    assert_ok(cuMemFreeHost((void *)word));
}

/* --- graphs ---------------------------------------------------------------------------------------------------------- */

static void a_captured_batch_is_a_node_that_every_launch_runs(void **state)
{
    (void)state;
    CUdeviceptr at;
    volatile uint32_t *word = new_words(&at);
    CUstream s = new_stream();
    CUgraph g, clone;
    CUgraphNode node;
    CUgraphNodeType type;
    CUgraphExec exec;
    CUDA_BATCH_MEM_OP_NODE_PARAMS p;
    size_t count = 1;
    CUstreamBatchMemOpParams ops[] = { wait_op(at, 3), write_op(at, 4) };
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(cuStreamBatchMemOp(s, 2, ops, 0));
    assert_ok(cuStreamEndCapture(s, &g));
    assert_ok(cuGraphGetNodes(g, &node, &count));
    assert_int_equal(count, 1);
    assert_ok(cuGraphNodeGetType(node, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    assert_ok(cuGraphBatchMemOpNodeGetParams(node, &p));
    assert_int_equal(p.count, 2);
    assert_int_equal(p.paramArray[0].waitValue.address, at);
    assert_int_equal(p.paramArray[1].writeValue.value, 4);
    ops[1] = write_op(at, 5);
    p = (CUDA_BATCH_MEM_OP_NODE_PARAMS){ .count = 2, .paramArray = ops };
    assert_ok(cuGraphBatchMemOpNodeSetParams(node, &p));
    assert_ok(cuGraphClone(&clone, g));
    count = 1;
    assert_ok(cuGraphGetNodes(clone, &node, &count));
    assert_ok(cuGraphBatchMemOpNodeGetParams(node, &p));
    assert_int_equal(p.paramArray[1].writeValue.value, 5);
    assert_ok(cuGraphInstantiate(&exec, clone, 0));
    for (int i = 0; i < 3; i++) {
        assert_ok(cuGraphLaunch(exec, s));
        assert_cu(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
        put(word, 3);
        assert_ok(cuStreamSynchronize(s));
        assert_int_equal(get(word), 5);
    }
    assert_ok(cuGraphExecDestroy(exec));
    assert_ok(cuGraphDestroy(clone));
    assert_ok(cuGraphDestroy(g));
    assert_ok(cuStreamDestroy(s));
    assert_ok(cuMemFreeHost((void *)word));
}

static void a_batch_node_may_be_added_by_hand(void **state)
{
    (void)state;
    CUdeviceptr at;
    volatile uint32_t *word = new_words(&at);
    CUgraph g;
    CUgraphNode first, second;
    CUgraphExec exec;
    CUstreamBatchMemOpParams ops[] = { write_op(at, 1), write_op(at + 4, 1) };
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = { .count = 2, .paramArray = ops };
    CUgraphNodeParams any = { .type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP };
    any.memOp.count = 1;
    any.memOp.paramArray = ops;
    assert_ok(cuGraphCreate(&g, 0));
    assert_ok(cuGraphAddBatchMemOpNode(&first, g, NULL, 0, &p));
    ops[0] = write_op(at, 2);
    assert_ok(cuGraphAddNode(&second, g, &first, NULL, 1, &any));
    p.count = 0;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphAddBatchMemOpNode(&second, g, NULL, 0, &p));
    assert_ok(cuGraphInstantiate(&exec, g, 0));
    assert_ok(cuGraphLaunch(exec, NULL));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(get(word), 2);
    assert_int_equal(get(word + 1), 1);
    assert_ok(cuGraphExecDestroy(exec));
    assert_ok(cuGraphDestroy(g));
    assert_ok(cuMemFreeHost((void *)word));
}

/* --- the oracle: test_planted has the faults and their twins ------------------------------------------------------------- */

struct pair {
    CUstream a, b;
    CUdeviceptr p, flag;
};

/* Memory that stream a allocates, and a flag of nought in device memory. */
static struct pair begin(void)
{
    struct pair x = { new_stream(), new_stream(), 0, 0 };
    assert_ok(cuMemAlloc(&x.flag, 64));
    assert_ok(cuMemsetD8(x.flag, 0, 64));
    assert_ok(sim_hold(x.a));
    assert_ok(cuMemAllocAsync(&x.p, BYTES, x.a));
    return x;
}

static void end(struct pair x)
{
    sim_release_all();
    assert_ok(cuStreamSynchronize(x.a));
    assert_ok(cuStreamSynchronize(x.b));
    assert_ok(cuMemFree(x.flag));
    assert_ok(cuStreamDestroy(x.a));
    assert_ok(cuStreamDestroy(x.b));
}

static void the_verdict_waits_for_the_write(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        sim_seed(seed);
        struct pair x = begin();
        assert_ok(cuStreamWaitValue32(x.b, x.flag, 1, CU_STREAM_WAIT_VALUE_EQ));
        assert_ok(cuMemsetD8Async(x.p, 1, BYTES, x.b));
        assert_ok(cuMemFreeAsync(x.p, x.b));
        assert_int_equal(sim_violations(), 0);
        assert_ok(cuStreamWriteValue32(x.a, x.flag, 1, 0));
        end(x);
        assert_int_equal(sim_violations(), 0);
        sim_seed(0);
    }
}

static void a_write_that_says_too_little_is_found_when_it_is_waited_for(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        sim_seed(seed);
        struct pair x = begin();
        CUstream c = new_stream();
        assert_ok(cuStreamWaitValue32(x.b, x.flag, 1, CU_STREAM_WAIT_VALUE_EQ));
        assert_ok(sim_launch_touch(x.b, x.p, BYTES)); /* nothing puts it behind the allocation */
        assert_int_equal(sim_findings("unordered-use"), 0);
        assert_ok(sim_release(x.a));
        assert_ok(cuStreamSynchronize(x.a));
        sim_reset();
        assert_ok(cuStreamWriteValue32(c, x.flag, 1, 0));
        assert_ok(cuStreamSynchronize(x.b));
        /* the program knew of the allocation when it queued the write */
        assert_int_equal(sim_findings("unordered-use"), 0);
        assert_ok(cuMemFreeAsync(x.p, x.b));
        assert_ok(cuStreamDestroy(c));
        end(x);
        sim_reset();

        x = begin();
        c = new_stream();
        assert_ok(cuStreamWriteValue32(c, x.flag, 1, 0));
        assert_ok(cuStreamWaitValue32(x.b, x.flag, 1, CU_STREAM_WAIT_VALUE_EQ));
        assert_ok(sim_launch_touch(x.b, x.p, BYTES));
        assert_ok(sim_release(x.a));
        assert_ok(cuStreamSynchronize(x.a));
        assert_ok(cuStreamSynchronize(x.b));
        assert_int_equal(sim_findings("unordered-use"), 1);
        assert_ok(cuMemFreeAsync(x.p, x.b));
        assert_ok(cuStreamDestroy(c));
        end(x);
        sim_reset();
        sim_seed(0);
    }
}

/* Whatever led to the value, a copy, a fill or the program, had begun. */
static void a_value_from_elsewhere_is_behind_all_that_has_begun(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        sim_seed(seed);
        struct pair x = begin();
        assert_ok(cuStreamWaitValue32(x.b, x.flag, 1, CU_STREAM_WAIT_VALUE_EQ));
        assert_ok(cuMemsetD8Async(x.p, 1, BYTES, x.b));
        assert_ok(cuMemFreeAsync(x.p, x.b));
        assert_ok(cuMemsetD32Async(x.flag, 1, 1, x.a));
        end(x);
        assert_int_equal(sim_violations(), 0);
        sim_seed(0);
    }
}

/* A value was written, reset and filled in again: whoever filled it in is the one who is waited for. */
static void an_earlier_writer_of_the_same_value_does_not_count(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        sim_seed(seed);
        struct pair x = begin();
        CUstream c = new_stream();
        assert_ok(cuStreamWriteValue32(c, x.flag, 1, 0));
        assert_ok(cuMemsetD32Async(x.flag, 0, 1, c));
        assert_ok(cuStreamSynchronize(c));
        assert_ok(cuStreamWaitValue32(x.b, x.flag, 1, CU_STREAM_WAIT_VALUE_EQ));
        assert_ok(cuMemsetD8Async(x.p, 1, BYTES, x.b));
        assert_ok(cuMemFreeAsync(x.p, x.b));
        assert_ok(cuMemsetD32Async(x.flag, 1, 1, x.a));
        assert_ok(cuStreamDestroy(c));
        end(x);
        assert_int_equal(sim_violations(), 0);
        sim_seed(0);
    }
}

static void a_wait_on_memory_that_is_gone_is_a_finding_and_over(void **state)
{
    (void)state;
    CUdeviceptr flag;
    CUstream a = new_stream(), b = new_stream();
    assert_ok(cuMemAllocAsync(&flag, 64, a));
    assert_ok(cuMemsetD8Async(flag, 0, 64, a));
    assert_ok(cuStreamSynchronize(a));
    assert_ok(cuStreamWaitValue32(b, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    assert_ok(cuMemFreeAsync(flag, a));
    assert_ok(cuStreamSynchronize(b));
    assert_true(sim_findings("use-after-free") + sim_findings("unordered-free") > 0);
    assert_ok(cuStreamDestroy(a));
    assert_ok(cuStreamDestroy(b));
}

/* Waits without end, and no call that waits: what is remembered of them must not grow with them. */
static void long_ping_pong_stays_cheap(void **state)
{
    (void)state;
    CUdeviceptr at;
    volatile uint32_t *word = new_words(&at);
    CUstream a = new_stream(), b = new_stream();
    for (uint32_t n = 1; n <= 20000; n++) {
        assert_ok(cuStreamWriteValue32(a, at, n, 0));
        assert_ok(cuStreamWaitValue32(b, at, n, CU_STREAM_WAIT_VALUE_GEQ));
        assert_ok(cuStreamWriteValue32(b, at + 4, n, 0));
        assert_ok(cuStreamWaitValue32(a, at + 4, n, CU_STREAM_WAIT_VALUE_GEQ));
        while (get(word + 1) + 100 < n) (void)cuStreamQuery(b);
    }
    assert_ok(cuCtxSynchronize());
    assert_int_equal(get(word + 1), 20000);
    assert_int_equal(sim_violations(), 0);
    assert_ok(cuStreamDestroy(a));
    assert_ok(cuStreamDestroy(b));
    assert_ok(cuMemFreeHost((void *)word));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(values_are_written_in_stream_order),
        on_device(a_wait_ends_where_its_condition_says),
        on_device(a_wide_wait_looks_at_all_of_it),
        on_device(arguments_are_checked),
        on_device(the_first_form_takes_what_the_second_no_longer_does),
        on_device(the_device_says_that_it_can),
        on_device(a_batch_runs_in_its_order),
        on_device(a_batch_with_a_bad_operation_does_nothing),
        on_device(a_wait_that_is_met_stays_where_its_stream_is_held),
        on_device(waits_do_not_hold_up_host_functions),
        on_device(a_program_that_waits_is_served_when_another_thread_writes),
        on_device(a_captured_batch_is_a_node_that_every_launch_runs),
        on_device(a_batch_node_may_be_added_by_hand),
        on_device(the_verdict_waits_for_the_write),
        on_device(a_write_that_says_too_little_is_found_when_it_is_waited_for),
        on_device(a_value_from_elsewhere_is_behind_all_that_has_begun),
        on_device(an_earlier_writer_of_the_same_value_does_not_count),
        on_device(a_wait_on_memory_that_is_gone_is_a_finding_and_over),
        on_device(long_ping_pong_stays_cheap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
