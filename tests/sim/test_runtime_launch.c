/* Registered kernels and their launches, captured and not, and the doors that lead a program on to the driver. */
#include "runtime_fixture.h"

#include <dlfcn.h>
#include <string.h>

/* cudaGetDriverEntryPoint is deprecated and is what programs built so far call. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* What nvcc's generated code declares. */
extern void **__cudaRegisterFatBinary(void *fat_cubin);
extern void __cudaRegisterFatBinaryEnd(void **handle);
extern void __cudaUnregisterFatBinary(void **handle);
extern void __cudaRegisterFunction(void **handle, const char *host_function, char *device_function,
                                   const char *device_name, int thread_limit, void *tid, void *bid, void *block_dim,
                                   void *grid_dim, int *warp_size);
extern unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream);
extern cudaError_t __cudaPopCallConfiguration(dim3 *ret_grid, dim3 *ret_block, size_t *ret_shared, void *ret_stream);
extern cudaError_t __cudaGetKernel(cudaKernel_t *ret_kernel, const void *host_function);
extern cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                      cudaStream_t stream);
extern cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **function, unsigned long long flags,
                                                enum cudaDriverEntryPointQueryResult *status);

static struct {
    int magic, version;
    const void *data;
    void *name;
} fat_binary = {0x466243b1, 1, "no code", NULL};

static void stub(void)
{
}

static void stranger(void)
{
}

static const dim3 one = {1, 1, 1};

static int register_stub(void **state)
{
    void **handle = __cudaRegisterFatBinary(&fat_binary);

    __cudaRegisterFunction(handle, (const char *)stub, (char *)stub, "kernel", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(handle);
    *state = handle;
    return 0;
}

static int unregister_stub(void **state)
{
    __cudaUnregisterFatBinary(*state);
    (void)cudaGetLastError();
    return 0;
}

static void a_registered_stub_launches_and_a_stranger_does_not(void **state)
{
    (void)state;
    assert_ok(cudaLaunchKernel((const void *)stub, one, one, NULL, 0, NULL));
    assert_int_equal(cudaLaunchKernel((const void *)stranger, one, one, NULL, 0, NULL), cudaErrorInvalidDeviceFunction);
    assert_ok(cudaDeviceSynchronize());
}

static void a_stub_is_forgotten_with_its_fat_binary(void **state)
{
    assert_ok(cudaLaunchKernel((const void *)stub, one, one, NULL, 0, NULL));
    __cudaUnregisterFatBinary(*state);
    assert_int_equal(cudaLaunchKernel((const void *)stub, one, one, NULL, 0, NULL), cudaErrorInvalidDeviceFunction);
    register_stub(state);
    assert_ok(cudaLaunchKernel((const void *)stub, one, one, NULL, 0, NULL));
}

static void a_captured_launch_is_told_by_its_stub_and_set_again(void **state)
{
    struct cudaKernelNodeParams p = {0};
    dim3 grid = {2, 3, 4}, block = {5, 6, 7};
    cudaGraphExec_t exec;
    cudaGraphNode_t node;
    cudaStream_t stream;
    cudaGraph_t graph;
    size_t count = 1;

    (void)state;
    assert_ok(cudaStreamCreate(&stream));
    assert_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    assert_ok(cudaLaunchKernel((const void *)stub, grid, block, NULL, 8, stream));
    assert_ok(cudaStreamEndCapture(stream, &graph));
    assert_ok(cudaGraphGetNodes(graph, &node, &count));
    assert_ok(cudaGraphKernelNodeGetParams(node, &p));
    assert_ptr_equal(p.func, (void *)stub);
    assert_int_equal(p.gridDim.z, 4);
    assert_int_equal(p.blockDim.x, 5);
    assert_int_equal(p.sharedMemBytes, 8);
    assert_non_null(p.kernelParams);
    p.gridDim.z = 1;
    assert_ok(cudaGraphKernelNodeSetParams(node, &p));
    assert_ok(cudaGraphInstantiate(&exec, graph, 0));
    assert_ok(cudaGraphExecKernelNodeSetParams(exec, node, &p));
    p.func = (void *)stranger;
    assert_int_equal(cudaGraphExecKernelNodeSetParams(exec, node, &p), cudaErrorInvalidDeviceFunction);
    assert_ok(cudaGraphLaunch(exec, stream));
    assert_ok(cudaStreamSynchronize(stream));
    assert_ok(cudaGraphExecDestroy(exec));
    assert_ok(cudaGraphDestroy(graph));
    assert_ok(cudaStreamDestroy(stream));
}

static void clusters_of_a_stub_fit(void **state)
{
    cudaLaunchConfig_t config = {.gridDim = {8, 1, 1}, .blockDim = {32, 1, 1}};
    int size = 0, count = 0;

    (void)state;
    assert_ok(cudaOccupancyMaxPotentialClusterSize(&size, (const void *)stub, &config));
    assert_true(size > 0);
    assert_ok(cudaOccupancyMaxActiveClusters(&count, (const void *)stub, &config));
    assert_true(count > 0);
    assert_int_equal(cudaOccupancyMaxActiveClusters(&count, (const void *)stranger, &config), cudaErrorInvalidDeviceFunction);
}

static void a_kernel_handle_launches_like_its_stub(void **state)
{
    struct cudaFuncAttributes attributes;
    cudaKernel_t kernel;
    int blocks = 0;

    (void)state;
    assert_ok(__cudaGetKernel(&kernel, (const void *)stub));
    assert_ok(__cudaLaunchKernel(kernel, one, one, NULL, 0, NULL));
    assert_ok(cudaFuncGetAttributes(&attributes, (const void *)kernel));
    assert_true(attributes.maxThreadsPerBlock > 0);
    assert_ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)stub, 128, 0));
    assert_true(blocks > 0);
}

static void call_configurations_come_back_last_in_first_out(void **state)
{
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;

    (void)state;
    assert_int_equal(__cudaPushCallConfiguration((dim3){2, 1, 1}, one, 10, NULL), 0);
    assert_int_equal(__cudaPushCallConfiguration((dim3){3, 1, 1}, one, 20, cudaStreamLegacy), 0);
    assert_ok(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    assert_int_equal(grid.x, 3);
    assert_int_equal(shared, 20);
    assert_ptr_equal(stream, cudaStreamLegacy);
    assert_ok(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    assert_int_equal(grid.x, 2);
    assert_int_equal(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaErrorMissingConfiguration);
}

static void a_captured_launch_and_copy_run_when_the_graph_does(void **state)
{
    cudaStream_t stream;
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    size_t nodes = 0;
    char byte = 0;
    void *p;

    (void)state;
    assert_ok(cudaMalloc(&p, 16));
    assert_ok(cudaMemset(p, 1, 16));
    assert_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    assert_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_ok(cudaLaunchKernel((const void *)stub, one, one, NULL, 0, stream));
    assert_ok(cudaMemsetAsync(p, 4, 16, stream));
    assert_ok(cudaStreamEndCapture(stream, &graph));
    assert_ok(cudaGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 2);
    assert_ok(cudaMemcpy(&byte, p, 1, cudaMemcpyDeviceToHost));
    assert_int_equal(byte, 1);
    assert_ok(cudaGraphInstantiate(&exec, graph, 0));
    assert_ok(cudaGraphLaunch(exec, stream));
    assert_ok(cudaStreamSynchronize(stream));
    assert_ok(cudaMemcpy(&byte, p, 1, cudaMemcpyDeviceToHost));
    assert_int_equal(byte, 4);
    assert_ok(cudaGraphExecDestroy(exec));
    assert_ok(cudaGraphDestroy(graph));
    assert_ok(cudaStreamDestroy(stream));
    assert_ok(cudaFree(p));
}

static void *symbol_of_the_driver(const char *name)
{
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    assert_non_null(libcuda);
    return dlsym(libcuda, name);
}

static void the_entry_point_has_the_form_of_the_function_that_was_asked(void **state)
{
    void *plain = NULL, *per_thread = NULL, *versioned = NULL;
    enum cudaDriverEntryPointQueryResult status = cudaDriverEntryPointVersionNotSufficent;

    (void)state;
    assert_ok(cudaGetDriverEntryPoint("cuMemAllocAsync", &plain, cudaEnableDefault, &status));
    assert_int_equal(status, cudaDriverEntryPointSuccess);
    assert_ok(cudaGetDriverEntryPoint_ptsz("cuMemAllocAsync", &per_thread, cudaEnableDefault, NULL));
    assert_ptr_equal(plain, symbol_of_the_driver("cuMemAllocAsync"));
    assert_ptr_equal(per_thread, symbol_of_the_driver("cuMemAllocAsync_ptsz"));
    assert_ptr_not_equal(plain, per_thread);
    assert_ok(cudaGetDriverEntryPointByVersion("cuMemAlloc", &versioned, 3020, cudaEnableDefault, &status));
    assert_ptr_equal(versioned, symbol_of_the_driver("cuMemAlloc_v2"));
}

static void an_entry_point_that_is_not_there_is_a_status_and_no_error(void **state)
{
    enum cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSuccess;
    void *function = marker();

    (void)state;
    assert_ok(cudaGetDriverEntryPoint("cuNoSuchThing", &function, cudaEnableDefault, &status));
    assert_int_equal(status, cudaDriverEntryPointSymbolNotFound);
    assert_null(function);
}

#define WITH_STUB(name) cmocka_unit_test_setup_teardown(name, register_stub, unregister_stub)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STUB(a_registered_stub_launches_and_a_stranger_does_not),
        WITH_STUB(a_stub_is_forgotten_with_its_fat_binary),
        WITH_STUB(a_captured_launch_is_told_by_its_stub_and_set_again),
        WITH_STUB(clusters_of_a_stub_fit),
        WITH_STUB(a_kernel_handle_launches_like_its_stub),
        cmocka_unit_test(call_configurations_come_back_last_in_first_out),
        WITH_STUB(a_captured_launch_and_copy_run_when_the_graph_does),
        cmocka_unit_test(the_entry_point_has_the_form_of_the_function_that_was_asked),
        cmocka_unit_test(an_entry_point_that_is_not_there_is_a_status_and_no_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
