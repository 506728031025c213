/* Memory and pools of another process. */
#include "other_process.h"

#include <fcntl.h>
#include <stdlib.h>

/* --- the other process ------------------------------------------------------------------------------------------ */

static int opens_memory(void)
{
    struct message m = receive(PIPE);
    CUdeviceptr p, again, base;
    size_t size;
    CHECK(cuIpcOpenMemHandle(&p, m.memory, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuIpcOpenMemHandle(&p, m.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS);
    CHECK(cuIpcOpenMemHandle(&again, m.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS);
    CHECK(p == again && sim_live_blocks("ipc") == 1);
    CHECK(cuMemGetAddressRange(&base, &size, p + 5) == CUDA_SUCCESS && base == p && size == BYTES);
    CHECK(is_filled(p, 7));
    CHECK(cuMemsetD8(p, 8, BYTES) == CUDA_SUCCESS);
    CHECK(cuMemFree(p) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuIpcCloseMemHandle(p) == CUDA_SUCCESS);
    CHECK(is_filled(p, 8)); /* still open once */
    CHECK(cuIpcCloseMemHandle(p) == CUDA_SUCCESS);
    CHECK(cuIpcCloseMemHandle(p) == CUDA_ERROR_INVALID_VALUE);
    CHECK(sim_live_blocks("ipc") == 0);
    CHECK(cuIpcOpenMemHandle(&p, m.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS); /* mappings go with their context */
    CHECK(sim_live_blocks("ipc") == 0);
    tell(PIPE, &m);
    return 0;
}

static int imports_a_pool(void)
{
    struct message m = receive(PIPE);
    CUmemoryPool pool;
    CUmemPoolPtrExportData wrong = m.pointer;
    CUdeviceptr p, other;
    CUstream s;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", m.pid, m.fd);
    int fd = open(path, O_RDWR);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK(fd >= 0);
    CHECK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
          CUDA_SUCCESS);
    close(fd);
    wrong.reserved[0] ^= 1;
    CHECK(cuMemPoolImportPointer(&p, pool, &wrong) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemPoolImportPointer(&p, pool, &m.pointer) == CUDA_SUCCESS);
    CHECK(cuMemPoolImportPointer(&other, pool, &m.pointer) == CUDA_SUCCESS);
    CHECK(is_filled(p, 7));
    CHECK(cuMemsetD8(p, 8, BYTES) == CUDA_SUCCESS);
    CHECK(cuIpcCloseMemHandle(p) == CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr mine;
    CHECK(cuMemAllocFromPoolAsync(&mine, 64, pool, s) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuDeviceSetMemPool(0, pool) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemPoolDestroy(pool) == CUDA_SUCCESS); /* what it gave stays */
    CHECK(is_filled(p, 8));
    CHECK(cuMemFreeAsync(p, s) == CUDA_SUCCESS);
    CHECK(cuMemFreeAsync(p, s) == CUDA_ERROR_INVALID_VALUE);
    sim_set_looks(0);
    CHECK(sim_hold(s) == CUDA_SUCCESS); /* a fill that had begun would be a second finding */
    CHECK(cuMemsetD8Async(other, 8, BYTES, s) == CUDA_SUCCESS);
    CHECK(sim_violations() == 0);
    CHECK(cuMemFreeAsync(other, CU_STREAM_PER_THREAD) == CUDA_SUCCESS); /* which nothing puts behind the fill */
    CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
    CHECK(sim_release(s) == CUDA_SUCCESS);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    CHECK(sim_live_blocks("ipc") == 0 && sim_violations() == 1 && sim_findings("unordered-free") == 1);
    tell(PIPE, &m);
    return 0;
}

static int close_beside_a_fill(bool waits)
{
    struct message m = receive(PIPE);
    CUdeviceptr p;
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK(cuIpcOpenMemHandle(&p, m.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS);
    sim_set_looks(0); /* what it sees in the memory tells it nothing */
    CHECK(cuMemsetD8Async(p, 8, BYTES, s) == CUDA_SUCCESS);
    if (waits) CHECK(cuStreamSynchronize(s) == CUDA_SUCCESS);
    CHECK(cuIpcCloseMemHandle(p) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(s) == CUDA_SUCCESS);
    CHECK(sim_findings("unordered-free") == !waits);
    tell(PIPE, &m);
    return 0;
}

static int closes_beside_a_fill(void)
{
    return close_beside_a_fill(false);
}

static int closes_after_a_fill(void)
{
    return close_beside_a_fill(true);
}

static int keeps_memory_open(void)
{
    struct message m = receive(PIPE);
    CUdeviceptr p;
    CHECK(cuIpcOpenMemHandle(&p, m.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS);
    tell(PIPE, &m);
    receive(PIPE); /* and ends without closing it: the driver does */
    return 0;
}

enum { PHYSICAL = 2 << 20 };

static CUdeviceptr map_physical(CUmemGenericAllocationHandle handle)
{
    CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE }, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    CUdeviceptr p = 0;
    if (cuMemAddressReserve(&p, PHYSICAL, 0, 0, 0) || cuMemMap(p, PHYSICAL, 0, handle, 0) ||
        cuMemSetAccess(p, PHYSICAL, &access, 1))
        return 0;
    return p;
}

static int imports_physical_memory(void)
{
    struct message m = receive(PIPE);
    CUmemAllocationProp prop;
    CUmemGenericAllocationHandle handle;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", m.pid, m.fd);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    CHECK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS);
    close(fd);
    CHECK(cuMemGetAllocationPropertiesFromHandle(&prop, handle) == CUDA_SUCCESS);
    CHECK(prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE && prop.location.id == 0);
    CUdeviceptr p = map_physical(handle);
    CHECK(p);
    CHECK(cuMemRelease(handle) == CUDA_SUCCESS); /* the map holds it */
    CHECK(sim_device_used(0) == 0);              /* and the owner pays */
    CHECK(is_filled(p, 7));
    CHECK(cuMemsetD8(p, 8, BYTES) == CUDA_SUCCESS);
    CHECK(cuMemUnmap(p, PHYSICAL) == CUDA_SUCCESS);
    CHECK(cuMemAddressFree(p, PHYSICAL) == CUDA_SUCCESS);
    tell(PIPE, &m);
    return 0;
}

static const struct role roles[] = {
    ROLE(imports_physical_memory),
    ROLE(opens_memory),
    ROLE(imports_a_pool),
    ROLE(closes_beside_a_fill),
    ROLE(closes_after_a_fill),
    ROLE(keeps_memory_open),
};

/* --- this one ------------------------------------------------------------------------------------------------------ */

static void a_handle_is_one_mapping_however_often_it_is_opened(void **state)
{
    (void)state;
    struct message m = { .pid = getpid() };
    CUdeviceptr p, q;
    assert_ok(cuMemAlloc(&p, BYTES));
    assert_ok(cuMemsetD8(p, 7, BYTES));
    assert_ok(cuIpcGetMemHandle(&m.memory, p + 100)); /* means the whole allocation */
    assert_cu(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle(&q, m.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    struct other o = start("opens_memory");
    tell(o.fd, &m);
    receive(o.fd);
    assert_ends_well(o);
    assert_true(is_filled(p, 8));
    assert_ok(cuMemFree(p));
}

static void an_address_allocated_again_has_another_handle(void **state)
{
    (void)state;
    CUipcMemHandle before, same, after;
    CUdeviceptr p, q;
    assert_ok(cuMemAlloc(&p, BYTES));
    assert_ok(cuIpcGetMemHandle(&before, p));
    assert_ok(cuIpcGetMemHandle(&same, p));
    assert_memory_equal(&before, &same, sizeof before);
    assert_ok(cuMemFree(p));
    assert_ok(cuMemAlloc(&q, BYTES));
    assert_int_equal(p, q);
    assert_ok(cuIpcGetMemHandle(&after, q));
    assert_memory_not_equal(&before, &after, sizeof before);
    assert_ok(cuMemFree(q));
}

static void pools_are_shared_by_descriptor_and_pointer(void **state)
{
    (void)state;
    struct message m = { .pid = getpid() };
    CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                             .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                             .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
    CUstream s = new_stream();
    CUmemoryPool pool;
    CUdeviceptr p;
    assert_ok(cuMemPoolCreate(&pool, &props));
    assert_ok(cuMemAllocFromPoolAsync(&p, BYTES, pool, s));
    assert_ok(cuMemsetD8Async(p, 7, BYTES, s));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuMemPoolExportToShareableHandle(&m.fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    assert_ok(cuMemPoolExportPointer(&m.pointer, p));
    struct other o = start("imports_a_pool");
    tell(o.fd, &m);
    receive(o.fd);
    assert_ends_well(o);
    close(m.fd);
    assert_true(is_filled(p, 8));
    assert_ok(cuMemFreeAsync(p, s));
    assert_ok(cuMemPoolDestroy(pool));
}

static void only_a_pool_made_for_it_is_exported(void **state)
{
    (void)state;
    CUmemPoolPtrExportData data;
    CUstream s = new_stream();
    CUmemoryPool pool;
    CUdeviceptr p;
    int fd = -3;
    assert_ok(cuDeviceGetDefaultMemPool(&pool, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE,
              cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    assert_int_equal(fd, -3);
    assert_ok(cuMemAllocAsync(&p, BYTES, s));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, p));
    assert_ok(cuMemFreeAsync(p, s));
}

static void lend_memory(const char *role)
{
    struct message m = { .pid = getpid() };
    CUdeviceptr p;
    assert_ok(cuMemAlloc(&p, BYTES));
    assert_ok(cuIpcGetMemHandle(&m.memory, p));
    struct other o = start(role);
    tell(o.fd, &m);
    receive(o.fd);
    assert_ends_well(o);
    assert_ok(cuMemFree(p));
    assert_int_equal(sim_findings("free-while-imported"), 0);
}

static void closing_a_mapping_waits_for_nobody(void **state)
{
    (void)state;
    lend_memory("closes_beside_a_fill");
}

static void a_mapping_is_closed_after_its_use(void **state)
{
    (void)state;
    lend_memory("closes_after_a_fill");
}

static void memory_freed_while_another_process_has_it_open(void **state)
{
    (void)state;
    struct message m = { .pid = getpid() };
    CUdeviceptr p, q;
    assert_ok(cuMemAlloc(&p, BYTES));
    assert_ok(cuMemAlloc(&q, BYTES)); /* exported too, and nobody opens it */
    assert_ok(cuIpcGetMemHandle(&m.memory, q));
    assert_ok(cuIpcGetMemHandle(&m.memory, p));
    struct other o = start("keeps_memory_open");
    tell(o.fd, &m);
    receive(o.fd);
    assert_ok(cuMemFree(q));
    assert_int_equal(sim_findings("free-while-imported"), 0);
    assert_ok(cuMemFree(p));
    assert_int_equal(sim_findings("free-while-imported"), 1);
    tell(o.fd, &m);
    assert_ends_well(o);
}

static void an_end_of_the_other_process_closes_its_mappings(void **state)
{
    (void)state;
    struct message m = { .pid = getpid() };
    CUdeviceptr p;
    assert_ok(cuMemAlloc(&p, BYTES));
    assert_ok(cuIpcGetMemHandle(&m.memory, p));
    struct other o = start("keeps_memory_open");
    tell(o.fd, &m);
    receive(o.fd);
    tell(o.fd, &m);
    assert_ends_well(o);
    assert_ok(cuMemFree(p));
    assert_int_equal(sim_findings("free-while-imported"), 0);
}

static void physical_memory_is_shared_by_descriptor(void **state)
{
    (void)state;
    uint64_t used = sim_device_used(0);
    struct message m = { .pid = getpid() };
    CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
    CUmemGenericAllocationHandle handle;
    assert_ok(cuMemCreate(&handle, PHYSICAL, &prop, 0));
    assert_cu(CUDA_ERROR_NOT_SUPPORTED,
              cuMemExportToShareableHandle(&m.fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)); /* not asked for */
    assert_ok(cuMemRelease(handle));
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    assert_ok(cuMemCreate(&handle, PHYSICAL, &prop, 0));
    assert_ok(cuMemExportToShareableHandle(&m.fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CUdeviceptr p = map_physical(handle);
    assert_true(p);
    assert_ok(cuMemsetD8(p, 7, BYTES));
    struct other o = start("imports_physical_memory");
    tell(o.fd, &m);
    receive(o.fd);
    assert_ends_well(o);
    close(m.fd);
    assert_true(is_filled(p, 8));
    assert_ok(cuMemUnmap(p, PHYSICAL));
    assert_ok(cuMemRelease(handle));
    assert_ok(cuMemAddressFree(p, PHYSICAL));
    assert_int_equal(sim_device_used(0), used);
}

int main(int argc, char **argv)
{
    if (argc == 2) return play(roles, sizeof roles / sizeof *roles, argv[1]);
    const struct CMUnitTest tests[] = {
        on_device(a_handle_is_one_mapping_however_often_it_is_opened),
        on_device(an_address_allocated_again_has_another_handle),
        on_device(pools_are_shared_by_descriptor_and_pointer),
        on_device(only_a_pool_made_for_it_is_exported),
        on_device(physical_memory_is_shared_by_descriptor),
        on_device(closing_a_mapping_waits_for_nobody),
        on_device(a_mapping_is_closed_after_its_use),
        on_device(memory_freed_while_another_process_has_it_open),
        on_device(an_end_of_the_other_process_closes_its_mappings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
