/* When memory that waits for its release may be given out again, by the pool's leave; pools with limits, pools of the host. */
#include "driver_fixture.h"

enum { BYTES = 1 << 20 };

static CUmemoryPool new_pool(CUmemLocationType where, size_t limit)
{
    CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = where }, .maxSize = limit };
    CUmemoryPool pool;
    assert_ok(cuMemPoolCreate(&pool, &props));
    return pool;
}

static void allow(CUmemoryPool pool, CUmemPool_attribute attribute, int on)
{
    assert_ok(cuMemPoolSetAttribute(pool, attribute, &on));
}

static cuuint64_t figure(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    cuuint64_t value = 77;
    assert_ok(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static CUdeviceptr alloc(CUmemoryPool pool, CUstream s)
{
    CUdeviceptr p;
    assert_ok(cuMemAllocFromPoolAsync(&p, BYTES, pool, s));
    return p;
}

/* Memory freed in a held stream, and an event behind the release. */
static CUdeviceptr freed_in(CUmemoryPool pool, CUstream held, CUevent e)
{
    CUdeviceptr p = alloc(pool, held);
    assert_ok(cuStreamSynchronize(held));
    sim_hold(held);
    assert_ok(cuMemFreeAsync(p, held));
    assert_ok(cuEventRecord(e, held));
    return p;
}

static void end(CUmemoryPool pool, CUdeviceptr p, CUstream s, CUstream held)
{
    sim_release(held);
    assert_ok(cuMemFreeAsync(p, s));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuStreamSynchronize(held));
    assert_ok(cuMemPoolDestroy(pool));
    assert_int_equal(sim_violations(), 0);
    assert_int_equal(sim_device_used(0), 0);
}

static void an_event_lets_another_stream_have_the_address(void **state)
{
    (void)state;
    for (int allowed = 0; allowed < 2; allowed++) {
        CUmemoryPool pool = new_pool(CU_MEM_LOCATION_TYPE_DEVICE, 0);
        CUstream a = new_stream(), b = new_stream();
        CUevent e;
        assert_ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
        allow(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, allowed);
        CUdeviceptr p = freed_in(pool, a, e), early = alloc(pool, b);
        assert_int_not_equal(early, p); /* nothing says that b comes later */
        assert_ok(cuStreamWaitEvent(b, e, 0));
        CUdeviceptr late = alloc(pool, b);
        assert_int_equal(late == p, allowed);
        assert_int_equal(sim_launch_touch(b, late, BYTES), CUDA_SUCCESS);
        assert_ok(cuMemFreeAsync(early, b));
        assert_ok(cuEventDestroy(e));
        end(pool, late, b, a);
    }
}

static void events_carry_what_was_behind_them(void **state)
{
    (void)state;
    CUmemoryPool pool = new_pool(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUevent first, second;
    assert_ok(cuEventCreate(&first, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuEventCreate(&second, CU_EVENT_DISABLE_TIMING));
    CUdeviceptr p = freed_in(pool, a, first);
    assert_ok(cuStreamWaitEvent(b, first, 0));
    assert_ok(cuEventRecord(second, b));
    assert_ok(cuStreamWaitEvent(c, second, 0));
    CUdeviceptr q = alloc(pool, c);
    assert_int_equal(p, q);
    assert_ok(cuEventDestroy(first));
    assert_ok(cuEventDestroy(second));
    end(pool, q, c, a);
}

static void for_want_of_memory_a_stream_is_made_to_wait(void **state)
{
    (void)state;
    CUmemoryPool pool = new_pool(CU_MEM_LOCATION_TYPE_DEVICE, BYTES);
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr none = 3;
    CUevent e;
    assert_ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    CUdeviceptr p = freed_in(pool, a, e);
    allow(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
    assert_cu(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&none, BYTES, pool, b));
    assert_int_equal(none, 3);
    allow(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 1);
    CUdeviceptr q = alloc(pool, b); /* returns at once */
    assert_int_equal(p, q);
    assert_cu(CUDA_ERROR_NOT_READY, cuStreamQuery(b)); /* and b stands behind a */
    sim_release(a);
    assert_ok(cuStreamSynchronize(b));
    assert_ok(cuEventDestroy(e));
    end(pool, q, b, a);
}

static void a_pool_is_no_larger_than_its_limit(void **state)
{
    (void)state;
    CUmemoryPool pool = new_pool(CU_MEM_LOCATION_TYPE_DEVICE, 2 * BYTES);
    CUstream s = new_stream();
    CUdeviceptr p = alloc(pool, s), q = alloc(pool, s), none;
    assert_cu(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&none, 512, pool, s));
    assert_ok(cuMemFreeAsync(q, s));
    q = alloc(pool, s);
    assert_ok(cuMemFreeAsync(q, s));
    end(pool, p, s, s);
}

static void the_host_has_pools_too(void **state)
{
    (void)state;
    CUmemLocation host = { .type = CU_MEM_LOCATION_TYPE_HOST }, device = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
    CUmemoryPool pool = new_pool(CU_MEM_LOCATION_TYPE_HOST, 0), seen, standard;
    CUstream s = new_stream();
    unsigned type = 0;
    assert_ok(cuMemGetDefaultMemPool(&standard, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
    assert_ok(cuMemGetMemPool(&seen, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
    assert_ptr_equal(seen, standard);
    assert_ok(cuMemSetMemPool(&host, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
    assert_ok(cuMemGetMemPool(&seen, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
    assert_ptr_equal(seen, pool);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemSetMemPool(&device, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuMemGetMemPool(&seen, &device, CU_MEM_ALLOCATION_TYPE_MANAGED));
    assert_ok(cuMemGetDefaultMemPool(&seen, &device, CU_MEM_ALLOCATION_TYPE_PINNED));
    assert_ptr_not_equal(seen, standard);

    CUdeviceptr p = alloc(pool, s);
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_device_used(0), 0); /* no device pays */
    assert_int_equal(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), BYTES);
    assert_ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    *(unsigned char *)p = 5; /* it is the host's */
    end(pool, p, s, s);
    assert_ok(cuMemGetMemPool(&seen, &host, CU_MEM_ALLOCATION_TYPE_PINNED)); /* destroyed: back to the default */
    assert_ptr_equal(seen, standard);
}

static void what_no_pool_can_be_is_refused(void **state)
{
    (void)state;
    CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                             .handleTypes = CU_MEM_HANDLE_TYPE_FABRIC,
                             .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
    CUmemoryPool pool = (CUmemoryPool)3;
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolCreate(&pool, &props));
    props.handleTypes = (CUmemAllocationHandleType)64;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &props));
    props.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
    props.location = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 7 };
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &props));
    props.location = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 7 };
    assert_cu(CUDA_ERROR_INVALID_DEVICE, cuMemPoolCreate(&pool, &props));
    assert_ptr_equal(pool, (CUmemoryPool)3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(an_event_lets_another_stream_have_the_address),
        on_device(events_carry_what_was_behind_them),
        on_device(for_want_of_memory_a_stream_is_made_to_wait),
        on_device(a_pool_is_no_larger_than_its_limit),
        on_device(the_host_has_pools_too),
        on_device(what_no_pool_can_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
