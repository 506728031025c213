/* Devices, contexts, processes: who owns what, and what becomes of it. */
#include "driver_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void several_devices_are_told_apart(void **state)
{
    (void)state;
    int n = 0, major = 0, warp = 0, vmm = 0;
    CUuuid a, b;
    char bus[16];
    CUdevice found;
    assert_ok(cuDeviceGetCount(&n));
    assert_int_equal(n, 2);
    assert_ok(cuDeviceGetUuid(&a, 0));
    assert_ok(cuDeviceGetUuid(&b, 1));
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_ok(cuDeviceGetPCIBusId(bus, sizeof bus, 1));
    assert_ok(cuDeviceGetByPCIBusId(&found, bus));
    assert_int_equal(found, 1);
    assert_ok(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    assert_ok(cuDeviceGetAttribute(&warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    assert_ok(cuDeviceGetAttribute(&vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
    assert_true(major >= 8 && warp == 32 && vmm == 1);
    assert_cu(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&found, 2));
}

static void the_primary_context_lives_by_its_references(void **state)
{
    CUcontext again;
    unsigned flags;
    int active = -1;
    CUdeviceptr p;
    assert_ok(cuDevicePrimaryCtxRetain(&again, 0));
    assert_ptr_equal(again, *state);
    assert_ok(cuMemAlloc(&p, 8));
    assert_ok(cuDevicePrimaryCtxRelease(0));
    assert_int_equal(sim_live_blocks("device"), 1);
    assert_ok(cuDevicePrimaryCtxRelease(0));
    assert_int_equal(sim_live_blocks("device"), 0);
    assert_ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 0);
    assert_cu(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
    assert_cu(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&p, 8));
    assert_ok(cuDevicePrimaryCtxRetain(&again, 0));
    assert_ok(cuMemAlloc(&p, 8));
}

static void a_created_context_takes_its_memory_and_streams_along(void **state)
{
    CUcontext c, current;
    CUdeviceptr mine, theirs;
    CUstream s;
    assert_ok(cuMemAlloc(&mine, 8));
    assert_ok(cuCtxCreate(&c, NULL, 0, 0));
    assert_ok(cuCtxGetCurrent(&current));
    assert_ptr_equal(current, c);
    assert_ok(cuMemAlloc(&theirs, 8));
    assert_ok(cuStreamCreate(&s, 0));
    assert_ok(cuCtxDestroy(c));
    assert_cu(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(c));
    assert_cu(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(c));
    assert_cu(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(*state));
    assert_ok(cuCtxGetCurrent(&current));
    assert_ptr_equal(current, *state);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFree(theirs));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(s));
    assert_ok(cuMemFree(mine));
}

static void contexts_stack_up_per_thread(void **state)
{
    CUcontext c, popped;
    assert_ok(cuCtxCreate(&c, NULL, 0, 1));
    CUdevice d = -1;
    assert_ok(cuCtxGetDevice(&d));
    assert_int_equal(d, 1);
    assert_ok(cuCtxPushCurrent(*state));
    assert_ok(cuCtxGetDevice(&d));
    assert_int_equal(d, 0);
    assert_ok(cuCtxPopCurrent(&popped));
    assert_ptr_equal(popped, *state);
    assert_ok(cuCtxPopCurrent(&popped));
    assert_ptr_equal(popped, c);
    assert_ok(cuCtxDestroy(c));
}

static void *without_context(void *ret)
{
    CUdeviceptr p;
    *(CUresult *)ret = cuMemAlloc(&p, 8);
    return NULL;
}

static void a_new_thread_has_no_context(void **state)
{
    (void)state;
    CUresult result = CUDA_SUCCESS;
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, without_context, &result), 0);
    pthread_join(t, NULL);
    assert_int_equal(result, CUDA_ERROR_INVALID_CONTEXT);
}

static void peers_are_enabled_once(void **state)
{
    CUcontext other;
    int can = 0;
    assert_ok(cuDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    assert_ok(cuDevicePrimaryCtxRetain(&other, 1));
    assert_ok(cuCtxEnablePeerAccess(other, 0));
    assert_cu(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(other, 0));
    assert_ok(cuCtxDisablePeerAccess(other));
    assert_cu(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(other));
    assert_cu(CUDA_ERROR_INVALID_DEVICE, cuCtxEnablePeerAccess(*state, 0));
    assert_ok(cuDevicePrimaryCtxRelease(1));
}

static void memory_of_another_process_is_mapped_by_its_handle(void **state)
{
    (void)state;
    CUdeviceptr p;
    CUipcMemHandle handle;
    char out = 0;
    int wstatus;
    assert_ok(cuMemAlloc(&p, 1000));
    assert_ok(cuMemAlloc(&p, 1000)); /* not at the start of a page */
    assert_ok(cuMemsetD8(p, 5, 1000));
    assert_ok(cuIpcGetMemHandle(&handle, p));
    CUdeviceptr mapped;
    assert_cu(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle(&mapped, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    char text[2 * sizeof handle + 1];
    for (size_t i = 0; i < sizeof handle; i++) snprintf(text + 2 * i, 3, "%02x", (unsigned char)handle.reserved[i]);
    pid_t child = fork();
    if (child == 0) { /* a fresh process: a forked one has no CUDA */
        execl("/proc/self/exe", "test_driver_context", "--import", text, (char *)NULL);
        _exit(99);
    }
    assert_int_equal(waitpid(child, &wstatus, 0), child);
    assert_true(WIFEXITED(wstatus));
    assert_int_equal(WEXITSTATUS(wstatus), 0);
    assert_ok(cuMemcpyDtoH(&out, p + 999, 1));
    assert_int_equal(out, 6);
}

/* The other process of the test above: adds one to the last byte. Returns the number of the step that failed. */
static int import_memory(const char *text)
{
    CUipcMemHandle handle;
    CUcontext c;
    CUdeviceptr p;
    char byte = 0;
    for (size_t i = 0; i < sizeof handle; i++) {
        const char digits[3] = { text[2 * i], text[2 * i + 1], '\0' };
        handle.reserved[i] = (char)strtoul(digits, NULL, 16);
    }
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c)) return 1;
    if (cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) return 2;
    if (cuMemcpyDtoH(&byte, p + 999, 1) || byte != 5) return 3;
    if (cuMemsetD8(p + 999, 6, 1)) return 4;
    if (cuMemFree(p) != CUDA_ERROR_INVALID_VALUE) return 5;
    if (cuIpcCloseMemHandle(p)) return 6;
    return cuDevicePrimaryCtxReset(0) ? 7 : 0;
}

static void a_forked_child_has_no_driver_and_its_parent_still_has(void **state)
{
    (void)state;
    CUdeviceptr p;
    int wstatus;
    CUstream s = new_stream();
    assert_ok(sim_hold(s));
    assert_ok(cuMemAllocAsync(&p, 8, s)); /* a worker exists, in the parent */
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr q;
        _exit(cuMemAlloc(&q, 8) == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &wstatus, 0), child);
    assert_true(WIFEXITED(wstatus) && WEXITSTATUS(wstatus) == 0);
    assert_ok(sim_release(s));
    assert_ok(cuMemFreeAsync(p, s));
    assert_ok(cuStreamSynchronize(s));
}

static void after_the_end_every_call_says_so(void **state)
{
    (void)state;
    CUdeviceptr p;
    int n;
    sim_deinitialise();
    assert_cu(CUDA_ERROR_DEINITIALIZED, cuMemAlloc(&p, 8));
    assert_cu(CUDA_ERROR_DEINITIALIZED, cuMemFree(0));
    assert_cu(CUDA_ERROR_DEINITIALIZED, cuInit(0));
    assert_cu(CUDA_ERROR_DEINITIALIZED, cuDriverGetVersion(&n));
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--import") == 0) return import_memory(argv[2]);
    /* the driver reads its settings when it is loaded */
    if (!getenv("SIMCUDA_DEVICES")) {
        setenv("SIMCUDA_DEVICES", "2", 1);
        execv("/proc/self/exe", argv);
        return 99;
    }
    const struct CMUnitTest tests[] = {
        on_device(several_devices_are_told_apart),
        on_device(the_primary_context_lives_by_its_references),
        on_device(a_created_context_takes_its_memory_and_streams_along),
        on_device(contexts_stack_up_per_thread),
        on_device(a_new_thread_has_no_context),
        on_device(peers_are_enabled_once),
        on_device(memory_of_another_process_is_mapped_by_its_handle),
        on_device(a_forked_child_has_no_driver_and_its_parent_still_has),
        cmocka_unit_test_setup(after_the_end_every_call_says_so, context_setup), /* last: there is no way back */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
