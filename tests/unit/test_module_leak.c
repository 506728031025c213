/* Modules that are kept mapped for ever by decision. A program of its own: it poisons what every later load of the
 * same file would see. */
#include "core/module.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support/fake.h"
#include "tests/unit/support/host.h"

static int setup(void **state)
{
    return host_setup(state);
}

static int teardown(void **state)
{
    (void)state;
    nxm_blocks_free(host.blocks);
    fake_reset();
    return 0;
}

static struct nxm_module_counters counters(void)
{
    struct nxm_module_counters now;

    nxm_module_counters(&now);
    return now;
}

/* First: nothing has pinned the library yet. */
static void an_idle_drop_is_no_leak(void **state)
{
    struct nxm_module_counters before = counters();

    (void)state;
    nxm_module_drop(host.module);
    assert_int_equal(fake.unmapped, 1);
    assert_int_equal(counters().forced_module_leaks, before.forced_module_leaks);
    assert_int_equal(counters().modules_unmapped, before.modules_unmapped + 1);
}

static void assert_dropping_leaks(void)
{
    struct nxm_module_counters before = counters();

    nxm_module_drop(host.module);
    assert_int_equal(counters().forced_module_leaks, before.forced_module_leaks + 1);
    assert_int_equal(counters().modules_unmapped, before.modules_unmapped);
    assert_int_equal(fake.unmapped, 0);
    assert_int_equal(fake.queries, 1);
}

static void a_plugin_that_cannot_report_is_kept(void **state)
{
    (void)state;
    fake.query_status = NXMEM_STATUS_INTERNAL_ERROR;
    assert_dropping_leaks();
    assert_int_equal(fake.factory_releases, 1);
}

static void a_plugin_that_still_owns_something_is_kept(void **state)
{
    (void)state;
    fake.report.live_views = 1;
    assert_dropping_leaks();
    assert_int_equal(fake.factory_releases, 1);
}

static void a_factory_waits_for_its_last_allocator_even_when_the_handle_goes(void **state)
{
    (void)state;
    nxm_module_drop(host.module);
    fake.factories = 2; /* asked at load */
    assert_int_equal(nxm_module_load(UNIT_DIR "/plugins/fake.so", NULL, &host.module, NULL), NXM_OK);
    fake.factory_releases = 0;
    fake.queries = 0;
    host_open();
    host_allocate(64);
    assert_dropping_leaks();
    assert_int_equal(fake.factory_releases, 1); /* the other one */
    host_close();
    assert_int_equal(fake.releases, 1);
    assert_int_equal(fake.factory_releases, 2);
    assert_int_equal(fake.live, 0);
    assert_int_equal(fake.unmapped, 0); /* kept for ever, even idle */
}

static void a_refused_load_whose_plugin_still_owns_something_keeps_its_code(void **state)
{
    struct nxm_module_counters before = counters();
    struct nxm_module *module;

    (void)state;
    nxm_module_drop(host.module);
    before.modules_unmapped = counters().modules_unmapped;
    fake.factories = 2;
    fake.break_second_factory = true;
    fake.report.live_capabilities = 1;
    fake.factory_releases = 0;
    assert_int_equal(nxm_module_load(UNIT_DIR "/plugins/fake.so", NULL, &module, NULL), NXM_ECALL);
    assert_int_equal(fake.factory_releases, 2);
    assert_int_equal(counters().forced_module_leaks, before.forced_module_leaks + 1);
    assert_int_equal(counters().modules_unmapped, before.modules_unmapped);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_idle_drop_is_no_leak),
        TEST(a_plugin_that_cannot_report_is_kept),
        TEST(a_plugin_that_still_owns_something_is_kept),
        TEST(a_factory_waits_for_its_last_allocator_even_when_the_handle_goes),
        TEST(a_refused_load_whose_plugin_still_owns_something_keeps_its_code),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
