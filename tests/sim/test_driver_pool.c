/* Stream-ordered memory and virtual memory. */
#include "driver_fixture.h"

#include <string.h>
#include <unistd.h>

enum { GRANULARITY = 2 << 20 };

static CUmemoryPool default_pool(void)
{
    CUmemoryPool p;
    assert_ok(cuDeviceGetDefaultMemPool(&p, 0));
    return p;
}

static uint64_t pool_value(CUmemoryPool p, CUmemPool_attribute attribute)
{
    cuuint64_t n = 0;
    assert_ok(cuMemPoolGetAttribute(p, attribute, &n));
    return n;
}

static void memory_is_freed_when_its_stream_gets_there(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p;
    assert_ok(cuMemAllocAsync(&p, 1000, s));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(sim_hold(s));
    assert_ok(cuMemFreeAsync(p, s));
    assert_int_equal(pool_value(default_pool(), CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1024);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, s));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
    assert_ok(sim_release(s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(pool_value(default_pool(), CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    assert_int_equal(sim_device_used(0), 0);
}

static void the_same_stream_may_have_the_address_at_once_and_another_may_not(void **state)
{
    (void)state;
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr p, q, r;
    assert_ok(cuMemAllocAsync(&p, 4096, a));
    assert_ok(sim_hold(a));
    assert_ok(cuMemsetD8Async(p, 1, 4096, a));
    assert_ok(cuMemFreeAsync(p, a));
    assert_ok(cuMemAllocAsync(&r, 4096, b));
    assert_int_not_equal(r, p);
    assert_ok(cuMemAllocAsync(&q, 4096, a));
    assert_int_equal(q, p);
    assert_ok(cuMemsetD8Async(q, 2, 4096, a));
    assert_ok(sim_release(a));
    assert_ok(cuMemFreeAsync(q, a));
    assert_ok(cuMemFreeAsync(r, b));
    assert_ok(cuStreamSynchronize(a));
    assert_ok(cuStreamSynchronize(b));
    assert_int_equal(sim_violations(), 0);
    assert_int_equal(sim_live_blocks("async"), 0);
    assert_int_equal(pool_value(default_pool(), CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
}

static void a_pool_keeps_up_to_its_threshold_at_a_synchronisation(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p;
    cuuint64_t threshold = 4096;
    assert_ok(cuMemPoolSetAttribute(default_pool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    assert_ok(cuMemAllocAsync(&p, 8192, s));
    assert_ok(cuMemFreeAsync(p, s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(pool_value(default_pool(), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 4096);
    assert_int_equal(sim_device_used(0), 4096);
    assert_ok(cuMemPoolTrimTo(default_pool(), 0));
    assert_int_equal(sim_device_used(0), 0);
    threshold = 0;
    assert_ok(cuMemPoolSetAttribute(default_pool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
}

static void an_allocation_waits_for_memory_that_another_stream_gives_back(void **state)
{
    (void)state;
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr p, q;
    size_t all, total;
    assert_ok(cuMemGetInfo(&all, &total));
    assert_ok(cuMemAllocAsync(&p, all, a));
    assert_ok(cuMemsetD8Async(p, 0, 64 << 20, a)); /* it takes a while */
    assert_ok(cuMemFreeAsync(p, a));
    assert_ok(cuMemAllocAsync(&q, all, b));
    assert_ok(cuMemFreeAsync(q, b));
    assert_ok(cuStreamSynchronize(b));
    assert_ok(cuMemAllocAsync(&p, all, a));
    assert_ok(sim_hold(a));
    assert_ok(cuMemFreeAsync(p, a));
    assert_cu(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&q, 512, b));
    assert_ok(sim_release(a));
    assert_ok(cuStreamSynchronize(a));
}

static void memory_that_a_pool_caches_serves_any_allocation(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p, q;
    size_t all, total;
    cuuint64_t threshold = UINT64_MAX;
    assert_ok(cuMemGetInfo(&all, &total));
    assert_ok(cuMemPoolSetAttribute(default_pool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    assert_ok(cuMemAllocAsync(&p, all / 2, s));
    assert_ok(cuMemFreeAsync(p, s));
    assert_ok(cuStreamSynchronize(s));
    assert_true(sim_device_used(0) >= all / 2);
    assert_ok(cuMemAlloc(&q, all));
    assert_ok(cuMemFree(q));
    threshold = 0;
    assert_ok(cuMemPoolSetAttribute(default_pool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
}

static void a_destroyed_pool_lives_as_long_as_its_blocks(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                             .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
    CUmemoryPool pool;
    CUdeviceptr p;
    assert_ok(cuMemPoolCreate(&pool, &props));
    assert_ok(cuMemAllocFromPoolAsync(&p, 100, pool, s));
    assert_ok(cuMemPoolDestroy(pool));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(default_pool()));
    assert_ok(cuMemsetD8Async(p, 0, 100, s));
    assert_ok(cuMemFreeAsync(p, s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_device_used(0), 0);
}

static void a_reset_takes_synchronous_memory_and_leaves_the_pools(void **state)
{
    (void)state;
    CUdeviceptr p, q;
    CUcontext c;
    CUstream s = new_stream();
    assert_ok(cuMemAlloc(&p, 512));
    assert_ok(cuMemAllocAsync(&q, 512, s));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuDevicePrimaryCtxReset(0));
    assert_int_equal(sim_live_blocks("device"), 0);
    assert_int_equal(sim_live_blocks("async"), 1);
    assert_ok(cuDevicePrimaryCtxRetain(&c, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
    assert_ok(cuMemFree(q));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(sim_device_used(0), 0);
}

/* --- virtual memory --------------------------------------------------------------------------------------------- */

static const CUmemAllocationProp on_device_0 = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                                 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
static const CUmemAccessDesc readwrite = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

static CUmemGenericAllocationHandle physical(size_t granules)
{
    CUmemGenericAllocationHandle h;
    assert_ok(cuMemCreate(&h, granules * GRANULARITY, &on_device_0, 0));
    return h;
}

static void physical_memory_lives_until_handle_and_maps_are_gone(void **state)
{
    (void)state;
    CUdeviceptr va;
    CUmemGenericAllocationHandle h, again;
    assert_ok(cuMemAddressReserve(&va, 8 * GRANULARITY, 0, 0, 0));
    h = physical(1);
    assert_ok(cuMemMap(va, GRANULARITY, 0, h, 0));
    assert_ok(cuMemRelease(h));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemRelease(h));
    assert_int_equal(sim_device_used(0), GRANULARITY);
    assert_ok(cuMemSetAccess(va, GRANULARITY, &readwrite, 1));
    assert_ok(cuMemsetD8(va, 7, GRANULARITY));
    assert_ok(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)va));
    assert_ok(cuMemUnmap(va, GRANULARITY));
    assert_int_equal(sim_device_used(0), GRANULARITY);
    assert_ok(cuMemMap(va + GRANULARITY, GRANULARITY, 0, again, 0));
    assert_ok(cuMemSetAccess(va + GRANULARITY, GRANULARITY, &readwrite, 1));
    char last = 0;
    assert_ok(cuMemcpyDtoH(&last, va + 2 * GRANULARITY - 1, 1));
    assert_int_equal(last, 7);
    assert_ok(cuMemRelease(again));
    assert_ok(cuMemUnmap(va + GRANULARITY, GRANULARITY));
    assert_int_equal(sim_device_used(0), 0);
    assert_ok(cuMemAddressFree(va, 8 * GRANULARITY));
}

static void one_unmap_may_span_several_maps_but_never_split_one(void **state)
{
    (void)state;
    CUdeviceptr va;
    CUmemGenericAllocationHandle a = physical(2), b = physical(1);
    assert_ok(cuMemAddressReserve(&va, 4 * GRANULARITY, 0, 0, 0));
    assert_ok(cuMemMap(va, 2 * GRANULARITY, 0, a, 0));
    assert_ok(cuMemMap(va + 2 * GRANULARITY, GRANULARITY, 0, b, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemMap(va + GRANULARITY, GRANULARITY, 0, b, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(va, GRANULARITY));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(va, 4 * GRANULARITY));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(va, 4 * GRANULARITY));
    assert_ok(cuMemUnmap(va, 3 * GRANULARITY));
    assert_ok(cuMemRelease(a));
    assert_ok(cuMemRelease(b));
    assert_ok(cuMemAddressFree(va, 4 * GRANULARITY));
    assert_int_equal(sim_live_blocks("map"), 0);
    assert_int_equal(sim_live_objects("physical"), 0);
}

static void sizes_follow_the_granularity(void **state)
{
    (void)state;
    size_t granularity = 0;
    CUmemGenericAllocationHandle h;
    CUdeviceptr va;
    assert_ok(cuMemGetAllocationGranularity(&granularity, &on_device_0, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_int_equal(granularity, GRANULARITY);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&h, GRANULARITY + 1, &on_device_0, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&va, 100, 0, 0, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&h, 0, &on_device_0, 0));
}

static void a_handle_passes_as_a_file_descriptor(void **state)
{
    (void)state;
    CUmemGenericAllocationHandle h = physical(1), imported;
    CUdeviceptr va;
    int fd = -1;
    char out = 0;
    assert_ok(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    assert_ok(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    assert_ok(cuMemAddressReserve(&va, 2 * GRANULARITY, 0, 0, 0));
    assert_ok(cuMemMap(va, GRANULARITY, 0, h, 0));
    assert_ok(cuMemMap(va + GRANULARITY, GRANULARITY, 0, imported, 0));
    assert_ok(cuMemSetAccess(va, 2 * GRANULARITY, &readwrite, 1));
    assert_ok(cuMemsetD8(va + 5, 42, 1));
    assert_ok(cuMemcpyDtoH(&out, va + GRANULARITY + 5, 1));
    assert_int_equal(out, 42);
    assert_ok(cuMemUnmap(va, 2 * GRANULARITY));
    assert_ok(cuMemRelease(h));
    assert_ok(cuMemRelease(imported));
    assert_ok(cuMemAddressFree(va, 2 * GRANULARITY));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(memory_is_freed_when_its_stream_gets_there),
        on_device(the_same_stream_may_have_the_address_at_once_and_another_may_not),
        on_device(a_pool_keeps_up_to_its_threshold_at_a_synchronisation),
        on_device(an_allocation_waits_for_memory_that_another_stream_gives_back),
        on_device(memory_that_a_pool_caches_serves_any_allocation),
        on_device(a_destroyed_pool_lives_as_long_as_its_blocks),
        on_device(a_reset_takes_synchronous_memory_and_leaves_the_pools),
        on_device(physical_memory_lives_until_handle_and_maps_are_gone),
        on_device(one_unmap_may_span_several_maps_but_never_split_one),
        on_device(sizes_follow_the_granularity),
        on_device(a_handle_passes_as_a_file_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
