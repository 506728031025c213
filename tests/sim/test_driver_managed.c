/* Managed memory's hints, batches of them and of copies. */
#include "driver_fixture.h"

#include <string.h>

enum { BYTES = 1 << 16 };

static const CUmemLocation device_0 = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };
static const CUmemLocation host = { .type = CU_MEM_LOCATION_TYPE_HOST };

static CUdeviceptr new_managed(void)
{
    CUdeviceptr p;
    assert_ok(cuMemAllocManaged(&p, BYTES, CU_MEM_ATTACH_GLOBAL));
    return p;
}

static int asked(CUdeviceptr p, CUmem_range_attribute attribute)
{
    int value = 77;
    assert_ok(cuMemRangeGetAttribute(&value, sizeof value, attribute, p, BYTES));
    return value;
}

static void advice_is_remembered_and_taken_back(void **state)
{
    (void)state;
    CUdeviceptr p = new_managed();
    assert_int_equal(asked(p, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 0);
    assert_int_equal(asked(p, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), CU_DEVICE_INVALID);
    assert_ok(cuMemAdvise(p, BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, device_0));
    assert_ok(cuMemAdvise(p, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
    assert_int_equal(asked(p, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 1);
    assert_int_equal(asked(p, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), CU_DEVICE_CPU);
    assert_int_equal(asked(p, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE), CU_MEM_LOCATION_TYPE_HOST);
    assert_ok(cuMemAdvise(p, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device_0));
    assert_int_equal(asked(p, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), 0);
    assert_ok(cuMemAdvise(p, BYTES, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, device_0));
    assert_int_equal(asked(p, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), CU_DEVICE_INVALID);

    int who[3] = { 5, 5, 5 };
    assert_ok(cuMemAdvise(p, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, device_0));
    assert_ok(cuMemRangeGetAttribute(who, sizeof who, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p, BYTES));
    assert_true(who[0] == 0 && who[1] == CU_DEVICE_INVALID && who[2] == CU_DEVICE_INVALID);

    const CUmemLocation nowhere = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 99 };
    assert_cu(CUDA_ERROR_INVALID_DEVICE, cuMemAdvise(p, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, nowhere));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(p, BYTES, (CUmem_advise)99, device_0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(p, 2 * BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, device_0));
    assert_ok(cuMemFree(p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(p, BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, device_0));
    CUdeviceptr q = new_managed(); /* nothing of it is inherited */
    assert_int_equal(asked(q, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 0);
    assert_ok(cuMemFree(q));
}

static void ranges_answer_singly_as_together(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p = new_managed();
    int type = 77, place = 77;
    void *data[2] = { &type, &place };
    size_t sizes[2] = { sizeof type, sizeof place };
    CUmem_range_attribute wanted[2] = { CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE,
                                        CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION };
    assert_ok(cuMemPrefetchAsync(p, BYTES, device_0, 0, s));
    assert_ok(cuMemRangeGetAttributes(data, sizes, wanted, 2, p, BYTES));
    assert_int_equal(type, CU_MEM_LOCATION_TYPE_DEVICE);
    assert_int_equal(place, 0);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute(&type, 2, wanted[0], p, BYTES));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuMemFree(p));
}

static void only_a_whole_allocation_is_attached(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p = new_managed();
    assert_ok(cuStreamAttachMemAsync(s, p, 0, CU_MEM_ATTACH_SINGLE));
    assert_ok(cuStreamAttachMemAsync(s, p, BYTES, CU_MEM_ATTACH_HOST));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync(s, p, BYTES / 2, CU_MEM_ATTACH_HOST));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync(s, p + 512, 0, CU_MEM_ATTACH_HOST));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync(s, p, 0, 8));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync(NULL, p, 0, CU_MEM_ATTACH_SINGLE));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuMemFree(p));
}

static void a_batch_of_hints_is_checked_whole(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p[3] = { new_managed(), new_managed(), new_managed() };
    size_t sizes[3] = { BYTES, BYTES, BYTES }, starts[2] = { 0, 2 };
    CUmemLocation places[2] = { host, device_0 };
    assert_ok(cuMemPrefetchBatchAsync(p, sizes, 3, places, starts, 2, 0, s));
    assert_int_equal(asked(p[0], CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION), CU_DEVICE_CPU);
    assert_int_equal(asked(p[1], CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION), CU_DEVICE_CPU);
    assert_int_equal(asked(p[2], CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION), 0);
    assert_ok(cuMemDiscardBatchAsync(p, sizes, 3, 0, s));
    assert_ok(cuMemDiscardAndPrefetchBatchAsync(p, sizes, 3, places, starts, 2, 0, s));

    sizes[2] = 2 * BYTES;
    CUmemLocation back[1] = { device_0 };
    uint64_t before = sim_calls("cuMemPrefetchBatchAsync");
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchBatchAsync(p, sizes, 3, back, starts, 1, 0, s));
    assert_int_equal(sim_calls("cuMemPrefetchBatchAsync"), before + 1);
    assert_int_equal(asked(p[0], CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION), CU_DEVICE_CPU);
    sizes[2] = BYTES;
    starts[0] = 1;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchBatchAsync(p, sizes, 3, places, starts, 2, 0, s));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemDiscardBatchAsync(p, sizes, 3, 0, NULL)); /* not in the legacy stream */
    assert_ok(cuStreamSynchronize(s));
    for (int i = 0; i < 3; i++) assert_ok(cuMemFree(p[i]));
}

static void a_batch_copies_all_or_nothing(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p;
    unsigned char from[2][100], to[2][100] = { { 0 } };
    memset(from[0], 3, 100);
    memset(from[1], 4, 100);
    assert_ok(cuMemAlloc(&p, 200));
    assert_ok(cuMemsetD8(p, 0, 200));
    CUdeviceptr dsts[2] = { p, p + 100 }, srcs[2] = { (CUdeviceptr)from[0], (CUdeviceptr)from[1] };
    size_t sizes[2] = { 100, 100 }, starts[1] = { 0 };
    CUmemcpyAttributes attrs[1] = { { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM } };

    sim_hold(s);
    assert_ok(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, attrs, starts, 1, s));
    memset(from, 9, sizeof from); /* it was staged: pageable */
    sim_release(s);
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuMemcpyDtoH(to, p, 200));
    assert_true(to[0][0] == 3 && to[0][99] == 3 && to[1][0] == 4 && to[1][99] == 4);

    dsts[1] = p + (1 << 20); /* nobody's */
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync(dsts, srcs, sizes, 2, attrs, starts, 1, s));
    dsts[1] = p + 100;
    attrs[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync(dsts, srcs, sizes, 2, attrs, starts, 1, s));
    attrs[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync(dsts, srcs, sizes, 2, attrs, starts, 1, NULL));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuMemcpyDtoH(to, p, 200));
    assert_int_equal(to[0][0], 3);
    assert_ok(cuMemFree(p));
}

static void boxes_are_copied_in_batches_by_pointer(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr from, to;
    unsigned char seen[4 * 8];
    assert_ok(cuMemAlloc(&from, 4 * 8));
    assert_ok(cuMemAlloc(&to, 4 * 8));
    assert_ok(cuMemsetD8(from, 6, 4 * 8));
    assert_ok(cuMemsetD8(to, 0, 4 * 8));
    CUDA_MEMCPY3D_BATCH_OP op = { .extent = { 3, 2, 1 }, .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
    op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    op.src.op.ptr.ptr = from;
    op.dst.op.ptr.ptr = to;
    op.src.op.ptr.rowLength = op.dst.op.ptr.rowLength = 8;
    assert_ok(cuMemcpy3DBatchAsync(1, &op, 0, s));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuMemcpyDtoH(seen, to, sizeof seen));
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 8; x++) assert_int_equal(seen[y * 8 + x], x < 3 && y < 2 ? 6 : 0);
    op.dst.op.ptr.rowLength = 2;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync(1, &op, 0, s));
    op.dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuMemcpy3DBatchAsync(1, &op, 0, s));
    assert_ok(cuMemFree(from));
    assert_ok(cuMemFree(to));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(advice_is_remembered_and_taken_back),
        on_device(ranges_answer_singly_as_together),
        on_device(only_a_whole_allocation_is_attached),
        on_device(a_batch_of_hints_is_checked_whole),
        on_device(a_batch_copies_all_or_nothing),
        on_device(boxes_are_copied_in_batches_by_pointer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
