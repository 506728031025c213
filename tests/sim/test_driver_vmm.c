/* Virtual memory: several maps of one memory, memory of the host, what pointers into maps say, handles for ranges. */
#include "driver_fixture.h"

#include <fcntl.h>
#include <unistd.h>

enum { SIZE = 2 << 20 };

static CUmemAllocationProp device_prop(void)
{
    return (CUmemAllocationProp){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
}

static void open_to_device(CUdeviceptr p, size_t size)
{
    CUmemAccessDesc d = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE }, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    assert_ok(cuMemSetAccess(p, size, &d, 1));
}

static void one_memory_in_two_places(void **state)
{
    (void)state;
    CUmemAllocationProp prop = device_prop();
    CUmemGenericAllocationHandle h, same;
    CUdeviceptr p;
    unsigned char seen = 0;
    assert_ok(cuMemCreate(&h, SIZE, &prop, 0));
    assert_ok(cuMemAddressReserve(&p, 3 * SIZE, 0, 0, 0));
    assert_ok(cuMemMap(p, SIZE, 0, h, 0));
    assert_ok(cuMemMap(p + 2 * SIZE, SIZE, 0, h, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemMap(p, SIZE, 0, h, 0));              /* taken */
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemMap(p + SIZE, 2 * SIZE, 0, h, 0));   /* too large */
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemMap(p + SIZE, SIZE, SIZE, h, 0));    /* offsets are for later */
    open_to_device(p, SIZE);
    open_to_device(p + 2 * SIZE, SIZE);
    assert_ok(cuMemsetD8(p, 7, 16));
    assert_ok(cuMemcpyDtoH(&seen, p + 2 * SIZE + 15, 1));
    assert_int_equal(seen, 7);
    assert_ok(cuMemRelease(h));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemRelease(h));
    assert_ok(cuMemUnmap(p, SIZE));
    assert_int_equal(sim_device_used(0), SIZE); /* the other map holds it */
    assert_ok(cuMemRetainAllocationHandle(&same, (void *)(p + 2 * SIZE)));
    assert_int_equal(same, h);
    assert_ok(cuMemUnmap(p + 2 * SIZE, SIZE));
    assert_int_equal(sim_device_used(0), SIZE); /* now the handle does */
    assert_ok(cuMemRelease(same));
    assert_int_equal(sim_device_used(0), 0);
    assert_ok(cuMemAddressFree(p, 3 * SIZE));
}

static void memory_of_the_host_is_charged_to_no_device(void **state)
{
    CUmemAllocationProp prop = device_prop();
    CUmemAccessDesc host = { .location = { .type = CU_MEM_LOCATION_TYPE_HOST }, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    CUmemGenericAllocationHandle h = 3;
    CUdeviceptr p;
    unsigned type = 0;
    prop.location = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 9 };
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&h, SIZE, &prop, 0));
    prop.location = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 99 };
    assert_cu(CUDA_ERROR_INVALID_DEVICE, cuMemCreate(&h, SIZE, &prop, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&h, SIZE, NULL, 0));
    assert_int_equal(h, 3);
    prop.location = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST };
    assert_ok(cuCtxSetCurrent(NULL)); /* no context is needed */
    assert_ok(cuMemCreate(&h, SIZE, &prop, 0));
    assert_ok(cuCtxSetCurrent(*state));
    assert_int_equal(sim_device_used(0), 0);
    assert_ok(cuMemAddressReserve(&p, SIZE, 0, 0, 0));
    assert_ok(cuMemMap(p, SIZE, 0, h, 0));
    assert_ok(cuMemSetAccess(p, SIZE, &host, 1));
    *(unsigned char *)p = 1;
    assert_ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    assert_ok(cuMemUnmap(p, SIZE));
    assert_ok(cuMemRelease(h));
    assert_ok(cuMemAddressFree(p, SIZE));
}

static void pointers_into_maps_say_how_they_were_made(void **state)
{
    (void)state;
    CUmemAllocationProp prop = device_prop();
    CUmemGenericAllocationHandle h;
    CUdeviceptr p;
    CUcontext c = (CUcontext)3;
    unsigned long long types = 0;
    unsigned rdma = 0, legacy = 1, mapped = 9;
    int access = 9;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    prop.allocFlags.gpuDirectRDMACapable = 1;
    assert_ok(cuMemCreate(&h, SIZE, &prop, 0));
    assert_ok(cuMemAddressReserve(&p, SIZE, 0, 0, 0));
    assert_ok(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, p));
    assert_int_equal(mapped, 0);
    assert_ok(cuMemMap(p, SIZE, 0, h, 0));
    assert_ok(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, p));
    assert_int_equal(mapped, 1);
    assert_ok(cuPointerGetAttribute(&access, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, p));
    assert_int_equal(access, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
    open_to_device(p, SIZE);
    assert_ok(cuPointerGetAttribute(&access, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, p));
    assert_int_equal(access, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    CUpointer_attribute wanted[] = { CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
                                     CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_CONTEXT };
    void *data[] = { &types, &rdma, &legacy, &c };
    assert_ok(cuPointerGetAttributes(4, wanted, data, p + 100));
    assert_true(types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && rdma == 1 && legacy == 0 && c == NULL);
    assert_ok(cuMemUnmap(p, SIZE));
    assert_ok(cuMemRelease(h));
    assert_ok(cuMemAddressFree(p, SIZE));
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuMemCreate(&h, SIZE, &prop, 0));
}

static void sync_memops_is_one_allocations_own(void **state)
{
    (void)state;
    CUdeviceptr a, b, pooled;
    CUstream s = new_stream();
    unsigned on = 1, seen = 9;
    assert_ok(cuMemAlloc(&a, 64));
    assert_ok(cuMemAlloc(&b, 64));
    assert_ok(cuMemAllocAsync(&pooled, 64, s));
    assert_ok(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    assert_ok(cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    assert_int_equal(seen, 1);
    assert_ok(cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, b));
    assert_int_equal(seen, 0);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pooled));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_BUFFER_ID, a));
    assert_ok(cuMemFree(a));
    assert_ok(cuMemFree(b));
    assert_ok(cuMemFreeAsync(pooled, s));
    assert_ok(cuStreamSynchronize(s));
}

static void a_range_has_a_descriptor_where_it_is_device_memory(void **state)
{
    (void)state;
    CUdeviceptr p;
    int fd = -3, supported = 0, alignment = 0;
    assert_ok(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
    assert_int_equal(supported, 1);
    assert_ok(cuDeviceGetAttribute(&alignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 0));
    assert_ok(cuMemAlloc(&p, 2 * 4096));
    assert_int_equal(p % (CUdeviceptr)alignment, 0);
    assert_cu(CUDA_ERROR_INVALID_VALUE,
              cuMemGetHandleForAddressRange(&fd, p + 1, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE,
              cuMemGetHandleForAddressRange(&fd, p, 64 << 20, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    assert_int_equal(fd, -3);
    if (p % 4096 == 0) {
        assert_ok(cuMemGetHandleForAddressRange(&fd, p, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
        assert_int_not_equal(fcntl(fd, F_GETFD), -1);
        close(fd);
    }
    assert_ok(cuMemFree(p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(one_memory_in_two_places),
        on_device(memory_of_the_host_is_charged_to_no_device),
        on_device(pointers_into_maps_say_how_they_were_made),
        on_device(sync_memops_is_one_allocations_own),
        on_device(a_range_has_a_descriptor_where_it_is_device_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
