/* What a companion is told: streams and contexts that end, and the totals it is asked for. The companion is the test's own,
 * put over the real `host` plugin's allocators.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <pthread.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake_driver.h"
#include "interpose/context.h"
#include "interpose/hook.h"
#include "interpose/lifecycle.h"
#include "interpose/process.h"
#include "interpose/scope.h"
#include "interpose/serve.h"

static struct {
    unsigned orders_gone, contexts_gone;
    uint64_t key, context;
    uint64_t live; /* blocks in the table when a context was told gone */
    bool context_dead;
} heard;
static bool context_is_dead;

/* What another thread would meet that allocates in the context from the moment when its blocks go back to its end. */
static struct nxm_order in_dying;
static unsigned refused, served;

static void allocate_in_dying(void)
{
    bool refuse = true;
    struct nxm_scope *scope = nxm_scope_enter_for(&in_dying, &refuse);

    refused += !scope && !refuse;
    served += scope != NULL;
    if (scope)
        nxm_scope_leave(scope);
}

static bool count_block(void *sum, const struct nxm_block *block)
{
    *(uint64_t *)sum += block->allocator != NULL;
    return true;
}

static uint64_t live_blocks(void)
{
    uint64_t live = 0;

    nxm_blocks_each(nxm_table(NXM_TABLE_MEMORY), count_block, &live);
    return live;
}

static void order_gone(void *ctx, uint64_t key)
{
    assert_ptr_equal(ctx, &heard);
    heard.orders_gone++;
    heard.key = key;
}

static void context_gone(void *ctx, uint64_t context)
{
    assert_ptr_equal(ctx, &heard);
    heard.contexts_gone++;
    heard.context = context;
    heard.live = live_blocks();
    heard.context_dead = context_is_dead;
    if ((uintptr_t)in_dying.context == context)
        allocate_in_dying();
}

static NxmemStatus cached_bytes(void *ctx, uint64_t *bytes)
{
    NxmemStatus ok = { 0 };

    assert_ptr_equal(ctx, &heard);
    *bytes = 1000;
    return ok;
}

static CUresult destroy_stream(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

static CUresult destroy_context(CUcontext context)
{
    (void)context;
    context_is_dead = true;
    return CUDA_SUCCESS;
}

static CUresult still_active(CUdevice device, unsigned *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = 1;
    return CUDA_SUCCESS;
}

static CUresult no_driver(void *unused, CUdeviceptr *ret_address)
{
    (void)unused, (void)ret_address;
    return CUDA_ERROR_UNKNOWN;
}

static CUdeviceptr allocate(struct nxm_order *order)
{
    bool refuse = false;
    CUdeviceptr address = 0;
    struct nxm_scope *scope = nxm_scope_enter_for(order, &refuse);

    assert_non_null(scope);
    scope->companion.vtable.ctx = &heard;
    scope->companion.vtable.order_gone = order_gone;
    scope->companion.vtable.context_gone = context_gone;
    scope->companion.vtable.cached_bytes = cached_bytes;
    assert_int_equal(nxm_serve_allocate(scope, order, 100, NXM_API_cuMemAlloc_v2, no_driver, NULL, &address), CUDA_SUCCESS);
    nxm_scope_leave(scope);
    return address;
}

static void a_stream_that_is_destroyed_is_told_to_every_allocator(void **state)
{
    struct nxm_order order, synchronous;
    (void)state;
    assert_int_equal(nxm_order_stream(FAKE_STREAM, false, &order), CUDA_SUCCESS);
    assert_int_equal(nxm_order_synchronous(&synchronous), CUDA_SUCCESS);
    allocate(&order);
    allocate(&synchronous);
    assert_int_equal(hook_cuStreamDestroy_v2(FAKE_STREAM), CUDA_SUCCESS);
    assert_int_equal(heard.orders_gone, 2);
    assert_int_equal(heard.key, order.cuda.stream_key);
    assert_int_not_equal(order.cuda.stream_key, 0);
}

static void count_listening(struct nxm_scope *scope, void *sum)
{
    *(unsigned *)sum += scope->device == 0 && scope->companion.vtable.context_gone != NULL;
}

/* First what the context owns goes back, then the companion hears of it while the context lives: that of the device's
 * stream-ordered memory too, which may keep an event there. */
static void a_context_is_told_gone_after_its_blocks_and_before_its_end(void **state)
{
    struct nxm_order synchronous, on_stream;
    (void)state;
    uint64_t before = live_blocks();
    unsigned listening = 0;
    fake.current = OTHER_CONTEXT;
    assert_int_equal(nxm_order_synchronous(&synchronous), CUDA_SUCCESS);
    assert_int_equal(nxm_order_stream(FAKE_STREAM, false, &on_stream), CUDA_SUCCESS);
    allocate(&synchronous);
    allocate(&on_stream);
    assert_int_equal(live_blocks(), before + 2);
    nxm_scope_each(count_listening, &listening); /* those two, and of a third context of the device there may be one */
    assert_in_range(listening, 2, 3);
    assert_int_equal(hook_cuCtxDestroy_v2(OTHER_CONTEXT), CUDA_SUCCESS);
    assert_int_equal(heard.context, (uintptr_t)OTHER_CONTEXT);
    assert_int_equal(heard.contexts_gone, listening);
    assert_int_equal(heard.live, before + 1);
    assert_false(heard.context_dead);
}

static CUresult destroy_under_allocations(CUcontext context)
{
    (void)context;
    allocate_in_dying();
    return CUDA_SUCCESS;
}

static CUresult reset_under_allocations(CUdevice device)
{
    (void)device;
    allocate_in_dying();
    return CUDA_SUCCESS;
}

static void nothing_is_opened_in_a_context_that_is_about_to_end(void **state)
{
    (void)state;
    fake.current = OTHER_CONTEXT;
    assert_int_equal(nxm_order_synchronous(&in_dying), CUDA_SUCCESS);
    allocate(&in_dying);
    nxm_real.cuCtxDestroy_v2 = destroy_under_allocations;
    assert_int_equal(hook_cuCtxDestroy_v2(OTHER_CONTEXT), CUDA_SUCCESS);
    assert_in_range(refused, 2, 4); /* when a companion was told, and in the driver */
    assert_int_equal(served, 0);
    allocate(&in_dying); /* its handle may come back for another */
    nxm_context_is_primary(0, OTHER_CONTEXT);
    nxm_real.cuDevicePrimaryCtxGetState = still_active;
    nxm_real.cuDevicePrimaryCtxReset_v2 = reset_under_allocations;
    assert_int_equal(hook_cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    assert_in_range(refused, 4, 8);
    assert_int_equal(served, 0);
    allocate_in_dying();
    assert_int_equal(served, 1);
    in_dying.context = NULL;
}

static CUresult from_green(CUcontext *context, CUgreenCtx green)
{
    *context = (CUcontext)green;
    return CUDA_SUCCESS;
}

static CUresult destroy_green(CUgreenCtx green)
{
    (void)green;
    context_is_dead = true;
    return CUDA_SUCCESS;
}

static void a_green_context_is_told_gone_before_its_end_and_its_memory_stays(void **state)
{
    struct nxm_order order;
    CUcontext green = NULL;
    (void)state;

    nxm_real.cuCtxFromGreenCtx = from_green;
    nxm_real.cuGreenCtxDestroy = destroy_green;
    nxm_context_is_primary(0, FAKE_CONTEXT);
    assert_int_equal(hook_cuCtxFromGreenCtx(&green, (CUgreenCtx)(uintptr_t)0x5000), CUDA_SUCCESS);
    fake.current = green;
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    assert_ptr_equal(order.context, FAKE_CONTEXT);
    allocate(&order);
    uint64_t before = live_blocks();
    nxm_real.cuDevicePrimaryCtxGetState = still_active;
    assert_int_equal(hook_cuGreenCtxDestroy((CUgreenCtx)green), CUDA_SUCCESS);
    assert_int_equal(heard.context, (uintptr_t)green);
    assert_false(heard.context_dead);
    assert_int_equal(live_blocks(), before);
}

static void what_a_companion_keeps_is_counted_as_free(void **state)
{
    struct nxm_order order;
    (void)state;
    uint64_t before = nxm_scope_cached_bytes();
    fake.current = (CUcontext)(uintptr_t)0x3000;
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    allocate(&order);
    assert_int_equal(nxm_scope_cached_bytes(), before + 1000);
    nxm_scope_close_context(fake.current);
    assert_int_equal(nxm_scope_cached_bytes(), before);
}

static _Atomic bool release_under_way;
static _Atomic unsigned retains, retains_inside;

static CUresult retain_primary(CUcontext *context, CUdevice device)
{
    (void)device;
    retains++;
    retains_inside += release_under_way;
    *context = FAKE_CONTEXT;
    return CUDA_SUCCESS;
}

static void *retain_from_elsewhere(void *unused)
{
    CUcontext context;

    hook_cuDevicePrimaryCtxRetain(&context, 0);
    return unused;
}

static pthread_t retainer;

static CUresult release_primary(CUdevice device)
{
    (void)device;
    release_under_way = true;
    assert_int_equal(pthread_create(&retainer, NULL, retain_from_elsewhere, NULL), 0);
    usleep(20000); /* long enough for the other thread, if nothing held it */
    release_under_way = false;
    return CUDA_SUCCESS;
}

static void no_retain_falls_into_a_release_that_may_be_the_last(void **state)
{
    (void)state;
    nxm_real.cuDevicePrimaryCtxRetain = retain_primary;
    nxm_real.cuDevicePrimaryCtxRelease_v2 = release_primary;
    assert_int_equal(hook_cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
    pthread_join(retainer, NULL);
    assert_int_equal(retains, 1);
    assert_int_equal(retains_inside, 0);
}

static NxmemStatus never_called(void *ctx, const NxmemCudaOrder *order, const NxmemAllocation *allocation, uint64_t *ticket)
{
    NxmemStatus status = { 0 };

    (void)ctx, (void)order, (void)allocation, (void)ticket;
    fail();
    return status;
}

static void what_contradicts_itself_is_not_believed(void **state)
{
    const uint64_t both = NXMEM_CUDA_TRAIT_RELEASE_NEVER_WAITS | NXMEM_CUDA_TRAIT_RELEASE_WAITS_LIKE_DRIVER;
    NxmemCudaVtable companion = { .enqueue_release_on = never_called, .traits = both | NXMEM_CUDA_TRAIT_RDMA };
    (void)state;

    nxm_companion_settle("test", NXMEM_CAPABILITY_ALLOCATOR | NXMEM_CAPABILITY_DEFERRED_RELEASE, &companion);
    assert_non_null(companion.enqueue_release_on);
    assert_int_equal(companion.traits, NXMEM_CUDA_TRAIT_RDMA);
    companion.traits = NXMEM_CUDA_TRAIT_RELEASE_NEVER_WAITS;
    nxm_companion_settle("test", NXMEM_CAPABILITY_ALLOCATOR, &companion);
    assert_null(companion.enqueue_release_on);
    assert_int_equal(companion.traits, NXMEM_CUDA_TRAIT_RELEASE_NEVER_WAITS);
}

static int begin(void **state)
{
    (void)state;
    setenv("NXMEM_PLUGIN", NXM_TEST_PLUGIN, 1);
    setenv("NXMEM_HOST_AS_DEVICE", "1", 1);
    fake_driver_reset();
    enum nxm_mode mode = nxm_enter(NULL, true);
    nxm_leave(mode);
    return mode == NXM_MODE_SERVE && nxm_plugin() ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    nxm_scope_close_all(); /* what the tests left live goes back */
    return 0;
}

static int reset(void **state)
{
    (void)state;
    fake_driver_reset();
    nxm_real.cuStreamDestroy_v2 = destroy_stream;
    nxm_real.cuCtxDestroy_v2 = destroy_context;
    heard = (__typeof__(heard)){ 0 };
    context_is_dead = false;
    return 0;
}

int main(void)
{
#define NOTIFY(test) cmocka_unit_test_setup(test, reset)
    const struct CMUnitTest tests[] = {
        NOTIFY(a_stream_that_is_destroyed_is_told_to_every_allocator),
        NOTIFY(a_context_is_told_gone_after_its_blocks_and_before_its_end),
        NOTIFY(nothing_is_opened_in_a_context_that_is_about_to_end),
        NOTIFY(a_green_context_is_told_gone_before_its_end_and_its_memory_stays),
        NOTIFY(what_a_companion_keeps_is_counted_as_free),
        NOTIFY(no_retain_falls_into_a_release_that_may_be_the_last),
        NOTIFY(what_contradicts_itself_is_not_believed),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
