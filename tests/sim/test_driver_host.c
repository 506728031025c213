/* Host memory: pinned and registered, with every flag, where it begins and ends. */
#include "driver_fixture.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096, BYTES = 3 * PAGE };

static void pinned_memory_remembers_its_flags(void **state)
{
    (void)state;
    const unsigned all[] = { 0, CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_WRITECOMBINED,
                             CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        unsigned flags = 0, type = 0;
        CUdeviceptr d = 0;
        void *p, *host = NULL;
        assert_ok(cuMemHostAlloc(&p, 100, all[i]));
        assert_ok(cuMemHostGetFlags(&flags, p));
        assert_int_equal(flags, all[i] | CU_MEMHOSTALLOC_DEVICEMAP); /* mapped, in one address space */
        assert_ok(cuMemHostGetDevicePointer(&d, (char *)p + 50, 0));
        assert_int_equal(d, (CUdeviceptr)p + 50);
        assert_ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d));
        assert_int_equal(type, CU_MEMORYTYPE_HOST);
        assert_ok(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, d));
        assert_ptr_equal(host, (char *)p + 50);
        assert_ok(cuMemFreeHost(p));
        assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemHostGetFlags(&flags, p));
    }
    void *p = (void *)3;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(&p, 100, 0x100));
    assert_ptr_equal(p, (void *)3);
}

static void memory_is_registered_once_and_for_any_use(void **state)
{
    (void)state;
    const unsigned all[] = { 0, CU_MEMHOSTREGISTER_PORTABLE, CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_READ_ONLY,
                             CU_MEMHOSTREGISTER_IOMEMORY, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_READ_ONLY };
    char *p = aligned_alloc(PAGE, BYTES);
    int read_only = 0;
    assert_non_null(p);
    assert_ok(cuDeviceGetAttribute(&read_only, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 0));
    assert_int_equal(read_only, 1);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        unsigned flags = 99;
        assert_ok(cuMemHostRegister(p, BYTES, all[i]));
        assert_ok(cuMemHostGetFlags(&flags, p + PAGE));
        assert_int_equal(flags, all[i]);
        assert_cu(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(p + PAGE, PAGE, 0)); /* part of it */
        assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(p));                  /* the other call's */
        assert_cu(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(p + PAGE));
        assert_ok(cuMemHostUnregister(p));
        assert_cu(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(p));
    }
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(p, BYTES, 0x100));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(NULL, BYTES, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(p, 0, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(NULL));
    assert_ok(cuMemHostRegister(p, BYTES, 0)); /* again, at once: nothing was put off */
    assert_ok(cuMemHostUnregister(p));
    free(p);
}

static void pinned_memory_may_not_be_registered_nor_unregistered(void **state)
{
    (void)state;
    void *p;
    assert_ok(cuMemAllocHost(&p, BYTES));
    assert_cu(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(p, BYTES, 0));
    assert_cu(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFree((CUdeviceptr)p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost((char *)p + 1));
    assert_ok(cuMemFreeHost(p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(p));
}

static void host_memory_goes_with_its_context(void **state)
{
    char *registered = aligned_alloc(PAGE, BYTES);
    CUcontext c;
    void *p;
    assert_ok(cuCtxCreate(&c, NULL, 0, 0));
    assert_ok(cuMemAllocHost(&p, BYTES));
    assert_ok(cuMemHostRegister(registered, BYTES, CU_MEMHOSTREGISTER_PORTABLE));
    assert_int_equal(sim_live_blocks("host") + sim_live_blocks("registered"), 2);
    assert_ok(cuCtxDestroy(c));
    assert_int_equal(sim_live_blocks("host") + sim_live_blocks("registered"), 0);
    registered[0] = 1; /* the program's own, as before */
    assert_ok(cuCtxSetCurrent(*state));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(p));
    free(registered);
}

static void copies_from_and_to_pinned_memory_that_is_gone_are_refused(void **state)
{
    (void)state;
    CUdeviceptr d;
    CUstream s = new_stream();
    char *p;
    assert_ok(cuMemAlloc(&d, BYTES));
    assert_ok(cuMemHostAlloc((void **)&p, BYTES, 0));
    assert_ok(cuMemFreeHost(p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(d, p, 16));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync(d, p + PAGE, 16, s));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(p, d, 16));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoHAsync(p + PAGE, d, 16, s));
    assert_int_equal(sim_findings("use-after-free"), 4);
    assert_int_equal(sim_violations(), 4);
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuMemFree(d));
}

/* The system gives addresses again too. */
static void where_pinned_memory_was_the_program_may_have_its_own(void **state)
{
    (void)state;
    CUdeviceptr d;
    char *p, *again;
    assert_ok(cuMemAlloc(&d, BYTES));
    assert_ok(cuMemHostAlloc((void **)&p, BYTES, 0));
    assert_ok(cuMemFreeHost(p));
    again = mmap(p, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(again, p);
    assert_ok(cuMemHostRegister(again, BYTES, 0));
    assert_ok(cuMemHostUnregister(again));
    again[0] = 5;
    assert_ok(cuMemcpyHtoD(d, again, 16));
    assert_ok(cuMemcpyDtoHAsync(again + PAGE, d, 16, NULL));
    assert_int_equal(again[PAGE], 5);
    assert_int_equal(sim_violations(), 0);
    assert_int_equal(munmap(again, BYTES), 0);
    assert_ok(cuMemFree(d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(pinned_memory_remembers_its_flags),
        on_device(memory_is_registered_once_and_for_any_use),
        on_device(pinned_memory_may_not_be_registered_nor_unregistered),
        on_device(host_memory_goes_with_its_context),
        on_device(copies_from_and_to_pinned_memory_that_is_gone_are_refused),
        on_device(where_pinned_memory_was_the_program_may_have_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
