/* Arrays by lines of bytes, texture and surface objects, tensor maps: what is taken, refused, told and left. */
#include "driver_fixture.h"

#include <string.h>

enum { WIDTH = 16, HEIGHT = 4, ROW = WIDTH * 4, BYTES = ROW * HEIGHT };

static CUarray new_array(unsigned flags)
{
    CUarray a;
    CUDA_ARRAY3D_DESCRIPTOR d = { .Width = WIDTH, .Height = HEIGHT, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1,
                                  .Flags = flags };
    assert_ok(cuArray3DCreate(&a, &d));
    return a;
}

static void fill_with(unsigned char *bytes, unsigned seed)
{
    for (unsigned i = 0; i < BYTES; i++) bytes[i] = (unsigned char)(i * 7 + seed);
}

static void lines_go_into_arrays_and_come_back(void **state)
{
    (void)state;
    unsigned char in[BYTES], out[BYTES];
    CUarray a = new_array(0), b = new_array(0);
    CUdeviceptr p;
    assert_ok(cuMemAlloc(&p, BYTES));
    fill_with(in, 1);
    assert_ok(cuMemcpyHtoA(a, 0, in, BYTES));
    assert_ok(cuMemcpyAtoH(out, a, 0, BYTES));
    assert_memory_equal(in, out, BYTES);
    assert_ok(cuMemcpyAtoA(b, ROW, a, 0, ROW)); /* a row further down */
    assert_ok(cuMemcpyAtoD(p, b, ROW, ROW));
    assert_ok(cuMemcpyDtoH(out, p, ROW));
    assert_memory_equal(in, out, ROW);
    fill_with(in, 2);
    assert_ok(cuMemcpyHtoD(p, in, BYTES));
    assert_ok(cuMemcpyDtoA(a, 0, p, BYTES));
    assert_ok(cuMemcpyAtoH(out, a, 8, 16));
    assert_memory_equal(in + 8, out, 16);
    assert_ok(cuMemFree(p));
    assert_ok(cuArrayDestroy(a));
    assert_ok(cuArrayDestroy(b));
}

static void lines_go_in_stream_order(void **state)
{
    (void)state;
    unsigned char *in, *out;
    CUarray a = new_array(0);
    CUstream s = new_stream();
    assert_ok(cuMemAllocHost((void **)&in, BYTES));
    assert_ok(cuMemAllocHost((void **)&out, BYTES));
    fill_with(in, 3);
    memset(out, 0, BYTES);
    assert_ok(sim_hold(s));
    assert_ok(cuMemcpyHtoAAsync(a, 0, in, BYTES, s));
    assert_ok(cuMemcpyAtoHAsync(out, a, 0, BYTES, s));
    assert_int_equal(sim_pending(s), 2);
    assert_int_equal(out[1], 0);
    assert_ok(sim_release(s));
    assert_ok(cuStreamSynchronize(s));
    assert_memory_equal(in, out, BYTES);
    assert_ok(cuMemFreeHost(in));
    assert_ok(cuMemFreeHost(out));
    assert_ok(cuArrayDestroy(a));
    assert_ok(cuStreamDestroy(s));
}

static void a_line_ends_where_its_array_does(void **state)
{
    (void)state;
    unsigned char bytes[BYTES] = { 0 };
    CUarray a = new_array(0);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoA(a, 1, bytes, BYTES));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoH(bytes, a, BYTES + 1, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoA(a, BYTES - 4, a, 0, 8));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuMemcpyAtoH(bytes, NULL, 0, 4));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuMemcpyHtoA((CUarray)(void *)bytes, 0, bytes, 4));
    assert_ok(cuArrayDestroy(a));
}

/* --- textures ---------------------------------------------------------------------------------------------------------- */

static CUDA_RESOURCE_DESC of_array(CUarray a)
{
    CUDA_RESOURCE_DESC d;
    memset(&d, 0, sizeof d);
    d.resType = CU_RESOURCE_TYPE_ARRAY;
    d.res.array.hArray = a;
    return d;
}

static CUDA_RESOURCE_DESC of_line(CUdeviceptr p, size_t bytes)
{
    CUDA_RESOURCE_DESC d;
    memset(&d, 0, sizeof d);
    d.resType = CU_RESOURCE_TYPE_LINEAR;
    d.res.linear.devPtr = p;
    d.res.linear.format = CU_AD_FORMAT_FLOAT;
    d.res.linear.numChannels = 1;
    d.res.linear.sizeInBytes = bytes;
    return d;
}

static CUDA_RESOURCE_DESC of_rows(CUdeviceptr p, size_t pitch)
{
    CUDA_RESOURCE_DESC d;
    memset(&d, 0, sizeof d);
    d.resType = CU_RESOURCE_TYPE_PITCH2D;
    d.res.pitch2D.devPtr = p;
    d.res.pitch2D.format = CU_AD_FORMAT_FLOAT;
    d.res.pitch2D.numChannels = 1;
    d.res.pitch2D.width = WIDTH;
    d.res.pitch2D.height = HEIGHT;
    d.res.pitch2D.pitchInBytes = pitch;
    return d;
}

static CUresult create(CUtexObject *object, CUDA_RESOURCE_DESC d)
{
    CUDA_TEXTURE_DESC t = { .filterMode = CU_TR_FILTER_MODE_LINEAR, .flags = CU_TRSF_NORMALIZED_COORDINATES };
    return cuTexObjectCreate(object, &d, &t, NULL);
}

static void a_texture_tells_what_it_was_made_of(void **state)
{
    (void)state;
    CUarray a = new_array(0);
    CUtexObject object;
    CUDA_RESOURCE_DESC d = of_array(a), told;
    CUDA_TEXTURE_DESC t = { .filterMode = CU_TR_FILTER_MODE_LINEAR }, told_t;
    CUDA_RESOURCE_VIEW_DESC v = { .format = CU_RES_VIEW_FORMAT_FLOAT_1X32, .width = WIDTH, .height = HEIGHT }, told_v;
    assert_ok(cuTexObjectCreate(&object, &d, &t, &v));
    assert_int_equal(sim_live_objects("texture"), 1);
    assert_int_equal(sim_leaks(), 2); /* the array as well */
    assert_ok(cuTexObjectGetResourceDesc(&told, object));
    assert_ok(cuTexObjectGetTextureDesc(&told_t, object));
    assert_ok(cuTexObjectGetResourceViewDesc(&told_v, object));
    assert_memory_equal(&told, &d, sizeof d);
    assert_memory_equal(&told_t, &t, sizeof t);
    assert_memory_equal(&told_v, &v, sizeof v);
    assert_ok(cuTexObjectDestroy(object));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy(object));
    assert_int_equal(sim_live_objects("texture"), 0);
    assert_ok(cuArrayDestroy(a));
}

static void linear_memory_must_lie_and_end_right(void **state)
{
    (void)state;
    CUdeviceptr p;
    CUtexObject object;
    assert_ok(cuMemAlloc(&p, 4096));
    assert_ok(create(&object, of_line(p, 4096)));
    assert_ok(cuTexObjectDestroy(object));
    assert_cu(CUDA_ERROR_INVALID_VALUE, create(&object, of_line(p + 4, 64)));
    assert_cu(CUDA_ERROR_INVALID_VALUE, create(&object, of_line(p, 4100)));
    assert_cu(CUDA_ERROR_INVALID_VALUE, create(&object, of_line(p, 0)));
    assert_ok(create(&object, of_rows(p, 96)));
    assert_ok(cuTexObjectDestroy(object));
    assert_cu(CUDA_ERROR_INVALID_VALUE, create(&object, of_rows(p, 80)));  /* no multiple of 32 */
    assert_cu(CUDA_ERROR_INVALID_VALUE, create(&object, of_rows(p, 32)));  /* narrower than a row */
    assert_cu(CUDA_ERROR_INVALID_VALUE, create(&object, of_rows(p, 4096))); /* beyond the block */
    assert_cu(CUDA_ERROR_INVALID_VALUE, create(&object, of_rows(p + 256, 96)));
    assert_ok(cuMemFree(p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, create(&object, of_line(p, 64)));
}

static void what_no_texture_can_be_is_refused(void **state)
{
    (void)state;
    CUarray a = new_array(0);
    CUtexObject object;
    CUDA_RESOURCE_DESC d = of_array(a);
    CUDA_TEXTURE_DESC t = { .filterMode = (CUfilter_mode)7 };
    CUDA_RESOURCE_VIEW_DESC v = { .format = CU_RES_VIEW_FORMAT_FLOAT_1X32 };
    CUdeviceptr p;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&object, &d, &t, NULL));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&object, &d, NULL, NULL));
    d.flags = 1;
    assert_cu(CUDA_ERROR_INVALID_VALUE, create(&object, d));
    assert_ok(cuMemAlloc(&p, 4096));
    t.filterMode = CU_TR_FILTER_MODE_POINT;
    d = of_line(p, 64);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&object, &d, &t, &v)); /* a view of no array */
    assert_ok(cuMemFree(p));
    assert_ok(cuArrayDestroy(a));
    assert_cu(CUDA_ERROR_INVALID_VALUE, create(&object, of_array(a)));
}

static void a_surface_wants_an_array_that_is_stored_to(void **state)
{
    (void)state;
    CUarray plain = new_array(0), stored = new_array(CUDA_ARRAY3D_SURFACE_LDST);
    CUsurfObject object;
    CUDA_RESOURCE_DESC d = of_array(plain), told;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuSurfObjectCreate(&object, &d));
    d = of_array(stored);
    assert_ok(cuSurfObjectCreate(&object, &d));
    assert_int_equal(sim_live_objects("surface"), 1);
    assert_ok(cuSurfObjectGetResourceDesc(&told, object));
    assert_ptr_equal(told.res.array.hArray, stored);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy(object));
    assert_ok(cuSurfObjectDestroy(object));
    assert_ok(cuArrayDestroy(plain));
    assert_ok(cuArrayDestroy(stored));
}

static void objects_go_with_their_context(void **state)
{
    CUarray a = new_array(0);
    CUtexObject object;
    assert_ok(create(&object, of_array(a)));
    assert_ok(cuDevicePrimaryCtxReset(0));
    assert_int_equal(sim_live_objects("texture"), 0);
    assert_int_equal(sim_live_objects("array"), 0);
    CUcontext c;
    assert_ok(cuDevicePrimaryCtxRetain(&c, 0));
    assert_ptr_equal(c, *state);
}

/* --- tensor maps --------------------------------------------------------------------------------------------------------- */

struct map_arguments {
    cuuint32_t rank;
    cuuint64_t dims[5], strides[4];
    cuuint32_t box[5], steps[5];
};

static CUresult encode(CUtensorMap *map, CUdeviceptr p, const struct map_arguments *m)
{
    return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, m->rank, (void *)(uintptr_t)p, m->dims, m->strides, m->box,
                                  m->steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static void a_tensor_map_is_encoded_where_its_rules_are_kept(void **state)
{
    (void)state;
    static CUtensorMap map;
    const struct map_arguments good = { 2, { 64, 32 }, { 128 }, { 16, 8 }, { 1, 1 } };
    struct map_arguments bad;
    CUdeviceptr p;
    assert_ok(cuMemAlloc(&p, 4096));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)p)); /* nothing there yet */
    assert_ok(encode(&map, p, &good));
    assert_ok(cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)(p + 16)));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)(p + 4)));
    assert_cu(CUDA_ERROR_INVALID_VALUE, encode(&map, p + 8, &good));
    bad = good, bad.rank = 6;
    assert_cu(CUDA_ERROR_INVALID_VALUE, encode(&map, p, &bad));
    bad = good, bad.strides[0] = 120;
    assert_cu(CUDA_ERROR_INVALID_VALUE, encode(&map, p, &bad));
    bad = good, bad.box[1] = 257;
    assert_cu(CUDA_ERROR_INVALID_VALUE, encode(&map, p, &bad));
    bad = good, bad.box[0] = 4; /* eight bytes */
    assert_cu(CUDA_ERROR_INVALID_VALUE, encode(&map, p, &bad));
    bad = good, bad.dims[0] = 0;
    assert_cu(CUDA_ERROR_INVALID_VALUE, encode(&map, p, &bad));
    bad = good, bad.steps[0] = 9;
    assert_cu(CUDA_ERROR_INVALID_VALUE, encode(&map, p, &bad));
    assert_ok(cuMemFree(p));
}

/* --- occupancy -------------------------------------------------------------------------------------------------------------- */

static void clusters_fit_as_their_size_says(void **state)
{
    (void)state;
    CUlaunchAttribute cluster = { .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION };
    CUlaunchConfig c = { .gridDimX = 8, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 128, .blockDimY = 1, .blockDimZ = 1 };
    CUfunction f = any_function();
    int size = 0, one = 0, four = 0, grid = 0, block = 0;
    assert_ok(cuOccupancyMaxPotentialClusterSize(&size, f, &c));
    assert_int_equal(size, 8);
    assert_ok(cuOccupancyMaxActiveClusters(&one, f, &c));
    cluster.value.clusterDim.x = 4, cluster.value.clusterDim.y = 1, cluster.value.clusterDim.z = 1;
    c.attrs = &cluster;
    c.numAttrs = 1;
    assert_ok(cuOccupancyMaxActiveClusters(&four, f, &c));
    assert_int_equal(one, 4 * four);
    c.blockDimX = 2000;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveClusters(&four, f, &c));
    assert_ok(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, f, NULL, 0, 256, CU_OCCUPANCY_DEFAULT));
    assert_int_equal(block, 256);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, f, NULL, 0, 256, 2));
}

/* --- linking: here because its result is an image like any other ------------------------------------------------------------ */

static void what_was_linked_loads(void **state)
{
    (void)state;
    CUlinkState link;
    CUmodule m;
    void *image = NULL;
    size_t size = 0;
    char code[] = "code";
    assert_ok(cuLinkCreate(0, NULL, NULL, &link));
    assert_int_equal(sim_live_objects("link"), 1);
    assert_ok(cuLinkAddData(link, CU_JIT_INPUT_PTX, code, sizeof code, "a", 0, NULL, NULL));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuLinkAddData(link, CU_JIT_INPUT_PTX, code, 0, "a", 0, NULL, NULL));
    assert_cu(CUDA_ERROR_FILE_NOT_FOUND, cuLinkAddFile(link, CU_JIT_INPUT_CUBIN, "/nonexistent/code", 0, NULL, NULL));
    assert_ok(cuLinkComplete(link, &image, &size));
    assert_true(image && size);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuLinkAddData(link, CU_JIT_INPUT_PTX, code, sizeof code, "a", 0, NULL, NULL));
    assert_ok(cuModuleLoadData(&m, image));
    assert_ok(cuModuleUnload(m));
    assert_ok(cuLinkDestroy(link));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuLinkDestroy(link));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(lines_go_into_arrays_and_come_back),
        on_device(lines_go_in_stream_order),
        on_device(a_line_ends_where_its_array_does),
        on_device(a_texture_tells_what_it_was_made_of),
        on_device(linear_memory_must_lie_and_end_right),
        on_device(what_no_texture_can_be_is_refused),
        on_device(a_surface_wants_an_array_that_is_stored_to),
        on_device(objects_go_with_their_context),
        on_device(a_tensor_map_is_encoded_where_its_rules_are_kept),
        on_device(clusters_fit_as_their_size_says),
        on_device(what_was_linked_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
