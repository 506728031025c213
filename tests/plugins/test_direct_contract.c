/* What direct owes any host, by the ABI: versions, what is published, identities and shapes, the unload
 * report, threads. The rules live in the common kit; direct stands for every plugin built on it. */
#include "tests/plugins/driver_fixture.h"

#include <cuda.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- what is published --- */

static void exports_only_the_abi_and_needs_only_libc(void **state)
{
    (void)state;
    assert_exports_only(
        DIRECT, " NxmemNegotiate NxmemCreateAllocatorFactories NxmemQueryUnloadReadiness NxmemQueryCuda ");
    assert_needs_libc_only(DIRECT);
}

static void negotiation_follows_the_order_of_the_rules(void **state)
{
    struct fixture *f = *state;
    NxmemNegotiateRequest request = negotiate_request(0);
    NxmemNegotiateResponse response = {.struct_size = sizeof response};

    assert_int_equal(f->plugin.negotiate(NULL, &response).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(response.plugin_range.major_max, 0);
    assert_int_equal(f->plugin.negotiate(&request, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(f->plugin.negotiate(&request, &response).code, NXMEM_STATUS_OK);
    assert_int_equal(response.agreed_minor, 0);
    assert_int_equal(response.capability_flags, NXMEM_CAPABILITY_ALLOCATOR | NXMEM_CAPABILITY_DEFERRED_RELEASE);
    request.host_range = (NxmemVersionRange){2, 9, 0, 1};
    response = (NxmemNegotiateResponse){.struct_size = sizeof response};
    assert_int_equal(f->plugin.negotiate(&request, &response).code, NXMEM_STATUS_VERSION_MISMATCH);
    assert_int_equal(response.plugin_range.major_max, 1);
    assert_int_equal(response.plugin_range.minor_max, 1);
    request.host_range = (NxmemVersionRange){1, 1, 2, 9};
    assert_int_equal(f->plugin.negotiate(&request, &response).code, NXMEM_STATUS_VERSION_MISMATCH);
    request.struct_size = 31; /* before any other field: the range above must not be looked at */
    assert_int_equal(f->plugin.negotiate(&request, &response).code, NXMEM_STATUS_SHORT_STRUCT);
    request = negotiate_request(1);
    request.host_capability_flags = NXMEM_CAPABILITY_STRUCTURED_RELEASE;
    assert_int_equal(f->plugin.negotiate(&request, &response).code, NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
}

static void negotiation_writes_no_further_than_the_response_claims(void **state)
{
    struct fixture *f = *state;
    NxmemNegotiateRequest request = negotiate_request(1);
    NxmemNegotiateResponse *exact = exact_prefix(&(NxmemNegotiateResponse){0}, 32);

    assert_int_equal(f->plugin.negotiate(&request, exact).code, NXMEM_STATUS_SHORT_STRUCT);
    assert_int_equal(exact->plugin_range.minor_max, 1);
    assert_int_equal(exact->struct_size, 32);
    free(exact);
}

static void every_device_has_a_factory_named_direct(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(f->plugin.factory_count, 16);
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(plugin_factory(&f->plugin, "direct", i)->device.tier, NXMEM_TIER_DEVICE);
}

static void too_little_room_for_factories_hands_over_nothing(void **state)
{
    struct fixture *f = *state;
    const NxmemAllocatorFactoryVtable *few[15] = {NULL};
    uint64_t count = 99;

    assert_int_equal(f->plugin.create(few, 15, &count).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(count, 0);
    assert_null(few[0]);
}

static void the_vtable_is_complete_and_of_the_level_asked_for(void **state)
{
    struct fixture *f = *state;
    const NxmemAllocatorVtable *older;

    assert_int_equal(f->vtable->struct_size, 128);
    assert_int_equal(f->vtable->abi_minor, 1);
    assert_int_equal(f->vtable->capability_flags, NXMEM_CAPABILITY_ALLOCATOR | NXMEM_CAPABILITY_DEFERRED_RELEASE |
                                                      NXMEM_CAPABILITY_STRUCTURED_RELEASE);
    assert_non_null(f->vtable->release_allocation);
    assert_int_equal(plugin_open(&f->plugin, plugin_factory(&f->plugin, "direct", 0), 0, 0, &older).code, 0);
    assert_int_equal(older->struct_size, 120);
    assert_int_equal(older->abi_minor, 0);
    assert_int_equal(older->capability_flags & NXMEM_CAPABILITY_STRUCTURED_RELEASE, 0);
    assert_null(older->release_allocation);
    older->release(older->ctx);
}

static void two_opens_of_one_factory_have_different_mechanism_ids(void **state)
{
    struct fixture *f = *state;
    const NxmemAllocatorVtable *second;
    NxmemAllocation block = must_allocate(f->vtable, 1, 64, 256);

    assert_int_equal(plugin_open(&f->plugin, plugin_factory(&f->plugin, "direct", 0), 1, 0, &second).code, 0);
    assert_int_not_equal(second->mechanism_id, 0);
    assert_int_not_equal(second->mechanism_id, f->vtable->mechanism_id);
    assert_int_equal(release_now(second, &block, NULL), NXMEM_STATUS_WRONG_MECHANISM);
    assert_int_equal(release_now(f->vtable, &block, NULL), NXMEM_STATUS_OK);
    second->release(second->ctx);
}

static void opening_refuses_what_it_cannot_keep(void **state)
{
    struct fixture *f = *state;
    const NxmemAllocatorFactoryVtable *factory = plugin_factory(&f->plugin, "direct", 1);
    const NxmemAllocatorVtable *vtable = NULL;
    NxmemOpenRequest request = {sizeof request, 1, {NXMEM_TIER_DEVICE, 0}, 0, NULL};

    assert_int_equal(factory->open_allocator(factory->ctx, &request, &vtable).code, NXMEM_STATUS_WRONG_DEVICE);
    request.device = (NxmemDeviceId){NXMEM_TIER_HOST, 1};
    assert_int_equal(factory->open_allocator(factory->ctx, &request, &vtable).code, NXMEM_STATUS_WRONG_DEVICE);
    request.device = factory->device;
    request.required_capability_flags = NXMEM_CAPABILITY_VIRTUAL_BACKING;
    assert_int_equal(factory->open_allocator(factory->ctx, &request, &vtable).code,
                     NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
    request.required_capability_flags = NXMEM_CAPABILITY_STRUCTURED_RELEASE;
    request.abi_minor = 0;
    assert_int_equal(factory->open_allocator(factory->ctx, &request, &vtable).code,
                     NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
    request.struct_size = 31;
    assert_int_equal(factory->open_allocator(factory->ctx, &request, &vtable).code, NXMEM_STATUS_SHORT_STRUCT);
    assert_null(vtable);
    assert_int_equal(plugin_report(&f->plugin).live_allocators, 1); /* the fixture's */
}

static void a_device_beyond_the_drivers_count_is_refused_once_it_counts(void **state)
{
    struct fixture *f = *state;
    const NxmemAllocatorVtable *vtable;

    assert_int_equal(plugin_open(&f->plugin, plugin_factory(&f->plugin, "direct", 2), 1, 0, &vtable).code,
                     NXMEM_STATUS_WRONG_DEVICE);
    f->cuda->answer[FAKE_DEVICE_COUNT] = CUDA_ERROR_NOT_INITIALIZED;
    assert_int_equal(plugin_open(&f->plugin, plugin_factory(&f->plugin, "direct", 2), 1, 0, &vtable).code, 0);
    vtable->release(vtable->ctx);
}

static void an_allocator_outlives_the_release_of_its_factory(void **state)
{
    struct fixture *f = *state;
    NxmemAllocation block;

    for (uint64_t i = 0; i < f->plugin.factory_count; i++)
        f->plugin.factories[i]->release(f->plugin.factories[i]->ctx);
    f->plugin.factory_count = 0;
    block = must_allocate(f->vtable, 1, 64, 256);
    assert_int_equal(release_now(f->vtable, &block, NULL), NXMEM_STATUS_OK);
}

/* --- shapes and identities --- */

static void requests_are_judged_mechanism_first_then_device_then_id(void **state)
{
    struct fixture *f = *state;
    NxmemAllocRequest good = request_for(f->vtable, 1, 100, 512), request = good;
    NxmemAllocResult result = {.struct_size = sizeof result};

    request.mechanism_id++;
    request.device.index = 7;
    assert_int_equal(f->vtable->allocate(f->ctx, &request, &result).code, NXMEM_STATUS_WRONG_MECHANISM);
    request.mechanism_id--;
    request.allocation_id = 0;
    assert_int_equal(f->vtable->allocate(f->ctx, &request, &result).code, NXMEM_STATUS_WRONG_DEVICE);
    request.device = good.device;
    assert_int_equal(f->vtable->allocate(f->ctx, &request, &result).code, NXMEM_STATUS_INVALID_ARGUMENT);
    request = good;
    request.align = 0;
    assert_int_equal(f->vtable->allocate(f->ctx, &request, &result).code, NXMEM_STATUS_INVALID_ARGUMENT);
    request.align = 384;
    assert_int_equal(f->vtable->allocate(f->ctx, &request, &result).code, NXMEM_STATUS_INVALID_ARGUMENT);
    request = good;
    request.struct_size = 63;
    assert_int_equal(f->vtable->allocate(f->ctx, &request, &result).code, NXMEM_STATUS_SHORT_STRUCT);
    result.struct_size = 31;
    assert_int_equal(f->vtable->allocate(f->ctx, &good, &result).code, NXMEM_STATUS_SHORT_STRUCT);
    assert_int_equal(f->vtable->allocate(f->ctx, NULL, &result).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(f->vtable->allocate(f->ctx, &good, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(fixture_calls(f, FAKE_MEM_ALLOC), 0);
}

static void an_id_in_use_is_refused_before_the_driver_is_asked(void **state)
{
    struct fixture *f = *state;
    NxmemAllocation block = must_allocate(f->vtable, 1, 100, 512);
    NxmemAllocRequest again = request_for(f->vtable, 1, 100, 512);
    NxmemAllocResult result = {.struct_size = sizeof result};

    assert_int_equal(f->vtable->allocate(f->ctx, &again, &result).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(fixture_calls(f, FAKE_MEM_ALLOC), 1);
    assert_int_equal(release_now(f->vtable, &block, NULL), NXMEM_STATUS_OK);
}

static void releases_that_misdescribe_the_block_never_reach_the_driver(void **state)
{
    struct fixture *f = *state;
    NxmemAllocation good = must_allocate(f->vtable, 1, 100, 512), wrong = good;

    wrong.mechanism_id++;
    wrong.device.index++;
    assert_int_equal(release_now(f->vtable, &wrong, NULL), NXMEM_STATUS_WRONG_MECHANISM);
    wrong.mechanism_id--;
    assert_int_equal(release_now(f->vtable, &wrong, NULL), NXMEM_STATUS_WRONG_DEVICE);
    wrong = good;
    wrong.allocation_id = 2; /* the pointer looks alive, the id is not */
    assert_int_equal(release_now(f->vtable, &wrong, NULL), NXMEM_STATUS_UNKNOWN_ALLOCATION);
    wrong = good;
    wrong.ptr++;
    assert_int_equal(release_now(f->vtable, &wrong, NULL), NXMEM_STATUS_INVALID_ARGUMENT);
    wrong = good;
    wrong.bytes++;
    assert_int_equal(release_now(f->vtable, &wrong, NULL), NXMEM_STATUS_INVALID_ARGUMENT);
    wrong = good;
    wrong.align = 1;
    assert_int_equal(release_now(f->vtable, &wrong, NULL), NXMEM_STATUS_INVALID_ARGUMENT);
    wrong = good;
    wrong.struct_size = 55;
    assert_int_equal(release_now(f->vtable, &wrong, NULL), NXMEM_STATUS_SHORT_STRUCT);
    assert_int_equal(release_now(f->vtable, NULL, NULL), NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(fixture_calls(f, FAKE_MEM_FREE), 0);
    assert_int_equal(release_now(f->vtable, &good, NULL), NXMEM_STATUS_OK);
    assert_int_equal(release_now(f->vtable, &good, NULL), NXMEM_STATUS_UNKNOWN_ALLOCATION);
    assert_int_equal(fixture_calls(f, FAKE_MEM_FREE), 1);
}

static void zero_bytes_get_an_address_of_their_own(void **state)
{
    struct fixture *f = *state;
    NxmemAllocation first = must_allocate(f->vtable, 1, 0, 512), second = must_allocate(f->vtable, 2, 0, 512);

    assert_ptr_not_equal(first.ptr, second.ptr);
    assert_int_equal(release_now(f->vtable, &first, NULL), NXMEM_STATUS_OK);
    assert_int_equal(release_now(f->vtable, &second, NULL), NXMEM_STATUS_OK);
}

static void alignment_above_the_drivers_is_refused_and_handed_back(void **state)
{
    struct fixture *f = *state;
    NxmemAllocRequest request = request_for(f->vtable, 1, 100, 2 * FAKE_ALIGNMENT);
    NxmemAllocResult result = {.struct_size = sizeof result};

    assert_int_equal(f->vtable->allocate(f->ctx, &request, &result).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(fixture_calls(f, FAKE_MEM_ALLOC), 1);
    assert_int_equal(f->cuda->live, 0);
    request.align = UINT64_C(1) << 63;
    assert_int_equal(f->vtable->allocate(f->ctx, &request, &result).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(fixture_calls(f, FAKE_MEM_ALLOC), 1);
    assert_int_equal(plugin_report(&f->plugin).live_allocations, 0);
}

static void the_largest_size_is_out_of_memory_and_does_not_wrap(void **state)
{
    struct fixture *f = *state;
    NxmemAllocRequest request = request_for(f->vtable, 1, UINT64_MAX, 512);
    NxmemAllocResult result = {.struct_size = sizeof result};

    assert_int_equal(f->vtable->allocate(f->ctx, &request, &result).code, NXMEM_STATUS_OUT_OF_MEMORY);
    assert_int_equal(f->cuda->live, 0);
}

/* --- the unload report --- */

static void the_report_counts_allocators_and_blocks_until_they_are_gone(void **state)
{
    struct fixture *f = *state;
    NxmemAllocation block = must_allocate(f->vtable, 1, 100, 512);

    assert_int_equal(plugin_report(&f->plugin).live_allocations, 1);
    assert_int_equal(release_now(f->vtable, &block, NULL), NXMEM_STATUS_OK);
    assert_int_equal(plugin_report(&f->plugin).live_allocations, 0);
    f->vtable->retain(f->ctx);
    f->vtable->release(f->ctx);
    assert_int_equal(plugin_report(&f->plugin).live_allocators, 1);
    f->vtable->release(f->ctx);
    f->vtable = NULL;
    assert_int_equal(plugin_report(&f->plugin).live_allocators, 0);
}

static void a_block_never_given_back_stays_in_the_report(void **state)
{
    struct fixture *f = *state;
    NxmemAllocation block = must_allocate(f->vtable, 1, 100, 512);

    f->vtable->release(f->ctx);
    f->vtable = NULL;
    assert_int_equal(plugin_report(&f->plugin).live_allocators, 0);
    assert_int_equal(plugin_report(&f->plugin).live_allocations, 1);
    assert_int_equal(f->cuda->live, 1);
    free((void *)(block.ptr - FAKE_ALIGNMENT));
}

static void a_report_that_cannot_hold_every_count_is_refused(void **state)
{
    struct fixture *f = *state;
    NxmemUnloadReport report = {.struct_size = 47};

    assert_int_equal(f->plugin.readiness(&report).code, NXMEM_STATUS_SHORT_STRUCT);
    assert_int_equal(f->plugin.readiness(NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
}

/* --- threads --- */

enum { THREADS = 4, ROUNDS = 300 };

struct worker {
    struct fixture *f;
    unsigned number, failures;
    const NxmemAllocation *contested;
    pthread_barrier_t *start;
};

static void *allocate_and_release(void *argument)
{
    struct worker *w = argument;
    const NxmemAllocatorVtable *vtable = w->f->vtable;

    for (unsigned round = 0; round < ROUNDS; round++) {
        NxmemAllocRequest request = request_for(vtable, 1 + w->number * ROUNDS + round, round, 512);
        NxmemAllocResult result = {.struct_size = sizeof result};
        NxmemAllocation block;
        uint64_t ticket;

        if (vtable->allocate(vtable->ctx, &request, &result).code != NXMEM_STATUS_OK)
            w->failures++;
        block = allocation_of(&request, &result);
        if (round % 2 == 0 ? release_now(vtable, &block, NULL) != NXMEM_STATUS_OK
                           : vtable->enqueue_release(vtable->ctx, &block, &ticket).code != NXMEM_STATUS_OK)
            w->failures++;
    }
    return NULL;
}

static void threads_do_not_disturb_each_other(void **state)
{
    struct fixture *f = *state;
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.f = f, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_release, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].failures, 0);
    }
    assert_int_equal(f->cuda->live, 0);
    assert_int_equal(f->plugin.host.completions, THREADS * ROUNDS / 2);
    assert_int_equal(plugin_report(&f->plugin).live_allocations, 0);
}

struct inside {
    struct fixture *f;
    const NxmemAllocation *allocation;
    uint32_t code;
};

static void release_inside_the_driver(void *argument)
{
    struct inside *inside = argument;

    inside->f->cuda->on_free = NULL;
    inside->code = release_now(inside->f->vtable, inside->allocation, NULL);
}

static void a_release_while_another_runs_is_busy_and_frees_nothing(void **state)
{
    struct fixture *f = *state;
    NxmemAllocation block = must_allocate(f->vtable, 1, 100, 512);
    struct inside inside = {.f = f, .allocation = &block, .code = NXMEM_STATUS_OK};

    f->cuda->argument = &inside;
    f->cuda->on_free = release_inside_the_driver;
    assert_int_equal(release_now(f->vtable, &block, NULL), NXMEM_STATUS_OK);
    assert_int_equal(inside.code, NXMEM_STATUS_BUSY);
    assert_int_equal(fixture_calls(f, FAKE_MEM_FREE), 1);
}

static void *release_contested(void *argument)
{
    struct worker *w = argument;

    pthread_barrier_wait(w->start);
    w->failures = release_now(w->f->vtable, w->contested, NULL) != NXMEM_STATUS_OK;
    return NULL;
}

static void of_two_releases_at_once_exactly_one_frees(void **state)
{
    struct fixture *f = *state;

    for (unsigned round = 0; round < 50; round++) {
        NxmemAllocation block = must_allocate(f->vtable, 1 + round, 100, 512);
        pthread_barrier_t start;
        struct worker workers[2];
        pthread_t threads[2];

        pthread_barrier_init(&start, NULL, 2);
        for (unsigned i = 0; i < 2; i++) {
            workers[i] = (struct worker){.f = f, .contested = &block, .start = &start};
            assert_int_equal(pthread_create(&threads[i], NULL, release_contested, &workers[i]), 0);
        }
        for (unsigned i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&start);
        assert_int_equal(workers[0].failures + workers[1].failures, 1);
        assert_int_equal(f->cuda->live, 0);
    }
}

#define T(test) cmocka_unit_test_setup_teardown(test, direct_setup, direct_teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(exports_only_the_abi_and_needs_only_libc),
        T(negotiation_follows_the_order_of_the_rules),
        T(negotiation_writes_no_further_than_the_response_claims),
        T(every_device_has_a_factory_named_direct),
        T(too_little_room_for_factories_hands_over_nothing),
        T(the_vtable_is_complete_and_of_the_level_asked_for),
        T(two_opens_of_one_factory_have_different_mechanism_ids),
        T(opening_refuses_what_it_cannot_keep),
        T(a_device_beyond_the_drivers_count_is_refused_once_it_counts),
        T(an_allocator_outlives_the_release_of_its_factory),
        T(requests_are_judged_mechanism_first_then_device_then_id),
        T(an_id_in_use_is_refused_before_the_driver_is_asked),
        T(releases_that_misdescribe_the_block_never_reach_the_driver),
        T(zero_bytes_get_an_address_of_their_own),
        T(alignment_above_the_drivers_is_refused_and_handed_back),
        T(the_largest_size_is_out_of_memory_and_does_not_wrap),
        T(the_report_counts_allocators_and_blocks_until_they_are_gone),
        T(a_block_never_given_back_stays_in_the_report),
        T(a_report_that_cannot_hold_every_count_is_refused),
        T(threads_do_not_disturb_each_other),
        T(a_release_while_another_runs_is_busy_and_frees_nothing),
        T(of_two_releases_at_once_exactly_one_frees),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
