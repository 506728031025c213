/* Pins that stay behind with a leaked callback table, and the late completion that gives them back. It pins a module for ever and
 * counts in the process: a program of its own. */
#include "core/provider.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/support/fake.h"
#include "tests/unit/support/host.h"

static unsigned ended;

static void note_end(void *owner)
{
    (void)owner;
    ended++;
}

static void a_leaked_table_keeps_its_pins_until_the_late_completions(void **state)
{
    struct nxm_module_counters counters;
    struct nxm_provider *provider;
    struct nxm_block block;
    uint32_t status;

    (void)state;
    assert_int_equal(host_setup(state), 0);
    assert_int_equal(nxm_provider_new(&provider), NXM_OK);
    fake.extra_flags = NXMEM_CAPABILITY_DEFERRED_RELEASE;
    fake.drain_nothing = true;
    host.options.pins = nxm_provider_source(provider);
    host.options.ended = note_end;
    host_open();
    for (int i = 0; i < 2; i++) {
        block = host_allocate(64);
        host_enqueued(&block);
    }
    host_close();
    nxm_module_counters(&counters);
    assert_int_equal(counters.leaked_callback_tables, 1);
    assert_int_equal(nxm_provider_pins(provider), 2);
    assert_int_equal(ended, 0); /* what the options name is needed still */

    assert_true(fake_complete_one(fake.last_state, &status));
    assert_int_equal(status, 0);
    assert_int_equal(nxm_provider_pins(provider), 1);
    assert_int_equal(ended, 0);
    assert_true(fake_complete_one(fake.last_state, &status));
    assert_int_equal(status, 0);
    assert_int_equal(nxm_provider_pins(provider), 0);
    assert_int_equal(ended, 1);
    nxm_module_counters(&counters);
    assert_int_equal(counters.leaked_callback_tables, 1);
    assert_int_equal(counters.reclaimed_callback_tables, 1);
    assert_int_equal(counters.forced_module_leaks, 0);
    assert_int_equal(counters.modules_unmapped, 0);

    nxm_provider_wait(provider);
    nxm_provider_unref(provider);
    nxm_module_drop(host.module); /* the table's reference stays */
    nxm_blocks_free(host.blocks);
    fake_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_leaked_table_keeps_its_pins_until_the_late_completions) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
