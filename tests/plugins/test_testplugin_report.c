/* A test plugin told not to report stays so for good: a program of its own. */
#include "tests/plugins/mechanism_fixture.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void a_plugin_told_to_refuse_never_reports_again(void **state)
{
    NxmemUnloadReport report = {.struct_size = sizeof report, .live_views = 5};
    struct mechanism m;
    void (*refuse)(void);
    void *found;

    (void)state;
    mechanism_open(&m, "eager", 1);
    assert_report(&m, 1, 0, 0, 0, 0);
    found = dlsym(m.plugin.library, "NxmemTestpluginRefuseUnloadReport");
    assert_non_null(found);
    memcpy(&refuse, &found, sizeof refuse);
    refuse();
    assert_int_equal(m.plugin.readiness(&report).code, NXMEM_STATUS_INTERNAL_ERROR);
    mechanism_release(&m);
    assert_int_equal(m.plugin.readiness(&report).code, NXMEM_STATUS_INTERNAL_ERROR);
    assert_int_equal(report.live_views, 5);
    plugin_unload(&m.plugin);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(a_plugin_told_to_refuse_never_reports_again)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
