/* include/nxmem_host.h over the fake plugin: what fails and how it says so, and the end of a plugin. */
#include "nxmem_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/host/api_fixture.h"
#include "tests/unit/support/fake.h"

/* --- errors -------------------------------------------------------------------------------------------- */

static void a_failed_load_says_which_kind(void **state)
{
    const NxmemVersionRange from_the_future = { 99, 99, 0, 1 }, one = { 1, 1, 1, 1 };
    const NxmemVersionRange empty[] = { { 5, 1, 0, 1 }, { 1, 1, 1, 0 } };
    nxmem_host_plugin *other = NULL;

    (void)state;
    assert_int_equal(nxmem_host_load("/no/such.so", NULL, &other, &api.error), NXMEM_HOST_CANNOT_OPEN);
    assert_int_equal(api.error.code, NXMEM_HOST_CANNOT_OPEN);
    assert_int_equal(nxmem_host_load(UNIT_DIR "/plugins/without_factories.so", NULL, &other, &api.error), NXMEM_HOST_NO_SYMBOL);
    assert_string_equal(api.error.what, "NxmemCreateAllocatorFactories");
    assert_int_equal(nxmem_host_load(API_PLUGIN, &from_the_future, &other, &api.error), NXMEM_HOST_NEGOTIATION);
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) { /* before anything is opened */
        assert_int_equal(nxmem_host_load("/no/such.so", &empty[i], &other, &api.error), NXMEM_HOST_ARGUMENT);
        assert_int_equal(api.error.code, NXMEM_HOST_ARGUMENT);
    }
    assert_int_equal(nxmem_host_load("/no/such.so", &one, &other, &api.error), NXMEM_HOST_CANNOT_OPEN);
    fake.create_status = NXMEM_STATUS_DEVICE_ERROR;
    assert_int_equal(nxmem_host_load(API_PLUGIN, NULL, &other, &api.error), NXMEM_HOST_CALL);
    assert_string_equal(api.error.what, "NxmemCreateAllocatorFactories");
    assert_int_equal(api.error.status, NXMEM_STATUS_DEVICE_ERROR);
    fake.create_status = 0;
    fake.factories = 65;
    assert_int_equal(nxmem_host_load(API_PLUGIN, NULL, &other, &api.error), NXMEM_HOST_CONTRACT);
    assert_int_equal(nxmem_host_load(NULL, NULL, &other, &api.error), NXMEM_HOST_ARGUMENT);
    assert_int_equal(nxmem_host_load(API_PLUGIN, NULL, NULL, NULL), NXMEM_HOST_ARGUMENT);
    assert_null(other);
}

static void a_failing_call_says_what_to_do_about_it(void **state)
{
    static const struct {
        uint32_t status, code, advice;
    } cases[] = {
        { NXMEM_STATUS_OUT_OF_MEMORY, NXMEM_HOST_MEMORY, NXMEM_HOST_ADVICE_CAPACITY },
        { NXMEM_STATUS_NOT_IMPLEMENTED, NXMEM_HOST_CALL, NXMEM_HOST_ADVICE_CHOICE },
        { NXMEM_STATUS_WRONG_DEVICE, NXMEM_HOST_CALL, NXMEM_HOST_ADVICE_ROUTING },
        { NXMEM_STATUS_DEVICE_ERROR, NXMEM_HOST_CALL, NXMEM_HOST_ADVICE_NONE },
        { 9999, NXMEM_HOST_CALL, NXMEM_HOST_ADVICE_NONE },
    };
    nxmem_host_block block = NXMEM_HOST_SIZED(nxmem_host_block);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fake.allocate_status = cases[i].status;
        assert_int_equal(nxmem_host_allocate(api.allocator, 64, 64, &block, &api.error), cases[i].code);
        assert_int_equal(api.error.code, cases[i].code);
        assert_int_equal(api.error.status, cases[i].status);
        assert_int_equal(api.error.advice, cases[i].advice);
        assert_string_equal(api.error.what, "allocate");
    }
    assert_null(block.address);
}

static void every_class_has_its_own_name(void **state)
{
    (void)state;
    for (uint32_t a = 0; a <= NXMEM_HOST_RETIRED; a++) {
        assert_string_not_equal(nxmem_host_class_name(a), "unknown class");
        for (uint32_t b = 0; b < a; b++)
            assert_string_not_equal(nxmem_host_class_name(a), nxmem_host_class_name(b));
    }
    assert_string_equal(nxmem_host_class_name(NXMEM_HOST_RETIRED + 1), "unknown class");
}

/* --- the end ------------------------------------------------------------------------------------------- */

static void a_refusal_shows_both_tallies_and_whether_to_try_again(void **state)
{
    nxmem_host_gate gate = NXMEM_HOST_SIZED(nxmem_host_gate);

    (void)state;
    fake.report = (NxmemUnloadReport){ .live_views = 3, .live_capabilities = 4 };
    assert_int_equal(nxmem_host_unload(&api.plugin, &gate, &api.error), NXMEM_HOST_BUSY);
    assert_int_equal(gate.reason, NXMEM_HOST_GATE_PLUGIN);
    assert_int_equal(gate.retry, 1);
    assert_int_equal(gate.plugin_views, 3);
    assert_int_equal(gate.plugin_capabilities, 4);
    assert_int_equal(gate.allocators + gate.allocations + gate.queued + gate.inside, 0);
    assert_int_equal(api.error.code, NXMEM_HOST_BUSY);
    assert_string_equal(api.error.text, "not unloaded: the host has 0 allocators, 0 allocations, 0 queued releases, 0 running callbacks; the plugin "
                                        "reports 0 allocators, 0 allocations, 3 views, 4 capability records, 0 queued releases");
    fake.report = (NxmemUnloadReport){ .live_allocators = 1, .live_allocations = UINT64_MAX, .live_views = UINT64_MAX };
    fake.report.live_capabilities = fake.report.queued_releases = UINT64_MAX;
    assert_int_equal(nxmem_host_unload(&api.plugin, &gate, &api.error), NXMEM_HOST_BUSY);
    assert_non_null(strstr(api.error.text, "reports 1 allocator, 1844"));
    fake.report = (NxmemUnloadReport){ 0 };
    fake.query_status = NXMEM_STATUS_INTERNAL_ERROR;
    assert_int_equal(nxmem_host_unload(&api.plugin, &gate, &api.error), NXMEM_HOST_BUSY);
    assert_int_equal(gate.reason, NXMEM_HOST_GATE_UNANSWERED);
    assert_int_equal(gate.plugin_views, 0);
    fake.query_status = 0;
    nxmem_host_ask(api.plugin, &gate);
    assert_int_equal(gate.reason, NXMEM_HOST_GATE_OPEN);
    assert_int_equal(gate.retry, 1);
    assert_non_null(api.plugin);
}

static void a_success_leaves_no_earlier_refusal_behind(void **state)
{
    nxmem_host_gate gate = NXMEM_HOST_SIZED(nxmem_host_gate);

    (void)state;
    fake.report = (NxmemUnloadReport){ .live_views = 3 };
    assert_int_equal(nxmem_host_unload(&api.plugin, &gate, &api.error), NXMEM_HOST_BUSY);
    assert_int_equal(gate.reason, NXMEM_HOST_GATE_PLUGIN);
    fake.report = (NxmemUnloadReport){ 0 };
    assert_int_equal(nxmem_host_unload(&api.plugin, &gate, &api.error), NXMEM_HOST_OK);
    assert_int_equal(gate.reason, NXMEM_HOST_GATE_OPEN);
    assert_int_equal(gate.retry, 0);
    assert_int_equal(gate.plugin_views, 0);
    assert_int_equal(nxmem_host_load(API_PLUGIN, NULL, &api.plugin, &api.error), NXMEM_HOST_OK); /* for the teardown */
}

static void code_that_is_kept_refuses_for_good_and_unmaps_last(void **state)
{
    nxmem_host_counters before = NXMEM_HOST_SIZED(nxmem_host_counters), after = before;
    nxmem_host_gate gate = NXMEM_HOST_SIZED(nxmem_host_gate);
    nxmem_host_code *code = nxmem_host_keep_code(api.plugin);

    (void)state;
    nxmem_host_counters_now(&before);
    assert_int_equal(nxmem_host_unload(&api.plugin, &gate, &api.error), NXMEM_HOST_BUSY);
    assert_int_equal(gate.reason, NXMEM_HOST_GATE_REFERENCED);
    assert_int_equal(gate.retry, 0);
    assert_null(api.plugin);
    assert_int_equal(fake.unmapped, 0);
    nxmem_host_drop_code(code);
    nxmem_host_drop_code(NULL);
    nxmem_host_counters_now(&after);
    assert_int_equal(after.modules_unmapped, before.modules_unmapped + 1);
    assert_int_equal(fake.unmapped, 1);
    assert_int_equal(nxmem_host_unload(&api.plugin, &gate, &api.error), NXMEM_HOST_ARGUMENT); /* there is none left */
    assert_int_equal(nxmem_host_unload(NULL, &gate, &api.error), NXMEM_HOST_ARGUMENT);
    nxmem_host_drop(NULL);
    assert_int_equal(nxmem_host_load(API_PLUGIN, NULL, &api.plugin, &api.error), NXMEM_HOST_OK); /* for the teardown */
}

#define PLAIN(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)
#define OPEN(name) cmocka_unit_test_setup_teardown(name, api_setup_open, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAIN(a_failed_load_says_which_kind),
        OPEN(a_failing_call_says_what_to_do_about_it),
        PLAIN(every_class_has_its_own_name),
        PLAIN(a_refusal_shows_both_tallies_and_whether_to_try_again),
        PLAIN(a_success_leaves_no_earlier_refusal_behind),
        PLAIN(code_that_is_kept_refuses_for_good_and_unmaps_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
