/* Arrays: what they say they are, and that bytes arrive in them and come back. */
#include "runtime_fixture.h"

#include <string.h>

enum { WIDTH = 24, HEIGHT = 5 };

static cudaArray_t new_array(size_t width, size_t height, size_t depth)
{
    struct cudaChannelFormatDesc format = cudaCreateChannelDesc(16, 16, 0, 0, cudaChannelFormatKindUnsigned);
    cudaArray_t array;

    assert_ok(cudaMalloc3DArray(&array, &format, (struct cudaExtent){width, height, depth}, 0));
    return array;
}

static void an_array_says_what_it_was_made_as(void **state)
{
    struct cudaChannelFormatDesc format;
    struct cudaExtent extent;
    unsigned flags = 99;
    cudaArray_t array = new_array(WIDTH, HEIGHT, 0);

    (void)state;
    assert_ok(cudaArrayGetInfo(&format, &extent, &flags, array));
    assert_int_equal(format.x, 16);
    assert_int_equal(format.y, 16);
    assert_int_equal(format.z, 0);
    assert_int_equal(format.f, cudaChannelFormatKindUnsigned);
    assert_int_equal(extent.width, WIDTH);
    assert_int_equal(extent.height, HEIGHT);
    assert_int_equal(extent.depth, 0);
    assert_int_equal(flags, 0);
    assert_ok(cudaFreeArray(array));
}

static void rows_go_into_an_array_and_come_back(void **state)
{
    unsigned char out[HEIGHT][WIDTH * 4], in[HEIGHT][WIDTH * 4];
    cudaArray_t array = new_array(WIDTH, HEIGHT, 0), other = new_array(WIDTH, HEIGHT, 0);

    (void)state;
    for (size_t i = 0; i < sizeof out; i++)
        ((unsigned char *)out)[i] = (unsigned char)(i * 7);
    assert_ok(cudaMemcpy2DToArray(array, 0, 0, out, sizeof out[0], sizeof out[0], HEIGHT, cudaMemcpyHostToDevice));
    assert_ok(cudaMemcpy2DArrayToArray(other, 0, 0, array, 0, 0, sizeof out[0], HEIGHT, cudaMemcpyDeviceToDevice));
    memset(in, 0, sizeof in);
    assert_ok(cudaMemcpy2DFromArrayAsync(in, sizeof in[0], other, 0, 0, sizeof in[0], HEIGHT, cudaMemcpyDeviceToHost,
                                         NULL));
    assert_ok(cudaStreamSynchronize(NULL));
    assert_memory_equal(in, out, sizeof in);
    assert_int_equal(cudaMemcpy2DToArray(array, 0, 1, out, sizeof out[0], sizeof out[0], HEIGHT, cudaMemcpyHostToDevice),
                     cudaErrorInvalidValue); /* one row beyond the end */
    assert_ok(cudaFreeArray(array));
    assert_ok(cudaFreeArray(other));
}

/* Where an array takes part, the width counts its elements. */
static void a_box_of_elements_goes_into_an_array_and_comes_back(void **state)
{
    uint32_t out[2][HEIGHT][WIDTH], in[2][HEIGHT][WIDTH];
    cudaArray_t array = new_array(WIDTH, HEIGHT, 2);
    struct cudaMemcpy3DParms up = {.srcPtr = {out, WIDTH * 4, WIDTH, HEIGHT},
                                   .dstArray = array,
                                   .extent = {WIDTH, HEIGHT, 2},
                                   .kind = cudaMemcpyHostToDevice};
    struct cudaMemcpy3DParms down = {.srcArray = array,
                                     .srcPos = {1, 0, 0},
                                     .dstPtr = {in, WIDTH * 4, WIDTH, HEIGHT},
                                     .extent = {WIDTH - 1, HEIGHT, 2},
                                     .kind = cudaMemcpyDeviceToHost};

    (void)state;
    for (size_t i = 0; i < sizeof out / 4; i++)
        ((uint32_t *)out)[i] = (uint32_t)i;
    memset(in, 0, sizeof in);
    assert_ok(cudaMemcpy3D(&up));
    assert_ok(cudaMemcpy3D(&down));
    assert_int_equal(in[1][3][0], out[1][3][1]);
    assert_int_equal(in[0][HEIGHT - 1][WIDTH - 2], out[0][HEIGHT - 1][WIDTH - 1]);
    assert_int_equal(in[1][0][WIDTH - 1], 0);
    assert_ok(cudaFreeArray(array));
}

static void a_mipmap_has_levels_that_are_its_own(void **state)
{
    struct cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    struct cudaExtent extent;
    cudaMipmappedArray_t mipmap;
    cudaArray_t level;

    (void)state;
    assert_ok(cudaMallocMipmappedArray(&mipmap, &format, (struct cudaExtent){64, 32, 0}, 3, 0));
    assert_ok(cudaGetMipmappedArrayLevel(&level, mipmap, 2));
    assert_ok(cudaArrayGetInfo(NULL, &extent, NULL, level));
    assert_int_equal(extent.width, 16);
    assert_int_equal(extent.height, 8);
    assert_int_equal(cudaGetMipmappedArrayLevel(&level, mipmap, 3), cudaErrorInvalidValue);
    assert_ok(cudaFreeMipmappedArray(mipmap));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_array_says_what_it_was_made_as),
        cmocka_unit_test(rows_go_into_an_array_and_come_back),
        cmocka_unit_test(a_mipmap_has_levels_that_are_its_own),
        cmocka_unit_test(a_box_of_elements_goes_into_an_array_and_comes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
