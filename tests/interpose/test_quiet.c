/* Quiet calls: when they are, who waits for them, and how they end when they do not end quietly. The mechanism is the test's own: it
 * stands in a scope of the `host` plugin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/allocator_state.h"
#include "fake_driver.h"
#include "interpose/calm.h"
#include "interpose/capture.h"
#include "interpose/door.h"
#include "interpose/hook.h"
#include "interpose/lane.h"
#include "interpose/lifecycle.h"
#include "interpose/owned.h"
#include "interpose/quiet.h"
#include "interpose/summary.h"
#include "interpose/tally.h"

#define BYTES 0x10000u
#define PLACES 64
static _Alignas(4096) char ground[PLACES * BYTES]; /* what the mechanism hands out; nobody touches it */
static bool given[PLACES];

static struct nxm_scope *scope;
static struct mechanism {
    unsigned asked, asked_quietly, released;
    uint32_t fails, refuses;  /* with that status */
    bool keeps;               /* what is released stays queued */
    bool scribbles;           /* over what it is told to release */
    uint64_t kept_id, kept_ticket;
    NxmemAllocResult answers; /* with that, if its size is not 0 */
    NxmemCudaOrder order;     /* of the last call */
    uint64_t told[2];         /* what it was told to be, of the last calls */
    NxmemDeviceId devices[2];
    void (*inside)(CUdeviceptr address);
} mechanism;

static NxmemStatus status_of(uint32_t code)
{
    return (NxmemStatus){ .code = code };
}

static NxmemStatus allocate_on(void *ctx, const NxmemCudaOrder *order, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    int at = 0;

    (void)ctx;
    mechanism.asked++;
    mechanism.asked_quietly += nxm_thread.busy == NXM_QUIETLY_ALLOCATES;
    mechanism.order = *order;
    mechanism.told[0] = request->mechanism_id;
    mechanism.devices[0] = request->device;
    if (mechanism.inside)
        mechanism.inside(0);
    if (mechanism.fails)
        return status_of(mechanism.fails);
    while (given[at])
        at++;
    given[at] = true;
    result->ptr = (uint8_t *)ground + (size_t)at * BYTES;
    result->owned_bytes = result->mapped_bytes = request->bytes;
    if (mechanism.answers.struct_size)
        *result = mechanism.answers;
    return status_of(NXMEM_STATUS_OK);
}

static void take_back(const void *ptr)
{
    given[((const char *)ptr - ground) / BYTES] = false;
}

static uint32_t complete(uint64_t id, uint64_t ticket)
{
    NxmemReleaseCompletion completion = {
        .struct_size = sizeof completion,
        .mechanism_id = scope->allocator->vtable.mechanism_id,
        .allocation_id = id,
        .ticket = ticket,
        .outcome = { .struct_size = sizeof completion.outcome, .unmapped_bytes = BYTES },
    };

    return scope->allocator->callbacks.release_completed(scope->allocator->callbacks.host_ctx, &completion).code;
}

static NxmemStatus enqueue_release_on(void *ctx, const NxmemCudaOrder *order, const NxmemAllocation *allocation, uint64_t *ticket)
{
    (void)ctx;
    mechanism.released++;
    mechanism.order = *order;
    mechanism.told[1] = allocation->mechanism_id;
    mechanism.devices[1] = allocation->device;
    *ticket = allocation->allocation_id;
    if (mechanism.inside)
        mechanism.inside((uintptr_t)allocation->ptr);
    if (mechanism.scribbles)
        *(NxmemAllocation *)(uintptr_t)allocation = (NxmemAllocation){ .ptr = (uint8_t *)ground + 1 };
    if (mechanism.refuses)
        return status_of(mechanism.refuses);
    take_back(allocation->ptr);
    mechanism.kept_id = allocation->allocation_id;
    mechanism.kept_ticket = *ticket;
    if (!mechanism.keeps)
        complete(allocation->allocation_id, *ticket);
    return status_of(NXMEM_STATUS_OK);
}

/* What scope.c does for a mechanism with a companion of its own. */
static void bend(struct nxm_scope *bent)
{
    bent->companion.vtable.allocate_on = allocate_on;
    bent->companion.vtable.enqueue_release_on = enqueue_release_on;
    bent->order = (NxmemCudaOrder){ .struct_size = sizeof bent->order, .context = (uint64_t)(uintptr_t)bent->context };
    bent->quiet = true;
}

static CUdeviceptr allocate(void)
{
    CUdeviceptr address = 0;

    assert_int_equal(hook_cuMemAlloc_v2(&address, BYTES), CUDA_SUCCESS);
    return address;
}

static bool quietly(void)
{
    unsigned before = mechanism.asked_quietly;

    assert_int_equal(hook_cuMemFree_v2(allocate()), CUDA_SUCCESS);
    return mechanism.asked_quietly != before;
}

/* The thread's seats have their entries, the shards their records, and it knows its place. */
static void calm_down(void)
{
    for (unsigned i = 0; i < 2 * NXM_QUEUED_SEATS / NXM_SPREAD_LINES * NXM_IDS_ROW; i++)
        assert_int_equal(hook_cuMemFree_v2(allocate()), CUDA_SUCCESS);
    assert_true(quietly());
}

static int reset(void **state)
{
    struct nxm_order order;
    bool refuse;

    (void)state;
    fake_driver_reset();
    memset(&mechanism, 0, sizeof mechanism);
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    scope = nxm_scope_enter_for(&order, &refuse);
    assert_non_null(scope);
    bend(scope);
    nxm_scope_leave(scope);
    calm_down();
    mechanism = (struct mechanism){ 0 };
    return 0;
}

static void assert_at_rest(void)
{
    assert_int_equal(nxm_thread.busy, 0);
    assert_int_equal(nxm_door_announced(NULL), 0);
    assert_int_equal(nxm_door_wait(), 0);
    assert_int_equal(nxm_spread_sum(scope->counts, NXM_SCOPE_USERS), 0);
}

/* --- when they are ------------------------------------------------------------------------------------------------------ */

static unsigned seen_announced, seen_here, seen_inside, seen_foreign;

static void look(CUdeviceptr address)
{
    (void)address;
    seen_announced = nxm_door_announced(NULL);
    seen_here = nxm_door_announced(scope);
    seen_inside = nxm_thread.inside;
    seen_foreign = nxm_thread.foreign;
    assert_int_equal(nxm_enter(NULL, true), NXM_MODE_NESTED);
}

static void a_quiet_call_is_announced_and_the_plugins_own_calls_are_known(void **state)
{
    (void)state;
    mechanism.inside = look;
    CUdeviceptr address = allocate();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(seen_announced, 1);
        assert_int_equal(seen_here, 1);
        assert_int_not_equal(seen_inside, 0);
        assert_int_equal(seen_foreign, 1);
        assert_int_equal(mechanism.order.struct_size, sizeof mechanism.order);
        assert_int_equal(mechanism.order.kind, NXMEM_CUDA_ORDER_SYNCHRONOUS);
        assert_int_equal(mechanism.order.context, (uint64_t)(uintptr_t)FAKE_CONTEXT);
        seen_announced = seen_here = seen_inside = seen_foreign = 0;
        mechanism.order = (NxmemCudaOrder){ 0 };
        if (i == 0)
            assert_int_equal(hook_cuMemFree_v2(address), CUDA_SUCCESS);
    }
    assert_int_equal(mechanism.asked_quietly, 1);
    assert_at_rest();
}

static void call_the_driver(CUdeviceptr address)
{
    CUdeviceptr own = 0;

    (void)address;
    assert_int_equal(hook_cuMemAlloc_v2(&own, 7), CUDA_SUCCESS);
    assert_int_equal(hook_cuMemFree_v2(own), CUDA_SUCCESS);
}

static void what_the_plugin_calls_inside_a_quiet_call_is_the_drivers(void **state)
{
    (void)state;
    mechanism.inside = call_the_driver;
    CUdeviceptr address = allocate();
    assert_int_equal(fake.allocs, 1);
    assert_int_equal(fake.frees, 1);
    assert_int_equal(mechanism.asked, 1);
    assert_int_equal(nxm_thread.busy, 0);
    assert_int_equal(hook_cuMemFree_v2(address), CUDA_SUCCESS);
    assert_int_equal(fake.allocs, 2);
    assert_at_rest();
}

/* The first call after it goes the general way, and what comes next is quiet again. */
static void assert_looks_anew(void)
{
    assert_false(quietly());
    assert_true(quietly());
}

static void each_reason_ends_the_calm_for_as_long_as_it_lasts(void **state)
{
    struct nxm_block block = { .bytes = 1, .address = 0x123400, .tag = (uintptr_t)scope };
    (void)state;
    nxm_capture_announce();
    assert_int_equal(nxm_calm_now(), 0);
    assert_true(nxm_capture_begun(FAKE_STREAM, false, CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE));
    assert_looks_anew();
    nxm_unrest_begin();
    nxm_unrest_begin();
    nxm_unrest_end();
    assert_false(quietly());
    assert_false(quietly());
    nxm_unrest_end();
    assert_looks_anew();
    nxm_calm_renew();
    assert_looks_anew();
    nxm_context_is_green(OTHER_CONTEXT, OTHER_CONTEXT);
    assert_looks_anew();
    nxm_context_forget(OTHER_CONTEXT);
    assert_looks_anew();
    assert_int_not_equal(nxm_calm_now(), 0);
    struct nxm_waiting *waiting = nxm_waiting_new(&block);
    waiting->context = FAKE_CONTEXT;
    nxm_lane_append(1, waiting);
    assert_int_equal(nxm_calm_now(), 0);
    nxm_lane_context_gone(FAKE_CONTEXT, true);
    assert_int_not_equal(nxm_calm_now(), 0);
    assert_at_rest();
}

static void in_another_context_nothing_is_quiet(void **state)
{
    unsigned asked = mechanism.asked;
    (void)state;
    fake.current = OTHER_CONTEXT;
    assert_int_equal(hook_cuMemFree_v2(allocate()), CUDA_SUCCESS);
    assert_int_equal(mechanism.asked, asked); /* it has a scope of its own */
    fake.current = FAKE_CONTEXT;
    assert_looks_anew();
}

static void assert_told(const struct nxm_scope *there)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mechanism.told[i], there->allocator->vtable.mechanism_id);
        assert_memory_equal(&mechanism.devices[i], &there->allocator->device, sizeof(NxmemDeviceId));
    }
}

static void each_scope_is_told_what_it_is(void **state)
{
    struct nxm_scope *here = scope, *there;
    (void)state;
    assert_true(quietly());
    assert_told(here);
    fake.current = OTHER_CONTEXT;
    assert_int_equal(hook_cuMemFree_v2(allocate()), CUDA_SUCCESS);
    there = nxm_thread.scopes[0];
    assert_ptr_not_equal(there, here);
    assert_int_not_equal(there->allocator->vtable.mechanism_id, here->allocator->vtable.mechanism_id);
    struct nxm_scope before = *there;
    bend(there);
    scope = there;
    calm_down();
    assert_told(there);
    scope = here;
    there->companion = before.companion;
    there->quiet = before.quiet;
    fake.current = FAKE_CONTEXT;
    assert_looks_anew();
    assert_told(here);
}

static CUresult cannot_say(CUcontext *context)
{
    (void)context;
    return CUDA_ERROR_DEINITIALIZED;
}

static void a_context_that_nobody_can_say_is_none(void **state)
{
    CUresult (*say)(CUcontext *) = nxm_real.cuCtxGetCurrent;
    unsigned asked = mechanism.asked, allocs = fake.allocs;
    CUdeviceptr address = 0;
    (void)state;
    nxm_real.cuCtxGetCurrent = cannot_say;
    assert_int_equal(hook_cuMemAlloc_v2(&address, BYTES), CUDA_SUCCESS);
    nxm_real.cuCtxGetCurrent = say;
    assert_int_equal(mechanism.asked, asked);
    assert_int_equal(fake.allocs, allocs + 1);
    assert_int_equal(hook_cuMemFree_v2(address), CUDA_SUCCESS);
}

static void what_is_no_whole_size_is_not_asked_of_the_plugin(void **state)
{
    CUdeviceptr address = 7;
    (void)state;
    fake.alloc_result = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(hook_cuMemAlloc_v2(&address, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(hook_cuMemAlloc_v2(NULL, BYTES), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(hook_cuMemAlloc_v2(&address, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(hook_cuMemAlloc_v2(&address, SIZE_MAX - NXM_DEVICE_ALIGN + 2), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(address, 7);
    assert_int_equal(mechanism.asked, 0);
    assert_true(nxm_quiet_may_ask(1));
    assert_true(nxm_quiet_may_ask(SIZE_MAX - NXM_DEVICE_ALIGN + 1));
    assert_false(nxm_quiet_may_ask(SIZE_MAX - NXM_DEVICE_ALIGN + 2));
    assert_false(nxm_quiet_may_ask(0));
    assert_at_rest();
}

static void a_child_is_never_calm(void **state)
{
    int status = -1;
    (void)state;
    assert_int_not_equal(nxm_calm_now(), 0);
    pid_t child = fork();
    if (child == 0) {
        nxm_unrest_begin();
        nxm_unrest_end();
        syscall(SYS_exit_group, nxm_is_calm(nxm_thread.place.calm) ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(nxm_is_calm(nxm_thread.place.calm));
}

static void *allocate_on_a_shared_line(void *unused)
{
    (void)unused;
    nxm_own.spread = sizeof(struct nxm_spread_line); /* as after a hundred others */
    for (int i = 0; i < 3; i++)
        hook_cuMemFree_v2(allocate());
    return (void *)(uintptr_t)(nxm_thread.place.calm == NXM_NEVER_CALM && !nxm_thread.announcement); /* it writes where no other does */
}

static void a_thread_without_a_line_of_its_own_is_never_quiet(void **state)
{
    pthread_t thread;
    void *never;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, allocate_on_a_shared_line, NULL), 0);
    assert_int_equal(pthread_join(thread, &never), 0);
    assert_non_null(never);
    assert_int_equal(mechanism.asked_quietly, 0);
    assert_int_equal(mechanism.asked, 3);
}

static void own_range(CUdeviceptr address)
{
    (void)address;
    nxm_owned_allocated(CUDA_SUCCESS, 0xAAA0000, 1);
}

static void what_the_plugin_allocates_for_a_block_is_the_block_itself(void **state)
{
    (void)state;
    mechanism.inside = own_range;
    scope->block_is_range = true;
    CUdeviceptr address = allocate();
    assert_false(nxm_owned_contains(0xAAA0000));
    assert_int_equal(hook_cuMemFree_v2(address), CUDA_SUCCESS);
    assert_true(nxm_owned_contains(0xAAA0000)); /* that was for no block */
    nxm_owned_take(0xAAA0000);
    scope->block_is_range = false;
    mechanism.inside = own_range;
    address = allocate();
    assert_true(nxm_owned_contains(0xAAA0000));
    nxm_owned_take(0xAAA0000);
    mechanism.inside = NULL;
    assert_int_equal(hook_cuMemFree_v2(address), CUDA_SUCCESS);
}

/* --- how else they end -------------------------------------------------------------------------------------------------- */

static void a_refused_allocation_is_asked_for_once(void **state)
{
    CUdeviceptr address = 7;
    (void)state;
    mechanism.fails = NXMEM_STATUS_OUT_OF_MEMORY;
    assert_int_equal(hook_cuMemAlloc_v2(&address, BYTES), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(mechanism.asked, 1);
    assert_int_equal(mechanism.asked_quietly, 1);
    assert_int_equal(address, 7);
    assert_int_equal(fake.allocs, 0);
    assert_at_rest();
    mechanism.fails = 0;
    assert_true(quietly());
}

static void fail_in_the_driver(CUdeviceptr address)
{
    (void)address;
    nxm_owned_allocated(CUDA_ERROR_ILLEGAL_ADDRESS, 0, 1);
}

/* A plugin's failing driver call names the error of the call that it was made for. */
static void an_error_of_the_driver_is_of_one_call(void **state)
{
    CUdeviceptr address = 7;
    (void)state;
    mechanism.inside = fail_in_the_driver;
    assert_true(quietly());
    mechanism.fails = NXMEM_STATUS_DEVICE_ERROR;
    assert_int_equal(hook_cuMemAlloc_v2(&address, BYTES), CUDA_ERROR_ILLEGAL_ADDRESS);
    mechanism.inside = NULL;
    mechanism.fails = 0;
    assert_true(quietly());
    nxm_thread.nested_error = CUDA_ERROR_ILLEGAL_ADDRESS;
    mechanism.fails = NXMEM_STATUS_DEVICE_ERROR;
    assert_int_equal(hook_cuMemAlloc_v2(&address, BYTES), CUDA_ERROR_OUT_OF_MEMORY);
}

static void rise_and_fall(CUdeviceptr address)
{
    (void)address;
    nxm_unrest_begin();
    nxm_unrest_end();
}

/* Something may have come back meanwhile. */
static void a_refused_allocation_is_asked_for_again_when_it_was_not_calm(void **state)
{
    CUdeviceptr address = 7;
    (void)state;
    mechanism.fails = NXMEM_STATUS_OUT_OF_MEMORY;
    mechanism.inside = rise_and_fall;
    assert_int_equal(hook_cuMemAlloc_v2(&address, BYTES), CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(mechanism.asked > 1);
    assert_at_rest();
}

static void what_is_answered_oddly_is_recorded_the_general_way(void **state)
{
    struct nxm_block block;
    (void)state;
    mechanism.answers = (NxmemAllocResult){ .struct_size = sizeof mechanism.answers, .ptr = (uint8_t *)ground, .owned_bytes = 2 * BYTES,
                                            .mapped_bytes = BYTES };
    CUdeviceptr address = allocate();
    assert_int_equal(mechanism.asked, 1);
    assert_int_equal(nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &block), NXM_OK);
    assert_int_equal(block.owned, 2 * BYTES);
    assert_int_equal(block.api, NXM_API_cuMemAlloc_v2);
    assert_int_equal(block.tag, (uintptr_t)scope);
    assert_int_equal(block.context, (uintptr_t)FAKE_CONTEXT);
    assert_int_equal(block.class_, NXM_CLASS_DEVICE);
    assert_int_equal(hook_cuMemFree_v2(address), CUDA_SUCCESS);
    assert_at_rest();
}

static void a_refused_free_leaves_the_block_live(void **state)
{
    struct nxm_block before, block;
    CUdeviceptr address = allocate();
    (void)state;
    assert_int_equal(nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &before), NXM_OK);
    mechanism.refuses = NXMEM_STATUS_BUSY;
    assert_int_not_equal(hook_cuMemFree_v2(address), CUDA_SUCCESS);
    assert_int_equal(mechanism.released, 1);
    assert_int_equal(nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &block), NXM_OK);
    assert_memory_equal(&block, &before, sizeof block);
    assert_int_equal(nxm_spread_sum(scope->counts, NXM_SCOPE_PINS), 0);
    assert_at_rest();
    mechanism.refuses = 0;
    assert_int_equal(hook_cuMemFree_v2(address), CUDA_SUCCESS);
}

static void a_plugin_that_writes_where_it_is_told_of_a_block_moves_no_record(void **state)
{
    struct nxm_block before, block;
    CUdeviceptr address = allocate();
    (void)state;
    assert_int_equal(nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &before), NXM_OK);
    mechanism.refuses = NXMEM_STATUS_BUSY;
    mechanism.scribbles = true;
    assert_int_not_equal(hook_cuMemFree_v2(address), CUDA_SUCCESS);
    assert_int_equal(nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &block), NXM_OK);
    assert_memory_equal(&block, &before, sizeof block);
    mechanism.refuses = 0;
    mechanism.scribbles = false;
    assert_int_equal(hook_cuMemFree_v2(address), CUDA_SUCCESS);
    assert_int_equal(nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &block), NXM_ENOENT);
}

static void a_free_that_stays_pins_the_scope_until_it_is_over(void **state)
{
    struct nxm_block block;
    CUdeviceptr address = allocate();
    (void)state;
    mechanism.keeps = true;
    assert_int_equal(hook_cuMemFree_v2(address), CUDA_SUCCESS);
    assert_int_equal(nxm_spread_sum(scope->counts, NXM_SCOPE_PINS), 1);
    assert_int_equal(nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &block), NXM_OK);
    assert_int_equal(block.state, NXM_BLOCK_RELEASING);
    assert_int_equal(block.api, NXM_API_cuMemAlloc_v2);
    assert_at_rest();
    assert_int_equal(complete(mechanism.kept_id, mechanism.kept_ticket), NXMEM_STATUS_OK);
    assert_int_equal(nxm_spread_sum(scope->counts, NXM_SCOPE_PINS), 0);
    assert_int_equal(nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &block), NXM_ENOENT);
}

static CUresult second_free;

static void *free_it(void *address)
{
    second_free = hook_cuMemFree_v2((uintptr_t)address);
    return NULL;
}

static void free_again(CUdeviceptr address)
{
    pthread_t thread;

    mechanism.inside = NULL;
    assert_int_equal(pthread_create(&thread, NULL, free_it, (void *)(uintptr_t)address), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* The table does not know it for a moment, and the driver may. */
static void a_second_free_during_a_quiet_one_never_reaches_the_driver(void **state)
{
    uint64_t misuse = nxm_tally(NXM_COUNT_MISUSE);
    CUdeviceptr address = allocate();
    (void)state;
    mechanism.inside = free_again;
    assert_int_equal(hook_cuMemFree_v2(address), CUDA_SUCCESS);
    assert_int_equal(second_free, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(fake.frees, 0);
    assert_int_equal(mechanism.released, 1);
    assert_int_equal(nxm_tally(NXM_COUNT_MISUSE), misuse + 1);
    assert_at_rest();
}

static unsigned shown;

static void show_for_a_report(CUdeviceptr address)
{
    struct nxm_class_totals totals;
    struct nxm_report report = { 0 };
    struct nxm_block block;

    nxm_summary_fill(&report);
    shown = nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &block) == NXM_OK && block.state == NXM_BLOCK_RELEASING;
    nxm_allocator_show_releasing(scope->allocator); /* once */
    nxm_blocks_totals(nxm_table(NXM_TABLE_MEMORY), NXM_CLASS_DEVICE, &totals);
    shown += totals.live_blocks == 1 && totals.live_bytes == BYTES;
}

static void a_report_shows_what_is_being_released_quietly(void **state)
{
    struct nxm_block before, block;
    CUdeviceptr address = allocate();
    (void)state;
    nxm_allocator_show_releasing(scope->allocator); /* nothing of that */
    assert_int_equal(nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &before), NXM_OK);
    assert_int_equal(before.state, NXM_BLOCK_LIVE);
    mechanism.inside = show_for_a_report;
    assert_int_equal(hook_cuMemFree_v2(address), CUDA_SUCCESS);
    assert_int_equal(shown, 2);
    assert_int_equal(nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &block), NXM_OK);
    assert_int_equal(nxm_blocks_remove(nxm_table(NXM_TABLE_MEMORY), address, before.id), NXM_OK);
    assert_at_rest();
}

/* --- who waits for them ------------------------------------------------------------------------------------------------- */

static _Atomic bool is_inside, may_go;

static void stay(CUdeviceptr address)
{
    (void)address;
    mechanism.inside = NULL;
    atomic_store(&is_inside, true);
    while (!atomic_load(&may_go))
        sched_yield();
}

static void *one_quiet_call(void *unused)
{
    (void)unused;
    quietly(); /* gets to know its place */
    mechanism.inside = stay;
    return (void *)(uintptr_t)allocate();
}

static void a_scope_is_not_given_up_under_a_quiet_call(void **state)
{
    pthread_t thread;
    (void)state;
    atomic_store(&is_inside, false);
    atomic_store(&may_go, false);
    assert_int_equal(pthread_create(&thread, NULL, one_quiet_call, NULL), 0);
    while (!atomic_load(&is_inside))
        sched_yield();
    assert_int_equal(nxm_door_announced(scope), 1);
    assert_int_equal(nxm_door_wait(), 1);
    struct nxm_scope *closed = scope;
    nxm_scope_close_context(FAKE_CONTEXT);
    assert_non_null(closed->allocator); /* he is in its plugin */
    mechanism.asked_quietly = 0;
    atomic_store(&may_go, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_null(closed->allocator); /* and was the last to leave */
    assert_int_equal(nxm_door_announced(NULL), 0);
    CUdeviceptr address = 0;
    assert_int_equal(hook_cuMemAlloc_v2(&address, BYTES), CUDA_SUCCESS); /* in the next scope: not the test's */
    assert_int_equal(mechanism.asked_quietly, 0);
    assert_int_equal(hook_cuMemFree_v2(address), CUDA_SUCCESS);
}

static void into_a_scope_that_is_shut_nobody_goes_quietly(void **state)
{
    static struct nxm_ending ending;
    CUdeviceptr address = 0;
    (void)state;
    nxm_scope_ending_begin(&ending, FAKE_CONTEXT);
    nxm_scope_shut_context(&ending);
    assert_int_equal(hook_cuMemAlloc_v2(&address, BYTES), CUDA_SUCCESS);
    assert_int_equal(mechanism.asked, 0);
    assert_int_equal(fake.allocs, 1); /* the driver serves meanwhile */
    assert_int_equal(hook_cuMemFree_v2(address), CUDA_SUCCESS);
    nxm_scope_give_up(&ending);
    nxm_scope_ending_end(&ending);
}

static void close_the_door_and_free_again(CUdeviceptr address)
{
    nxm_door_close();
    free_again(address);
}

/* The door closes under a quiet free, and stays closed: the last test. */
static void behind_the_door_nothing_is_quiet_and_a_second_free_is_known(void **state)
{
    uint64_t misuse = nxm_tally(NXM_COUNT_MISUSE);
    (void)state;
    CUdeviceptr address = allocate(), released_meanwhile = allocate();
    mechanism.inside = close_the_door_and_free_again;
    assert_int_equal(hook_cuMemFree_v2(released_meanwhile), CUDA_SUCCESS);
    assert_int_equal(second_free, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(fake.frees, 0);
    assert_int_equal(nxm_tally(NXM_COUNT_MISUSE), misuse + 1);
    assert_int_equal(mechanism.released, 1);
    assert_int_equal(nxm_calm_now(), 0);
    hook_cuMemFree_v2(address);
    assert_int_equal(mechanism.released, 1);
    assert_int_equal(nxm_door_wait(), 0);
}

static int begin(void **state)
{
    (void)state;
    fake_driver_reset();
    setenv("NXMEM_PLUGIN", NXM_TEST_PLUGIN, 1);
    setenv("NXMEM_HOST_AS_DEVICE", "1", 1);
    setenv("NXMEM_STACKS", "0", 1);
    enum nxm_mode mode = nxm_enter(NULL, true);
    nxm_leave(mode);
    return mode != NXM_MODE_SERVE;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, reset)
    const struct CMUnitTest tests[] = {
        TEST(a_quiet_call_is_announced_and_the_plugins_own_calls_are_known),
        TEST(what_the_plugin_calls_inside_a_quiet_call_is_the_drivers),
        TEST(in_another_context_nothing_is_quiet),
        TEST(each_scope_is_told_what_it_is),
        TEST(a_context_that_nobody_can_say_is_none),
        TEST(an_error_of_the_driver_is_of_one_call),
        TEST(what_is_no_whole_size_is_not_asked_of_the_plugin),
        TEST(a_child_is_never_calm),
        TEST(a_thread_without_a_line_of_its_own_is_never_quiet),
        TEST(what_the_plugin_allocates_for_a_block_is_the_block_itself),
        TEST(a_refused_allocation_is_asked_for_once),
        TEST(a_refused_allocation_is_asked_for_again_when_it_was_not_calm),
        TEST(what_is_answered_oddly_is_recorded_the_general_way),
        TEST(a_refused_free_leaves_the_block_live),
        TEST(a_plugin_that_writes_where_it_is_told_of_a_block_moves_no_record),
        TEST(a_free_that_stays_pins_the_scope_until_it_is_over),
        TEST(a_second_free_during_a_quiet_one_never_reaches_the_driver),
        TEST(a_report_shows_what_is_being_released_quietly),
        TEST(a_scope_is_not_given_up_under_a_quiet_call),
        TEST(into_a_scope_that_is_shut_nobody_goes_quietly),
        TEST(each_reason_ends_the_calm_for_as_long_as_it_lasts),
        TEST(behind_the_door_nothing_is_quiet_and_a_second_free_is_known),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
