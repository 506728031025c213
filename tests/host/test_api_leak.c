/* include/nxmem_host.h where something stays behind: the process counters, exactly. They are poisoned here, so this is a program of
 * its own with one test. */
#include "nxmem_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/support/fake.h"

static int ends;

static void note_end(void *owner)
{
    (void)owner;
    ends++;
}

static nxmem_host_counters now(void)
{
    nxmem_host_counters counters = NXMEM_HOST_SIZED(nxmem_host_counters);

    nxmem_host_counters_now(&counters);
    return counters;
}

static void assert_counters(uint64_t leaked, uint64_t reclaimed, uint64_t forced, uint64_t unmapped)
{
    assert_int_equal(now().leaked_tables, leaked);
    assert_int_equal(now().reclaimed_tables, reclaimed);
    assert_int_equal(now().forced_leaks, forced);
    assert_int_equal(now().modules_unmapped, unmapped);
}

static void what_is_queued_outlives_its_allocator_and_pins_the_code(void **state)
{
    nxmem_host_options options = NXMEM_HOST_SIZED(nxmem_host_options);
    nxmem_host_block block = NXMEM_HOST_SIZED(nxmem_host_block);
    nxmem_host_gate gate = NXMEM_HOST_SIZED(nxmem_host_gate);
    nxmem_host_allocator *allocator;
    nxmem_host_provider *provider;
    nxmem_host_plugin *plugin;
    uint32_t status;

    (void)state;
    fake.extra_flags = NXMEM_CAPABILITY_DEFERRED_RELEASE;
    fake.drain_nothing = true;
    options.ended = note_end;
    assert_int_equal(nxmem_host_provider_new(&provider, NULL), NXMEM_HOST_OK);
    options.provider = provider;
    assert_int_equal(nxmem_host_load(UNIT_DIR "/plugins/fake.so", NULL, &plugin, NULL), NXMEM_HOST_OK);
    assert_int_equal(nxmem_host_open(plugin, 0, &options, &allocator, NULL), NXMEM_HOST_OK);
    assert_int_equal(nxmem_host_allocate(allocator, 64, 64, &block, NULL), NXMEM_HOST_OK);
    assert_int_equal(nxmem_host_enqueue(allocator, block.address, 64, 64, NULL, NULL), NXMEM_HOST_OK);
    nxmem_host_close(allocator);
    assert_counters(1, 0, 0, 0);
    assert_int_equal(ends, 0);
    assert_int_equal(nxmem_host_provider_pins(provider), 1);
    assert_int_equal(nxmem_host_unload(&plugin, &gate, NULL), NXMEM_HOST_BUSY);
    assert_int_equal(gate.reason, NXMEM_HOST_GATE_HOST);
    assert_int_equal(gate.retry, 1);
    assert_int_equal(gate.allocators, 0);
    assert_int_equal(gate.allocations, 1);
    assert_int_equal(gate.queued, 1);
    assert_int_equal(gate.plugin_queued, 1);

    assert_true(fake_complete_one(fake.last_state, &status));
    assert_int_equal(status, 0);
    assert_counters(1, 1, 0, 0);
    assert_int_equal(ends, 1);
    nxmem_host_provider_wait(provider);
    nxmem_host_provider_free(provider);
    assert_int_equal(nxmem_host_unload(&plugin, &gate, NULL), NXMEM_HOST_BUSY);
    assert_int_equal(gate.reason, NXMEM_HOST_GATE_REFERENCED);
    assert_null(plugin);
    assert_counters(1, 1, 0, 0);

    /* Dropped while the plugin owns something: forced, and counted. */
    assert_int_equal(nxmem_host_load(UNIT_DIR "/plugins/fake.so", NULL, &plugin, NULL), NXMEM_HOST_OK);
    fake.report.live_allocations = 1;
    nxmem_host_drop(plugin);
    assert_counters(1, 1, 1, 0);
    fake.report.live_allocations = 0;

    /* And an idle one goes. */
    assert_int_equal(nxmem_host_load(UNIT_DIR "/plugins/fake.so", NULL, &plugin, NULL), NXMEM_HOST_OK);
    nxmem_host_drop(plugin);
    assert_counters(1, 1, 1, 1);
    fake_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_queued_outlives_its_allocator_and_pins_the_code) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
