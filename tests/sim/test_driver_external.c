/* External memory by opaque descriptor, and what is refused. */
#include "driver_fixture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 3 * 4096 };

static CUDA_EXTERNAL_MEMORY_HANDLE_DESC opaque(int fd)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = { .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = BYTES };
    d.handle.fd = fd;
    return d;
}

static int new_memory(void)
{
    int fd = memfd_create("theirs", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    return fd;
}

static void an_external_buffer_is_the_same_memory_and_outlives_its_object(void **state)
{
    (void)state;
    int fd = new_memory();
    unsigned char *mine = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = opaque(fd);
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = { .offset = 4096 + 512, .size = 1000 }, all = { .size = BYTES };
    CUexternalMemory memory;
    CUdeviceptr p, q;
    uint64_t used = sim_device_used(0);
    assert_ok(cuImportExternalMemory(&memory, &d));
    assert_ok(cuExternalMemoryGetMappedBuffer(&p, memory, &part));
    assert_ok(cuExternalMemoryGetMappedBuffer(&q, memory, &all));
    assert_int_equal(sim_device_used(0), used); /* theirs, not the device's */
    assert_int_equal(sim_live_bytes("external"), 1000 + BYTES);
    assert_ok(cuMemsetD8(p, 5, 1000));
    assert_int_equal(mine[4096 + 511], 0);
    assert_int_equal(mine[4096 + 512], 5);
    assert_int_equal(mine[4096 + 512 + 999], 5);
    assert_int_equal(mine[4096 + 512 + 1000], 0);
    assert_ok(cuDestroyExternalMemory(memory));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuDestroyExternalMemory(memory));
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* the driver owned it */
    assert_ok(cuMemsetD8(q, 6, 1));
    assert_int_equal(mine[0], 6);
    assert_ok(cuMemFree(p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
    assert_ok(cuMemFree(q));
    assert_int_equal(sim_live_blocks("external"), 0);
    munmap(mine, BYTES);
}

static void external_buffers_go_with_their_context(void **state)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = opaque(new_memory());
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC all = { .size = BYTES };
    CUexternalMemory memory;
    CUdeviceptr p;
    assert_ok(cuImportExternalMemory(&memory, &d));
    assert_ok(cuExternalMemoryGetMappedBuffer(&p, memory, &all));
    assert_ok(cuDevicePrimaryCtxReset(0));
    assert_int_equal(sim_live_blocks("external"), 0);
    assert_ok(cuDevicePrimaryCtxRetain((CUcontext *)state, 0));
    assert_ok(cuDestroyExternalMemory(memory));
}

static void what_is_outside_or_of_another_kind_is_refused(void **state)
{
    (void)state;
    int fd = new_memory();
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = opaque(fd);
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC outside = { .offset = 4096, .size = BYTES }, none = { .size = 0 };
    CUexternalMemory memory = (CUexternalMemory)3;
    CUdeviceptr p = 3;
    d.size = BYTES + 1;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuImportExternalMemory(&memory, &d));
    d.size = BYTES;
    d.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP;
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuImportExternalMemory(&memory, &d));
    assert_ptr_equal(memory, (CUexternalMemory)3);
    assert_int_not_equal(fcntl(fd, F_GETFD), -1); /* still ours */
    d = opaque(fd);
    assert_ok(cuImportExternalMemory(&memory, &d));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuExternalMemoryGetMappedBuffer(&p, memory, &outside));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuExternalMemoryGetMappedBuffer(&p, memory, &none));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuExternalMemoryGetMappedBuffer(&p, (CUexternalMemory)&d, &outside));
    assert_int_equal(p, 3);
    assert_ok(cuDestroyExternalMemory(memory));
}

/* Multicast is not simulated: the attribute and every call say the same. */
static void multicast_says_cleanly_that_it_is_not_supported(void **state)
{
    (void)state;
    CUmulticastObjectProp prop = { .numDevices = 1, .size = 2 << 20 };
    CUmemGenericAllocationHandle handle = 3;
    size_t granularity = 3;
    int supported = 1;
    assert_ok(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
    assert_int_equal(supported, 0);
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuMulticastCreate(&handle, &prop));
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuMulticastGetGranularity(&granularity, &prop, CU_MULTICAST_GRANULARITY_MINIMUM));
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuMulticastAddDevice(handle, 0));
    assert_true(handle == 3 && granularity == 3);
}

/* --- semaphores ------------------------------------------------------------------------------------------------------------ */

static CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC timeline(int fd)
{
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC d = { .type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD };
    d.handle.fd = fd;
    return d;
}

struct theirs {
    uint64_t *value;
    CUexternalSemaphore semaphore;
};

static struct theirs new_timeline(void)
{
    struct theirs t;
    int fd = new_memory();
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC d = timeline(fd);
    t.value = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(t.value, MAP_FAILED);
    assert_ok(cuImportExternalSemaphore(&t.semaphore, &d));
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* it is the driver's now */
    return t;
}

static void end_timeline(struct theirs t)
{
    assert_ok(cuDestroyExternalSemaphore(t.semaphore));
    munmap(t.value, BYTES);
}

static CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS until(uint64_t value)
{
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS p = { 0 };
    p.params.fence.value = value;
    return p;
}

static CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS to(uint64_t value)
{
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS p = { 0 };
    p.params.fence.value = value;
    return p;
}

static void a_timeline_is_waited_for_and_signalled_by_both_sides(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed <= 3; seed++) {
        sim_seed(seed);
        struct theirs t = new_timeline();
        CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = until(3);
        CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = to(8);
        CUstream s = new_stream();
        assert_ok(cuWaitExternalSemaphoresAsync(&t.semaphore, &wait, 1, s));
        assert_ok(cuSignalExternalSemaphoresAsync(&t.semaphore, &signal, 1, s));
        for (int i = 0; i < 50; i++) assert_cu(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
        __atomic_store_n(t.value, 5, __ATOMIC_RELEASE);
        assert_ok(cuStreamSynchronize(s));
        assert_int_equal(__atomic_load_n(t.value, __ATOMIC_ACQUIRE), 8);
        assert_int_equal(sim_violations(), 0);
        assert_ok(cuStreamDestroy(s));
        end_timeline(t);
        assert_int_equal(sim_leaks(), 0);
        sim_seed(0);
    }
}

static void a_captured_signal_is_a_node_of_its_kind(void **state)
{
    (void)state;
    struct theirs t = new_timeline();
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = to(4);
    CUstream s = new_stream();
    CUgraph g;
    CUgraphExec exec;
    CUgraphNode node;
    CUgraphNodeType type;
    size_t count = 1;
    assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(cuSignalExternalSemaphoresAsync(&t.semaphore, &signal, 1, s));
    assert_ok(cuStreamEndCapture(s, &g));
    assert_ok(cuGraphGetNodes(g, &node, &count));
    assert_ok(cuGraphNodeGetType(node, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL);
    assert_ok(cuGraphInstantiate(&exec, g, 0));
    assert_ok(cuGraphLaunch(exec, s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(*t.value, 4);
    assert_ok(cuGraphExecDestroy(exec));
    assert_ok(cuGraphDestroy(g));
    assert_ok(cuStreamDestroy(s));
    end_timeline(t);
}

/* Signals and waits must be over: what is still queued then meets memory that is gone. */
static void a_semaphore_that_goes_under_its_waiters_is_a_finding(void **state)
{
    (void)state;
    struct theirs t = new_timeline();
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = until(3);
    CUstream s = new_stream();
    assert_ok(cuWaitExternalSemaphoresAsync(&t.semaphore, &wait, 1, s));
    end_timeline(t);
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_findings("use-after-free"), 1);
    assert_ok(cuStreamDestroy(s));
}

static void other_semaphores_are_refused(void **state)
{
    (void)state;
    CUexternalSemaphore semaphore;
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = until(1);
    int fd = new_memory(), small = memfd_create("small", MFD_CLOEXEC);
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC d = timeline(fd);
    d.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD;
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuImportExternalSemaphore(&semaphore, &d));
    d = timeline(small);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuImportExternalSemaphore(&semaphore, &d));
    d = timeline(fd);
    d.flags = 1;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuImportExternalSemaphore(&semaphore, &d));
    d.flags = 0;
    assert_ok(cuImportExternalSemaphore(&semaphore, &d));
    assert_ok(cuDestroyExternalSemaphore(semaphore));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuDestroyExternalSemaphore(semaphore));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuWaitExternalSemaphoresAsync(&semaphore, &wait, 1, NULL));
    close(small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(an_external_buffer_is_the_same_memory_and_outlives_its_object),
        on_device(external_buffers_go_with_their_context),
        on_device(what_is_outside_or_of_another_kind_is_refused),
        on_device(multicast_says_cleanly_that_it_is_not_supported),
        on_device(a_timeline_is_waited_for_and_signalled_by_both_sides),
        on_device(a_captured_signal_is_a_node_of_its_kind),
        on_device(a_semaphore_that_goes_under_its_waiters_is_a_finding),
        on_device(other_semaphores_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
