/* External memory by opaque descriptor, and what is refused. */
#include "driver_fixture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 3 * 4096 };

static CUDA_EXTERNAL_MEMORY_HANDLE_DESC opaque(int fd)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = { .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = BYTES };
    d.handle.fd = fd;
    return d;
}

static int new_memory(void)
{
    int fd = memfd_create("theirs", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    return fd;
}

static void an_external_buffer_is_the_same_memory_and_outlives_its_object(void **state)
{
    (void)state;
    int fd = new_memory();
    unsigned char *mine = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = opaque(fd);
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = { .offset = 4096 + 512, .size = 1000 }, all = { .size = BYTES };
    CUexternalMemory memory;
    CUdeviceptr p, q;
    uint64_t used = sim_device_used(0);
    assert_ok(cuImportExternalMemory(&memory, &d));
    assert_ok(cuExternalMemoryGetMappedBuffer(&p, memory, &part));
    assert_ok(cuExternalMemoryGetMappedBuffer(&q, memory, &all));
    assert_int_equal(sim_device_used(0), used); /* theirs, not the device's */
    assert_int_equal(sim_live_bytes("external"), 1000 + BYTES);
    assert_ok(cuMemsetD8(p, 5, 1000));
    assert_int_equal(mine[4096 + 511], 0);
    assert_int_equal(mine[4096 + 512], 5);
    assert_int_equal(mine[4096 + 512 + 999], 5);
    assert_int_equal(mine[4096 + 512 + 1000], 0);
    assert_ok(cuDestroyExternalMemory(memory));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuDestroyExternalMemory(memory));
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* the driver owned it */
    assert_ok(cuMemsetD8(q, 6, 1));
    assert_int_equal(mine[0], 6);
    assert_ok(cuMemFree(p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
    assert_ok(cuMemFree(q));
    assert_int_equal(sim_live_blocks("external"), 0);
    munmap(mine, BYTES);
}

static void external_buffers_go_with_their_context(void **state)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = opaque(new_memory());
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC all = { .size = BYTES };
    CUexternalMemory memory;
    CUdeviceptr p;
    assert_ok(cuImportExternalMemory(&memory, &d));
    assert_ok(cuExternalMemoryGetMappedBuffer(&p, memory, &all));
    assert_ok(cuDevicePrimaryCtxReset(0));
    assert_int_equal(sim_live_blocks("external"), 0);
    assert_ok(cuDevicePrimaryCtxRetain((CUcontext *)state, 0));
    assert_ok(cuDestroyExternalMemory(memory));
}

static void what_is_outside_or_of_another_kind_is_refused(void **state)
{
    (void)state;
    int fd = new_memory();
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = opaque(fd);
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC outside = { .offset = 4096, .size = BYTES }, none = { .size = 0 };
    CUexternalMemory memory = (CUexternalMemory)3;
    CUdeviceptr p = 3;
    d.size = BYTES + 1;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuImportExternalMemory(&memory, &d));
    d.size = BYTES;
    d.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP;
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuImportExternalMemory(&memory, &d));
    assert_ptr_equal(memory, (CUexternalMemory)3);
    assert_int_not_equal(fcntl(fd, F_GETFD), -1); /* still ours */
    d = opaque(fd);
    assert_ok(cuImportExternalMemory(&memory, &d));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuExternalMemoryGetMappedBuffer(&p, memory, &outside));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuExternalMemoryGetMappedBuffer(&p, memory, &none));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuExternalMemoryGetMappedBuffer(&p, (CUexternalMemory)&d, &outside));
    assert_int_equal(p, 3);
    assert_ok(cuDestroyExternalMemory(memory));
}

/* Multicast is not simulated: the attribute and every call say the same. */
static void multicast_says_cleanly_that_it_is_not_supported(void **state)
{
    (void)state;
    CUmulticastObjectProp prop = { .numDevices = 1, .size = 2 << 20 };
    CUmemGenericAllocationHandle handle = 3;
    size_t granularity = 3;
    int supported = 1;
    assert_ok(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
    assert_int_equal(supported, 0);
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuMulticastCreate(&handle, &prop));
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuMulticastGetGranularity(&granularity, &prop, CU_MULTICAST_GRANULARITY_MINIMUM));
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuMulticastAddDevice(handle, 0));
    assert_true(handle == 3 && granularity == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(an_external_buffer_is_the_same_memory_and_outlives_its_object),
        on_device(external_buffers_go_with_their_context),
        on_device(what_is_outside_or_of_another_kind_is_refused),
        on_device(multicast_says_cleanly_that_it_is_not_supported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
