/* Graph nodes changed after the fact, textures, arrays by bytes and boxes between devices, through the runtime's names. */
#include "runtime_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 64, WIDTH = 8, HEIGHT = 4, ROW = WIDTH * 4 };

/* --- graphs ---------------------------------------------------------------------------------------------------------- */

struct scene {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    unsigned char *a, *b;
};

static struct scene begin(void)
{
    struct scene x = {0};

    assert_ok(cudaGraphCreate(&x.graph, 0));
    assert_ok(cudaMalloc((void **)&x.a, SIZE));
    assert_ok(cudaMalloc((void **)&x.b, SIZE));
    assert_ok(cudaMemset(x.a, 1, SIZE));
    assert_ok(cudaMemset(x.b, 2, SIZE));
    return x;
}

static void end(struct scene x)
{
    assert_ok(cudaGraphExecDestroy(x.exec));
    assert_ok(cudaGraphDestroy(x.graph));
    assert_ok(cudaFree(x.a));
    assert_ok(cudaFree(x.b));
}

static void launch(struct scene *x)
{
    if (!x->exec)
        assert_ok(cudaGraphInstantiate(&x->exec, x->graph, 0));
    assert_ok(cudaGraphLaunch(x->exec, NULL));
    assert_ok(cudaStreamSynchronize(NULL));
}

static int byte_of(const void *p)
{
    unsigned char byte = 0;

    assert_ok(cudaMemcpy(&byte, p, 1, cudaMemcpyDeviceToHost));
    return byte;
}

static struct cudaMemsetParams fill_of(void *dst, unsigned value)
{
    return (struct cudaMemsetParams){.dst = dst, .value = value, .elementSize = 1, .width = SIZE, .height = 1};
}

static void fills_and_copies_are_told_and_changed(void **state)
{
    struct scene x = begin();
    struct cudaMemsetParams fill = fill_of(x.a, 5), told;
    struct cudaMemcpy3DParms told_copy;
    cudaGraphNode_t first, second, found, dependents[2];
    cudaGraph_t clone;
    size_t count = 2;

    (void)state;
    assert_ok(cudaGraphAddMemsetNode(&first, x.graph, NULL, 0, &fill));
    assert_ok(cudaGraphAddMemcpyNode1D(&second, x.graph, &first, 1, x.b, x.a, SIZE, cudaMemcpyDeviceToDevice));
    assert_ok(cudaGraphMemsetNodeGetParams(first, &told));
    assert_ptr_equal(told.dst, x.a);
    assert_int_equal(told.value, 5);
    assert_ok(cudaGraphMemcpyNodeGetParams(second, &told_copy));
    assert_ptr_equal(told_copy.srcPtr.ptr, x.a);
    assert_int_equal(told_copy.extent.width, SIZE);
    assert_ok(cudaGraphNodeGetDependentNodes(first, dependents, NULL, &count));
    assert_int_equal(count, 1);
    assert_ptr_equal(dependents[0], second);
    assert_ok(cudaGraphClone(&clone, x.graph));
    assert_ok(cudaGraphNodeFindInClone(&found, first, clone));
    assert_ok(cudaGraphDestroy(clone));
    launch(&x);
    assert_int_equal(byte_of(x.b), 5);
    fill = fill_of(x.a, 6);
    assert_ok(cudaGraphExecMemsetNodeSetParams(x.exec, first, &fill));
    launch(&x);
    assert_int_equal(byte_of(x.b), 6);
    assert_ok(cudaMemset(x.b, 9, SIZE));
    assert_ok(cudaGraphExecMemcpyNodeSetParams1D(x.exec, second, x.a, x.b, SIZE, cudaMemcpyDeviceToDevice));
    launch(&x);
    assert_int_equal(byte_of(x.a), 9);
    assert_ok(cudaGraphMemsetNodeSetParams(first, &fill));
    assert_ok(cudaGraphMemcpyNodeSetParams1D(second, x.a, x.b, SIZE, cudaMemcpyDeviceToDevice));
    assert_ok(cudaGraphRemoveDependencies(x.graph, &first, &second, NULL, 1));
    end(x);
}

static void a_node_is_changed_and_left_out_by_any_name(void **state)
{
    struct scene x = begin();
    struct cudaMemsetParams fill = fill_of(x.a, 5);
    struct cudaGraphNodeParams any = {.type = cudaGraphNodeTypeMemset};
    cudaGraphNode_t node;
    unsigned enabled = 7;

    (void)state;
    assert_ok(cudaGraphAddMemsetNode(&node, x.graph, NULL, 0, &fill));
    assert_ok(cudaGraphInstantiate(&x.exec, x.graph, 0));
    assert_ok(cudaGraphNodeSetEnabled(x.exec, node, 0));
    assert_ok(cudaGraphNodeGetEnabled(x.exec, node, &enabled));
    assert_int_equal(enabled, 0);
    launch(&x);
    assert_int_equal(byte_of(x.a), 1);
    assert_ok(cudaGraphNodeSetEnabled(x.exec, node, 1));
    fill = fill_of(x.a, 8);
    memcpy(&any.memset, &fill, sizeof fill);
    assert_ok(cudaGraphExecNodeSetParams(x.exec, node, &any));
    assert_ok(cudaGraphNodeSetParams(node, &any));
    launch(&x);
    assert_int_equal(byte_of(x.a), 8);
    end(x);
}

static void a_graph_is_drawn(void **state)
{
    struct scene x = begin();
    struct cudaMemsetParams fill = fill_of(x.a, 5);
    char path[] = "/tmp/simcuda-dot-XXXXXX", text[1024] = "";
    cudaGraphNode_t first, second;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_ok(cudaGraphAddMemsetNode(&first, x.graph, NULL, 0, &fill));
    assert_ok(cudaGraphAddEmptyNode(&second, x.graph, &first, 1));
    assert_ok(cudaGraphDebugDotPrint(x.graph, path, 0));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    unlink(path);
    assert_non_null(strstr(text, "MEMSET"));
    assert_non_null(strstr(text, "->"));
    assert_int_equal(cudaGraphDebugDotPrint(x.graph, "/nonexistent/graph", 0), cudaErrorOperatingSystem);
    launch(&x);
    end(x);
}

static void events_of_nodes_are_told_and_changed(void **state)
{
    struct scene x = begin();
    cudaGraphNode_t record, wait;
    cudaEvent_t first, second, told;

    (void)state;
    assert_ok(cudaEventCreate(&first));
    assert_ok(cudaEventCreate(&second));
    assert_ok(cudaGraphAddEventRecordNode(&record, x.graph, NULL, 0, first));
    assert_ok(cudaGraphAddEventWaitNode(&wait, x.graph, &record, 1, first));
    assert_ok(cudaGraphInstantiate(&x.exec, x.graph, 0));
    assert_ok(cudaGraphExecEventRecordNodeSetEvent(x.exec, record, second));
    assert_ok(cudaGraphExecEventWaitNodeSetEvent(x.exec, wait, second));
    assert_ok(cudaGraphEventRecordNodeSetEvent(record, second));
    assert_ok(cudaGraphEventRecordNodeGetEvent(record, &told));
    assert_ptr_equal(told, second);
    assert_ok(cudaGraphEventWaitNodeSetEvent(wait, second));
    assert_ok(cudaGraphEventWaitNodeGetEvent(wait, &told));
    assert_ptr_equal(told, second);
    launch(&x);
    assert_ok(cudaEventDestroy(first));
    assert_ok(cudaEventDestroy(second));
    end(x);
}

/* --- textures ---------------------------------------------------------------------------------------------------------- */

static void textures_are_told_as_they_were_made(void **state)
{
    struct cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    struct cudaTextureDesc sampler = {.addressMode = {cudaAddressModeClamp}, .readMode = cudaReadModeElementType, .normalizedCoords = 1},
                           told_sampler;
    struct cudaResourceDesc resource = {.resType = cudaResourceTypeLinear}, told;
    cudaTextureObject_t texture;
    void *p;

    (void)state;
    assert_ok(cudaMalloc(&p, 4096));
    resource.res.linear.devPtr = p;
    resource.res.linear.desc = format;
    resource.res.linear.sizeInBytes = 4096;
    assert_ok(cudaCreateTextureObject(&texture, &resource, &sampler, NULL));
    assert_ok(cudaGetTextureObjectResourceDesc(&told, texture));
    assert_int_equal(told.resType, cudaResourceTypeLinear);
    assert_ptr_equal(told.res.linear.devPtr, p);
    assert_int_equal(told.res.linear.desc.x, 32);
    assert_int_equal(told.res.linear.desc.f, cudaChannelFormatKindFloat);
    assert_ok(cudaGetTextureObjectTextureDesc(&told_sampler, texture));
    assert_int_equal(told_sampler.addressMode[0], cudaAddressModeClamp);
    assert_int_equal(told_sampler.readMode, cudaReadModeElementType);
    assert_int_equal(told_sampler.normalizedCoords, 1);
    assert_ok(cudaDestroyTextureObject(texture));
    assert_ok(cudaDestroyTextureObject(0));
    resource.res.linear.devPtr = (char *)p + 16;
    assert_int_equal(cudaCreateTextureObject(&texture, &resource, &sampler, NULL), cudaErrorInvalidValue);
    assert_ok(cudaFree(p));
    (void)cudaGetLastError();
}

static cudaArray_t new_array(unsigned flags)
{
    struct cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    cudaArray_t array;

    assert_ok(cudaMallocArray(&array, &format, WIDTH, HEIGHT, flags));
    return array;
}

static void surfaces_are_of_arrays(void **state)
{
    struct cudaResourceDesc resource = {.resType = cudaResourceTypeArray}, told;
    cudaArray_t array = new_array(cudaArraySurfaceLoadStore);
    cudaSurfaceObject_t surface;

    (void)state;
    resource.res.array.array = array;
    assert_ok(cudaCreateSurfaceObject(&surface, &resource));
    assert_ok(cudaGetSurfaceObjectResourceDesc(&told, surface));
    assert_ptr_equal(told.res.array.array, array);
    assert_ok(cudaDestroySurfaceObject(surface));
    assert_ok(cudaFreeArray(array));
}

/* --- copies -------------------------------------------------------------------------------------------------------------- */

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* these are */

static void bytes_run_on_from_row_to_row(void **state)
{
    unsigned char in[ROW * HEIGHT], out[ROW * HEIGHT];
    cudaArray_t a = new_array(0), b = new_array(0);

    (void)state;
    for (unsigned i = 0; i < sizeof in; i++)
        in[i] = (unsigned char)(i + 1);
    assert_ok(cudaMemcpyToArray(a, 0, 0, in, sizeof in, cudaMemcpyHostToDevice));
    memset(out, 0, sizeof out);
    assert_ok(cudaMemcpyFromArray(out, a, 4, 1, ROW * 2, cudaMemcpyDeviceToHost)); /* the rest of a row, a row, a bit */
    assert_memory_equal(out, in + ROW + 4, ROW * 2);
    assert_ok(cudaMemcpyArrayToArray(b, 8, 0, a, 8, 1, ROW * 2, cudaMemcpyDeviceToDevice));
    assert_ok(cudaMemcpyFromArrayAsync(out, b, 8, 0, ROW * 2, cudaMemcpyDeviceToHost, NULL));
    assert_ok(cudaStreamSynchronize(NULL));
    assert_memory_equal(out, in + ROW + 8, ROW * 2);
    assert_ok(cudaMemcpyToArrayAsync(a, 0, 2, in, ROW, cudaMemcpyHostToDevice, NULL));
    assert_ok(cudaMemcpyFromArray(out, a, 0, 2, ROW, cudaMemcpyDeviceToHost));
    assert_memory_equal(out, in, ROW);
    assert_int_equal(cudaMemcpyFromArray(out, a, ROW, 0, 4, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpyFromArray(out, a, 4, 3, ROW, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    assert_ok(cudaFreeArray(a));
    assert_ok(cudaFreeArray(b));
    (void)cudaGetLastError();
}

static void boxes_go_from_device_to_device(void **state)
{
    enum { PITCH = 16, W = 8, H = 3 };
    unsigned char in[PITCH * H], out[W * H];
    unsigned char *there, *here;
    struct cudaMemcpy3DPeerParms p = {.srcDevice = 1, .dstDevice = 0, .extent = {W, H, 1}};

    (void)state;
    for (unsigned i = 0; i < sizeof in; i++)
        in[i] = (unsigned char)i;
    assert_ok(cudaSetDevice(1));
    assert_ok(cudaMalloc((void **)&there, sizeof in));
    assert_ok(cudaMemcpy(there, in, sizeof in, cudaMemcpyHostToDevice));
    assert_ok(cudaSetDevice(0));
    assert_ok(cudaMalloc((void **)&here, sizeof out));
    p.srcPtr = (struct cudaPitchedPtr){there, PITCH, W, H};
    p.dstPtr = (struct cudaPitchedPtr){here, W, W, H};
    assert_ok(cudaMemcpy3DPeerAsync(&p, NULL));
    assert_ok(cudaStreamSynchronize(NULL));
    assert_ok(cudaMemcpy(out, here, sizeof out, cudaMemcpyDeviceToHost));
    for (int y = 0; y < H; y++)
        assert_memory_equal(out + y * W, in + y * PITCH, W);
    assert_ok(cudaMemset(here, 0, sizeof out));
    assert_ok(cudaMemcpy3DPeer(&p));
    assert_ok(cudaMemcpy(out, here, sizeof out, cudaMemcpyDeviceToHost));
    assert_int_equal(out[W], in[PITCH]);
    p.srcDevice = 9;
    assert_int_equal(cudaMemcpy3DPeer(&p), cudaErrorInvalidDevice);
    assert_int_equal(cudaMemcpy3DPeer(NULL), cudaErrorInvalidValue);
    assert_ok(cudaFree(there));
    assert_ok(cudaFree(here));
    (void)cudaGetLastError();
}

static void batches_copy_boxes(void **state)
{
    enum { W = 8, H = 2 };
    struct cudaMemcpy3DBatchOp op = {.extent = {W, H, 1}};
    unsigned char *a, *b;
    cudaStream_t stream;

    (void)state;
    assert_ok(cudaStreamCreate(&stream)); /* batches take no legacy stream */
    assert_ok(cudaMalloc((void **)&a, W * H));
    assert_ok(cudaMalloc((void **)&b, W * H));
    assert_ok(cudaMemset(a, 3, W * H));
    assert_ok(cudaMemset(b, 4, W * H));
    op.src.type = op.dst.type = cudaMemcpyOperandTypePointer;
    op.src.op.ptr.ptr = a;
    op.dst.op.ptr.ptr = b;
    op.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    assert_ok(cudaMemcpy3DBatchAsync(1, &op, 0, stream));
    assert_ok(cudaStreamSynchronize(stream));
    assert_int_equal(byte_of(b + W * H - 1), 3);
    assert_ok(cudaStreamDestroy(stream));
    assert_ok(cudaFree(a));
    assert_ok(cudaFree(b));
}

static void what_few_programs_ask_is_answered(void **state)
{
    struct cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    enum cudaSharedMemConfig config;
    struct cudaDeviceProp wanted;
    size_t width = 0;
    int device = 9;

    (void)state;
    memset(&wanted, 0, sizeof wanted);
    assert_ok(cudaChooseDevice(&device, &wanted));
    assert_int_equal(device, 0);
    assert_ok(cudaDeviceGetTexture1DLinearMaxWidth(&width, &format, 0));
    assert_true(width > 0);
    assert_ok(cudaDeviceGetSharedMemConfig(&config));
    assert_ok(cudaDeviceSetSharedMemConfig(config));
    assert_ok(cudaCtxResetPersistingL2Cache());
    assert_ok(cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                                 cudaFlushGPUDirectRDMAWritesToOwner));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_and_copies_are_told_and_changed),
        cmocka_unit_test(a_node_is_changed_and_left_out_by_any_name),
        cmocka_unit_test(a_graph_is_drawn),
        cmocka_unit_test(events_of_nodes_are_told_and_changed),
        cmocka_unit_test(textures_are_told_as_they_were_made),
        cmocka_unit_test(surfaces_are_of_arrays),
        cmocka_unit_test(bytes_run_on_from_row_to_row),
        cmocka_unit_test(boxes_go_from_device_to_device),
        cmocka_unit_test(batches_copy_boxes),
        cmocka_unit_test(what_few_programs_ask_is_answered),
    };

    setenv("SIMCUDA_DEVICES", "2", 1); /* read when the runtime first looks for its driver */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
