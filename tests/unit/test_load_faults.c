/* Every module of load_faults.def under our loader: taken or refused with the right class, and each factory that it handed
 * over comes back once. */
#include "core/module.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct row {
    const char *name;
    int result;
    uint32_t status;
    unsigned mechanisms, released; /* released: by the failed load, or by the one that went on without them */
} rows[] = {
    { "sound", NXM_OK, 0, 3, 0 },
    { "no_negotiate", NXM_ESYMBOL, 0, 0, 0 },
    { "no_factories", NXM_ESYMBOL, 0, 0, 0 },
    { "no_readiness", NXM_ESYMBOL, 0, 0, 0 },
    { "refuses_negotiation", NXM_ENEGOTIATE, NXMEM_STATUS_INTERNAL_ERROR, 0, 0 },
    { "unknown_status", NXM_ENEGOTIATE, 9999, 0, 0 },
    { "wrong_major", NXM_ENEGOTIATE, 0, 0, 0 },
    { "minor_above", NXM_ENEGOTIATE, 0, 0, 0 },
    { "outside_own_range", NXM_ENEGOTIATE, 0, 0, 0 },
    { "unknown_bits", NXM_ENEGOTIATE, 0, 0, 0 },
    { "no_allocator_bit", NXM_ENEGOTIATE, 0, 0, 0 },
    { "structured_at_zero", NXM_ENEGOTIATE, 0, 0, 0 },
    { "short_response", NXM_ENEGOTIATE, 0, 0, 0 },
    { "newer_response", NXM_OK, 0, 3, 0 },
    { "factories_fail", NXM_ECALL, NXMEM_STATUS_INTERNAL_ERROR, 0, 0 },
    { "no_mechanisms", NXM_OK, 0, 0, 0 },
    { "count_above_room", NXM_ECONTRACT, 0, 0, 3 },
    { "count_above_written", NXM_ECALL, NXMEM_STATUS_INVALID_ARGUMENT, 0, 3 },
    { "count_below_written", NXM_OK, 0, 1, 2 },
    { "same_factory_twice", NXM_OK, 0, 2, 0 },
    { "factory_short", NXM_ECALL, NXMEM_STATUS_SHORT_STRUCT, 0, 2 },
    { "factory_misaligned", NXM_ECALL, NXMEM_STATUS_INVALID_ARGUMENT, 0, 2 },
    { "factory_no_open", NXM_ECALL, NXMEM_STATUS_SHORT_STRUCT, 0, 3 },
    { "factory_no_release", NXM_ECALL, NXMEM_STATUS_SHORT_STRUCT, 0, 2 },
    { "factory_bad_tier", NXM_ECONTRACT, 0, 0, 3 },
    { "factory_no_name", NXM_ECONTRACT, 0, 0, 3 },
    { "factory_bad_name", NXM_ECONTRACT, 0, 0, 3 },
    { "factory_hole", NXM_ECALL, NXMEM_STATUS_INVALID_ARGUMENT, 0, 2 },
    { "factory_newer", NXM_OK, 0, 3, 0 },
    { "factory_page_end", NXM_OK, 0, 3, 0 },
    { "factory_unknown_bit", NXM_OK, 0, 3, 0 },
    { "factory_page_end_stub", NXM_ECALL, NXMEM_STATUS_SHORT_STRUCT, 0, 2 },
    { "factory_long_name", NXM_ECONTRACT, 0, 0, 3 },
};

/* The one row that shows only to a host that wants a newer minor. */
static const struct row below = { "minor_below", NXM_ENEGOTIATE, 0, 0, 0 };

/* A second handle keeps the library where it is, so that it can be asked afterwards. */
static uint64_t released_in(void *library)
{
    void *found = dlsym(library, "NxmemFixtureFactoryReleases");
    uint64_t (*released)(void);

    assert_non_null(found);
    memcpy(&released, &found, sizeof released);
    return released();
}

static void assert_row(const struct row *row, const NxmemVersionRange *range)
{
    struct nxm_module *module = NULL;
    struct nxm_error error = { 0 };
    struct nxm_gate gate;
    char path[512];
    void *library;

    snprintf(path, sizeof path, "%s/../plugins/fixtures/load/%s.so", UNIT_DIR, row->name);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    print_message("%s\n", row->name);
    assert_int_equal(nxm_module_load(path, range, &module, &error), row->result);
    assert_int_equal(released_in(library), row->released);
    if (row->result != NXM_OK) {
        assert_null(module);
        assert_int_equal(error.status, row->status);
    } else {
        assert_int_equal(nxm_module_mechanism_count(module), row->mechanisms);
        assert_int_equal(nxm_module_unload(module, &gate), NXM_OK);
        assert_int_equal(released_in(library), row->mechanisms + row->released);
    }
    assert_int_equal(dlclose(library), 0);
}

static void each_module_is_taken_or_refused_and_gets_its_factories_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_row(&rows[i], NULL);
}

static void a_minor_below_the_hosts_lowest_is_refused(void **state)
{
    const NxmemVersionRange range = { 1, 1, 1, 1 };

    (void)state;
    assert_row(&below, &range);
}

static void every_fault_of_the_table_has_its_row(void **state)
{
    static const char *const names[] = {
#define LOAD_FAULT(name, help) #name,
#include "tests/plugins/fixtures/load_faults.def"
#undef LOAD_FAULT
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t found = strcmp(names[i], below.name) == 0;

        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
            found += strcmp(names[i], rows[k].name) == 0;
        if (found != 1)
            fail_msg("%s has %zu rows", names[i], found);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_module_is_taken_or_refused_and_gets_its_factories_back),
        cmocka_unit_test(a_minor_below_the_hosts_lowest_is_refused),
        cmocka_unit_test(every_fault_of_the_table_has_its_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
