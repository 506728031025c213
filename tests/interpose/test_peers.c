/* Peer access as a mechanism hears of it: for the memory that is meant, once for all who want it, before and after the memory is
 * there. The companion is the test's own, put over the real `host` plugin's allocators.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fake_driver.h"
#include "interpose/context.h"
#include "interpose/hook.h"
#include "interpose/lifecycle.h"
#include "interpose/peers.h"
#include "interpose/pool.h"
#include "interpose/process.h"
#include "interpose/scope.h"
#include "interpose/serve.h"

/* Contexts from 0x2000 on are device 1's. */
#define PEER ((CUcontext)(uintptr_t)0x2100)
#define PEERS_OTHER ((CUcontext)(uintptr_t)0x2200)
#define POOL ((CUmemoryPool)(uintptr_t)0x9000)

static struct {
    unsigned calls, peer, enabled;
    void *ctx;
} heard;
static uint32_t answer; /* of set_peer_access */
static unsigned disabled;
static int synchronous_mark, ordered_mark;

static NxmemStatus set_peer_access(void *ctx, uint32_t peer, uint32_t enabled)
{
    NxmemStatus status = { .code = answer };

    heard.calls++;
    heard.ctx = ctx;
    heard.peer = peer;
    heard.enabled = enabled;
    return status;
}

static CUresult device_of_current(CUdevice *device)
{
    *device = (uintptr_t)fake.current >= 0x2000;
    return CUDA_SUCCESS;
}

static CUresult enable(CUcontext peer, unsigned flags)
{
    (void)peer, (void)flags;
    return CUDA_SUCCESS;
}

static CUresult disable(CUcontext peer)
{
    (void)peer;
    disabled++;
    return CUDA_SUCCESS;
}

static CUresult set_access(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    (void)pool, (void)map, (void)count;
    return CUDA_SUCCESS;
}

static CUresult default_pool(CUmemoryPool *pool, CUdevice device)
{
    *pool = POOL;
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult no_driver(void *unused, CUdeviceptr *ret_address)
{
    (void)unused, (void)ret_address;
    return CUDA_ERROR_UNKNOWN;
}

/* The scope of this kind of memory in FAKE_CONTEXT, with a block in it. */
static void open_memory(bool ordered)
{
    struct nxm_order order;
    bool refuse = false;
    CUdeviceptr address = 0;

    fake.current = FAKE_CONTEXT;
    assert_int_equal(ordered ? nxm_order_stream(FAKE_STREAM, false, &order) : nxm_order_synchronous(&order), CUDA_SUCCESS);
    assert_int_equal(order.device, 0);
    struct nxm_scope *scope = nxm_scope_enter_for(&order, &refuse);
    assert_non_null(scope);
    scope->companion.vtable.ctx = ordered ? &ordered_mark : &synchronous_mark;
    scope->companion.vtable.set_peer_access = set_peer_access;
    assert_int_equal(nxm_serve_allocate(scope, &order, 100, NXM_API_cuMemAlloc_v2, no_driver, NULL, &address), CUDA_SUCCESS);
    nxm_scope_leave(scope);
}

static CUresult enabled_by(CUcontext accessor)
{
    fake.current = accessor;
    return hook_cuCtxEnablePeerAccess(FAKE_CONTEXT, 0);
}

static CUresult disabled_by(CUcontext accessor)
{
    fake.current = accessor;
    return hook_cuCtxDisablePeerAccess(FAKE_CONTEXT);
}

static void access_is_told_to_the_memory_that_it_is_to(void **state)
{
    (void)state;
    assert_int_equal(enabled_by(PEER), CUDA_SUCCESS);
    assert_int_equal(heard.calls, 1); /* that of streams is granted apart */
    assert_ptr_equal(heard.ctx, &synchronous_mark);
    assert_int_equal(heard.peer, 1);
    assert_int_equal(heard.enabled, 1);
    assert_int_equal(disabled_by(PEER), CUDA_SUCCESS);
    assert_int_equal(heard.calls, 2);
    assert_int_equal(heard.enabled, 0);
}

static void access_stays_while_one_context_wants_it(void **state)
{
    (void)state;
    enabled_by(PEER);
    enabled_by(PEERS_OTHER);
    assert_int_equal(heard.calls, 1);
    disabled_by(PEER);
    assert_int_equal(heard.calls, 1);
    disabled_by(PEERS_OTHER);
    assert_int_equal(heard.calls, 2);
    assert_int_equal(heard.enabled, 0);
}

static void a_mechanism_that_refuses_makes_the_call_fail_and_undoes_it(void **state)
{
    (void)state;
    answer = NXMEM_STATUS_UNSUPPORTED_CAPABILITY;
    assert_int_equal(enabled_by(PEER), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    assert_int_equal(disabled, 1);
    answer = NXMEM_STATUS_OK;
    heard.calls = 0;
    assert_int_equal(enabled_by(PEER), CUDA_SUCCESS); /* nothing of the refused one is left */
    assert_int_equal(heard.calls, 1);
    disabled_by(PEER);
}

static void look_up(struct nxm_scope *scope, void *unused)
{
    (void)unused;
    nxm_peers_tell(scope);
}

static void memory_that_comes_later_hears_what_was_granted(void **state)
{
    (void)state;
    enabled_by(PEER);
    heard.calls = 0;
    nxm_scope_each(look_up, NULL); /* what a scope is shown when it is opened */
    assert_int_equal(heard.calls, 1);
    assert_ptr_equal(heard.ctx, &synchronous_mark);
    assert_int_equal(heard.enabled, 1);
    disabled_by(PEER);
    heard.calls = 0;
    nxm_scope_each(look_up, NULL);
    assert_int_equal(heard.calls, 0);
}

static void a_context_takes_its_grants_along(void **state)
{
    (void)state;
    enabled_by(PEER);
    nxm_peers_context_gone(PEER, true);
    assert_int_equal(heard.calls, 2);
    assert_int_equal(heard.enabled, 0);
    nxm_peers_context_gone(PEER, true);
    assert_int_equal(heard.calls, 2);
}

static void access_to_a_pool_is_told_to_ordered_memory(void **state)
{
    CUmemAccessDesc map = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 }, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    (void)state;

    assert_int_equal(hook_cuMemPoolSetAccess(POOL, &map, 1), CUDA_SUCCESS);
    assert_int_equal(heard.calls, 1);
    assert_ptr_equal(heard.ctx, &ordered_mark);
    assert_int_equal(heard.enabled, 1);
    map.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    assert_int_equal(hook_cuMemPoolSetAccess(POOL, &map, 1), CUDA_SUCCESS);
    assert_int_equal(heard.calls, 2);
    assert_int_equal(heard.enabled, 0);
    map.location.type = CU_MEM_LOCATION_TYPE_HOST;
    hook_cuMemPoolSetAccess(POOL, &map, 1);
    hook_cuMemPoolSetAccess((CUmemoryPool)(uintptr_t)0x9999, &map, 1); /* one of the program's own */
    assert_int_equal(heard.calls, 2);
}

static void a_green_contexts_memory_is_its_primarys(void **state)
{
    struct nxm_order order;
    (void)state;

    nxm_context_is_green(PEERS_OTHER, PEER);
    fake.current = PEERS_OTHER;
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    assert_ptr_equal(order.context, PEER);
    assert_int_equal(order.device, 1);
    nxm_context_forget(PEERS_OTHER);
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    assert_ptr_equal(order.context, PEERS_OTHER);
}

static int reset(void **state)
{
    (void)state;
    fake_driver_reset();
    nxm_real.cuCtxGetDevice = device_of_current;
    nxm_real.cuCtxEnablePeerAccess = enable;
    nxm_real.cuCtxDisablePeerAccess = disable;
    nxm_real.cuMemPoolSetAccess = set_access;
    nxm_real.cuDeviceGetDefaultMemPool = default_pool;
    heard = (__typeof__(heard)){ 0 };
    answer = NXMEM_STATUS_OK;
    disabled = 0;
    return 0;
}

static int begin(void **state)
{
    setenv("NXMEM_PLUGIN", NXM_TEST_PLUGIN, 1);
    setenv("NXMEM_HOST_AS_DEVICE", "1", 1);
    reset(state);
    enum nxm_mode mode = nxm_enter(NULL, true);
    nxm_leave(mode);
    if (mode != NXM_MODE_SERVE || !nxm_plugin())
        return -1;
    open_memory(false);
    open_memory(true);
    return 0;
}

static int end(void **state)
{
    (void)state;
    nxm_scope_close_all();
    return 0;
}

int main(void)
{
#define PEERS(test) cmocka_unit_test_setup(test, reset)
    const struct CMUnitTest tests[] = {
        PEERS(access_is_told_to_the_memory_that_it_is_to),
        PEERS(access_stays_while_one_context_wants_it),
        PEERS(a_mechanism_that_refuses_makes_the_call_fail_and_undoes_it),
        PEERS(memory_that_comes_later_hears_what_was_granted),
        PEERS(a_context_takes_its_grants_along),
        PEERS(access_to_a_pool_is_told_to_ordered_memory),
        PEERS(a_green_contexts_memory_is_its_primarys),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
