/* The test plugin as a foreign host meets it: what it publishes, under which names, and how its mechanisms open. */
#include "tests/plugins/mechanism_fixture.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    A = NXMEM_CAPABILITY_ALLOCATOR,
    V = NXMEM_CAPABILITY_VIRTUAL_BACKING,
    S = NXMEM_CAPABILITY_SHARED_MAPPING,
    D = NXMEM_CAPABILITY_DEFERRED_RELEASE,
    R = NXMEM_CAPABILITY_STRUCTURED_RELEASE,
};

enum { MINOR_0_BYTES = 120, MINOR_1_BYTES = 128 };

/* What the specification says of each, written out here once more on purpose. */
static const struct row {
    const char *name;
    uint64_t flags;
    uint32_t level;  /* of the vtable at ceiling 1 */
    bool slot;       /* a structured slot at ceiling 1 */
    bool ahead;      /* the same at ceiling 0 */
    bool readable;   /* has a whole vtable */
} rows[] = {
    {"eager", A, 1, false, false, true},
    {"lazy", A | V | S | D | R, 1, true, false, true},
    {"short-struct", A | R, 0, false, false, false},
    {"poisoned-tail", A, 0, false, false, true},
    {"missing-slot", A, 1, false, false, true},
    {"bad-tier", A, 1, false, false, true},
    {"self-retaining", A, 1, false, false, true},
    {"callback-probe", A | R, 1, true, false, true},
    {"legacy-1-0", A | D, 0, false, false, true},
    {"quarantining", A | R, 1, true, false, true},
    {"future-state", A | R, 1, true, false, true},
    {"sticky", A | D | R, 1, true, false, true},
    {"callback-after-drop", A | D | R, 1, true, false, true},
    {"reentrant-completion", A | D | R, 1, true, false, true},
    {"refusing-deferred", A | D | R, 1, true, false, true},
    {"drip", A | D | R, 1, true, false, true},
    {"ahead-of-host", A | R, 1, true, true, true},
    {"undeclared-slot", A, 1, true, true, true},
    {"complete-on-release", A | D | R, 1, true, false, true},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

/* --- what it publishes --------------------------------------------------------------------------------------------- */

static void the_nineteen_stand_in_their_order_with_their_bits(void **state)
{
    struct plugin plugin;

    (void)state;
    plugin_load(&plugin, TESTPLUGIN, 1);
    assert_int_equal(plugin.factory_count, 19);
    for (size_t i = 0; i < ROWS; i++) {
        const NxmemAllocatorFactoryVtable *factory = plugin.factories[i];

        assert_string_equal((const char *)factory->name, rows[i].name);
        assert_int_equal(factory->capability_flags, rows[i].flags);
        assert_int_equal(factory->device.tier, NXMEM_TIER_HOST);
        assert_int_equal(factory->device.index, 0);
        assert_int_equal(factory->struct_size, sizeof *factory);
    }
    assert_null(plugin.query_cuda);
    plugin_unload(&plugin);
}

static void the_factory_table_stays_where_it_is(void **state)
{
    const NxmemAllocatorFactoryVtable *again[64] = {NULL};
    struct plugin plugin;
    uint64_t count = 0;

    (void)state;
    plugin_load(&plugin, TESTPLUGIN, 1);
    assert_int_equal(plugin.create(again, 64, &count).code, NXMEM_STATUS_OK);
    assert_int_equal(count, 19);
    for (size_t i = 0; i < 19; i++)
        assert_ptr_equal(again[i], plugin.factories[i]);
    assert_null(again[19]);
    plugin_unload(&plugin);
}

static void too_little_room_transfers_nothing(void **state)
{
    const NxmemAllocatorFactoryVtable *slots[18] = {NULL};
    struct plugin plugin;
    uint64_t count = 7;

    (void)state;
    plugin_load(&plugin, TESTPLUGIN, 1);
    assert_int_equal(plugin.create(slots, 18, &count).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(count, 0);
    assert_null(slots[0]);
    plugin_unload(&plugin);
}

static void it_exports_the_abi_and_its_hooks_and_needs_only_libc(void **state)
{
    static const char *const hooks[] = {
        "TerminalReleases",        "StructuredReleases", "DrainCalls",
        "FactoryReleases",         "PrefixBackingFrees", "PublishedStructuredSlot",
        "ParkedStateIsSet",        "ReportParkedCompletion", "SetFactoryValidationFaultSlot",
        "RefuseUnloadReport",
    };
    char names[1024] = " NxmemNegotiate NxmemCreateAllocatorFactories NxmemQueryUnloadReadiness";
    struct plugin plugin;

    (void)state;
    plugin_load(&plugin, TESTPLUGIN, 1);
    for (size_t i = 0; i < sizeof hooks / sizeof hooks[0]; i++) {
        strcat(strcat(names, " NxmemTestplugin"), hooks[i]);
        assert_non_null(dlsym(plugin.library, strrchr(names, ' ') + 1));
    }
    plugin_unload(&plugin);
    strcat(names, " ");
    assert_exports_only(TESTPLUGIN, names);
    assert_needs_libc_only(TESTPLUGIN);
}

/* C throws nothing. What could still leave a slot sideways is a call of these. */
static void nothing_in_it_can_unwind(void **state)
{
    static const char *const modules[] = {TESTPLUGIN, "lib/nxmem/direct.so", "lib/nxmem/host.so",
                                          "lib/libnxmem_preload.so"};

    (void)state;
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        assert_calls_none_of(modules[i], " longjmp _longjmp siglongjmp __longjmp_chk _Unwind_RaiseException _Unwind_Resume"
                                         " _Unwind_ForcedUnwind __cxa_throw __cxa_rethrow ");
}

static void it_agrees_on_all_five_capabilities_that_the_minor_has(void **state)
{
    struct plugin plugin;

    (void)state;
    plugin_load(&plugin, TESTPLUGIN, 1);
    for (uint32_t minor = 0; minor <= 7; minor++) {
        NxmemNegotiateRequest request = negotiate_request(minor);
        NxmemNegotiateResponse response = {.struct_size = sizeof response};

        assert_int_equal(plugin.negotiate(&request, &response).code, NXMEM_STATUS_OK);
        assert_int_equal(response.agreed_major, 1);
        assert_int_equal(response.agreed_minor, minor < 1 ? minor : 1);
        assert_int_equal(response.capability_flags, minor < 1 ? 0x0F : 0x1F);
        assert_int_equal(response.plugin_range.minor_max, 1);
    }
    plugin_unload(&plugin);
}

static void it_claims_no_more_than_it_was_offered(void **state)
{
    NxmemNegotiateResponse response = {.struct_size = sizeof response};
    NxmemNegotiateRequest request = negotiate_request(1);
    struct plugin plugin;

    (void)state;
    plugin_load(&plugin, TESTPLUGIN, 1);
    request.host_capability_flags = A | S | UINT64_C(1) << 40;
    assert_int_equal(plugin.negotiate(&request, &response).code, NXMEM_STATUS_OK);
    assert_int_equal(response.capability_flags, A | S);
    request.host_capability_flags = S;
    assert_int_equal(plugin.negotiate(&request, &response).code, NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
    plugin_unload(&plugin);
}

static void every_factory_release_is_counted(void **state)
{
    struct plugin plugin;

    (void)state;
    plugin_load(&plugin, TESTPLUGIN, 1);
    assert_int_equal(testplugin_ask(&plugin, "FactoryReleases"), 0);
    for (uint64_t i = 0; i < plugin.factory_count; i++)
        plugin.factories[i]->release(plugin.factories[i]->ctx);
    assert_int_equal(testplugin_ask(&plugin, "FactoryReleases"), 19);
    plugin.factory_count = 0;
    plugin_unload(&plugin);
}

static void set_fault_slot(const struct plugin *plugin, uint64_t slot)
{
    void *found = dlsym(plugin->library, "NxmemTestpluginSetFactoryValidationFaultSlot");
    void (*set)(uint64_t);

    assert_non_null(found);
    memcpy(&set, &found, sizeof set);
    set(slot);
}

static void the_fault_slot_holds_the_first_factory_without_its_opener(void **state)
{
    const NxmemAllocatorFactoryVtable *slots[64] = {NULL};
    struct plugin plugin;
    uint64_t count = 0;

    (void)state;
    plugin_load(&plugin, TESTPLUGIN, 1);
    set_fault_slot(&plugin, 3);
    assert_int_equal(plugin.create(slots, 64, &count).code, NXMEM_STATUS_OK);
    assert_int_equal(count, 19);
    for (size_t i = 0; i < 19; i++)
        assert_int_equal(slots[i]->open_allocator == NULL, i == 2);
    assert_string_equal((const char *)slots[2]->name, "eager");
    assert_int_equal(slots[2]->capability_flags, A);
    for (size_t i = 0; i < 19; i++)
        slots[i]->release(slots[i]->ctx);
    assert_int_equal(testplugin_ask(&plugin, "FactoryReleases"), 19);
    set_fault_slot(&plugin, 0);
    assert_int_equal(plugin.create(slots, 64, &count).code, NXMEM_STATUS_OK);
    assert_non_null(slots[2]->open_allocator);
    plugin_unload(&plugin);
}

/* --- opening ------------------------------------------------------------------------------------------------------------- */

static void assert_opened(struct plugin *plugin, const struct row *row, uint32_t ceiling)
{
    uint32_t level = row->ahead || row->level < ceiling ? row->level : ceiling;
    const NxmemAllocatorVtable *vtable;

    assert_int_equal(plugin_open(plugin, plugin_factory(plugin, row->name, 0), ceiling, 0, &vtable).code, 0);
    assert_int_equal(vtable->abi_minor, level);
    assert_int_equal(vtable->struct_size, level >= 1 ? MINOR_1_BYTES : MINOR_0_BYTES);
    assert_int_equal(vtable->capability_flags, level >= 1 ? row->flags : row->flags & ~(uint64_t)R);
    assert_string_equal((const char *)vtable->name, row->name);
    assert_int_not_equal(vtable->mechanism_id, 0);
    if (level >= 1)
        assert_int_equal(vtable->release_allocation != NULL, row->slot);
    assert_int_equal(vtable->allocate != NULL, strcmp(row->name, "missing-slot") != 0);
    assert_int_equal(vtable->device.tier, strcmp(row->name, "bad-tier") == 0 ? 4242 : NXMEM_TIER_HOST);
    assert_int_equal(vtable->virtual_backing != NULL, (row->flags & V) != 0);
    assert_int_equal(vtable->shared_mapping != NULL, (row->flags & S) != 0);
    assert_int_equal(vtable->enqueue_release != NULL, (row->flags & D) != 0);
    assert_int_equal(vtable->drain_releases != NULL, (row->flags & D) != 0);
    assert_int_equal(vtable->pending_release_count != NULL, (row->flags & D) != 0);
    assert_int_equal(plugin_report(plugin).live_allocators, 1);
    vtable->release(vtable->ctx);
    assert_int_equal(plugin_report(plugin).live_allocators, strcmp(row->name, "self-retaining") == 0);
}

static void vtables_have_the_level_and_the_slots_of_their_row(void **state)
{
    (void)state;
    for (uint32_t ceiling = 0; ceiling <= 1; ceiling++) {
        for (size_t i = 0; i < ROWS; i++) {
            struct plugin plugin;

            if (!rows[i].readable)
                continue;
            plugin_load(&plugin, TESTPLUGIN, ceiling);
            assert_opened(&plugin, &rows[i], ceiling);
            plugin_unload(&plugin);
        }
    }
}

static void each_opening_has_an_id_of_its_own(void **state)
{
    const NxmemAllocatorVtable *first, *second, *other;
    struct plugin plugin;

    (void)state;
    plugin_load(&plugin, TESTPLUGIN, 1);
    assert_int_equal(plugin_open(&plugin, plugin_factory(&plugin, "lazy", 0), 1, 0, &first).code, 0);
    assert_int_equal(plugin_open(&plugin, plugin_factory(&plugin, "lazy", 0), 1, 0, &second).code, 0);
    assert_int_equal(plugin_open(&plugin, plugin_factory(&plugin, "eager", 0), 1, 0, &other).code, 0);
    assert_int_equal(first->mechanism_id, 1);
    assert_int_equal(second->mechanism_id, 2);
    assert_int_equal(other->mechanism_id, 3);
    assert_int_equal(first->virtual_backing->mechanism_id, 1);
    assert_int_equal(second->shared_mapping->mechanism_id, 2);
    assert_ptr_not_equal(first->virtual_backing->ctx, first->ctx);
    assert_ptr_not_equal(first->shared_mapping->ctx, first->ctx);
    assert_ptr_not_equal(first->shared_mapping->ctx, first->virtual_backing->ctx);
    first->release(first->ctx);
    second->release(second->ctx);
    other->release(other->ctx);
    plugin_unload(&plugin);
}

static void every_mechanism_serves_host_0_and_nothing_else(void **state)
{
    static const NxmemDeviceId others[] = {{NXMEM_TIER_DEVICE, 0}, {NXMEM_TIER_HOST, 1}, {NXMEM_TIER_DISK, 0}, {4242, 0}};
    struct plugin plugin;

    (void)state;
    plugin_load(&plugin, TESTPLUGIN, 1);
    for (size_t i = 0; i < ROWS; i++) {
        const NxmemAllocatorFactoryVtable *factory = plugin.factories[i];

        for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
            NxmemOpenRequest request = {sizeof request, 1, others[k], 0, &plugin.host.callbacks};
            const NxmemAllocatorVtable *vtable = NULL;

            assert_int_equal(factory->open_allocator(factory->ctx, &request, &vtable).code, NXMEM_STATUS_WRONG_DEVICE);
            assert_null(vtable);
        }
    }
    assert_int_equal(plugin_report(&plugin).live_allocators, 0);
    plugin_unload(&plugin);
}

static void a_capability_it_lacks_is_refused_with_3(void **state)
{
    struct plugin plugin;

    (void)state;
    plugin_load(&plugin, TESTPLUGIN, 1);
    for (size_t i = 0; i < ROWS; i++) {
        for (uint64_t bit = 1; bit <= R; bit <<= 1) {
            const NxmemAllocatorVtable *vtable;
            NxmemStatus status;

            if ((rows[i].flags & bit) != 0)
                continue;
            status = plugin_open(&plugin, plugin.factories[i], 1, bit, &vtable);
            assert_int_equal(status.code, NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
            assert_null(vtable);
        }
    }
    assert_int_equal(plugin_report(&plugin).live_allocators, 0);
    plugin_unload(&plugin);
}

static void openings_that_cannot_be_read_are_refused(void **state)
{
    struct plugin plugin;

    (void)state;
    plugin_load(&plugin, TESTPLUGIN, 1);
    for (size_t i = 0; i < ROWS; i++) {
        const NxmemAllocatorFactoryVtable *factory = plugin.factories[i];
        NxmemOpenRequest request = {sizeof request, 1, factory->device, 0, NULL}, *exact;
        const NxmemAllocatorVtable *vtable = NULL;

        assert_int_equal(factory->open_allocator(factory->ctx, NULL, &vtable).code, NXMEM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(factory->open_allocator(factory->ctx, &request, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
        exact = exact_prefix(&request, 24);
        assert_int_equal(factory->open_allocator(factory->ctx, exact, &vtable).code, NXMEM_STATUS_SHORT_STRUCT);
        free(exact);
    }
    plugin_unload(&plugin);
}

static void short_struct_is_one_heap_block_without_state(void **state)
{
    const NxmemAllocatorVtable *first, *second;
    struct plugin plugin;

    (void)state;
    plugin_load(&plugin, TESTPLUGIN, 1);
    assert_int_equal(plugin_open(&plugin, plugin_factory(&plugin, "short-struct", 0), 1, R, &first).code, 0);
    assert_int_equal(plugin_open(&plugin, plugin_factory(&plugin, "short-struct", 0), 0, 0, &second).code, 0);
    assert_ptr_equal(first, second);
    assert_int_equal(first->struct_size, 60);
    assert_int_equal(first->abi_minor, 0);
    assert_int_equal(plugin_report(&plugin).live_allocators, 0);
    plugin_unload(&plugin);
}

static void poisoned_tail_ends_at_120_and_goes_on_in_poison(void **state)
{
    struct mechanism m;
    unsigned char tail[8];

    (void)state;
    mechanism_open(&m, "poisoned-tail", 1);
    assert_int_equal(m.vtable->struct_size, MINOR_0_BYTES);
    memcpy(tail, (const char *)m.vtable + MINOR_0_BYTES, sizeof tail);
    for (size_t i = 0; i < sizeof tail; i++)
        assert_int_equal(tail[i], 0xAB);
    assert_int_equal(testplugin_ask(&m.plugin, "PublishedStructuredSlot"), 0);
    mechanism_close(&m);
}

static void self_retaining_stays_in_the_report_for_ever(void **state)
{
    struct mechanism m;

    (void)state;
    mechanism_open(&m, "self-retaining", 1);
    mechanism_release(&m);
    assert_report(&m, 1, 0, 0, 0, 0);
    plugin_unload(&m.plugin);
}

static void the_published_slot_is_asked_of_the_vtable_opened_last(void **state)
{
    const NxmemAllocatorVtable *older;
    struct mechanism m;

    (void)state;
    mechanism_open(&m, "eager", 1);
    assert_int_equal(testplugin_ask(&m.plugin, "PublishedStructuredSlot"), 0);
    older = m.vtable;
    assert_int_equal(plugin_open(&m.plugin, plugin_factory(&m.plugin, "ahead-of-host", 0), 0, 0, &m.vtable).code, 0);
    m.ctx = m.vtable->ctx;
    assert_int_equal(testplugin_ask(&m.plugin, "PublishedStructuredSlot"), 1);
    older->release(older->ctx); /* not the last one: nothing to forget */
    assert_int_equal(testplugin_ask(&m.plugin, "PublishedStructuredSlot"), 1);
    m.vtable->retain(m.ctx);
    m.vtable->release(m.ctx);
    assert_int_equal(testplugin_ask(&m.plugin, "PublishedStructuredSlot"), 1);
    mechanism_release(&m);
    assert_int_equal(testplugin_ask(&m.plugin, "PublishedStructuredSlot"), UINT64_MAX);
    mechanism_close(&m);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nineteen_stand_in_their_order_with_their_bits),
        cmocka_unit_test(the_factory_table_stays_where_it_is),
        cmocka_unit_test(too_little_room_transfers_nothing),
        cmocka_unit_test(it_exports_the_abi_and_its_hooks_and_needs_only_libc),
        cmocka_unit_test(nothing_in_it_can_unwind),
        cmocka_unit_test(it_agrees_on_all_five_capabilities_that_the_minor_has),
        cmocka_unit_test(it_claims_no_more_than_it_was_offered),
        cmocka_unit_test(every_factory_release_is_counted),
        cmocka_unit_test(the_fault_slot_holds_the_first_factory_without_its_opener),
        cmocka_unit_test(vtables_have_the_level_and_the_slots_of_their_row),
        cmocka_unit_test(each_opening_has_an_id_of_its_own),
        cmocka_unit_test(every_mechanism_serves_host_0_and_nothing_else),
        cmocka_unit_test(a_capability_it_lacks_is_refused_with_3),
        cmocka_unit_test(openings_that_cannot_be_read_are_refused),
        cmocka_unit_test(short_struct_is_one_heap_block_without_state),
        cmocka_unit_test(poisoned_tail_ends_at_120_and_goes_on_in_poison),
        cmocka_unit_test(self_retaining_stays_in_the_report_for_ever),
        cmocka_unit_test(the_published_slot_is_asked_of_the_vtable_opened_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
