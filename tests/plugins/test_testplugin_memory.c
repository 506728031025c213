/* The test plugin's memory: allocation and release by every mechanism. */
#include "tests/plugins/mechanism_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Those that serve memory, as any host may use them. */
static const char *const serving[] = {
    "eager",   "lazy",   "poisoned-tail", "callback-probe",      "legacy-1-0",           "sticky",
    "drip",    "ahead-of-host", "undeclared-slot", "callback-after-drop", "reentrant-completion", "refusing-deferred",
    "complete-on-release",
};

enum { SERVING = sizeof serving / sizeof serving[0] };

/* --- every mechanism --------------------------------------------------------------------------------------------------- */

static void memory_is_aligned_usable_and_credited_in_full(void **state)
{
    (void)state;
    for (size_t i = 0; i < SERVING; i++) {
        struct mechanism m;
        uint64_t id = 0;

        mechanism_open(&m, serving[i], 1);
        for (uint64_t align = 1; align <= 1 << 16; align *= 16) {
            NxmemAllocation block = must_allocate(m.vtable, ++id, 8192, align);

            memset(block.ptr, 0x5A, 8192);
            assert_report(&m, 1, 1, 0, 0, 0);
            assert_int_equal(released(&m, &block), 8192);
            assert_report(&m, 1, 0, 0, 0, 0);
        }
        mechanism_close(&m);
    }
}

static void owned_and_mapped_are_stated(void **state)
{
    struct mechanism m;
    NxmemAllocRequest request;
    NxmemAllocResult result = {.struct_size = sizeof result};
    NxmemAllocation block;

    (void)state;
    mechanism_open(&m, "eager", 1);
    request = request_for(m.vtable, 1, 8191, 256);
    assert_int_equal(m.vtable->allocate(m.ctx, &request, &result).code, NXMEM_STATUS_OK);
    assert_int_equal(result.owned_bytes, 8191);
    assert_int_equal(result.mapped_bytes, 8191);
    block = allocation_of(&request, &result);
    assert_int_equal(released(&m, &block), 8191);
    mechanism_close(&m);
}

static void zero_bytes_have_an_address_of_their_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < SERVING; i++) {
        struct mechanism m;
        NxmemAllocation first, second;

        mechanism_open(&m, serving[i], 1);
        first = must_allocate(m.vtable, 1, 0, 4096);
        second = must_allocate(m.vtable, 2, 0, 4096);
        assert_ptr_not_equal(first.ptr, second.ptr);
        assert_int_equal(released(&m, &first), 0);
        assert_int_equal(released(&m, &second), 0);
        mechanism_close(&m);
    }
}

static void sizes_that_no_memory_has_are_out_of_memory(void **state)
{
    static const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 4094, UINT64_C(1) << 63, (UINT64_C(1) << 47) + 1};

    (void)state;
    for (size_t i = 0; i < SERVING; i++) {
        struct mechanism m;

        mechanism_open(&m, serving[i], 1);
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            NxmemAllocRequest request = request_for(m.vtable, 1 + k, sizes[k], 4096);
            NxmemAllocResult result = {.struct_size = sizeof result};

            assert_int_equal(m.vtable->allocate(m.ctx, &request, &result).code, NXMEM_STATUS_OUT_OF_MEMORY);
            assert_null(result.ptr);
        }
        assert_report(&m, 1, 0, 0, 0, 0);
        mechanism_close(&m);
    }
}

static void bad_requests_are_told_the_first_thing_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < SERVING; i++) {
        struct mechanism m;
        NxmemAllocResult result = {.struct_size = sizeof result};
        NxmemAllocRequest request;

        mechanism_open(&m, serving[i], 1);
        request = request_for(m.vtable, 0, 100, 3);
        request.device.index = 9;
        request.mechanism_id++;
        assert_int_equal(m.vtable->allocate(m.ctx, &request, &result).code, NXMEM_STATUS_WRONG_MECHANISM);
        request.mechanism_id--;
        assert_int_equal(m.vtable->allocate(m.ctx, &request, &result).code, NXMEM_STATUS_WRONG_DEVICE);
        request.device.index = 0;
        assert_int_equal(m.vtable->allocate(m.ctx, &request, &result).code, NXMEM_STATUS_INVALID_ARGUMENT);
        request.allocation_id = 1;
        assert_int_equal(m.vtable->allocate(m.ctx, &request, &result).code, NXMEM_STATUS_INVALID_ARGUMENT);
        request.align = 0;
        assert_int_equal(m.vtable->allocate(m.ctx, &request, &result).code, NXMEM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(m.vtable->allocate(m.ctx, NULL, &result).code, NXMEM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(m.plugin.host.reclaims, 0);
        mechanism_close(&m);
    }
}

static void an_id_not_held_is_unknown_whatever_its_address(void **state)
{
    (void)state;
    for (size_t i = 0; i < SERVING; i++) {
        struct mechanism m;
        NxmemAllocation block, other;
        uint64_t unmapped;

        mechanism_open(&m, serving[i], 1);
        block = must_allocate(m.vtable, 1, 100, 64);
        other = block;
        other.allocation_id = 2;
        assert_int_equal(m.vtable->deallocate(m.ctx, &other, &unmapped).code, NXMEM_STATUS_UNKNOWN_ALLOCATION);
        other.allocation_id = 1;
        other.device.tier = NXMEM_TIER_DEVICE;
        assert_int_equal(m.vtable->deallocate(m.ctx, &other, &unmapped).code, NXMEM_STATUS_WRONG_DEVICE);
        other.mechanism_id = 77;
        assert_int_equal(m.vtable->deallocate(m.ctx, &other, &unmapped).code, NXMEM_STATUS_WRONG_MECHANISM);
        assert_int_equal(released(&m, &block), 100);
        assert_int_equal(m.vtable->deallocate(m.ctx, &block, &unmapped).code, NXMEM_STATUS_UNKNOWN_ALLOCATION);
        assert_int_equal(unmapped, 0);
        mechanism_close(&m);
    }
}

static void terminal_releases_are_counted_by_slot(void **state)
{
    struct mechanism m;
    NxmemAllocation block;
    uint64_t unmapped;

    (void)state;
    mechanism_open(&m, "undeclared-slot", 1);
    for (uint64_t id = 1; id <= 5; id++) {
        block = must_allocate(m.vtable, id, 100, 64);
        if (id <= 2)
            assert_int_equal(m.vtable->deallocate(m.ctx, &block, &unmapped).code, NXMEM_STATUS_OK);
        else
            assert_int_equal(release_now(m.vtable, &block, NULL), NXMEM_STATUS_OK);
    }
    assert_int_equal(release_now(m.vtable, &block, NULL), NXMEM_STATUS_UNKNOWN_ALLOCATION); /* an entry all the same */
    assert_int_equal(testplugin_ask(&m.plugin, "TerminalReleases"), 6);
    assert_int_equal(testplugin_ask(&m.plugin, "StructuredReleases"), 4);
    mechanism_close(&m);
}

/* --- quarantining, future-state, callback-probe ------------------------------------------------------------------------- */

static void a_partial_release_keeps_the_rest_until_the_state_goes(void **state)
{
    static const struct {
        const char *name;
        uint32_t state;
    } rows[] = {{"quarantining", NXMEM_RELEASE_QUARANTINED}, {"future-state", 0x0BADF00D}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mechanism m;
        NxmemReleaseOutcome outcome = {.struct_size = sizeof outcome};
        NxmemAllocation block, second;

        mechanism_open(&m, rows[i].name, 1);
        block = must_allocate(m.vtable, 1, 8192, 64);
        assert_int_equal(m.vtable->release_allocation(m.ctx, &block, &outcome).code, NXMEM_STATUS_OK);
        assert_int_equal(outcome.state, rows[i].state);
        assert_int_equal(outcome.allocation_bytes, 8192);
        assert_int_equal(outcome.unmapped_bytes, 4096);
        assert_int_equal(outcome.residual_owned_bytes, 4096);
        assert_int_equal(outcome.failure.code, NXMEM_STATUS_RELEASE_QUARANTINED);
        assert_report(&m, 1, 0, 0, 0, 0);
        second = must_allocate(m.vtable, 2, 8192, 64);
        assert_ptr_not_equal(second.ptr, block.ptr); /* never handed out again */
        block.ptr[8191] = 1;                         /* and still there */
        assert_int_equal(m.vtable->release_allocation(m.ctx, &block, &outcome).code, NXMEM_STATUS_UNKNOWN_ALLOCATION);
        assert_int_equal(outcome.state, NXMEM_RELEASE_FAILED);
        assert_int_equal(outcome.unmapped_bytes, 0);
        assert_int_equal(m.vtable->deallocate(m.ctx, &second, &outcome.unmapped_bytes).code, NXMEM_STATUS_OK);
        assert_int_equal(outcome.unmapped_bytes, 8192); /* the other slot completes as always */
        mechanism_close(&m);
    }
}

static void an_outcome_with_too_little_room_is_refused_unwritten(void **state)
{
    static const char *const names[] = {"quarantining", "lazy"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        NxmemReleaseOutcome outcome = {.state = 7}, *exact;
        struct mechanism m;
        NxmemAllocation block;
        uint64_t unmapped;

        mechanism_open(&m, names[i], 1);
        block = must_allocate(m.vtable, 1, 100, 64);
        exact = exact_prefix(&outcome, sizeof outcome - 8);
        assert_int_equal(m.vtable->release_allocation(m.ctx, &block, exact).code, NXMEM_STATUS_SHORT_STRUCT);
        assert_int_equal(exact->state, 7);
        free(exact);
        assert_int_equal(m.vtable->release_allocation(m.ctx, &block, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
        assert_report(&m, 1, 1, 0, 0, 0);
        assert_int_equal(m.vtable->deallocate(m.ctx, &block, &unmapped).code, NXMEM_STATUS_OK);
        mechanism_close(&m);
    }
}

static NxmemStatus refuse_reclaim(void *ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed)
{
    static const char words[] = "nothing to give";
    NxmemStatus status = {.code = NXMEM_STATUS_UNSUPPORTED_CAPABILITY, .message_len = sizeof words - 1};

    (void)ctx;
    (void)request;
    *reclaimed = 0;
    memcpy(status.message, words, sizeof words);
    return status;
}

static void the_probe_asks_the_host_first_and_carries_its_refusal(void **state)
{
    struct mechanism m;
    NxmemAllocResult result = {.struct_size = sizeof result};
    NxmemAllocRequest request;
    NxmemAllocation block;
    NxmemStatus status;

    (void)state;
    plugin_load(&m.plugin, TESTPLUGIN, 1);
    m.plugin.host.callbacks.request_reclaim = refuse_reclaim;
    assert_int_equal(plugin_open(&m.plugin, plugin_factory(&m.plugin, "callback-probe", 0), 1, 0, &m.vtable).code, 0);
    m.ctx = m.vtable->ctx;
    request = request_for(m.vtable, 1, 4096, 64);
    status = m.vtable->allocate(m.ctx, &request, &result);
    assert_int_equal(status.code, NXMEM_STATUS_CALLBACK_FAILED);
    assert_non_null(strstr((const char *)status.message, "nothing to give"));
    assert_null(result.ptr);
    assert_report(&m, 1, 0, 0, 0, 0);
    mechanism_close(&m);

    mechanism_open(&m, "callback-probe", 1);
    block = must_allocate(m.vtable, 1, 4096, 64);
    assert_int_equal(m.plugin.host.reclaims, 1);
    assert_int_equal(m.plugin.host.reclaim_bytes, 4096);
    assert_int_equal(released(&m, &block), 4096);
    mechanism_close(&m);
}

static void the_probe_goes_on_without_callbacks(void **state)
{
    static const NxmemHostCallbacks none = {sizeof none, 1, NULL, NULL, NULL};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const NxmemAllocatorFactoryVtable *factory;
        NxmemOpenRequest request = {sizeof request, 1, {NXMEM_TIER_HOST, 0}, 0, i == 0 ? NULL : &none};
        struct mechanism m;
        NxmemAllocation block;

        plugin_load(&m.plugin, TESTPLUGIN, 1);
        factory = plugin_factory(&m.plugin, "callback-probe", 0);
        assert_int_equal(factory->open_allocator(factory->ctx, &request, &m.vtable).code, NXMEM_STATUS_OK);
        m.ctx = m.vtable->ctx;
        block = must_allocate(m.vtable, 1, 4096, 64);
        assert_int_equal(released(&m, &block), 4096);
        mechanism_close(&m);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_aligned_usable_and_credited_in_full),
        cmocka_unit_test(owned_and_mapped_are_stated),
        cmocka_unit_test(zero_bytes_have_an_address_of_their_own),
        cmocka_unit_test(sizes_that_no_memory_has_are_out_of_memory),
        cmocka_unit_test(bad_requests_are_told_the_first_thing_wrong),
        cmocka_unit_test(an_id_not_held_is_unknown_whatever_its_address),
        cmocka_unit_test(terminal_releases_are_counted_by_slot),
        cmocka_unit_test(a_partial_release_keeps_the_rest_until_the_state_goes),
        cmocka_unit_test(an_outcome_with_too_little_room_is_refused_unwritten),
        cmocka_unit_test(the_probe_asks_the_host_first_and_carries_its_refusal),
        cmocka_unit_test(the_probe_goes_on_without_callbacks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
