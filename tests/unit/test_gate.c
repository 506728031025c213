/* core/gate.c: what opens the unload gate, and nothing else does. */
#include "core/gate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct {
    uint32_t status;
    NxmemUnloadReport answer, found;
    unsigned calls;
} plugin;

static NxmemStatus query(NxmemUnloadReport *report)
{
    plugin.calls++;
    plugin.found = *report;
    *report = plugin.answer;
    return (NxmemStatus){ .code = plugin.status };
}

static int idle(void **state)
{
    (void)state;
    memset(&plugin, 0, sizeof plugin);
    plugin.answer.struct_size = sizeof plugin.answer;
    return 0;
}

static enum nxm_gate_reason ask(struct nxm_tallies host)
{
    struct nxm_gate gate;

    nxm_gate_ask(query, &host, &gate);
    assert_true(gate.handle_kept);
    return gate.reason;
}

static void nothing_alive_opens_it(void **state)
{
    (void)state;
    assert_int_equal(ask((struct nxm_tallies){ 0 }), NXM_GATE_OPEN);
}

static void the_report_comes_zeroed_with_its_size(void **state)
{
    NxmemUnloadReport expected = { .struct_size = 48 };

    (void)state;
    ask((struct nxm_tallies){ 0 });
    assert_memory_equal(&plugin.found, &expected, sizeof expected);
}

static void each_host_axis_shuts_it(void **state)
{
    (void)state;
    assert_int_equal(ask((struct nxm_tallies){ .allocators = 1 }), NXM_GATE_HOST);
    assert_int_equal(ask((struct nxm_tallies){ .allocations = 1 }), NXM_GATE_HOST);
    assert_int_equal(ask((struct nxm_tallies){ .queued = 1 }), NXM_GATE_HOST);
    assert_int_equal(ask((struct nxm_tallies){ .inside = 1 }), NXM_GATE_HOST);
}

static void each_plugin_axis_shuts_it(void **state)
{
    static const size_t axes[] = {
        offsetof(NxmemUnloadReport, live_allocators), offsetof(NxmemUnloadReport, live_allocations),
        offsetof(NxmemUnloadReport, live_views),      offsetof(NxmemUnloadReport, live_capabilities),
        offsetof(NxmemUnloadReport, queued_releases),
    };
    uint64_t one = 1;

    (void)state;
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++) {
        idle(NULL);
        memcpy((char *)&plugin.answer + axes[i], &one, sizeof one);
        assert_int_equal(ask((struct nxm_tallies){ 0 }), NXM_GATE_PLUGIN);
    }
}

static void plugin_axes_that_wrap_to_zero_still_shut_it(void **state)
{
    (void)state;
    plugin.answer.live_views = UINT64_C(1) << 63;
    plugin.answer.queued_releases = UINT64_C(1) << 63;
    assert_int_equal(ask((struct nxm_tallies){ 0 }), NXM_GATE_PLUGIN);
    plugin.answer.live_views = UINT64_MAX;
    plugin.answer.queued_releases = 1;
    assert_int_equal(ask((struct nxm_tallies){ 0 }), NXM_GATE_PLUGIN);
}

static void host_axes_that_wrap_to_zero_still_shut_it(void **state)
{
    (void)state;
    assert_int_equal(ask((struct nxm_tallies){ .allocators = UINT64_MAX, .queued = 1 }), NXM_GATE_HOST);
}

static void the_plugin_is_asked_even_when_the_host_knows_better(void **state)
{
    struct nxm_tallies host = { .allocators = 2 };
    struct nxm_gate gate;

    (void)state;
    plugin.answer.live_views = 5;
    nxm_gate_ask(query, &host, &gate);
    assert_int_equal(plugin.calls, 1);
    assert_int_equal(gate.reason, NXM_GATE_HOST);
    assert_int_equal(gate.host.allocators, 2); /* both sides are shown */
    assert_int_equal(gate.plugin.live_views, 5);
}

static void a_failed_query_shuts_it_and_shows_zeros(void **state)
{
    struct nxm_tallies host = { 0 };
    struct nxm_gate gate;
    static const NxmemUnloadReport zeros;

    (void)state;
    plugin.status = NXMEM_STATUS_INTERNAL_ERROR;
    plugin.answer.live_views = 5;
    nxm_gate_ask(query, &host, &gate);
    assert_int_equal(gate.reason, NXM_GATE_QUERY_FAILED);
    assert_memory_equal(&gate.plugin, &zeros, sizeof zeros);
    plugin.status = 9999;
    assert_int_equal(ask(host), NXM_GATE_QUERY_FAILED);
}

static void axes_that_were_not_written_shut_it(void **state)
{
    (void)state;
    plugin.answer.struct_size = 40; /* without queued_releases */
    assert_int_equal(ask((struct nxm_tallies){ 0 }), NXM_GATE_QUERY_FAILED);
    plugin.answer.struct_size = 4;
    assert_int_equal(ask((struct nxm_tallies){ 0 }), NXM_GATE_QUERY_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_alive_opens_it, idle),
        cmocka_unit_test_setup(the_report_comes_zeroed_with_its_size, idle),
        cmocka_unit_test_setup(each_host_axis_shuts_it, idle),
        cmocka_unit_test_setup(each_plugin_axis_shuts_it, idle),
        cmocka_unit_test_setup(plugin_axes_that_wrap_to_zero_still_shut_it, idle),
        cmocka_unit_test_setup(host_axes_that_wrap_to_zero_still_shut_it, idle),
        cmocka_unit_test_setup(the_plugin_is_asked_even_when_the_host_knows_better, idle),
        cmocka_unit_test_setup(a_failed_query_shuts_it_and_shows_zeros, idle),
        cmocka_unit_test_setup(axes_that_were_not_written_shut_it, idle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
