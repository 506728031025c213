/* direct against a fake driver: which call each request becomes, and what stays true when the driver or
 * the host refuses. Runs itself again (argument "--open") where the loader's view must be another. */
#include "tests/plugins/driver_fixture.h"

#include <cuda.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* --- which driver call a request becomes --- */

static void plain_slots_are_cuMemAlloc_and_cuMemFree(void **state)
{
    struct fixture *f = *state;
    NxmemAllocation first = must_allocate(f->vtable, 1, 1000, 512);
    NxmemAllocation second = must_allocate(f->vtable, 2, 1000, 1);
    uint64_t unmapped = 7;
    uint32_t release_state;

    assert_int_equal(fixture_calls(f, FAKE_MEM_ALLOC), 2);
    assert_int_equal(release_now(f->vtable, &first, &release_state), NXMEM_STATUS_OK);
    assert_int_equal(release_state, NXMEM_RELEASE_COMPLETE);
    assert_int_equal(f->vtable->deallocate(f->ctx, &second, &unmapped).code, NXMEM_STATUS_OK);
    assert_int_equal(unmapped, 1000);
    assert_int_equal(fixture_calls(f, FAKE_MEM_FREE), 2);
    assert_int_equal(f->cuda->live, 0);
    assert_int_equal(f->plugin.host.completions, 0);
}

static void each_order_becomes_its_own_driver_call(void **state)
{
    static const struct {
        uint32_t kind, flags;
        enum fake_call allocate, release;
    } rows[] = {
        {NXMEM_CUDA_ORDER_SYNCHRONOUS, 0, FAKE_MEM_ALLOC, FAKE_MEM_FREE},
        {NXMEM_CUDA_ORDER_STREAM, 0, FAKE_ALLOC_ASYNC, FAKE_FREE_ASYNC},
        {NXMEM_CUDA_ORDER_STREAM, NXMEM_CUDA_ORDER_FLAG_PER_THREAD, FAKE_ALLOC_ASYNC_PTSZ, FAKE_FREE_ASYNC_PTSZ},
        {NXMEM_CUDA_ORDER_POOL, 0, FAKE_FROM_POOL, FAKE_FREE_ASYNC},
        {NXMEM_CUDA_ORDER_POOL, NXMEM_CUDA_ORDER_FLAG_PER_THREAD, FAKE_FROM_POOL_PTSZ, FAKE_FREE_ASYNC_PTSZ},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t stream = rows[i].kind == NXMEM_CUDA_ORDER_SYNCHRONOUS ? 0 : 0x1000 + i;
        uint64_t pool = rows[i].kind == NXMEM_CUDA_ORDER_POOL ? 0x2000 + i : 0;
        NxmemCudaOrder order = order_of(rows[i].kind, stream, pool, rows[i].flags);
        int allocations = fixture_calls(f, rows[i].allocate), releases = fixture_calls(f, rows[i].release);
        NxmemAllocation block = must_allocate_on(f->vtable, f->companion, &order, 1 + i, 100);

        assert_int_equal(fixture_calls(f, rows[i].allocate), allocations + 1);
        if (stream != 0)
            assert_int_equal(f->cuda->last_stream, stream);
        assert_int_equal(f->cuda->last_pool, pool);
        if (order.kind == NXMEM_CUDA_ORDER_POOL)
            order = order_of(NXMEM_CUDA_ORDER_STREAM, stream + 1, 0, rows[i].flags);
        assert_int_equal(fixture_enqueue_on(f, &order, &block).code, NXMEM_STATUS_OK);
        assert_int_equal(fixture_calls(f, rows[i].release), releases + 1);
        if (stream != 0)
            assert_int_equal(f->cuda->last_stream, order.stream);
        assert_int_equal(f->cuda->live, 0);
    }
}

static void memory_may_be_released_on_another_kind_of_order(void **state)
{
    struct fixture *f = *state;
    NxmemCudaOrder stream = order_of(NXMEM_CUDA_ORDER_STREAM, 5, 0, 0);
    NxmemCudaOrder synchronous = order_of(NXMEM_CUDA_ORDER_SYNCHRONOUS, 0, 0, 0);
    NxmemAllocation first = must_allocate_on(f->vtable, f->companion, &stream, 1, 100);
    NxmemAllocation second = must_allocate(f->vtable, 2, 100, 512);

    assert_int_equal(fixture_enqueue_on(f, &synchronous, &first).code, NXMEM_STATUS_OK);
    assert_int_equal(fixture_enqueue_on(f, &stream, &second).code, NXMEM_STATUS_OK);
    assert_int_equal(fixture_calls(f, FAKE_MEM_FREE), 1);
    assert_int_equal(fixture_calls(f, FAKE_FREE_ASYNC), 1);
}

static void orders_it_does_not_understand_are_refused_untouched(void **state)
{
    struct fixture *f = *state;
    NxmemAllocation block = must_allocate(f->vtable, 1, 100, 512);
    NxmemCudaOrder order = order_of(NXMEM_CUDA_ORDER_POOL + 1, 5, 0, 0);

    assert_int_equal(fixture_enqueue_on(f, &order, &block).code, NXMEM_STATUS_INVALID_ARGUMENT);
    order = order_of(NXMEM_CUDA_ORDER_STREAM, 5, 0, 2);
    assert_int_equal(fixture_enqueue_on(f, &order, &block).code, NXMEM_STATUS_INVALID_ARGUMENT);
    order = order_of(NXMEM_CUDA_ORDER_POOL, 5, 6, 0);
    assert_int_equal(fixture_enqueue_on(f, &order, &block).code, NXMEM_STATUS_INVALID_ARGUMENT);
    order.struct_size--;
    assert_int_equal(fixture_enqueue_on(f, &order, &block).code, NXMEM_STATUS_SHORT_STRUCT);
    assert_int_equal(fixture_enqueue_on(f, NULL, &block).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(f->plugin.host.completions, 0);
    assert_int_equal(release_now(f->vtable, &block, NULL), NXMEM_STATUS_OK);
}

static void it_never_initialises_cuda_nor_touches_contexts(void **state)
{
    struct fixture *f = *state;
    NxmemCudaOrder order = order_of(NXMEM_CUDA_ORDER_STREAM, 5, 0, 0);
    NxmemAllocation block = must_allocate_on(f->vtable, f->companion, &order, 1, 100);

    assert_int_equal(fixture_enqueue_on(f, &order, &block).code, NXMEM_STATUS_OK);
    for (int call = FAKE_INIT; call < FAKE_CALLS; call++)
        assert_int_equal(fixture_calls(f, (enum fake_call)call), 0);
}

static void the_companion_states_what_direct_promises(void **state)
{
    struct fixture *f = *state;
    NxmemAllocatorVtable foreign = *f->vtable;
    const NxmemCudaVtable *companion = NULL;

    assert_int_equal(f->companion->mechanism_id, f->vtable->mechanism_id);
    assert_int_equal(f->companion->struct_size, sizeof(NxmemCudaVtable));
    assert_int_equal(f->companion->traits, NXMEM_CUDA_TRAIT_LEGACY_IPC | NXMEM_CUDA_TRAIT_RDMA |
                                               NXMEM_CUDA_TRAIT_DMABUF |
                                               NXMEM_CUDA_TRAIT_BASE_IS_DRIVER_ALLOCATION |
                                               NXMEM_CUDA_TRAIT_RELEASE_WAITS_LIKE_DRIVER);
    foreign.retain = f->vtable->release;
    assert_int_equal(f->plugin.query_cuda(&foreign, &companion).code, NXMEM_STATUS_WRONG_MECHANISM);
    assert_int_equal(f->plugin.query_cuda(NULL, &companion).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(f->plugin.query_cuda(f->vtable, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_null(companion);
}

/* --- completion --- */

static void a_queued_release_completes_once_inside_the_call(void **state)
{
    struct fixture *f = *state;
    NxmemCudaOrder order = order_of(NXMEM_CUDA_ORDER_STREAM, 5, 0, 0);
    NxmemAllocation block = must_allocate_on(f->vtable, f->companion, &order, 41, 100);
    const NxmemReleaseCompletion *completion = &f->plugin.host.log[0];
    uint64_t ticket = 0, count = 9, retired = 9;

    assert_int_equal(f->companion->enqueue_release_on(f->companion->ctx, &order, &block, &ticket).code, 0);
    assert_int_equal(f->plugin.host.completions, 1);
    assert_int_equal(completion->struct_size, sizeof *completion);
    assert_int_equal(completion->ticket, ticket);
    assert_int_not_equal(ticket, 0);
    assert_int_equal(completion->mechanism_id, f->vtable->mechanism_id);
    assert_int_equal(completion->allocation_id, 41);
    assert_int_equal(completion->outcome.struct_size, sizeof completion->outcome);
    assert_int_equal(completion->outcome.state, NXMEM_RELEASE_COMPLETE);
    assert_int_equal(completion->outcome.allocation_bytes, 100);
    assert_int_equal(completion->outcome.unmapped_bytes, 100);
    assert_int_equal(f->vtable->pending_release_count(f->ctx, &count).code, 0);
    assert_int_equal(count, 0);
    assert_int_equal(f->vtable->drain_releases(f->ctx, UINT64_MAX, &retired).code, 0);
    assert_int_equal(retired, 0);
    assert_int_equal(f->plugin.host.completions, 1);
}

static void report_inside_completion(void *argument)
{
    struct fixture *f = argument;
    NxmemUnloadReport report = plugin_report(&f->plugin);

    assert_int_equal(report.live_allocations, 0);
    assert_int_equal(report.queued_releases, 0);
}

static void the_tallies_are_settled_before_the_host_hears_of_it(void **state)
{
    struct fixture *f = *state;
    NxmemAllocation block = must_allocate(f->vtable, 1, 100, 512);
    uint64_t ticket;

    f->plugin.host.on_complete = report_inside_completion;
    f->plugin.host.argument = f;
    assert_int_equal(f->vtable->enqueue_release(f->ctx, &block, &ticket).code, NXMEM_STATUS_OK);
    assert_int_equal(f->plugin.host.completions, 1);
}

static void a_refused_completion_is_said_and_the_block_is_freed_once(void **state)
{
    struct fixture *f = *state;
    NxmemCudaOrder order = order_of(NXMEM_CUDA_ORDER_STREAM, 5, 0, 0);
    NxmemAllocation block = must_allocate_on(f->vtable, f->companion, &order, 1, 100);

    f->plugin.host.complete_answer = NXMEM_STATUS_UNKNOWN_ALLOCATION;
    assert_int_equal(fixture_enqueue_on(f, &order, &block).code, NXMEM_STATUS_CALLBACK_FAILED);
    assert_int_equal(fixture_enqueue_on(f, &order, &block).code, NXMEM_STATUS_UNKNOWN_ALLOCATION);
    assert_int_equal(release_now(f->vtable, &block, NULL), NXMEM_STATUS_UNKNOWN_ALLOCATION);
    assert_int_equal(fixture_calls(f, FAKE_FREE_ASYNC), 1);
    assert_int_equal(fixture_calls(f, FAKE_MEM_FREE), 0);
    assert_int_equal(plugin_report(&f->plugin).live_allocations, 0);
    assert_int_equal(plugin_report(&f->plugin).queued_releases, 0);
}

static void a_host_without_callbacks_is_served_all_the_same(void **state)
{
    struct fixture *f = *state;
    const NxmemAllocatorFactoryVtable *factory = plugin_factory(&f->plugin, "direct", 0);
    NxmemHostCallbacks *cut = exact_prefix(&f->plugin.host.callbacks, 24); /* ends before release_completed */
    NxmemOpenRequest request = {sizeof request, 1, factory->device, 0, NULL};
    const NxmemAllocatorVtable *vtable = NULL;
    NxmemAllocation block;
    uint64_t ticket;

    for (int pass = 0; pass < 2; pass++) {
        request.callbacks = pass == 0 ? NULL : cut;
        assert_int_equal(factory->open_allocator(factory->ctx, &request, &vtable).code, 0);
        block = must_allocate(vtable, 1, 100, 512);
        assert_int_equal(vtable->enqueue_release(vtable->ctx, &block, &ticket).code, 0);
        vtable->release(vtable->ctx);
    }
    free(cut);
    assert_int_equal(f->plugin.host.completions, 0);
    assert_int_equal(f->cuda->live, 0);
}

/* --- the driver refuses --- */

static void a_failed_allocation_names_the_drivers_code_and_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    NxmemAllocRequest request = request_for(f->vtable, 1, 100, 512);
    NxmemAllocResult result = {.struct_size = sizeof result};
    NxmemStatus status;

    f->cuda->answer[FAKE_MEM_ALLOC] = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(f->vtable->allocate(f->ctx, &request, &result).code, NXMEM_STATUS_OUT_OF_MEMORY);
    f->cuda->answer[FAKE_MEM_ALLOC] = CUDA_ERROR_ILLEGAL_ADDRESS;
    status = f->vtable->allocate(f->ctx, &request, &result);
    assert_int_equal(status.code, NXMEM_STATUS_DEVICE_ERROR);
    assert_non_null(strstr((const char *)status.message, "700"));
    assert_non_null(strstr((const char *)status.message, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    assert_int_equal(status.message_len, strlen((const char *)status.message));
    assert_null(result.ptr);
    f->cuda->answer[FAKE_MEM_ALLOC] = 0;
    f->cuda->null_success = 1;
    assert_int_equal(f->vtable->allocate(f->ctx, &request, &result).code, NXMEM_STATUS_DEVICE_ERROR);
    assert_int_equal(plugin_report(&f->plugin).live_allocations, 0);
}

static void a_failed_release_leaves_the_block_live_and_releasable(void **state)
{
    struct fixture *f = *state;
    NxmemCudaOrder order = order_of(NXMEM_CUDA_ORDER_STREAM, 5, 0, 0);
    NxmemAllocation block = must_allocate_on(f->vtable, f->companion, &order, 1, 100);
    uint32_t release_state;

    f->cuda->answer[FAKE_FREE_ASYNC] = CUDA_ERROR_ILLEGAL_ADDRESS;
    f->cuda->answer[FAKE_MEM_FREE] = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_int_equal(fixture_enqueue_on(f, &order, &block).code, NXMEM_STATUS_DEVICE_ERROR);
    assert_int_equal(release_now(f->vtable, &block, &release_state), NXMEM_STATUS_DEVICE_ERROR);
    assert_int_equal(release_state, NXMEM_RELEASE_FAILED);
    assert_int_equal(f->plugin.host.completions, 0);
    assert_int_equal(plugin_report(&f->plugin).live_allocations, 1);
    assert_int_equal(plugin_report(&f->plugin).queued_releases, 0);
    f->cuda->answer[FAKE_FREE_ASYNC] = 0;
    assert_int_equal(fixture_enqueue_on(f, &order, &block).code, NXMEM_STATUS_OK);
    assert_int_equal(f->cuda->live, 0);
}

static void a_driver_shut_down_counts_as_done_only_where_the_host_closes(void **state)
{
    struct fixture *f = *state;
    NxmemCudaOrder order = order_of(NXMEM_CUDA_ORDER_SYNCHRONOUS, 0, 0, 0);
    NxmemAllocation block = must_allocate(f->vtable, 1, 100, 512);

    f->cuda->answer[FAKE_MEM_FREE] = CUDA_ERROR_DEINITIALIZED;
    assert_int_equal(fixture_enqueue_on(f, &order, &block).code, NXMEM_STATUS_DEVICE_ERROR);
    assert_int_equal(plugin_report(&f->plugin).live_allocations, 1);
    assert_int_equal(release_now(f->vtable, &block, NULL), NXMEM_STATUS_OK);
    assert_int_equal(plugin_report(&f->plugin).live_allocations, 0);
    f->cuda->answer[FAKE_MEM_FREE] = 0;
    free((void *)(block.ptr - FAKE_ALIGNMENT)); /* what the dead driver would have taken with it */
}

/* --- which driver, seen from a process of its own --- */

/* Opens an allocator with whatever driver the loader finds; the exit status is the plugin's answer. */
static int open_and_say(void)
{
    struct plugin plugin;
    const NxmemAllocatorVtable *vtable;
    NxmemStatus status;

    plugin_load(&plugin, DIRECT, 1);
    status = plugin_open(&plugin, plugin_factory(&plugin, "direct", 0), 1, 0, &vtable);
    if (status.code == NXMEM_STATUS_OK)
        vtable->release(vtable->ctx);
    else if (status.message_len == 0 || vtable != NULL)
        return 99;
    plugin_unload(&plugin);
    return (int)status.code;
}

static int answer_with_library_path(const char *relative)
{
    char path[4096];
    int wait_status;
    pid_t child;

    snprintf(path, sizeof path, "%s", build_path(relative));
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("LD_LIBRARY_PATH", path, 1);
        execl("/proc/self/exe", "test_direct", "--open", (char *)NULL);
        _exit(98);
    }
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    assert_true(WIFEXITED(wait_status));
    return WEXITSTATUS(wait_status);
}

static void a_driver_not_yet_loaded_is_found_by_its_name(void **state)
{
    (void)state;
    assert_int_equal(answer_with_library_path("tests/plugins/fixtures/cuda"), NXMEM_STATUS_OK);
}

static void a_library_that_is_no_driver_is_a_device_error(void **state)
{
    (void)state;
    assert_int_equal(answer_with_library_path("tests/plugins/fixtures/hollow"), NXMEM_STATUS_DEVICE_ERROR);
}

static void no_driver_at_all_is_a_device_error(void **state)
{
    const char *directory = build_path("tests/plugins/fixtures/none");
    char file[4200];
    FILE *unloadable;

    (void)state;
    /* An empty file of that name ends the loader's search: the machine may have a driver of its own. */
    snprintf(file, sizeof file, "mkdir -p '%s' && : > '%s/libcuda.so.1'", directory, directory);
    unloadable = popen(file, "r");
    assert_non_null(unloadable);
    assert_int_equal(pclose(unloadable), 0);
    assert_int_equal(answer_with_library_path("tests/plugins/fixtures/none"), NXMEM_STATUS_DEVICE_ERROR);
}

#define T(test) cmocka_unit_test_setup_teardown(test, direct_setup, direct_teardown)

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        T(plain_slots_are_cuMemAlloc_and_cuMemFree),
        T(each_order_becomes_its_own_driver_call),
        T(memory_may_be_released_on_another_kind_of_order),
        T(orders_it_does_not_understand_are_refused_untouched),
        T(it_never_initialises_cuda_nor_touches_contexts),
        T(the_companion_states_what_direct_promises),
        T(a_queued_release_completes_once_inside_the_call),
        T(the_tallies_are_settled_before_the_host_hears_of_it),
        T(a_refused_completion_is_said_and_the_block_is_freed_once),
        T(a_host_without_callbacks_is_served_all_the_same),
        T(a_failed_allocation_names_the_drivers_code_and_leaves_nothing),
        T(a_failed_release_leaves_the_block_live_and_releasable),
        T(a_driver_shut_down_counts_as_done_only_where_the_host_closes),
        cmocka_unit_test(a_driver_not_yet_loaded_is_found_by_its_name),
        cmocka_unit_test(a_library_that_is_no_driver_is_a_device_error),
        cmocka_unit_test(no_driver_at_all_is_a_device_error),
    };

    if (argc > 1 && strcmp(argv[1], "--open") == 0)
        return open_and_say();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
