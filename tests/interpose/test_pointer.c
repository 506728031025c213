/* What a pointer is, where a mechanism says of its memory more or less than nothing: whom the question goes to, and about what
 * address. The companion is the test's own, put over the real `host` plugin's allocators.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fake_driver.h"
#include "interpose/hook.h"
#include "interpose/lifecycle.h"
#include "interpose/memops.h"
#include "interpose/owned.h"
#include "interpose/process.h"
#include "interpose/scope.h"
#include "interpose/serve.h"

static CUdeviceptr asked; /* what the driver was asked about */
static CUresult driver_says;

static CUresult range(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    asked = address;
    if (driver_says == CUDA_SUCCESS && base)
        *base = 1;
    if (driver_says == CUDA_SUCCESS && size)
        *size = 2;
    return driver_says;
}

static CUresult attribute(void *value, CUpointer_attribute which, CUdeviceptr address)
{
    (void)which;
    asked = address;
    if (driver_says == CUDA_SUCCESS)
        *(unsigned *)value = 77;
    return driver_says;
}

static CUresult set_attribute(const void *value, CUpointer_attribute which, CUdeviceptr address)
{
    (void)value, (void)which;
    asked = address;
    return driver_says;
}

static CUresult range_handle(void *handle, CUdeviceptr address, size_t size, CUmemRangeHandleType type, unsigned long long flags)
{
    (void)handle, (void)size, (void)type, (void)flags;
    asked = address;
    return driver_says;
}

static CUresult no_driver(void *unused, CUdeviceptr *ret_address)
{
    (void)unused, (void)ret_address;
    return CUDA_ERROR_UNKNOWN;
}

static struct nxm_scope *scope; /* of FAKE_CONTEXT */
static struct nxm_order order;

static CUdeviceptr block_of(size_t bytes)
{
    CUdeviceptr address = 0;

    assert_int_equal(nxm_serve_allocate(scope, &order, bytes, NXM_API_cuMemAlloc_v2, no_driver, NULL, &address), CUDA_SUCCESS);
    return address;
}

static void give_back(CUdeviceptr address)
{
    assert_int_equal(hook_cuMemFree_v2(address), CUDA_SUCCESS);
}

static unsigned value_of(CUpointer_attribute which, CUdeviceptr address)
{
    unsigned value = 99;

    return hook_cuPointerGetAttribute(&value, which, address) == CUDA_SUCCESS ? value : 99;
}

static bool is_elsewhere(CUdeviceptr address, CUdeviceptr block, size_t bytes)
{
    return address != 0 && (address < block || address >= block + bytes);
}

static void the_driver_is_asked_of_unknown_memory_and_the_block_answers(void **state)
{
    CUdeviceptr base = 0, p = block_of(1000);
    size_t size = 0;
    (void)state;

    driver_says = CUDA_ERROR_NOT_FOUND;
    assert_int_equal(hook_cuMemGetAddressRange_v2(&base, &size, p + 999), CUDA_SUCCESS);
    assert_int_equal(base, p);
    assert_int_equal(size, 1000);
    assert_true(is_elsewhere(asked, p, 1000));
    driver_says = CUDA_ERROR_DEINITIALIZED;
    base = 5;
    assert_int_equal(hook_cuMemGetAddressRange_v2(&base, &size, p), CUDA_ERROR_DEINITIALIZED);
    assert_int_equal(base, 5);
    assert_int_equal(value_of(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p), 99);
    give_back(p);
}

static void a_drivers_own_block_is_the_drivers_to_answer_for(void **state)
{
    CUdeviceptr base = 0, p = block_of(1000);
    (void)state;

    scope->companion.vtable.traits = NXMEM_CUDA_TRAIT_BASE_IS_DRIVER_ALLOCATION;
    assert_int_equal(hook_cuMemGetAddressRange_v2(&base, NULL, p + 10), CUDA_SUCCESS);
    assert_int_equal(base, 1);
    assert_int_equal(asked, p + 10);
    assert_int_equal(value_of(CU_POINTER_ATTRIBUTE_RANGE_SIZE, p), 77);
    scope->companion.vtable.traits = 0;
    give_back(p);
}

static void what_is_promised_is_answered_yes(void **state)
{
    CUdeviceptr p = block_of(1000);
    (void)state;

    driver_says = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(value_of(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p), 0);
    assert_int_equal(value_of(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, p), 0);
    scope->companion.vtable.traits = NXMEM_CUDA_TRAIT_LEGACY_IPC;
    assert_int_equal(value_of(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p), 1);
    assert_int_equal(value_of(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, p), 0);
    scope->companion.vtable.traits = NXMEM_CUDA_TRAIT_RDMA;
    assert_int_equal(value_of(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, p), 1);
    scope->companion.vtable.traits = 0;
    give_back(p);
}

static void a_handle_is_had_only_where_it_is_promised(void **state)
{
    CUdeviceptr p = block_of(8192);
    int fd = -1;
    (void)state;

    hook_cuMemGetHandleForAddressRange(&fd, p, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    assert_true(is_elsewhere(asked, p, 8192));
    scope->companion.vtable.traits = NXMEM_CUDA_TRAIT_DMABUF;
    hook_cuMemGetHandleForAddressRange(&fd, p, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    assert_int_equal(asked, p);
    scope->companion.vtable.traits = 0;
    give_back(p);
}

static void a_setting_is_one_blocks_own_and_reaches_the_driver_with_remote_access(void **state)
{
    CUdeviceptr p = block_of(1000), q = block_of(1000);
    unsigned on = 1, off = 0;
    (void)state;

    driver_says = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(hook_cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p + 1), CUDA_SUCCESS);
    assert_true(is_elsewhere(asked, p, 1000));
    assert_int_equal(value_of(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p), 1);
    assert_int_equal(value_of(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, q), 0);
    assert_int_equal(hook_cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p), CUDA_SUCCESS);
    assert_int_equal(value_of(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p), 0);
    scope->companion.vtable.traits = NXMEM_CUDA_TRAIT_RDMA;
    assert_int_equal(hook_cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p + 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(asked, p + 1);
    assert_int_equal(value_of(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p), 0);
    driver_says = CUDA_SUCCESS;
    assert_int_equal(hook_cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p), CUDA_SUCCESS);
    driver_says = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(value_of(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p), 1);
    scope->companion.vtable.traits = 0;
    give_back(p);
    give_back(q);
}

static void settings_of_blocks_that_are_gone_make_room(void **state)
{
    struct nxm_block block;
    CUdeviceptr kept = block_of(64);
    (void)state;

    assert_int_equal(nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), kept, &block), NXM_OK);
    assert_true(nxm_memops_set(&block, true));
    struct nxm_block of_kept = block;
    for (unsigned i = 0; i < 3000; i++) {
        CUdeviceptr p = block_of(64);
        assert_int_equal(nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), p, &block), NXM_OK);
        assert_false(nxm_memops_are_synchronous(&block)); /* whatever was at this address before */
        assert_true(nxm_memops_set(&block, true));
        assert_true(nxm_memops_are_synchronous(&block));
        give_back(p);
    }
    assert_true(nxm_memops_are_synchronous(&of_kept));
    give_back(kept);
}

static void memory_of_a_mechanism_without_a_block_is_nobodys(void **state)
{
    static unsigned char segment[4096];
    CUdeviceptr inside = (CUdeviceptr)(uintptr_t)segment + 100, base = 5;
    (void)state;

    nxm_owned_allocated(CUDA_SUCCESS, (uintptr_t)segment, sizeof segment);
    driver_says = CUDA_ERROR_NOT_FOUND;
    assert_int_equal(hook_cuMemGetAddressRange_v2(&base, NULL, inside), CUDA_ERROR_NOT_FOUND);
    assert_true(is_elsewhere(asked, (CUdeviceptr)(uintptr_t)segment, sizeof segment));
    assert_int_equal(base, 5);
    driver_says = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(value_of(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside), 99);
    assert_true(is_elsewhere(asked, (CUdeviceptr)(uintptr_t)segment, sizeof segment));
    nxm_owned_take((uintptr_t)segment);
    hook_cuMemGetAddressRange_v2(&base, NULL, inside);
    assert_int_equal(asked, inside);
}

static int reset(void **state)
{
    (void)state;
    fake_driver_reset();
    nxm_real.cuMemGetAddressRange_v2 = range;
    nxm_real.cuPointerGetAttribute = attribute;
    nxm_real.cuPointerSetAttribute = set_attribute;
    nxm_real.cuMemGetHandleForAddressRange = range_handle;
    asked = 0;
    driver_says = CUDA_SUCCESS;
    return 0;
}

static int begin(void **state)
{
    bool refuse = false;

    setenv("NXMEM_PLUGIN", NXM_TEST_PLUGIN, 1);
    setenv("NXMEM_HOST_AS_DEVICE", "1", 1);
    reset(state);
    enum nxm_mode mode = nxm_enter(NULL, true);
    nxm_leave(mode);
    if (mode != NXM_MODE_SERVE || !nxm_plugin() || nxm_order_synchronous(&order) != CUDA_SUCCESS)
        return -1;
    scope = nxm_scope_enter_for(&order, &refuse);
    return scope ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    nxm_scope_leave(scope);
    nxm_scope_close_all();
    return 0;
}

int main(void)
{
#define POINTER(test) cmocka_unit_test_setup(test, reset)
    const struct CMUnitTest tests[] = {
        POINTER(the_driver_is_asked_of_unknown_memory_and_the_block_answers),
        POINTER(a_drivers_own_block_is_the_drivers_to_answer_for),
        POINTER(what_is_promised_is_answered_yes),
        POINTER(a_handle_is_had_only_where_it_is_promised),
        POINTER(a_setting_is_one_blocks_own_and_reaches_the_driver_with_remote_access),
        POINTER(settings_of_blocks_that_are_gone_make_room),
        POINTER(memory_of_a_mechanism_without_a_block_is_nobodys),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
