/* The runtime's memory calls on the simulated driver: codes, out-parameters, error state, and that bytes arrive. */
#include "runtime_fixture.h"

#include <string.h>

static int no_error_pending(void **state)
{
    (void)state;
    (void)cudaGetLastError();
    return cudaPeekAtLastError() == cudaSuccess ? 0 : -1;
}

static void malloc_of_zero_bytes_succeeds_with_null(void **state)
{
    void *p = marker();

    (void)state;
    assert_ok(cudaMalloc(&p, 0));
    assert_null(p);
    p = marker();
    assert_ok(cudaMallocHost(&p, 0));
    assert_null(p);
    p = marker();
    assert_ok(cudaMallocAsync(&p, 0, NULL));
    assert_null(p);
}

static void free_of_null_succeeds(void **state)
{
    (void)state;
    assert_ok(cudaFree(NULL));
    assert_ok(cudaFreeHost(NULL));
    assert_int_equal(cudaHostUnregister(NULL), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
}

static void malloc_without_a_place_for_the_pointer_is_invalid(void **state)
{
    (void)state;
    assert_int_equal(cudaMalloc(NULL, 100), cudaErrorInvalidValue);
    assert_int_equal(cudaMallocHost(NULL, 100), cudaErrorInvalidValue);
    assert_int_equal(cudaMallocAsync(NULL, 100, NULL), cudaErrorInvalidValue);
    assert_int_equal(cudaMallocManaged(NULL, 100, cudaMemAttachGlobal), cudaErrorInvalidValue);
}

static void malloc_beyond_the_device_is_out_of_memory_and_leaves_the_pointer_alone(void **state)
{
    void *p = marker();

    (void)state;
    assert_int_equal(cudaMalloc(&p, (size_t)1 << 50), cudaErrorMemoryAllocation);
    assert_ptr_equal(p, marker());
}

static void an_error_is_kept_until_it_is_read_and_a_success_does_not_clear_it(void **state)
{
    void *p;

    (void)state;
    assert_int_equal(cudaMalloc(NULL, 1), cudaErrorInvalidValue);
    assert_ok(cudaMalloc(&p, 1));
    assert_ok(cudaFree(p));
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static void freeing_twice_is_an_error_of_the_second_free(void **state)
{
    void *p;

    (void)state;
    assert_ok(cudaMalloc(&p, 1000));
    assert_ok(cudaFree(p));
    assert_int_equal(cudaFree(p), cudaErrorInvalidValue);
}

static void bytes_survive_the_way_to_the_device_and_back(void **state)
{
    char out[300], in[300];
    void *p, *q;

    (void)state;
    memset(out, 7, sizeof out);
    assert_ok(cudaMalloc(&p, sizeof out));
    assert_ok(cudaMalloc(&q, sizeof out));
    assert_ok(cudaMemcpy(p, out, sizeof out, cudaMemcpyHostToDevice));
    assert_ok(cudaMemset((char *)p + 100, 9, 50));
    assert_ok(cudaMemcpy(q, p, sizeof out, cudaMemcpyDeviceToDevice));
    assert_ok(cudaMemcpy(in, q, sizeof in, cudaMemcpyDefault));
    memset(out + 100, 9, 50);
    assert_memory_equal(in, out, sizeof in);
    assert_int_equal(cudaMemcpy(in, q, sizeof in, (enum cudaMemcpyKind)77), cudaErrorInvalidMemcpyDirection);
    assert_ok(cudaFree(p));
    assert_ok(cudaFree(q));
}

static void stream_ordered_memory_works_between_its_allocation_and_its_free(void **state)
{
    char in[64], zero[64] = {0};
    cudaStream_t stream;
    void *p;

    (void)state;
    assert_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    assert_ok(cudaMallocAsync(&p, sizeof in, stream));
    assert_ok(cudaMemsetAsync(p, 0, sizeof in, stream));
    assert_ok(cudaMemcpyAsync(in, p, sizeof in, cudaMemcpyDeviceToHost, stream));
    assert_ok(cudaFreeAsync(p, stream));
    assert_ok(cudaStreamSynchronize(stream));
    assert_memory_equal(in, zero, sizeof in);
    assert_ok(cudaStreamDestroy(stream));
}

static void a_block_may_be_freed_by_the_other_family(void **state)
{
    void *p;

    (void)state;
    assert_ok(cudaMalloc(&p, 512));
    assert_ok(cudaFreeAsync(p, NULL));
    assert_ok(cudaMallocAsync(&p, 512, NULL));
    assert_ok(cudaFree(p));
    assert_ok(cudaDeviceSynchronize());
}

static void memory_comes_from_a_pool_of_the_programs_own(void **state)
{
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
    uint64_t used = 0;
    cudaMemPool_t pool;
    void *p;

    (void)state;
    assert_ok(cudaMemPoolCreate(&pool, &props));
    assert_ok(cudaMallocFromPoolAsync(&p, 4096, pool, NULL));
    assert_ok(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    assert_true(used >= 4096);
    assert_ok(cudaFreeAsync(p, NULL));
    assert_ok(cudaStreamSynchronize(NULL));
    assert_ok(cudaMemPoolDestroy(pool));
}

static void pitched_memory_has_rows_at_its_pitch(void **state)
{
    char out[3][100], in[3][100];
    size_t pitch = 0;
    void *p;

    (void)state;
    memset(out, 5, sizeof out);
    assert_ok(cudaMallocPitch(&p, &pitch, 100, 3));
    assert_true(pitch >= 100 && pitch % 16 == 0);
    assert_ok(cudaMemcpy2D(p, pitch, out, 100, 100, 3, cudaMemcpyHostToDevice));
    assert_ok(cudaMemset2D((char *)p + pitch, pitch, 6, 100, 1));
    assert_ok(cudaMemcpy2D(in, 100, p, pitch, 100, 3, cudaMemcpyDeviceToHost));
    memset(out[1], 6, 100);
    assert_memory_equal(in, out, sizeof in);
    assert_ok(cudaFree(p));
}

static void three_dimensional_memory_is_pitched_memory_with_all_rows(void **state)
{
    struct cudaPitchedPtr made;
    char in[8];

    (void)state;
    assert_ok(cudaMalloc3D(&made, (struct cudaExtent){100, 4, 3}));
    assert_int_equal(made.xsize, 100);
    assert_int_equal(made.ysize, 4);
    assert_ok(cudaMemset3D(made, 8, (struct cudaExtent){100, 4, 3}));
    assert_ok(cudaMemcpy(in, (char *)made.ptr + made.pitch * 11, sizeof in, cudaMemcpyDeviceToHost));
    assert_int_equal(in[0], 8);
    assert_int_equal(in[7], 8);
    assert_ok(cudaFree(made.ptr));
}

static void a_box_is_copied_from_where_it_lies_to_where_it_belongs(void **state)
{
    char out[4 * 4 * 16], in[2 * 2 * 8];
    struct cudaMemcpy3DParms up = {.kind = cudaMemcpyHostToDevice, .extent = {16, 4, 4}};
    struct cudaMemcpy3DParms down = {.kind = cudaMemcpyDeviceToHost, .srcPos = {3, 1, 2}, .extent = {8, 2, 2}};
    struct cudaPitchedPtr made;

    (void)state;
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (char)i;
    assert_ok(cudaMalloc3D(&made, (struct cudaExtent){16, 4, 4}));
    up.srcPtr = (struct cudaPitchedPtr){out, 16, 16, 4};
    up.dstPtr = made;
    assert_ok(cudaMemcpy3D(&up));
    down.srcPtr = made;
    down.dstPtr = (struct cudaPitchedPtr){in, 8, 8, 2};
    assert_ok(cudaMemcpy3DAsync(&down, NULL));
    assert_ok(cudaStreamSynchronize(NULL));
    for (size_t z = 0; z < 2; z++)
        for (size_t y = 0; y < 2; y++)
            assert_memory_equal(&in[(z * 2 + y) * 8], &out[((z + 2) * 4 + y + 1) * 16 + 3], 8);
    assert_ok(cudaFree(made.ptr));
}

static void pointers_say_what_memory_they_are(void **state)
{
    struct cudaPointerAttributes a;
    void *device, *managed, *host;
    char stack;

    (void)state;
    assert_ok(cudaMalloc(&device, 100));
    assert_ok(cudaMallocManaged(&managed, 100, cudaMemAttachGlobal));
    assert_ok(cudaHostAlloc(&host, 100, cudaHostAllocDefault));
    assert_ok(cudaPointerGetAttributes(&a, device));
    assert_int_equal(a.type, cudaMemoryTypeDevice);
    assert_ptr_equal(a.devicePointer, device);
    assert_int_equal(a.device, 0);
    assert_ok(cudaPointerGetAttributes(&a, managed));
    assert_int_equal(a.type, cudaMemoryTypeManaged);
    assert_ok(cudaPointerGetAttributes(&a, host));
    assert_int_equal(a.type, cudaMemoryTypeHost);
    assert_ptr_equal(a.hostPointer, host);
    assert_ok(cudaPointerGetAttributes(&a, &stack));
    assert_int_equal(a.type, cudaMemoryTypeUnregistered);
    assert_ok(cudaFree(device));
    assert_ok(cudaFree(managed));
    assert_ok(cudaFreeHost(host));
}

static void host_memory_can_be_registered_once_at_a_time(void **state)
{
    static char page[8192] __attribute__((aligned(4096)));
    void *device;

    (void)state;
    assert_ok(cudaHostRegister(page, sizeof page, cudaHostRegisterMapped));
    assert_int_equal(cudaHostRegister(page, sizeof page, 0), cudaErrorHostMemoryAlreadyRegistered);
    assert_ok(cudaHostGetDevicePointer(&device, page, 0));
    assert_ok(cudaHostUnregister(page));
    assert_int_equal(cudaHostUnregister(page), cudaErrorHostMemoryNotRegistered);
}

static void managed_memory_takes_hints(void **state)
{
    struct cudaMemLocation device = {.type = cudaMemLocationTypeDevice, .id = 0};
    void *managed, *other;

    (void)state;
    assert_ok(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal));
    assert_ok(cudaMemAdvise(managed, 4096, cudaMemAdviseSetPreferredLocation, device));
    assert_ok(cudaMemPrefetchAsync(managed, 4096, device, 0, NULL));
    assert_ok(cudaMalloc(&other, 4096));
    assert_int_equal(cudaMemPrefetchAsync(other, 4096, device, 0, NULL), cudaErrorInvalidValue);
    assert_ok(cudaFree(other));
    assert_ok(cudaFree(managed));
}

static void arrays_are_made_by_channel_format(void **state)
{
    struct cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    struct cudaChannelFormatDesc wrong = cudaCreateChannelDesc(5, 0, 0, 0, cudaChannelFormatKindFloat);
    cudaArray_t array;

    (void)state;
    assert_ok(cudaMallocArray(&array, &format, 64, 16, 0));
    assert_ok(cudaFreeArray(array));
    assert_int_equal(cudaMallocArray(&array, &wrong, 64, 16, 0), cudaErrorInvalidChannelDescriptor);
}

static void a_batch_copies_each_of_its_pairs(void **state)
{
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    char out[2][32] = {"first", "second"}, in[2][32] = {"", ""};
    cudaStream_t stream;
    size_t first = 0;
    void *device;

    (void)state;
    assert_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    assert_ok(cudaMalloc(&device, 64));
    {
        void *to[] = {device, (char *)device + 32};
        const void *from[] = {out[0], out[1]};
        size_t sizes[] = {32, 32};

        assert_ok(cudaMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, stream));
    }
    assert_ok(cudaStreamSynchronize(stream));
    assert_ok(cudaMemcpy(in, device, 64, cudaMemcpyDeviceToHost));
    assert_string_equal(in[0], "first");
    assert_string_equal(in[1], "second");
    assert_ok(cudaFree(device));
    assert_ok(cudaStreamDestroy(stream));
}

static void free_memory_goes_down_by_what_was_allocated(void **state)
{
    size_t before, after, total;
    void *p;

    (void)state;
    assert_ok(cudaMemGetInfo(&before, &total));
    assert_ok(cudaMalloc(&p, 8 << 20));
    assert_ok(cudaMemGetInfo(&after, &total));
    assert_true(before - after >= 8 << 20);
    assert_ok(cudaFree(p));
    assert_ok(cudaMemGetInfo(&after, &total));
    assert_int_equal(before, after);
}

static void after_a_device_reset_memory_can_be_allocated_again(void **state)
{
    void *lost, *p;

    (void)state;
    assert_ok(cudaMalloc(&lost, 100));
    assert_ok(cudaDeviceReset());
    assert_ok(cudaMalloc(&p, 100));
    assert_ok(cudaFree(p));
}

/* Each begins without an error of the one before. */
#define TEST(name) cmocka_unit_test_setup(name, no_error_pending)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(malloc_of_zero_bytes_succeeds_with_null),
        TEST(free_of_null_succeeds),
        TEST(malloc_without_a_place_for_the_pointer_is_invalid),
        TEST(malloc_beyond_the_device_is_out_of_memory_and_leaves_the_pointer_alone),
        TEST(an_error_is_kept_until_it_is_read_and_a_success_does_not_clear_it),
        TEST(freeing_twice_is_an_error_of_the_second_free),
        TEST(bytes_survive_the_way_to_the_device_and_back),
        TEST(stream_ordered_memory_works_between_its_allocation_and_its_free),
        TEST(a_block_may_be_freed_by_the_other_family),
        TEST(memory_comes_from_a_pool_of_the_programs_own),
        TEST(pitched_memory_has_rows_at_its_pitch),
        TEST(three_dimensional_memory_is_pitched_memory_with_all_rows),
        TEST(a_box_is_copied_from_where_it_lies_to_where_it_belongs),
        TEST(pointers_say_what_memory_they_are),
        TEST(host_memory_can_be_registered_once_at_a_time),
        TEST(managed_memory_takes_hints),
        TEST(arrays_are_made_by_channel_format),
        TEST(a_batch_copies_each_of_its_pairs),
        TEST(free_memory_goes_down_by_what_was_allocated),
        TEST(after_a_device_reset_memory_can_be_allocated_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
