/* include/nxmem_host.h over the fake plugin: opening a mechanism, and the callbacks of whoever did. */
#include "nxmem_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/host/api_fixture.h"
#include "tests/unit/support/fake.h"

/* --- opening ------------------------------------------------------------------------------------------- */

static void an_allocator_says_what_it_is(void **state)
{
    (void)state;
    assert_string_equal(nxmem_host_name(api.allocator), "plain");
    assert_int_equal(nxmem_host_device(api.allocator).tier, NXMEM_TIER_DEVICE);
    assert_int_equal(nxmem_host_mechanism_id(api.allocator), fake.last_published->mechanism_id);
    assert_int_equal(nxmem_host_allocator_capabilities(api.allocator), NXMEM_CAPABILITY_KNOWN_MASK);
    assert_int_equal(nxmem_host_capabilities(api.plugin), NXMEM_CAPABILITY_KNOWN_MASK);
    assert_int_equal(nxmem_host_structured_release(api.allocator), 1);
    assert_int_equal(nxmem_host_commits_on_demand(api.allocator), 1);
    assert_int_equal(nxmem_host_shares_prefixes(api.allocator), 1);
    assert_non_null(nxmem_host_symbol(api.plugin, "NxmemNegotiate"));
    assert_null(nxmem_host_symbol(api.plugin, "NxmemNothing"));
}

static void a_slot_that_did_not_survive_is_told(void **state)
{
    (void)state;
    fake.extra_flags = 0;
    fake.without_flags = NXMEM_CAPABILITY_STRUCTURED_RELEASE;
    api_open();
    assert_int_equal(nxmem_host_structured_release(api.allocator), 0);
    assert_int_equal(nxmem_host_commits_on_demand(api.allocator), 0);
    assert_int_equal(nxmem_host_shares_prefixes(api.allocator), 0);
}

static int ends;

static void note_end(void *owner)
{
    (void)owner;
    ends++;
}

static void a_refused_opening_leaves_nothing(void **state)
{
    (void)state;
    ends = 0;
    api.options.ended = note_end;
    fake.open_status = NXMEM_STATUS_UNSUPPORTED_CAPABILITY;
    assert_int_equal(nxmem_host_open(api.plugin, 0, &api.options, &api.allocator, &api.error), NXMEM_HOST_CALL);
    assert_string_equal(api.error.what, "open_allocator");
    assert_int_equal(api.error.advice, NXMEM_HOST_ADVICE_CHOICE);
    fake.open_status = 0;
    assert_int_equal(nxmem_host_open(api.plugin, 7, &api.options, &api.allocator, &api.error), NXMEM_HOST_NO_MECHANISM);
    assert_null(api.allocator);
    assert_int_equal(ends, 0);
}

static void the_end_is_told_once_and_after_the_prefixes(void **state)
{
    nxmem_host_prefix *prefix;

    (void)state;
    ends = 0;
    api.options.ended = note_end;
    api_open();
    assert_int_equal(nxmem_host_prefix_new(api.allocator, 4096, &prefix, &api.error), NXMEM_HOST_OK);
    api_close();
    assert_int_equal(ends, 0);
    nxmem_host_prefix_free(prefix);
    assert_int_equal(ends, 1);
}

/* --- callbacks ----------------------------------------------------------------------------------------- */

static struct {
    int owner, calls;
    nxmem_host_block block;
    nxmem_host_release_result result;
    uint64_t asked;
    int pins, ever_pinned, retired;
} seen;

static void completed(void *owner, const nxmem_host_block *block, const nxmem_host_release_result *result)
{
    assert_ptr_equal(owner, &seen.owner);
    seen.calls++;
    seen.block = *block;
    seen.result = *result;
}

static int64_t reclaim(void *owner, NxmemDeviceId device, uint64_t bytes)
{
    assert_ptr_equal(owner, &seen.owner);
    assert_int_equal(device.tier, NXMEM_TIER_DEVICE);
    seen.asked = bytes;
    return 4096;
}

static int pin(void *context)
{
    assert_ptr_equal(context, &seen.pins);
    seen.pins += !seen.retired;
    seen.ever_pinned += !seen.retired;
    return !seen.retired;
}

static void unpin(void *context)
{
    assert_ptr_equal(context, &seen.pins);
    seen.pins--;
}

static void callbacks_reach_their_owner(void **state)
{
    nxmem_host_release_result result;
    nxmem_host_block block;

    (void)state;
    memset(&seen, 0, sizeof seen);
    api.options.owner = &seen.owner;
    api.options.completed = completed;
    api.options.reclaim = reclaim;
    api_open();
    fake.reclaim_first = 8192;
    block = api_allocate(64);
    assert_int_equal(seen.asked, 8192);
    assert_int_equal(fake.last_reclaimed, 4096);
    assert_int_equal(api_enqueue(&block, &result), NXMEM_HOST_OK);
    assert_int_equal(result.outcome, NXMEM_HOST_QUEUED);
    assert_int_equal(seen.calls, 0);
    assert_int_equal(nxmem_host_pending(api.allocator), 1);
    assert_int_equal(api_drain(UINT64_MAX), 1);
    assert_int_equal(seen.calls, 1);
    assert_ptr_equal(seen.block.address, block.address);
    assert_int_equal(seen.block.id, block.id);
    assert_int_equal(seen.result.outcome, NXMEM_HOST_COMPLETE);
    assert_int_equal(seen.result.ticket, result.ticket);
    assert_int_equal(seen.result.unmapped, 64);
}

static void without_callbacks_a_plugin_hears_so(void **state)
{
    nxmem_host_release_result result;
    nxmem_host_block block;

    (void)state;
    fake.reclaim_first = 8192;
    block = api_allocate(64);
    assert_int_equal(fake.last_reclaim_status, NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
    assert_int_equal(api_statistics().reclaim_calls, 1);
    assert_int_equal(api_statistics().reclaim_failures, 1);
    fake.complete_in_enqueue = true;
    assert_int_equal(api_enqueue(&block, &result), NXMEM_HOST_OK);
    assert_int_equal(result.outcome, NXMEM_HOST_COMPLETE);
}

static void a_pin_source_of_the_caller_s_own(void **state)
{
    nxmem_host_release_result result;
    nxmem_host_block block;

    (void)state;
    memset(&seen, 0, sizeof seen);
    api.options.pin = pin;
    api.options.unpin = unpin;
    api.options.pin_context = &seen.pins;
    api_open();
    block = api_allocate(64);
    assert_int_equal(api_enqueue(&block, &result), NXMEM_HOST_OK);
    assert_int_equal(seen.pins, 1);
    assert_int_equal(api_drain(1), 1);
    assert_int_equal(seen.pins, 0);
    block = api_allocate(64);
    seen.retired = 1;
    assert_int_equal(api_enqueue(&block, &result), NXMEM_HOST_RETIRED);
    assert_int_equal(result.outcome, NXMEM_HOST_FAILED);
    assert_int_equal(fake.enqueues, 1);
    assert_int_equal(seen.ever_pinned, 1);
    assert_int_equal(api_release(&block, &result), NXMEM_HOST_OK);
}

static void a_pin_source_is_whole_and_one(void **state)
{
    nxmem_host_provider *provider;

    (void)state;
    assert_int_equal(nxmem_host_provider_new(&provider, &api.error), NXMEM_HOST_OK);
    api.options.pin = pin;
    assert_int_equal(nxmem_host_open(api.plugin, 0, &api.options, &api.allocator, &api.error), NXMEM_HOST_ARGUMENT);
    api.options.pin = NULL;
    api.options.unpin = unpin;
    assert_int_equal(nxmem_host_open(api.plugin, 0, &api.options, &api.allocator, &api.error), NXMEM_HOST_ARGUMENT);
    api.options.pin = pin;
    api.options.provider = provider;
    assert_int_equal(nxmem_host_open(api.plugin, 0, &api.options, &api.allocator, &api.error), NXMEM_HOST_ARGUMENT);
    assert_int_equal(fake.opens, 0);
    nxmem_host_provider_free(provider);
}

static void a_bound_allocator_keeps_its_provider(void **state)
{
    nxmem_host_release_result result;
    nxmem_host_provider *provider;
    nxmem_host_block block;

    (void)state;
    assert_int_equal(nxmem_host_provider_new(&provider, &api.error), NXMEM_HOST_OK);
    api.options.provider = provider;
    api_open();
    nxmem_host_provider_free(provider);
    block = api_allocate(64);
    assert_int_equal(api_enqueue(&block, &result), NXMEM_HOST_OK); /* and the close drains it */
}

#define PLAIN(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)
#define OPEN(name) cmocka_unit_test_setup_teardown(name, api_setup_open, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPEN(an_allocator_says_what_it_is),
        PLAIN(a_slot_that_did_not_survive_is_told),
        PLAIN(a_refused_opening_leaves_nothing),
        PLAIN(the_end_is_told_once_and_after_the_prefixes),
        PLAIN(callbacks_reach_their_owner),
        OPEN(without_callbacks_a_plugin_hears_so),
        PLAIN(a_pin_source_of_the_caller_s_own),
        PLAIN(a_pin_source_is_whole_and_one),
        PLAIN(a_bound_allocator_keeps_its_provider),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
