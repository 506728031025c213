/* Memory without streams' order: device, pitched, managed, host, registered; what pointers say of themselves. */
#include "driver_fixture.h"

#include <sys/mman.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t free_bytes(void)
{
    size_t n, total;
    assert_ok(cuMemGetInfo(&n, &total));
    return n;
}

static void device_memory_is_aligned_and_keeps_what_is_copied(void **state)
{
    (void)state;
    CUdeviceptr p, q;
    char out[6] = "";
    assert_ok(cuMemAlloc(&p, 1));
    assert_ok(cuMemAlloc(&q, 100));
    assert_int_equal(p % 512, 0);
    assert_int_equal(q % 512, 0);
    assert_ok(cuMemcpyHtoD(q, "hello", 6));
    assert_ok(cuMemcpyDtoD(p, q, 1));
    assert_ok(cuMemcpyDtoH(out, q, 6));
    assert_string_equal(out, "hello");
    assert_ok(cuMemFree(p));
    assert_ok(cuMemFree(q));
}

static void wrong_arguments_get_the_drivers_codes_and_leave_outputs_alone(void **state)
{
    (void)state;
    CUdeviceptr p = 77;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&p, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(NULL, 8));
    assert_cu(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, (size_t)1 << 62));
    assert_int_equal(p, 77);
    assert_ok(cuMemFree(0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFree(12345));
}

static void a_second_free_and_a_free_inside_a_block_are_invalid(void **state)
{
    (void)state;
    CUdeviceptr p;
    assert_ok(cuMemAlloc(&p, 4096));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFree(p + 512));
    assert_ok(cuMemFree(p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
}

static void memory_ends_at_the_devices_size_and_comes_back(void **state)
{
    (void)state;
    size_t all = free_bytes();
    CUdeviceptr p, q;
    assert_ok(cuMemAlloc(&p, all));
    assert_int_equal(free_bytes(), 0);
    assert_cu(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&q, 1));
    assert_ok(cuMemFree(p));
    assert_int_equal(free_bytes(), all);
}

static void freed_ranges_join_again(void **state)
{
    (void)state;
    enum { N = 64 };
    CUdeviceptr p[N], big;
    size_t all = free_bytes();
    for (int i = 0; i < N; i++) assert_ok(cuMemAlloc(&p[i], all / N));
    for (int i = 0; i < N; i += 2) assert_ok(cuMemFree(p[i]));
    for (int i = 1; i < N; i += 2) assert_ok(cuMemFree(p[i]));
    assert_ok(cuMemAlloc(&big, all));
    assert_int_equal(big, p[0]);
    assert_ok(cuMemFree(big));
}

static void pitched_rows_are_as_far_apart_as_the_pitch_says(void **state)
{
    (void)state;
    CUdeviceptr p;
    size_t pitch = 0;
    char rows[3][5] = { "row0", "row1", "row2" }, out[3][5] = { "" };
    assert_ok(cuMemAllocPitch(&p, &pitch, 5, 3, 4));
    assert_true(pitch >= 5 && pitch % 512 == 0);
    CUDA_MEMCPY2D in = { .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = rows, .srcPitch = 5,
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = p, .dstPitch = pitch,
                         .WidthInBytes = 5, .Height = 3 };
    assert_ok(cuMemcpy2D(&in));
    assert_ok(cuMemcpyDtoH(out[2], p + 2 * pitch, 5));
    assert_string_equal(out[2], "row2");
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch(&p, &pitch, 5, 3, 3));
    assert_ok(cuMemFree(p));
}

static void fills_write_every_element_and_no_other(void **state)
{
    (void)state;
    CUdeviceptr p;
    unsigned out[4];
    assert_ok(cuMemAlloc(&p, 16));
    assert_ok(cuMemsetD8(p, 0, 16));
    assert_ok(cuMemsetD32(p + 4, 0xdeadbeef, 2));
    assert_ok(cuMemcpyDtoH(out, p, 16));
    const unsigned expected[4] = { 0, 0xdeadbeef, 0xdeadbeef, 0 };
    assert_memory_equal(out, expected, 16);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(p + 2, 0, 1));
    assert_ok(cuMemFree(p));
}

static void a_copy_past_the_end_or_to_freed_memory_is_refused(void **state)
{
    (void)state;
    CUdeviceptr p;
    static char host[2048];
    assert_ok(cuMemAlloc(&p, 512));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(p, host, 2048));
    assert_ok(cuMemFree(p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(p, host, 1));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(p, 0, 1));
}

static void managed_memory_is_the_hosts_too(void **state)
{
    (void)state;
    CUdeviceptr p;
    char out[3];
    assert_ok(cuMemAllocManaged(&p, 64, CU_MEM_ATTACH_GLOBAL));
    memcpy((void *)(uintptr_t)p, "ab", 3);
    assert_ok(cuMemcpyDtoH(out, p, 3));
    assert_string_equal(out, "ab");
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&p, 64, 0));
    assert_ok(cuMemFree(p));
}

static void pinned_memory_is_freed_once_by_its_own_call(void **state)
{
    (void)state;
    void *p = NULL;
    CUdeviceptr d;
    unsigned flags;
    assert_ok(cuMemHostAlloc(&p, 100, CU_MEMHOSTALLOC_PORTABLE));
    memset(p, 1, 100);
    assert_ok(cuMemHostGetDevicePointer(&d, p, 0));
    assert_int_equal(d, (uintptr_t)p);
    assert_ok(cuMemHostGetFlags(&flags, p));
    assert_true(flags & CU_MEMHOSTALLOC_PORTABLE);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFree(d));
    assert_ok(cuMemFreeHost(p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(p));
    assert_int_equal(sim_live_blocks("host"), 0);
}

static void registered_memory_is_the_programs_and_registered_once(void **state)
{
    (void)state;
    void *p = aligned_alloc(4096, 8192);
    assert_ok(cuMemHostRegister(p, 8192, 0));
    assert_cu(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister((char *)p + 4096, 4096, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(p));
    assert_ok(cuMemHostUnregister(p));
    assert_cu(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(p));
    free(p);
}

static void a_pointer_tells_its_range_from_anywhere_inside(void **state)
{
    CUdeviceptr p, base;
    size_t size;
    CUcontext owner;
    unsigned type;
    assert_ok(cuMemAlloc(&p, 1000));
    assert_ok(cuMemGetAddressRange(&base, &size, p + 999));
    assert_int_equal(base, p);
    assert_int_equal(size, 1000);
    assert_ok(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p + 1));
    assert_ptr_equal(owner, *state);
    assert_ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    assert_ok(cuMemFree(p));
    assert_cu(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
}

static void the_plural_question_answers_zero_for_a_strangers_pointer(void **state)
{
    (void)state;
    unsigned type = 9;
    CUcontext owner = (CUcontext)state;
    CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT };
    void *data[] = { &type, &owner };
    assert_ok(cuPointerGetAttributes(2, attributes, data, (CUdeviceptr)(uintptr_t)&type));
    assert_int_equal(type, 0);
    assert_null(owner);
}

static void an_array_keeps_its_rows_and_goes_with_its_handle(void **state)
{
    (void)state;
    CUarray a;
    CUDA_ARRAY_DESCRIPTOR d = { .Width = 3, .Height = 2, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1 };
    const char in[2][3] = { "ab", "cd" };
    char out[2][3] = { "", "" };
    assert_ok(cuArrayCreate(&a, &d));
    assert_int_equal(sim_live_bytes("array"), 6);
    CUDA_MEMCPY2D to = { .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = in, .srcPitch = 3,
                         .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = a, .WidthInBytes = 3, .Height = 2 };
    CUDA_MEMCPY2D back = { .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = a, .srcY = 1,
                           .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = out, .dstPitch = 3,
                           .WidthInBytes = 3, .Height = 1 };
    assert_ok(cuMemcpy2D(&to));
    assert_ok(cuMemcpy2D(&back));
    assert_string_equal(out[0], "cd");
    back.Height = 2; /* one row too many */
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&back));
    assert_ok(cuArrayDestroy(a));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(a));
    assert_int_equal(sim_live_bytes("array"), 0);
}

static void a_mipmapped_array_owns_its_levels(void **state)
{
    (void)state;
    CUmipmappedArray m;
    CUarray level;
    CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 8, .Height = 4, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1 };
    assert_ok(cuMipmappedArrayCreate(&m, &d, 3));
    assert_int_equal(sim_live_bytes("array"), 32 + 8 + 2);
    assert_ok(cuMipmappedArrayGetLevel(&level, m, 2));
    assert_ok(cuArray3DGetDescriptor(&d, level));
    assert_int_equal(d.Width, 2);
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(level));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(&level, m, 3));
    assert_ok(cuMipmappedArrayDestroy(m));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuMipmappedArrayDestroy(m));
    assert_int_equal(sim_live_bytes("array"), 0);
    assert_int_equal(sim_device_used(0), 0);
}

static void a_context_that_is_reset_takes_its_arrays_along(void **state)
{
    (void)state;
    CUcontext c;
    CUmipmappedArray m;
    CUarray a;
    CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 8, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 2 };
    assert_ok(cuArray3DCreate(&a, &d));
    assert_ok(cuMipmappedArrayCreate(&m, &d, 2));
    assert_ok(cuDevicePrimaryCtxReset(0));
    assert_int_equal(sim_live_objects("array") + sim_live_objects("mipmap"), 0);
    assert_int_equal(sim_device_used(0), 0);
    assert_ok(cuDevicePrimaryCtxRetain(&c, 0));
}

static void an_injected_failure_hits_the_nth_call_and_does_nothing(void **state)
{
    (void)state;
    CUdeviceptr p, q = 5;
    assert_ok(sim_fail("cuMemAlloc_v2", 2, CUDA_ERROR_OUT_OF_MEMORY));
    assert_ok(cuMemAlloc(&p, 8));
    assert_cu(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&q, 8));
    assert_int_equal(q, 5);
    assert_ok(cuMemAlloc(&q, 8));
    assert_int_equal(sim_calls("cuMemAlloc_v2"), 3);
    assert_int_equal(sim_live_blocks("device"), 2);
    assert_int_equal(sim_live_bytes("device"), 16);
    assert_cu(CUDA_ERROR_NOT_FOUND, sim_fail("cuNoSuchName", 1, 2));
    assert_ok(cuMemFree(p));
    assert_ok(cuMemFree(q));
}

static void the_log_names_call_result_and_address(void **state)
{
    (void)state;
    CUdeviceptr p;
    char line[256], expected[256];
    assert_ok(cuMemAlloc(&p, 4096));
    assert_ok(cuMemFree(p));
    assert_true(sim_log_get(0, line, sizeof line));
    snprintf(expected, sizeof expected, "cuMemAlloc_v2 result=0 address=0x%llx size=4096", p);
    assert_string_equal(line, expected);
    assert_true(sim_log_get(1, line, sizeof line));
    snprintf(expected, sizeof expected, "cuMemFree_v2 result=0 address=0x%llx", p);
    assert_string_equal(line, expected);
    assert_false(sim_log_get(2, line, sizeof line));
}

static void an_address_of_nobody_is_refused(void **state)
{
    (void)state;
    void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const CUdeviceptr nowhere = (CUdeviceptr)(uintptr_t)page; /* once it is unmapped */
    unsigned char bytes[16] = { 0 };
    CUstream s = new_stream();
    CUdeviceptr p;
    assert_ok(cuMemAlloc(&p, 4096));
    assert_int_equal(munmap(page, 4096), 0);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD(p, nowhere, 16));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(nowhere, p, 16, s));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoHAsync(bytes, nowhere, 16, s));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync(nowhere, p, 16, s));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuMemFree(p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(an_address_of_nobody_is_refused),
        on_device(device_memory_is_aligned_and_keeps_what_is_copied),
        on_device(wrong_arguments_get_the_drivers_codes_and_leave_outputs_alone),
        on_device(a_second_free_and_a_free_inside_a_block_are_invalid),
        on_device(memory_ends_at_the_devices_size_and_comes_back),
        on_device(freed_ranges_join_again),
        on_device(pitched_rows_are_as_far_apart_as_the_pitch_says),
        on_device(fills_write_every_element_and_no_other),
        on_device(a_copy_past_the_end_or_to_freed_memory_is_refused),
        on_device(managed_memory_is_the_hosts_too),
        on_device(pinned_memory_is_freed_once_by_its_own_call),
        on_device(registered_memory_is_the_programs_and_registered_once),
        on_device(a_pointer_tells_its_range_from_anywhere_inside),
        on_device(the_plural_question_answers_zero_for_a_strangers_pointer),
        on_device(an_array_keeps_its_rows_and_goes_with_its_handle),
        on_device(a_mipmapped_array_owns_its_levels),
        on_device(a_context_that_is_reset_takes_its_arrays_along),
        on_device(an_injected_failure_hits_the_nth_call_and_does_nothing),
        on_device(the_log_names_call_result_and_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
