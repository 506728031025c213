/* Two devices: who reaches whose memory. The driver reads the number of devices when it is loaded, so the program starts
 * itself again with two. */
#include "driver_fixture.h"

#include <stdlib.h>
#include <unistd.h>

static CUcontext contexts[2];

static int two_contexts(void **state)
{
    (void)state;
    if (cuInit(0)) return -1;
    for (int d = 0; d < 2; d++)
        if (cuDevicePrimaryCtxRetain(&contexts[d], d)) return -1;
    sim_reset();
    return cuCtxSetCurrent(contexts[0]) ? -1 : 0;
}

static int reset_both(void **state)
{
    (void)state;
    sim_release_all();
    return cuDevicePrimaryCtxReset(0) || cuDevicePrimaryCtxReset(1) ? -1 : 0;
}

/* Does a kernel of device 1 meet no obstacle on the memory? */
static int reaches(CUdeviceptr p)
{
    uint64_t before = sim_violations();
    CUstream s;
    assert_ok(cuCtxPushCurrent(contexts[1]));
    s = new_stream();
    assert_int_equal(sim_launch_touch(s, p, 64), CUDA_SUCCESS);
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuStreamDestroy(s));
    assert_ok(cuCtxPopCurrent(NULL));
    return sim_violations() == before;
}

static void peer_access_covers_what_exists_and_what_comes(void **state)
{
    (void)state;
    CUdeviceptr before, after;
    assert_ok(cuMemAlloc(&before, 64));
    assert_false(reaches(before));
    assert_ok(cuCtxPushCurrent(contexts[1]));
    assert_ok(cuCtxEnablePeerAccess(contexts[0], 0));
    assert_cu(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(contexts[0], 0));
    assert_ok(cuCtxPopCurrent(NULL));
    assert_ok(cuMemAlloc(&after, 64));
    assert_true(reaches(before));
    assert_true(reaches(after));
    assert_ok(cuCtxPushCurrent(contexts[1]));
    assert_ok(cuCtxDisablePeerAccess(contexts[0]));
    assert_cu(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(contexts[0]));
    assert_ok(cuCtxPopCurrent(NULL));
    assert_false(reaches(after));
    assert_ok(cuMemFree(before));
    assert_ok(cuMemFree(after));
}

static void copies_reach_without_peer_access(void **state)
{
    (void)state;
    CUdeviceptr here, there;
    unsigned char seen = 0;
    assert_ok(cuMemAlloc(&here, 64));
    assert_ok(cuMemsetD8(here, 9, 64));
    assert_ok(cuCtxPushCurrent(contexts[1]));
    assert_ok(cuMemAlloc(&there, 64));
    assert_ok(cuMemcpyPeer(there, contexts[1], here, contexts[0], 64));
    assert_ok(cuMemcpyDtoH(&seen, there + 63, 1));
    assert_ok(cuMemFree(there));
    assert_ok(cuCtxPopCurrent(NULL));
    assert_int_equal(seen, 9);
    assert_int_equal(sim_violations(), 0);
    assert_ok(cuMemFree(here));
}

static void peer_access_ends_with_a_reset(void **state)
{
    (void)state;
    assert_ok(cuCtxPushCurrent(contexts[1]));
    assert_ok(cuCtxEnablePeerAccess(contexts[0], 0));
    assert_ok(cuDevicePrimaryCtxReset(1));
    assert_ok(cuDevicePrimaryCtxRetain(&contexts[1], 1));
    assert_ok(cuCtxSetCurrent(contexts[1]));
    assert_ok(cuCtxEnablePeerAccess(contexts[0], 0));
    assert_ok(cuCtxPopCurrent(NULL));
}

static CUmemAccessDesc access_of(int device, CUmemAccess_flags flags)
{
    return (CUmemAccessDesc){ .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device }, .flags = flags };
}

static void pools_have_grants_of_their_own(void **state)
{
    (void)state;
    CUmemAccessDesc grant = access_of(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), take = access_of(1, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CUmemAccessDesc own = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CUmemAccess_flags flags;
    CUmemoryPool pool;
    CUdeviceptr p;
    CUstream s = new_stream();
    int seen = 0;
    assert_ok(cuCtxPushCurrent(contexts[1]));
    assert_ok(cuCtxEnablePeerAccess(contexts[0], 0)); /* of no use to a pool */
    assert_ok(cuCtxPopCurrent(NULL));
    assert_ok(cuMemAllocAsync(&p, 64, s));
    assert_ok(cuStreamSynchronize(s));
    assert_false(reaches(p));
    assert_ok(cuDeviceGetDefaultMemPool(&pool, 0));
    assert_ok(cuMemPoolSetAccess(pool, &grant, 1));
    assert_ok(cuMemPoolGetAccess(&flags, pool, &grant.location));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    assert_true(reaches(p));
    assert_ok(cuCtxPushCurrent(contexts[1]));
    assert_ok(cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, p));
    assert_int_equal(seen, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    assert_ok(cuMemPoolSetAccess(pool, &take, 1));
    assert_ok(cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, p));
    assert_int_equal(seen, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
    assert_ok(cuCtxPopCurrent(NULL));
    assert_false(reaches(p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAccess(pool, &own, 1));
    assert_ok(cuMemFreeAsync(p, s));
    assert_ok(cuStreamSynchronize(s));
}

static void a_map_is_reached_by_whom_it_is_opened_to(void **state)
{
    (void)state;
    enum { SIZE = 2 << 20 };
    CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
    CUmemAccessDesc mine = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), theirs = access_of(1, CU_MEM_ACCESS_FLAGS_PROT_READ);
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;
    assert_ok(cuMemCreate(&handle, SIZE, &prop, 0));
    assert_ok(cuMemAddressReserve(&p, SIZE, 0, 0, 0));
    assert_ok(cuMemMap(p, SIZE, 0, handle, 0));
    assert_ok(cuMemSetAccess(p, SIZE, &mine, 1));
    assert_false(reaches(p));
    assert_ok(cuMemSetAccess(p, SIZE, &theirs, 1));
    assert_true(reaches(p));
    assert_ok(cuMemUnmap(p, SIZE));
    assert_ok(cuMemRelease(handle));
    assert_ok(cuMemAddressFree(p, SIZE));
}

static void access_is_missed_only_by_the_device_that_loses_it(void **state)
{
    (void)state;
    enum { SIZE = 2 << 20 };
    CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
    CUmemAccessDesc both[] = { access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), access_of(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) };
    CUmemAccessDesc mine = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_NONE), theirs = access_of(1, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;
    CUstream s = new_stream();
    assert_ok(cuMemCreate(&handle, SIZE, &prop, 0));
    assert_ok(cuMemAddressReserve(&p, SIZE, 0, 0, 0));
    assert_ok(cuMemMap(p, SIZE, 0, handle, 0));
    assert_ok(cuMemSetAccess(p, SIZE, both, 2));
    sim_hold(s);
    assert_ok(cuMemsetD8Async(p, 1, SIZE, s)); /* by device 0 */
    assert_ok(cuMemSetAccess(p, SIZE, &theirs, 1));
    both[0].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    assert_ok(cuMemSetAccess(p, SIZE, both, 1)); /* loses nothing */
    assert_int_equal(sim_findings("unordered-access"), 0);
    assert_ok(cuMemSetAccess(p, SIZE, &mine, 1));
    assert_int_equal(sim_findings("unordered-access"), 1);
    sim_release(s);
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuMemUnmap(p, SIZE));
    assert_ok(cuMemRelease(handle));
    assert_ok(cuMemAddressFree(p, SIZE));
}

static void access_to_a_pool_is_taken_when_its_memory_is_done_with(void **state)
{
    (void)state;
    CUmemAccessDesc grant = access_of(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), take = access_of(1, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CUmemoryPool pool;
    CUdeviceptr p;
    CUstream s = new_stream(), theirs;
    assert_ok(cuDeviceGetDefaultMemPool(&pool, 0));
    assert_ok(cuMemPoolSetAccess(pool, &grant, 1));
    assert_ok(cuMemAllocAsync(&p, 64, s));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(cuCtxPushCurrent(contexts[1]));
    theirs = new_stream();
    sim_hold(theirs);
    assert_int_equal(sim_launch_touch(theirs, p, 64), CUDA_SUCCESS);
    assert_ok(cuCtxPopCurrent(NULL));
    assert_int_equal(sim_findings("unordered-access"), 0);
    assert_ok(cuMemPoolSetAccess(pool, &take, 1));
    assert_int_equal(sim_findings("unordered-access"), 1);
    sim_release(theirs);
    assert_ok(cuStreamSynchronize(theirs));
    assert_ok(cuStreamDestroy(theirs));
    assert_ok(cuMemFreeAsync(p, s));
    assert_ok(cuStreamSynchronize(s));
}

int main(int argc, char **argv)
{
    if (argc == 1) {
        setenv("SIMCUDA_DEVICES", "2", 1);
        execl("/proc/self/exe", argv[0], "two", (char *)NULL);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(peer_access_covers_what_exists_and_what_comes, two_contexts, reset_both),
        cmocka_unit_test_setup_teardown(copies_reach_without_peer_access, two_contexts, reset_both),
        cmocka_unit_test_setup_teardown(peer_access_ends_with_a_reset, two_contexts, reset_both),
        cmocka_unit_test_setup_teardown(pools_have_grants_of_their_own, two_contexts, reset_both),
        cmocka_unit_test_setup_teardown(a_map_is_reached_by_whom_it_is_opened_to, two_contexts, reset_both),
        cmocka_unit_test_setup_teardown(access_to_a_pool_is_taken_when_its_memory_is_done_with, two_contexts, reset_both),
        cmocka_unit_test_setup_teardown(access_is_missed_only_by_the_device_that_loses_it, two_contexts, reset_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
