/* What the oracle claims to see: for each fault a program that commits it, and its correct twin. */
#include "driver_fixture.h"

static void sync_memory_freed_under_queued_work_is_a_violation(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p;
    assert_ok(cuMemAlloc(&p, 4096));
    assert_ok(sim_hold(s));
    assert_ok(sim_launch_touch(s, p, 4096));
    sim_set_free_waits(0);
    assert_ok(cuMemFree(p));
    sim_set_free_waits(1);
    assert_ok(sim_release(s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_violations(), 1);
}

static void memory_that_was_given_to_someone_else_is_still_a_violation(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p, q;
    assert_ok(cuMemAlloc(&p, 4096));
    assert_ok(sim_hold(s));
    assert_ok(cuMemsetD8Async(p, 1, 4096, s));
    sim_set_free_waits(0);
    assert_ok(cuMemFree(p));
    sim_set_free_waits(1);
    assert_ok(cuMemAlloc(&q, 4096));
    assert_int_equal(q, p);
    assert_ok(cuMemsetD8(q, 9, 4096));
    assert_ok(sim_release(s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_violations(), 1);
    unsigned char still = 0;
    assert_ok(cuMemcpyDtoH(&still, q, 1));
    assert_int_equal(still, 9); /* the stray work did no harm */
    assert_ok(cuMemFree(q));
}

static void sync_memory_freed_after_its_work_is_fine(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p;
    assert_ok(cuMemAlloc(&p, 4096));
    assert_ok(sim_launch_touch(s, p, 4096));
    assert_ok(cuMemFree(p));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_violations(), 0);
}

/* Another stream uses memory that the first frees; `ordered`: the free waits for an event behind that use. */
static void use_elsewhere(int ordered)
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr p;
    CUevent used;
    assert_ok(cuEventCreate(&used, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuMemAllocAsync(&p, 4096, a));
    assert_ok(cuStreamSynchronize(a));
    assert_ok(sim_hold(b));
    assert_ok(sim_launch_touch(b, p, 4096));
    assert_ok(cuEventRecord(used, b));
    if (ordered) assert_ok(cuStreamWaitEvent(a, used, 0));
    assert_ok(cuMemFreeAsync(p, a));
    if (!ordered) assert_ok(cuStreamSynchronize(a));
    assert_ok(sim_release(b));
    assert_ok(cuStreamSynchronize(a));
    assert_ok(cuStreamSynchronize(b));
    assert_ok(cuEventDestroy(used));
}

static void a_free_that_does_not_wait_for_another_streams_use_is_a_violation(void **state)
{
    (void)state;
    use_elsewhere(0);
    assert_int_equal(sim_violations(), 1);
}

static void a_free_that_waits_for_another_streams_use_is_fine(void **state)
{
    (void)state;
    use_elsewhere(1);
    assert_int_equal(sim_violations(), 0);
}

static void allocate_and_use_elsewhere(int ordered)
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr p;
    CUevent made;
    assert_ok(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
    assert_ok(sim_hold(a));
    assert_ok(cuMemAllocAsync(&p, 4096, a));
    assert_ok(cuEventRecord(made, a));
    if (ordered) assert_ok(cuStreamWaitEvent(b, made, 0));
    assert_ok(sim_launch_touch(b, p, 4096));
    if (!ordered) assert_ok(cuStreamSynchronize(b));
    assert_ok(sim_release(a));
    assert_ok(cuStreamSynchronize(b));
    assert_ok(cuMemFreeAsync(p, b));
    assert_ok(cuStreamSynchronize(b));
    assert_ok(cuEventDestroy(made));
}

static void use_before_the_allocating_stream_gets_there_is_a_violation(void **state)
{
    (void)state;
    allocate_and_use_elsewhere(0);
    assert_int_equal(sim_violations(), 1);
}

static void use_behind_the_allocating_streams_event_is_fine(void **state)
{
    (void)state;
    allocate_and_use_elsewhere(1);
    assert_int_equal(sim_violations(), 0);
}

static void a_graph_that_replays_on_freed_memory_is_a_violation(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p, q;
    CUgraph g;
    CUgraphExec x;
    assert_ok(cuMemAlloc(&p, 4096));
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(cuMemsetD8Async(p, 1, 4096, s));
    assert_ok(cuStreamEndCapture(s, &g));
    assert_ok(cuGraphInstantiate(&x, g, 0));
    assert_ok(cuGraphDestroy(g));
    assert_ok(cuGraphLaunch(x, s));
    assert_ok(cuMemFree(p));
    assert_int_equal(sim_violations(), 0);
    assert_ok(cuMemAlloc(&q, 4096));
    assert_int_equal(q, p); /* the same address, and not the graph's memory */
    assert_ok(cuGraphLaunch(x, s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_violations(), 1);
    assert_ok(cuGraphExecDestroy(x));
    assert_ok(cuMemFree(q));
}

static void a_launch_on_memory_that_is_not_allocated_is_a_violation(void **state)
{
    (void)state;
    CUdeviceptr p;
    assert_ok(cuMemAlloc(&p, 4096));
    assert_ok(cuMemFree(p));
    assert_ok(sim_launch_touch(NULL, p, 1));
    assert_ok(cuStreamSynchronize(NULL));
    assert_int_equal(sim_violations(), 1);
}

/* Whatever names memory that is gone is told so, and the code stays what it was. */
static void naming_memory_that_is_gone_is_a_violation(void **state)
{
    (void)state;
    CUstream s = new_stream();
    unsigned char bytes[16] = { 0 };
    for (int async = 0; async <= 1; async++) {
        CUdeviceptr p;
        uint64_t before = sim_findings("use-after-free");
        assert_ok(async ? cuMemAllocAsync(&p, 4096, s) : cuMemAlloc(&p, 4096));
        assert_ok(cuStreamSynchronize(s));
        assert_ok(async ? cuMemFreeAsync(p, s) : cuMemFree(p));
        assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync(p + 512, bytes, sizeof bytes, s));
        assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(bytes, p, sizeof bytes));
        assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(p, 1, 4096, s));
        assert_ok(sim_launch_touch(s, p, 16));
        assert_ok(cuStreamSynchronize(s));
        assert_int_equal(sim_findings("use-after-free"), before + 4);
        assert_int_equal(sim_findings("use-after-free"), sim_violations()); /* and nothing else */
    }
}

static void an_address_that_was_handed_out_again_is_nobodys_grave(void **state)
{
    (void)state;
    CUstream s = new_stream();
    unsigned char bytes[16] = { 0 };
    CUdeviceptr p, q;
    assert_ok(cuMemAlloc(&p, 4096));
    assert_ok(cuMemFree(p));
    assert_ok(cuMemAlloc(&q, 8192));
    assert_int_equal(q, p);
    assert_ok(cuMemcpyHtoDAsync(q, bytes, sizeof bytes, s));
    assert_ok(cuMemsetD8Async(q + 4096, 1, 4096, s));
    assert_ok(sim_launch_touch(s, q, 8192));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuMemFree(q));
    assert_int_equal(sim_violations(), 0);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(q + (1ull << 30), 1, 16)); /* never anybody's */
    assert_int_equal(sim_violations(), 0);
}

static void unmapped_memory_is_a_violation_and_does_not_crash(void **state)
{
    (void)state;
    enum { SIZE = 2 << 20 };
    CUstream s = new_stream();
    CUdeviceptr va;
    CUmemGenericAllocationHandle h;
    CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
    CUmemAccessDesc access = { .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    assert_ok(cuMemAddressReserve(&va, SIZE, 0, 0, 0));
    assert_ok(cuMemCreate(&h, SIZE, &prop, 0));
    assert_ok(cuMemMap(va, SIZE, 0, h, 0));
    assert_ok(cuMemsetD8Async(va, 1, SIZE, s)); /* nobody may access it yet */
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_violations(), 1);
    assert_ok(cuMemSetAccess(va, SIZE, &access, 1));
    assert_ok(cuMemsetD8Async(va, 1, SIZE, s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_violations(), 1);
    assert_ok(sim_hold(s));
    assert_ok(cuMemsetD8Async(va, 1, SIZE, s));
    assert_ok(cuMemUnmap(va, SIZE));
    assert_ok(sim_release(s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_violations(), 2);
    assert_ok(cuMemRelease(h));
    assert_ok(cuMemAddressFree(va, SIZE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(sync_memory_freed_under_queued_work_is_a_violation),
        on_device(memory_that_was_given_to_someone_else_is_still_a_violation),
        on_device(sync_memory_freed_after_its_work_is_fine),
        on_device(a_free_that_does_not_wait_for_another_streams_use_is_a_violation),
        on_device(a_free_that_waits_for_another_streams_use_is_fine),
        on_device(use_before_the_allocating_stream_gets_there_is_a_violation),
        on_device(use_behind_the_allocating_streams_event_is_fine),
        on_device(a_graph_that_replays_on_freed_memory_is_a_violation),
        on_device(a_launch_on_memory_that_is_not_allocated_is_a_violation),
        on_device(naming_memory_that_is_gone_is_a_violation),
        on_device(an_address_that_was_handed_out_again_is_nobodys_grave),
        on_device(unmapped_memory_is_a_violation_and_does_not_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
