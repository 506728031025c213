/* host: ordinary memory behind a queue. What the environment decides is tested on a plugin loaded afresh,
 * since it reads the environment once. */
#include "tests/plugins/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOST "lib/nxmem/host.so"

struct fixture {
    struct plugin plugin;
    const NxmemAllocatorVtable *vtable;
    void *ctx;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    unsetenv("NXMEM_HOST_AS_DEVICE");
    unsetenv("NXMEM_HOST_LIMIT");
    plugin_load(&f->plugin, HOST, 1);
    assert_int_equal(plugin_open(&f->plugin, plugin_factory(&f->plugin, "host", 0), 1, 0, &f->vtable).code, 0);
    f->ctx = f->vtable->ctx;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    if (f->vtable != NULL)
        f->vtable->release(f->ctx);
    plugin_unload(&f->plugin);
    free(f);
    return 0;
}

static uint64_t must_enqueue(const struct fixture *f, const NxmemAllocation *allocation)
{
    uint64_t ticket = 0;

    assert_int_equal(f->vtable->enqueue_release(f->ctx, allocation, &ticket).code, NXMEM_STATUS_OK);
    return ticket;
}

static uint64_t pending(const struct fixture *f)
{
    uint64_t count = 99;

    assert_int_equal(f->vtable->pending_release_count(f->ctx, &count).code, NXMEM_STATUS_OK);
    return count;
}

static uint32_t drain(const struct fixture *f, uint64_t max, uint64_t *retired)
{
    *retired = 99;
    return f->vtable->drain_releases(f->ctx, max, retired).code;
}

static void exports_only_the_abi_and_needs_only_libc(void **state)
{
    (void)state;
    assert_exports_only(HOST, " NxmemNegotiate NxmemCreateAllocatorFactories NxmemQueryUnloadReadiness ");
    assert_needs_libc_only(HOST);
}

static void it_publishes_one_host_mechanism_and_no_companion(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(f->plugin.factory_count, 1);
    assert_int_equal(f->vtable->device.tier, NXMEM_TIER_HOST);
    assert_int_equal(f->vtable->device.index, 0);
    assert_int_equal(f->vtable->capability_flags, NXMEM_CAPABILITY_ALLOCATOR | NXMEM_CAPABILITY_DEFERRED_RELEASE |
                                                      NXMEM_CAPABILITY_STRUCTURED_RELEASE);
    assert_null(f->plugin.query_cuda);
}

static void memory_is_aligned_as_asked_and_usable(void **state)
{
    struct fixture *f = *state;
    uint64_t id = 0;

    for (uint64_t align = 1; align <= 1 << 21; align *= 2) {
        NxmemAllocation block = must_allocate(f->vtable, ++id, 3000, align);

        memset(block.ptr, 0x5A, 3000);
        assert_int_equal(release_now(f->vtable, &block, NULL), NXMEM_STATUS_OK);
    }
}

static void sizes_no_memory_has_are_out_of_memory(void **state)
{
    struct fixture *f = *state;
    NxmemAllocRequest request = request_for(f->vtable, 1, UINT64_MAX, 512);
    NxmemAllocResult result = {.struct_size = sizeof result};

    assert_int_equal(f->vtable->allocate(f->ctx, &request, &result).code, NXMEM_STATUS_OUT_OF_MEMORY);
    request.bytes = 1;
    request.align = UINT64_C(1) << 63;
    assert_int_equal(f->vtable->allocate(f->ctx, &request, &result).code, NXMEM_STATUS_OUT_OF_MEMORY);
    assert_int_equal(plugin_report(&f->plugin).live_allocations, 0);
}

static void zero_bytes_get_an_address_of_their_own(void **state)
{
    struct fixture *f = *state;
    NxmemAllocation first = must_allocate(f->vtable, 1, 0, 512), second = must_allocate(f->vtable, 2, 0, 512);

    assert_ptr_not_equal(first.ptr, second.ptr);
    assert_int_equal(release_now(f->vtable, &first, NULL), NXMEM_STATUS_OK);
    assert_int_equal(release_now(f->vtable, &second, NULL), NXMEM_STATUS_OK);
}

static void queued_releases_wait_for_a_drain_and_retire_in_order(void **state)
{
    struct fixture *f = *state;
    uint64_t tickets[5], retired;

    for (uint64_t i = 0; i < 5; i++) {
        NxmemAllocation block = must_allocate(f->vtable, 10 + i, 100 * (i + 1), 512);

        tickets[i] = must_enqueue(f, &block);
        block.ptr[0] = 1; /* still mapped: the drain frees, not the enqueue */
        assert_int_equal(f->vtable->enqueue_release(f->ctx, &block, &retired).code,
                         NXMEM_STATUS_UNKNOWN_ALLOCATION);
        assert_int_equal(release_now(f->vtable, &block, NULL), NXMEM_STATUS_UNKNOWN_ALLOCATION);
    }
    assert_int_equal(pending(f), 5);
    assert_int_equal(plugin_report(&f->plugin).queued_releases, 5);
    assert_int_equal(plugin_report(&f->plugin).live_allocations, 5);
    assert_int_equal(drain(f, 0, &retired), NXMEM_STATUS_OK);
    assert_int_equal(retired, 0);
    assert_int_equal(drain(f, 2, &retired), NXMEM_STATUS_OK);
    assert_int_equal(retired, 2);
    assert_int_equal(pending(f), 3);
    assert_int_equal(drain(f, UINT64_MAX, &retired), NXMEM_STATUS_OK);
    assert_int_equal(retired, 3);
    assert_int_equal(f->plugin.host.completions, 5);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(f->plugin.host.log[i].ticket, tickets[i]);
        assert_int_equal(f->plugin.host.log[i].allocation_id, 10 + i);
        assert_int_equal(f->plugin.host.log[i].outcome.unmapped_bytes, 100 * (i + 1));
        assert_true(i == 0 || tickets[i] > tickets[i - 1]);
    }
    assert_int_equal(plugin_report(&f->plugin).live_allocations, 0);
    assert_int_equal(plugin_report(&f->plugin).queued_releases, 0);
}

static void a_refused_completion_stops_the_drain_and_loses_nothing(void **state)
{
    struct fixture *f = *state;
    uint64_t retired;

    for (uint64_t i = 0; i < 4; i++) {
        NxmemAllocation block = must_allocate(f->vtable, 10 + i, 100, 512);

        must_enqueue(f, &block);
    }
    f->plugin.host.refuse_from = 2;
    assert_int_equal(drain(f, UINT64_MAX, &retired), NXMEM_STATUS_CALLBACK_FAILED);
    assert_int_equal(retired, 2); /* the refused one is gone too */
    assert_int_equal(pending(f), 2);
    f->plugin.host.refuse_from = 0;
    {
        NxmemAllocation late = must_allocate(f->vtable, 20, 100, 512);

        must_enqueue(f, &late);
    }
    assert_int_equal(drain(f, UINT64_MAX, &retired), NXMEM_STATUS_OK);
    assert_int_equal(retired, 3);
    assert_int_equal(f->plugin.host.log[2].allocation_id, 12);
    assert_int_equal(f->plugin.host.log[3].allocation_id, 13);
    assert_int_equal(f->plugin.host.log[4].allocation_id, 20);
    assert_int_equal(plugin_report(&f->plugin).queued_releases, 0);
}

static void a_queued_release_keeps_the_allocator_until_it_retires(void **state)
{
    struct fixture *f = *state;
    NxmemAllocation block = must_allocate(f->vtable, 1, 100, 512);
    uint64_t retired;

    must_enqueue(f, &block);
    f->vtable->release(f->ctx);
    assert_int_equal(plugin_report(&f->plugin).live_allocators, 1);
    assert_int_equal(drain(f, UINT64_MAX, &retired), NXMEM_STATUS_OK);
    assert_int_equal(retired, 1);
    f->vtable = NULL;
    assert_int_equal(plugin_report(&f->plugin).live_allocators, 0);
}

static void drain_again(void *argument)
{
    const struct fixture *f = argument;
    uint64_t retired;

    assert_int_equal(drain(f, UINT64_MAX, &retired), NXMEM_STATUS_OK);
    assert_int_equal(retired, 0);
}

static void a_drain_from_inside_a_completion_retires_nothing_out_of_turn(void **state)
{
    struct fixture *f = *state;
    uint64_t retired;

    for (uint64_t i = 0; i < 3; i++) {
        NxmemAllocation block = must_allocate(f->vtable, 10 + i, 100, 512);

        must_enqueue(f, &block);
    }
    f->plugin.host.on_complete = drain_again;
    f->plugin.host.argument = f;
    assert_int_equal(drain(f, 1, &retired), NXMEM_STATUS_OK);
    assert_int_equal(retired, 1);
    assert_int_equal(pending(f), 2);
    assert_int_equal(drain(f, UINT64_MAX, &retired), NXMEM_STATUS_OK);
    assert_int_equal(retired, 2);
}

static void a_minor_0_host_gets_a_minor_0_vtable(void **state)
{
    struct fixture *f = *state;
    const NxmemAllocatorVtable *vtable;
    NxmemAllocation block;
    uint64_t unmapped;

    assert_int_equal(plugin_open(&f->plugin, plugin_factory(&f->plugin, "host", 0), 0, 0, &vtable).code, 0);
    assert_int_equal(vtable->struct_size, 120);
    assert_int_equal(vtable->abi_minor, 0);
    assert_null(vtable->release_allocation);
    block = must_allocate(vtable, 1, 100, 512);
    assert_int_equal(vtable->deallocate(vtable->ctx, &block, &unmapped).code, NXMEM_STATUS_OK);
    assert_int_equal(unmapped, 100);
    vtable->release(vtable->ctx);
}

/* --- poison: read what libc keeps of a freed block, which only an unsanitized build may do --- */

#if defined(__SANITIZE_ADDRESS__)
#define FREED_MEMORY_IS_READABLE 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FREED_MEMORY_IS_READABLE 0
#endif
#endif
#ifndef FREED_MEMORY_IS_READABLE
#define FREED_MEMORY_IS_READABLE 1
#endif

static void freed_memory_is_poisoned(void **state)
{
    struct fixture *f = *state;
    NxmemAllocation block = must_allocate(f->vtable, 1, 4096, 512);
    const volatile uint8_t *freed = block.ptr;

    memset(block.ptr, 0x5A, 4096);
    assert_int_equal(release_now(f->vtable, &block, NULL), NXMEM_STATUS_OK);
    /* libc keeps its own words at the head of a free chunk; the middle is as it was left. Under a sanitizer the
     * access itself is the finding, and it finds it without help. */
    if (FREED_MEMORY_IS_READABLE)
        for (unsigned i = 1024; i < 3072; i++)
            assert_int_equal(freed[i], 0xDB);
}

/* --- by the environment; each plugin is loaded afresh and reads it again --- */

static void as_device_publishes_device_mechanisms_instead(void **state)
{
    struct plugin plugin;
    const NxmemAllocatorVtable *vtable;

    (void)state;
    setenv("NXMEM_HOST_AS_DEVICE", "1", 1);
    plugin_load(&plugin, HOST, 1);
    unsetenv("NXMEM_HOST_AS_DEVICE");
    assert_int_equal(plugin.factory_count, 16);
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(plugin_factory(&plugin, "host", i)->device.tier, NXMEM_TIER_DEVICE);
    assert_int_equal(plugin_open(&plugin, plugin_factory(&plugin, "host", 15), 1, 0, &vtable).code, 0);
    assert_int_equal(vtable->device.index, 15);
    vtable->release(vtable->ctx);
    plugin_unload(&plugin);
}

struct reclaim {
    const NxmemAllocatorVtable *vtable;
    NxmemAllocation block;
};

static void give_back(void *argument)
{
    struct reclaim *reclaim = argument;

    assert_int_equal(release_now(reclaim->vtable, &reclaim->block, NULL), NXMEM_STATUS_OK);
}

static void beyond_the_limit_it_asks_once_and_then_is_out_of_memory(void **state)
{
    struct plugin plugin;
    struct reclaim reclaim;
    NxmemAllocRequest request;
    NxmemAllocResult result = {.struct_size = sizeof result};
    NxmemAllocation block;

    (void)state;
    setenv("NXMEM_HOST_LIMIT", "1000", 1);
    plugin_load(&plugin, HOST, 1);
    unsetenv("NXMEM_HOST_LIMIT");
    assert_int_equal(plugin_open(&plugin, plugin_factory(&plugin, "host", 0), 1, 0, &reclaim.vtable).code, 0);
    reclaim.block = must_allocate(reclaim.vtable, 1, 600, 512);
    request = request_for(reclaim.vtable, 2, 401, 512);
    assert_int_equal(reclaim.vtable->allocate(reclaim.vtable->ctx, &request, &result).code,
                     NXMEM_STATUS_OUT_OF_MEMORY);
    assert_int_equal(plugin.host.reclaims, 1);
    assert_int_equal(plugin.host.reclaim_bytes, 401);
    plugin.host.reclaim_answer = NXMEM_STATUS_UNSUPPORTED_CAPABILITY; /* a refusal is normal */
    assert_int_equal(reclaim.vtable->allocate(reclaim.vtable->ctx, &request, &result).code,
                     NXMEM_STATUS_OUT_OF_MEMORY);
    assert_int_equal(plugin.host.reclaims, 2);
    plugin.host.reclaim_answer = NXMEM_STATUS_OK;
    plugin.host.on_reclaim = give_back;
    plugin.host.argument = &reclaim;
    block = must_allocate(reclaim.vtable, 2, 401, 512);
    assert_int_equal(plugin.host.reclaims, 3);
    assert_int_equal(release_now(reclaim.vtable, &block, NULL), NXMEM_STATUS_OK);
    block = must_allocate(reclaim.vtable, 3, 1000, 512); /* the limit itself is allowed, and was refunded */
    assert_int_equal(release_now(reclaim.vtable, &block, NULL), NXMEM_STATUS_OK);
    assert_int_equal(plugin.host.reclaims, 3);
    reclaim.vtable->release(reclaim.vtable->ctx);
    plugin_unload(&plugin);
}

static void an_unreadable_limit_refuses_to_open(void **state)
{
    static const char *const values[] = {"1k", "-1", "lots", "99999999999999999999"};
    struct plugin plugin;
    const NxmemAllocatorVtable *vtable;

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        setenv("NXMEM_HOST_LIMIT", values[i], 1);
        plugin_load(&plugin, HOST, 1);
        unsetenv("NXMEM_HOST_LIMIT");
        assert_int_equal(plugin_open(&plugin, plugin_factory(&plugin, "host", 0), 1, 0, &vtable).code,
                         NXMEM_STATUS_INVALID_ARGUMENT);
        plugin_unload(&plugin);
    }
}

/* --- threads --- */

enum { THREADS = 4, ROUNDS = 200 };

struct worker {
    const struct fixture *f;
    unsigned number, failures;
};

static void *allocate_and_enqueue(void *argument)
{
    struct worker *w = argument;
    const NxmemAllocatorVtable *vtable = w->f->vtable;

    for (unsigned round = 0; round < ROUNDS; round++) {
        NxmemAllocRequest request = request_for(vtable, 1 + w->number * ROUNDS + round, 64, 64);
        NxmemAllocResult result = {.struct_size = sizeof result};
        NxmemAllocation block;
        uint64_t out;

        w->failures += vtable->allocate(vtable->ctx, &request, &result).code != NXMEM_STATUS_OK;
        block = allocation_of(&request, &result);
        w->failures += vtable->enqueue_release(vtable->ctx, &block, &out).code != NXMEM_STATUS_OK;
        if (round % 8 == 0)
            w->failures += vtable->drain_releases(vtable->ctx, 3, &out).code != NXMEM_STATUS_OK;
    }
    return NULL;
}

static void threads_queue_and_drain_without_losing_one(void **state)
{
    struct fixture *f = *state;
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    uint64_t retired;

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.f = f, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_enqueue, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].failures, 0);
    }
    assert_int_equal(drain(f, UINT64_MAX, &retired), NXMEM_STATUS_OK);
    assert_int_equal(f->plugin.host.completions, THREADS * ROUNDS);
    for (unsigned i = 1; i < LOG_CAPACITY; i++)
        assert_true(f->plugin.host.log[i].ticket > f->plugin.host.log[i - 1].ticket);
    assert_int_equal(plugin_report(&f->plugin).live_allocations, 0);
    assert_int_equal(plugin_report(&f->plugin).queued_releases, 0);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(exports_only_the_abi_and_needs_only_libc),
        T(it_publishes_one_host_mechanism_and_no_companion),
        T(memory_is_aligned_as_asked_and_usable),
        T(sizes_no_memory_has_are_out_of_memory),
        T(zero_bytes_get_an_address_of_their_own),
        T(queued_releases_wait_for_a_drain_and_retire_in_order),
        T(a_refused_completion_stops_the_drain_and_loses_nothing),
        T(a_queued_release_keeps_the_allocator_until_it_retires),
        T(a_drain_from_inside_a_completion_retires_nothing_out_of_turn),
        T(a_minor_0_host_gets_a_minor_0_vtable),
        T(freed_memory_is_poisoned),
        cmocka_unit_test(as_device_publishes_device_mechanisms_instead),
        cmocka_unit_test(beyond_the_limit_it_asks_once_and_then_is_out_of_memory),
        cmocka_unit_test(an_unreadable_limit_refuses_to_open),
        T(threads_queue_and_drain_without_losing_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
