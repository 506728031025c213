/* The misbehaving plugin and its kin up to the opened allocator: publication, vtables, companions, modules that
 * must not load. */
#include "tests/plugins/faulty_fixture.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- publication --- */

static void it_needs_only_libc_and_exports_only_the_abi_and_its_counters(void **state)
{
    (void)state;
    assert_exports_only(FAULTY,
                        " NxmemNegotiate NxmemCreateAllocatorFactories NxmemQueryUnloadReadiness NxmemQueryCuda"
                        " NxmemFaultyOpens NxmemFaultyAllocations NxmemFaultyTerminalReleases NxmemFaultyEnqueues"
                        " NxmemFaultyDrains NxmemFaultyAllocatorReleases NxmemFaultyFactoryReleases"
                        " NxmemFaultyForbiddenCalls NxmemFaultyBogusCompletions NxmemFaultyBogusAccepted ");
    assert_needs_libc_only(FAULTY);
}

static void without_a_fault_it_is_an_honest_mechanism(void **state)
{
    struct fixture f;
    NxmemCudaOrder order = order_of(NXMEM_CUDA_ORDER_STREAM, 5, 0, 0);
    NxmemAllocation block;
    uint64_t unmapped;

    (void)state;
    for (int companion = 0; companion < 2; companion++) {
        faulty_open(&f, companion ? "faulty" : "sound", companion);
        assert_int_equal(f.companion != NULL, companion);
        block = must_allocate(f.vtable, 1, 100, 512);
        assert_int_equal(release_now(f.vtable, &block, NULL), NXMEM_STATUS_OK);
        block = must_allocate(f.vtable, 2, 100, 512);
        assert_int_equal(f.vtable->deallocate(f.ctx, &block, &unmapped).code, NXMEM_STATUS_OK);
        if (companion) {
            block = must_allocate_on(f.vtable, f.companion, &order, 3, 100);
            assert_int_equal(fixture_enqueue_on(&f, &order, &block).code, NXMEM_STATUS_OK);
            assert_int_equal(fixture_calls(&f, FAKE_FREE_ASYNC), 1);
        }
        assert_int_equal(f.cuda->live, 0);
        assert_int_equal(faulty_counter(&f, "NxmemFaultyTerminalReleases"), 2);
        f.vtable->release(f.ctx);
        f.vtable = NULL;
        assert_int_equal(faulty_counter(&f, "NxmemFaultyAllocatorReleases"), 1);
        assert_int_equal(plugin_report(&f.plugin).live_allocators, 0);
        faulty_close(&f);
    }
}

static void every_factory_release_is_counted(void **state)
{
    struct fixture f;

    (void)state;
    faulty_open(&f, "sound", false);
    assert_true(f.plugin.factory_count > 50 && f.plugin.factory_count <= 64);
    for (uint64_t i = 0; i < f.plugin.factory_count; i++)
        f.plugin.factories[i]->release(f.plugin.factories[i]->ctx);
    assert_int_equal(faulty_counter(&f, "NxmemFaultyFactoryReleases"), f.plugin.factory_count);
    f.plugin.factory_count = 0;
    faulty_close(&f);
}

static void the_environment_plants_a_fault_from_the_nth_call_on(void **state)
{
    struct fixture f;
    NxmemAllocRequest request;
    NxmemAllocResult result = {.struct_size = sizeof result};
    NxmemAllocation blocks[2];

    (void)state;
    setenv("NXMEM_FAULTY", "oom:3", 1);
    faulty_open(&f, "faulty", false);
    unsetenv("NXMEM_FAULTY");
    for (unsigned i = 0; i < 2; i++)
        blocks[i] = must_allocate(f.vtable, 1 + i, 100, 512);
    for (unsigned i = 0; i < 2; i++) {
        request = request_for(f.vtable, 3 + i, 100, 512);
        assert_int_equal(f.vtable->allocate(f.ctx, &request, &result).code, NXMEM_STATUS_OUT_OF_MEMORY);
    }
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(release_now(f.vtable, &blocks[i], NULL), NXMEM_STATUS_OK);
    faulty_close(&f);
}

static void an_unknown_word_publishes_nothing(void **state)
{
    NxmemCreateAllocatorFactoriesFn create;
    const NxmemAllocatorFactoryVtable *factories[64] = {NULL};
    void *library = dlopen(build_path(FAULTY), RTLD_NOW), *found;
    uint64_t count = 9;

    (void)state;
    assert_non_null(library);
    found = dlsym(library, NXMEM_SYMBOL_CREATE_ALLOCATOR_FACTORIES);
    memcpy(&create, &found, sizeof create);
    setenv("NXMEM_FAULTY", "oomph", 1);
    count = 0;
    assert_int_equal(create(factories, 64, &count).code, NXMEM_STATUS_INVALID_ARGUMENT);
    unsetenv("NXMEM_FAULTY");
    assert_int_equal(count, 0);
    assert_null(factories[0]);
    dlclose(library);
}

/* --- opening --- */

static NxmemStatus open_word(struct fixture *f, const char *word, const NxmemAllocatorVtable **vtable)
{
    return plugin_open(&f->plugin, plugin_factory(&f->plugin, word, 0), 1, NXMEM_CAPABILITY_ALLOCATOR, vtable);
}

static void unreadable_vtables_have_no_state_behind_them(void **state)
{
    struct fixture f;
    const NxmemAllocatorVtable *vtable;
    uint32_t words[2];

    (void)state;
    faulty_open(&f, "sound", false);
    assert_int_equal(open_word(&f, "open-fails", &vtable).code, NXMEM_STATUS_INTERNAL_ERROR);
    assert_non_null(vtable);
    assert_int_equal(open_word(&f, "null-vtable", &vtable).code, NXMEM_STATUS_OK);
    assert_null(vtable);
    assert_int_equal(open_word(&f, "misaligned-vtable", &vtable).code, NXMEM_STATUS_OK);
    assert_int_equal((uintptr_t)vtable % 8, 1);
    assert_int_equal(open_word(&f, "short-vtable", &vtable).code, NXMEM_STATUS_OK);
    memcpy(words, vtable, sizeof words);
    assert_int_equal(words[0], 60);
    assert_int_equal(words[1], 0);
    assert_int_equal(open_word(&f, "short-of-claim", &vtable).code, NXMEM_STATUS_OK);
    memcpy(words, vtable, sizeof words);
    assert_int_equal(words[0], 120);
    assert_int_equal(words[1], 1);
    assert_int_equal(plugin_report(&f.plugin).live_allocators, 1); /* the fixture's own */
    faulty_close(&f);
}

typedef bool (*vtable_check)(const NxmemAllocatorVtable *vtable);

static bool no_allocate(const NxmemAllocatorVtable *v) { return v->allocate == NULL; }
static bool no_deallocate(const NxmemAllocatorVtable *v) { return v->deallocate == NULL; }
static bool no_retain(const NxmemAllocatorVtable *v) { return v->retain == NULL; }
static bool id_zero(const NxmemAllocatorVtable *v) { return v->mechanism_id == 0; }
static bool bad_tier(const NxmemAllocatorVtable *v) { return v->device.tier == 4242; }
static bool other_device(const NxmemAllocatorVtable *v) { return v->device.index == 1; }
static bool only_allocator(const NxmemAllocatorVtable *v) { return v->capability_flags == NXMEM_CAPABILITY_ALLOCATOR; }
static bool no_allocator_bit(const NxmemAllocatorVtable *v) { return (v->capability_flags & 1) == 0; }
static bool unknown_bit(const NxmemAllocatorVtable *v) { return (v->capability_flags >> 40) == 1; }
static bool no_name(const NxmemAllocatorVtable *v) { return v->name == NULL; }
static bool bad_name(const NxmemAllocatorVtable *v) { return v->name[3] == 0xE9 && v->name[4] == 0; }
static bool twin(const NxmemAllocatorVtable *v) { return v->mechanism_id == 0x7717; }

static bool flagged(const NxmemAllocatorVtable *v, uint64_t bit)
{
    return (v->capability_flags & bit) != 0;
}

static bool backing_unflagged(const NxmemAllocatorVtable *v)
{
    return !flagged(v, NXMEM_CAPABILITY_VIRTUAL_BACKING) && v->virtual_backing != NULL;
}
static bool backing_absent(const NxmemAllocatorVtable *v)
{
    return flagged(v, NXMEM_CAPABILITY_VIRTUAL_BACKING) && v->virtual_backing == NULL;
}
static bool backing_foreign(const NxmemAllocatorVtable *v)
{
    return flagged(v, NXMEM_CAPABILITY_VIRTUAL_BACKING) && v->virtual_backing->mechanism_id != v->mechanism_id;
}
static bool mapping_unflagged(const NxmemAllocatorVtable *v)
{
    return !flagged(v, NXMEM_CAPABILITY_SHARED_MAPPING) && v->shared_mapping != NULL;
}
static bool mapping_absent(const NxmemAllocatorVtable *v)
{
    return flagged(v, NXMEM_CAPABILITY_SHARED_MAPPING) && v->shared_mapping == NULL;
}
static bool mapping_foreign(const NxmemAllocatorVtable *v)
{
    return flagged(v, NXMEM_CAPABILITY_SHARED_MAPPING) && v->shared_mapping->mechanism_id != v->mechanism_id;
}
static bool deferred_slotless(const NxmemAllocatorVtable *v)
{
    return flagged(v, NXMEM_CAPABILITY_DEFERRED_RELEASE) && v->enqueue_release == NULL;
}

static const struct {
    const char *word;
    vtable_check is_planted;
} spoiled[] = {
    {"missing-allocate", no_allocate},
    {"missing-deallocate", no_deallocate},
    {"missing-retain", no_retain},
    {"id-zero", id_zero},
    {"bad-tier", bad_tier},
    {"other-device", other_device},
    {"missing-required", only_allocator},
    {"no-allocator-bit", no_allocator_bit},
    {"unknown-bit", unknown_bit},
    {"backing-without-flag", backing_unflagged},
    {"backing-without-vtable", backing_absent},
    {"backing-foreign", backing_foreign},
    {"mapping-without-flag", mapping_unflagged},
    {"mapping-without-vtable", mapping_absent},
    {"mapping-foreign", mapping_foreign},
    {"deferred-without-slot", deferred_slotless},
    {"twin-id", twin},
    {"no-name", no_name},
    {"bad-name", bad_name},
};

static void a_spoiled_vtable_is_spoiled_in_one_place_and_can_be_released(void **state)
{
    struct fixture f;

    (void)state;
    faulty_open(&f, "sound", false);
    for (size_t i = 0; i < sizeof spoiled / sizeof spoiled[0]; i++) {
        const NxmemAllocatorVtable *vtable;
        uint64_t before = faulty_counter(&f, "NxmemFaultyAllocatorReleases");

        assert_false(spoiled[i].is_planted(f.vtable));
        assert_int_equal(open_word(&f, spoiled[i].word, &vtable).code, NXMEM_STATUS_OK);
        if (!spoiled[i].is_planted(vtable))
            fail_msg("%s plants nothing", spoiled[i].word);
        assert_int_equal(plugin_report(&f.plugin).live_allocators, 2);
        vtable->release(vtable->ctx);
        assert_int_equal(faulty_counter(&f, "NxmemFaultyAllocatorReleases"), before + 1);
        assert_int_equal(plugin_report(&f.plugin).live_allocators, 1);
    }
    faulty_close(&f);
}

static void an_allocator_without_release_stays_counted(void **state)
{
    struct fixture f;
    const NxmemAllocatorVtable *vtable;

    (void)state;
    faulty_open(&f, "sound", false);
    assert_int_equal(open_word(&f, "missing-release", &vtable).code, NXMEM_STATUS_OK);
    assert_null(vtable->release);
    assert_int_equal(plugin_report(&f.plugin).live_allocators, 2);
    faulty_close(&f);
}

static void broken_companions_leave_the_mechanism_whole(void **state)
{
    static const char *const words[] = {"companion-fails", "companion-null", "companion-short", "companion-foreign"};
    struct fixture f;

    (void)state;
    faulty_open(&f, "sound", false);
    assert_null(f.companion);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const NxmemAllocatorVtable *vtable;
        const NxmemCudaVtable *companion = NULL;
        NxmemAllocation block;
        NxmemStatus status;
        uint32_t size = 0;

        assert_int_equal(open_word(&f, words[i], &vtable).code, NXMEM_STATUS_OK);
        status = f.plugin.query_cuda(vtable, &companion);
        assert_int_equal(status.code, i == 0 ? NXMEM_STATUS_INTERNAL_ERROR : NXMEM_STATUS_OK);
        assert_int_equal(companion != NULL, i != 1);
        if (i == 2) {
            memcpy(&size, companion, sizeof size);
            assert_int_equal(size, 32);
        }
        if (i == 3)
            assert_int_not_equal(companion->mechanism_id, vtable->mechanism_id);
        block = must_allocate(vtable, 1, 100, 512);
        assert_int_equal(release_now(vtable, &block, NULL), NXMEM_STATUS_OK);
        vtable->release(vtable->ctx);
    }
    faulty_close(&f);
}

/* --- modules that must not load --- */

static void load_faults_miss_exactly_the_export_they_name(void **state)
{
    static const char *const exports[] = {NXMEM_SYMBOL_NEGOTIATE, NXMEM_SYMBOL_CREATE_ALLOCATOR_FACTORIES,
                                          NXMEM_SYMBOL_QUERY_UNLOAD_READINESS};
    static const char *const modules[] = {"tests/plugins/fixtures/load/no_negotiate.so",
                                          "tests/plugins/fixtures/load/no_factories.so",
                                          "tests/plugins/fixtures/load/no_readiness.so",
                                          "tests/plugins/fixtures/load/sound.so"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        void *library = dlopen(build_path(modules[i]), RTLD_NOW | RTLD_LOCAL);

        assert_non_null(library);
        for (size_t e = 0; e < 3; e++)
            assert_int_equal(dlsym(library, exports[e]) != NULL, e != i);
        dlclose(library);
    }
}

struct negotiated {
    NxmemStatus status;
    NxmemNegotiateResponse response;
    uint64_t count, written;
    uint32_t created; /* status of the enumeration */
};

/* What a loader meets in one module. */
static struct negotiated meet(const char *name)
{
    struct negotiated met = {.response = {.struct_size = sizeof met.response}};
    NxmemNegotiateRequest request = negotiate_request(1);
    const NxmemAllocatorFactoryVtable *factories[64] = {NULL};
    NxmemCreateAllocatorFactoriesFn create;
    NxmemNegotiateFn negotiate;
    char path[128];
    void *library, *found;

    snprintf(path, sizeof path, "tests/plugins/fixtures/load/%s.so", name);
    library = dlopen(build_path(path), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    found = dlsym(library, NXMEM_SYMBOL_NEGOTIATE);
    assert_non_null(found);
    memcpy(&negotiate, &found, sizeof negotiate);
    found = dlsym(library, NXMEM_SYMBOL_CREATE_ALLOCATOR_FACTORIES);
    assert_non_null(found);
    memcpy(&create, &found, sizeof create);
    met.status = negotiate(&request, &met.response);
    met.created = create(factories, 64, &met.count).code;
    while (met.written < 64 && factories[met.written] != NULL)
        met.written++;
    dlclose(library);
    return met;
}

static void negotiation_faults_are_in_the_answer(void **state)
{
    (void)state;
    assert_int_equal(meet("sound").status.code, NXMEM_STATUS_OK);
    assert_int_equal(meet("sound").response.agreed_minor, 1);
    assert_int_equal(meet("refuses_negotiation").status.code, NXMEM_STATUS_INTERNAL_ERROR);
    assert_int_equal(meet("unknown_status").status.code, 9999);
    assert_int_equal(meet("wrong_major").response.agreed_major, 2);
    assert_int_equal(meet("minor_above").response.agreed_minor, 7);
    assert_int_equal(meet("minor_below").response.agreed_minor, 0);
    assert_int_equal(meet("outside_own_range").response.plugin_range.minor_min, 5);
    assert_int_equal(meet("unknown_bits").response.capability_flags >> 5, 1);
    assert_int_equal(meet("no_allocator_bit").response.capability_flags & NXMEM_CAPABILITY_ALLOCATOR, 0);
    assert_int_equal(meet("structured_at_zero").response.agreed_minor, 0);
    assert_true(meet("structured_at_zero").response.capability_flags & NXMEM_CAPABILITY_STRUCTURED_RELEASE);
    assert_int_equal(meet("short_response").response.struct_size, 16);
}

static void enumeration_faults_are_in_what_is_handed_over(void **state)
{
    static const struct {
        const char *name;
        uint32_t code;
        uint64_t count, written;
    } rows[] = {{"sound", NXMEM_STATUS_OK, 3, 3},
                {"factories_fail", NXMEM_STATUS_INTERNAL_ERROR, 1, 3},
                {"no_mechanisms", NXMEM_STATUS_OK, 0, 0},
                {"count_above_room", NXMEM_STATUS_OK, 65, 3},
                {"count_above_written", NXMEM_STATUS_OK, 4, 3},
                {"count_below_written", NXMEM_STATUS_OK, 1, 3},
                {"same_factory_twice", NXMEM_STATUS_OK, 3, 3},
                {"factory_misaligned", NXMEM_STATUS_OK, 3, 3}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct negotiated met = meet(rows[i].name);

        assert_int_equal(met.status.code, NXMEM_STATUS_OK);
        assert_int_equal(met.created, rows[i].code);
        assert_int_equal(met.count, rows[i].count);
        assert_int_equal(met.written, rows[i].written);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_needs_only_libc_and_exports_only_the_abi_and_its_counters),
        cmocka_unit_test(without_a_fault_it_is_an_honest_mechanism),
        cmocka_unit_test(every_factory_release_is_counted),
        cmocka_unit_test(the_environment_plants_a_fault_from_the_nth_call_on),
        cmocka_unit_test(an_unknown_word_publishes_nothing),
        cmocka_unit_test(unreadable_vtables_have_no_state_behind_them),
        cmocka_unit_test(a_spoiled_vtable_is_spoiled_in_one_place_and_can_be_released),
        cmocka_unit_test(an_allocator_without_release_stays_counted),
        cmocka_unit_test(broken_companions_leave_the_mechanism_whole),
        cmocka_unit_test(load_faults_miss_exactly_the_export_they_name),
        cmocka_unit_test(negotiation_faults_are_in_the_answer),
        cmocka_unit_test(enumeration_faults_are_in_what_is_handed_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
