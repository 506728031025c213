/* Memory, pools and events of another process. The other process is this program, started again with a role; the two talk
 * through a socket, one message each way at a time. */
#include "driver_fixture.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 3000, PIPE = 9 };

struct message {
    CUipcMemHandle memory;
    CUipcEventHandle event;
    CUmemPoolPtrExportData pointer;
    int pid, fd; /* a descriptor of the sender's */
};

/* --- the other process: 0, or the number of the line that failed ------------------------------------------------ */

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "the other process: line %d: %s\n", __LINE__, #condition);     \
            return 1;                                                                      \
        }                                                                                  \
    } while (0)

static struct message receive(int fd)
{
    struct message m = { .pid = 0 };
    if (read(fd, &m, sizeof m) != (ssize_t)sizeof m) _exit(95);
    return m;
}

static void tell(int fd, const struct message *m)
{
    if (write(fd, m, sizeof *m) != (ssize_t)sizeof *m) _exit(94);
}

static int is_filled(CUdeviceptr p, unsigned char with)
{
    unsigned char seen[BYTES];
    if (cuMemcpyDtoH(seen, p, BYTES) != CUDA_SUCCESS) return 0;
    for (int i = 0; i < BYTES; i++)
        if (seen[i] != with) return 0;
    return 1;
}

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
    CHECK(cuMemFree(other) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(s) == CUDA_SUCCESS);
    CHECK(sim_live_blocks("ipc") == 0 && sim_violations() == 0);
    tell(PIPE, &m);
    return 0;
}

static int waits_for_an_event(void)
{
    struct message m = receive(PIPE);
    CUevent e, mine;
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK(cuIpcOpenEventHandle(&e, m.event) == CUDA_SUCCESS);
    CHECK(cuEventCreate(&mine, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
    CHECK(cuEventQuery(e) == CUDA_ERROR_NOT_READY);
    CHECK(cuStreamWaitEvent(s, e, 0) == CUDA_SUCCESS);
    CHECK(cuEventRecord(mine, s) == CUDA_SUCCESS);
    CHECK(cuEventQuery(mine) == CUDA_ERROR_NOT_READY);
    tell(PIPE, &m); /* the owner lets its stream go on */
    CHECK(cuEventSynchronize(e) == CUDA_SUCCESS);
    CHECK(cuEventSynchronize(mine) == CUDA_SUCCESS);
    CHECK(cuEventQuery(e) == CUDA_SUCCESS);
    CHECK(cuEventRecord(e, s) == CUDA_SUCCESS); /* either side may record */
    CHECK(cuEventSynchronize(e) == CUDA_SUCCESS);
    CHECK(cuIpcGetEventHandle(&m.event, e) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuEventDestroy(e) == CUDA_SUCCESS);
    tell(PIPE, &m);
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

static const struct { const char *name; int (*play)(void); } roles[] = {
    { "imports_physical_memory", imports_physical_memory },
    { "opens_memory", opens_memory },
    { "imports_a_pool", imports_a_pool },
    { "waits_for_an_event", waits_for_an_event },
};

static int play(const char *name)
{
    CUcontext c;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c)) return 93;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(roles[i].name, name) == 0) return roles[i].play();
    return 92;
}

/* --- this one ------------------------------------------------------------------------------------------------------ */

struct other {
    pid_t pid;
    int fd;
};

static struct other start(const char *role)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], PIPE);
        execl("/proc/self/exe", "test_driver_share", role, (char *)NULL);
        _exit(91);
    }
    assert_true(pid > 0);
    close(ends[1]);
    return (struct other){ pid, ends[0] };
}

static void assert_ends_well(struct other o)
{
    int status = 0;
    close(o.fd);
    assert_int_equal(waitpid(o.pid, &status, 0), o.pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

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

static void share_an_event(bool recorded_first)
{
    struct message m = { .pid = getpid() };
    CUstream s = new_stream();
    CUevent e;
    assert_ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    sim_hold(s);
    if (recorded_first) assert_ok(cuEventRecord(e, s));
    assert_ok(cuIpcGetEventHandle(&m.event, e));
    if (!recorded_first) assert_ok(cuEventRecord(e, s));
    struct other o = start("waits_for_an_event");
    tell(o.fd, &m);
    receive(o.fd);
    sim_release(s);
    receive(o.fd);
    assert_ends_well(o);
    assert_ok(cuEventSynchronize(e)); /* the other's record, this time */
    assert_ok(cuEventDestroy(e));
}

static void an_event_of_one_process_orders_the_stream_of_another(void **state)
{
    (void)state;
    share_an_event(false);
}

static void what_was_recorded_before_the_event_was_exported_counts(void **state)
{
    (void)state;
    share_an_event(true);
}

static void only_an_event_made_for_it_is_exported(void **state)
{
    (void)state;
    CUipcEventHandle handle;
    CUevent private;
    assert_ok(cuEventCreate(&private, CU_EVENT_DISABLE_TIMING));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&handle, private));
    assert_ok(cuEventDestroy(private));
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
    if (argc == 2) return play(argv[1]);
    const struct CMUnitTest tests[] = {
        on_device(a_handle_is_one_mapping_however_often_it_is_opened),
        on_device(an_address_allocated_again_has_another_handle),
        on_device(pools_are_shared_by_descriptor_and_pointer),
        on_device(only_a_pool_made_for_it_is_exported),
        on_device(physical_memory_is_shared_by_descriptor),
        on_device(an_event_of_one_process_orders_the_stream_of_another),
        on_device(what_was_recorded_before_the_event_was_exported_counts),
        on_device(only_an_event_made_for_it_is_exported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
