/* Our host against the test plugin, one mechanism after another: loading, opening, releasing at once. */
#include "core/allocator.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support/mechanism.h"

/* --- loading -------------------------------------------------------------------------------------------------------- */

static void every_mechanism_is_published_in_its_order(void **state)
{
    static const char *const names[] = {
        "eager",           "lazy",         "short-struct",    "poisoned-tail",       "missing-slot",
        "bad-tier",        "self-retaining", "callback-probe", "legacy-1-0",         "quarantining",
        "future-state",    "sticky",       "callback-after-drop", "reentrant-completion", "refusing-deferred",
        "drip",            "ahead-of-host", "undeclared-slot", "complete-on-release",
    };

    (void)state;
    assert_int_equal(nxm_module_minor(mechanism.module), 1);
    assert_int_equal(nxm_module_mechanism_count(mechanism.module), 19);
    for (size_t i = 0; i < 19; i++) {
        struct nxm_mechanism row;

        nxm_module_mechanism(mechanism.module, i, &row);
        assert_string_equal(row.name, names[i]);
        assert_true((row.capabilities & NXMEM_CAPABILITY_ALLOCATOR) != 0);
        assert_int_equal(row.device.tier, NXMEM_TIER_HOST);
    }
}

static void a_host_of_another_major_is_refused(void **state)
{
    const NxmemVersionRange future = { 99, 99, 0, 0 };
    struct nxm_module *module = NULL;
    struct nxm_error error;

    (void)state;
    assert_int_equal(nxm_module_load(TESTPLUGIN_PATH, &future, &module, &error), NXM_ENEGOTIATE);
    assert_null(module);
}

static void an_unknown_name_is_answered_with_what_there_is(void **state)
{
    const NxmemDeviceId device = { NXMEM_TIER_HOST, 0 };
    struct nxm_error error;
    size_t index;

    (void)state;
    assert_int_equal(nxm_module_find_mechanism(mechanism.module, "nonesuch", device, &index, &error), NXM_ENOMECHANISM);
    assert_non_null(strstr(error.text, "eager"));
    assert_non_null(strstr(error.text, "poisoned-tail"));
}

/* A second handle of the loader's keeps the library where it is, so that it can be asked afterwards. */
static void every_factory_is_released_once(void **state)
{
    void *kept = dlopen(TESTPLUGIN_PATH, RTLD_LAZY | RTLD_LOCAL);
    uint64_t (*released)(void);
    struct nxm_gate gate;
    void *found;

    (void)state;
    assert_non_null(kept);
    found = dlsym(kept, "NxmemTestpluginFactoryReleases");
    assert_non_null(found);
    memcpy(&released, &found, sizeof released);
    mechanism_open("eager");
    assert_int_equal(released(), 0);
    mechanism_drop();
    assert_int_equal(nxm_module_unload(mechanism.module, &gate), NXM_OK);
    mechanism.module = NULL;
    assert_int_equal(released(), 19);
    assert_int_equal(dlclose(kept), 0);
}

static void a_faulty_factory_fails_the_load_and_all_nineteen_come_back(void **state)
{
    struct nxm_module_counters before = counters_now();
    void (*set_fault)(uint64_t);
    struct nxm_module *module = NULL;
    struct nxm_error error;
    void *found = nxm_module_symbol(mechanism.module, "NxmemTestpluginSetFactoryValidationFaultSlot");

    (void)state;
    assert_non_null(found);
    memcpy(&set_fault, &found, sizeof set_fault);
    for (uint64_t slot = 1; slot <= 19; slot += 9) {
        uint64_t released = testplugin_ask("FactoryReleases");

        set_fault(slot);
        assert_int_equal(nxm_module_load(TESTPLUGIN_PATH, NULL, &module, &error), NXM_ECALL);
        assert_int_equal(error.status, NXMEM_STATUS_SHORT_STRUCT);
        assert_null(module);
        assert_int_equal(testplugin_ask("FactoryReleases"), released + 19);
    }
    assert_int_equal(counters_now().modules_unmapped, before.modules_unmapped + 3);
    set_fault(0);
    assert_int_equal(nxm_module_load(TESTPLUGIN_PATH, NULL, &module, &error), NXM_OK);
    nxm_module_drop(module);
}

/* --- opening ---------------------------------------------------------------------------------------------------------- */

static void assert_refused(const char *name, int result, uint32_t status)
{
    struct nxm_error error;

    assert_int_equal(mechanism_try_open(name, &error), result);
    assert_int_equal(error.status, status);
    assert_null(mechanism.allocator);
    assert_host_tallies(0, 0, 0);
    assert_int_equal(gate_now().reason, NXM_GATE_OPEN); /* what it created was given back */
}

static void a_short_vtable_is_refused_with_both_sizes(void **state)
{
    struct nxm_error error;

    (void)state;
    assert_refused("short-struct", NXM_ECALL, NXMEM_STATUS_SHORT_STRUCT);
    mechanism_try_open("short-struct", &error);
    assert_non_null(strstr(error.text, "60"));
    assert_non_null(strstr(error.text, "120"));
}

static void a_vtable_refused_after_ok_is_released(void **state)
{
    (void)state;
    assert_refused("bad-tier", NXM_ECONTRACT, 0);
}

static void a_vtable_that_cannot_be_parsed_is_released(void **state)
{
    (void)state;
    assert_refused("missing-slot", NXM_ECALL, NXMEM_STATUS_SHORT_STRUCT);
}

static void a_poisoned_tail_is_no_slot(void **state)
{
    struct nxm_block block;

    (void)state;
    mechanism_open("poisoned-tail");
    assert_false(nxm_allocator_structured_release(mechanism.allocator));
    block = mechanism_allocate(100);
    assert_int_equal(mechanism_release(&block).outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(testplugin_ask("TerminalReleases"), 1);
    assert_int_equal(testplugin_ask("StructuredReleases"), 0);
}

static void a_mechanism_without_options_reports_none(void **state)
{
    struct nxm_release release;
    struct nxm_error error;
    struct nxm_block block;

    (void)state;
    mechanism.options.required_capabilities = NXMEM_CAPABILITY_VIRTUAL_BACKING;
    assert_refused("eager", NXM_ECALL, NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
    mechanism.options.required_capabilities = 0;
    mechanism_open("eager");
    assert_null(nxm_allocator_virtual_backing(mechanism.allocator));
    assert_null(nxm_allocator_shared_mapping(mechanism.allocator));
    assert_int_equal(nxm_allocator_pending(mechanism.allocator), 0);
    assert_int_equal(nxm_allocator_drain(mechanism.allocator, 9), 0);
    block = mechanism_allocate(100);
    assert_int_equal(nxm_allocator_enqueue(mechanism.allocator, block.address, block.id, NXM_BLOCK_LIVE, NULL, NULL,
                                           &release, &error), NXM_EUNSUPPORTED);
    assert_int_equal(mechanism_release(&block).outcome, NXM_RELEASE_COMPLETE);
}

static void lazy_offers_everything(void **state)
{
    (void)state;
    mechanism.options.required_capabilities = NXMEM_CAPABILITY_KNOWN_MASK;
    mechanism_open("lazy");
    assert_int_equal(nxm_allocator_capabilities(mechanism.allocator), NXMEM_CAPABILITY_KNOWN_MASK);
    assert_non_null(nxm_allocator_virtual_backing(mechanism.allocator));
    assert_non_null(nxm_allocator_shared_mapping(mechanism.allocator));
    assert_true(nxm_allocator_structured_release(mechanism.allocator));
}

static void two_openings_of_a_mechanism_have_two_ids(void **state)
{
    struct nxm_allocator *other;

    (void)state;
    mechanism_open("lazy");
    other = mechanism_open_beside("lazy");
    assert_int_not_equal(nxm_allocator_mechanism_id(mechanism.allocator), nxm_allocator_mechanism_id(other));
    nxm_allocator_unref(other);
}

/* --- the structured slot, by level and by bit ------------------------------------------------------------------------------ */

static void release_one_of(const char *name, uint64_t structured)
{
    struct nxm_block block;

    mechanism_open(name);
    block = mechanism_allocate(512);
    assert_int_equal(mechanism_release(&block).outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(testplugin_ask("TerminalReleases"), 1);
    assert_int_equal(testplugin_ask("StructuredReleases"), structured);
}

static void a_slot_above_our_ceiling_is_published_and_not_entered(void **state)
{
    (void)state;
    release_one_of("ahead-of-host", 0);
    assert_int_equal(testplugin_ask("PublishedStructuredSlot"), 1);
    assert_false(nxm_allocator_structured_release(mechanism.allocator));
}

static void the_same_slot_at_a_common_minor_is_entered_once(void **state)
{
    (void)state;
    release_one_of("ahead-of-host", 1);
    assert_true(nxm_allocator_structured_release(mechanism.allocator));
}

static void a_slot_without_its_bit_is_not_entered(void **state)
{
    (void)state;
    release_one_of("undeclared-slot", 0);
    assert_int_equal(testplugin_ask("PublishedStructuredSlot"), 1);
    mechanism_drop();
    assert_int_equal(testplugin_ask("PublishedStructuredSlot"), UINT64_MAX);
}

static void a_minor_0_mechanism_works_beside_a_current_one(void **state)
{
    struct nxm_allocator *legacy;
    struct nxm_block old, current;
    struct nxm_release release;

    (void)state;
    mechanism_open("lazy");
    legacy = mechanism_open_beside("legacy-1-0");
    assert_false(nxm_allocator_structured_release(legacy));
    old = allocate_from(legacy, 100);
    current = mechanism_allocate(100);
    assert_int_equal(nxm_allocator_release(legacy, old.address, old.id, NXM_BLOCK_LIVE, &release, NULL), NXM_OK);
    assert_int_equal(mechanism_release(&current).outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(testplugin_ask("TerminalReleases"), 2);
    assert_int_equal(testplugin_ask("StructuredReleases"), 1);
    nxm_allocator_unref(legacy);
}

/* --- blocks ------------------------------------------------------------------------------------------------------------ */

static void a_round_trip_is_aligned_usable_and_credited(void **state)
{
    static const char *const names[] = { "eager", "lazy", "legacy-1-0", "poisoned-tail", "ahead-of-host",
                                         "undeclared-slot", "drip", "sticky", "refusing-deferred",
                                         "callback-after-drop", "reentrant-completion", "complete-on-release" };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct nxm_release release;
        struct nxm_block block;

        mechanism_open(names[i]);
        block = mechanism_allocate(8192);
        assert_int_equal(block.address % 256, 0);
        assert_int_equal(block.owned, 8192);
        memset((void *)(uintptr_t)block.address, 0x5A, 8192);
        assert_host_tallies(1, 1, 0);
        release = mechanism_release(&block);
        assert_int_equal(release.outcome, NXM_RELEASE_COMPLETE);
        assert_int_equal(release.unmapped, 8192);
        assert_host_tallies(1, 0, 0);
        mechanism_drop();
    }
}

static void an_address_of_nobody_never_reaches_the_plugin(void **state)
{
    struct nxm_release release;
    struct nxm_error error;
    int bystander = 7;

    (void)state;
    mechanism_open("eager");
    assert_int_equal(nxm_allocator_release(mechanism.allocator, (uintptr_t)&bystander, 0, NXM_BLOCK_LIVE, &release,
                                           &error), NXM_ENOENT);
    assert_int_equal(bystander, 7);
    assert_int_equal(testplugin_ask("TerminalReleases"), 0);
}

static void a_release_that_misdescribes_its_block_is_refused(void **state)
{
    struct nxm_release release;
    struct nxm_error error;
    struct nxm_block block;

    (void)state;
    mechanism_open("eager");
    block = mechanism_allocate(4096);
    assert_int_equal(nxm_allocator_release_shaped(mechanism.allocator, block.address, 4095, 256, &release, &error),
                     NXM_EINVAL);
    assert_int_equal(nxm_allocator_release_shaped(mechanism.allocator, block.address, 4096, 128, &release, &error),
                     NXM_EINVAL);
    assert_int_equal(testplugin_ask("TerminalReleases"), 0);
    assert_int_equal(nxm_allocator_release_shaped(mechanism.allocator, block.address, 4096, 256, &release, &error),
                     NXM_OK);
}

static void a_siblings_block_is_not_released(void **state)
{
    struct nxm_allocator *sibling;
    struct nxm_release release;
    struct nxm_error error;
    struct nxm_block block;

    (void)state;
    mechanism_open("lazy");
    sibling = mechanism_open_beside("eager");
    block = mechanism_allocate(100);
    assert_int_equal(nxm_allocator_release(sibling, block.address, 0, NXM_BLOCK_LIVE, &release, &error), NXM_ENOENT);
    assert_int_equal(testplugin_ask("TerminalReleases"), 0);
    assert_int_equal(mechanism_release(&block).outcome, NXM_RELEASE_COMPLETE);
    nxm_allocator_unref(sibling);
}

static void assert_kept(const char *name, uint64_t unmapped, uint64_t retained)
{
    struct nxm_allocator_totals totals;
    struct nxm_release release;
    struct nxm_error error;
    struct nxm_block block;

    mechanism_open(name);
    block = mechanism_allocate(8192);
    release = mechanism_release(&block);
    assert_int_equal(release.outcome, NXM_RELEASE_QUARANTINED);
    assert_int_equal(release.unmapped, unmapped);
    assert_int_equal(release.retained, retained);
    assert_host_tallies(1, 0, 0);
    assert_int_equal(gate_now().plugin.live_allocations, 0);
    nxm_allocator_totals(mechanism.allocator, &totals);
    assert_int_equal(totals.quarantined_blocks, 1);
    assert_int_equal(totals.quarantined_bytes, retained);
    assert_int_equal(nxm_allocator_release(mechanism.allocator, block.address, block.id, NXM_BLOCK_LIVE, &release,
                                           &error), NXM_ENOENT);
    assert_int_equal(testplugin_ask("TerminalReleases"), 1);
}

static void a_partial_release_is_quarantined_and_not_refunded(void **state)
{
    (void)state;
    assert_kept("quarantining", 4096, 4096);
}

static void a_state_from_the_future_keeps_everything(void **state)
{
    (void)state;
    assert_kept("future-state", 0, 8192);
}

static void at_minor_0_the_quarantining_mechanism_just_releases(void **state)
{
    struct nxm_block block;

    (void)state;
    mechanism_open("quarantining");
    block = mechanism_allocate(8192);
    assert_int_equal(mechanism_release(&block).outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(testplugin_ask("StructuredReleases"), 0);
}

/* --- asking the host --------------------------------------------------------------------------------------------------- */

static int probe(struct nxm_error *ret_error, uint64_t *ret_calls, uint64_t *ret_failures)
{
    struct nxm_block block = { .bytes = 4096, .align = 256, .class_ = NXM_CLASS_DEVICE };
    struct nxm_allocator_totals totals;
    int result = nxm_allocator_allocate(mechanism.allocator, &block, NULL, NULL, ret_error);

    nxm_allocator_totals(mechanism.allocator, &totals);
    *ret_calls = totals.reclaim_calls;
    *ret_failures = totals.reclaim_failures;
    return result;
}

static void a_refused_request_fails_the_allocation_and_leaves_nothing(void **state)
{
    struct nxm_error error;
    uint64_t calls, failures;

    (void)state;
    mechanism_give_reclaim(NXM_EBUSY);
    mechanism_open("callback-probe");
    assert_int_equal(probe(&error, &calls, &failures), NXM_ECALL);
    assert_int_equal(error.status, NXMEM_STATUS_CALLBACK_FAILED);
    assert_int_equal(mechanism.reclaim_asked, 4096);
    assert_int_equal(calls, 1);
    assert_int_equal(failures, 1);
    assert_host_tallies(1, 0, 0);
}

static void a_granted_request_lets_the_allocation_go_on(void **state)
{
    struct nxm_error error;
    uint64_t calls, failures;

    (void)state;
    mechanism_give_reclaim(4096);
    mechanism_open("callback-probe");
    assert_int_equal(probe(&error, &calls, &failures), NXM_OK);
    assert_int_equal(calls, 1);
    assert_int_equal(failures, 0);
}

static void a_host_without_the_path_says_so_through_the_plugin(void **state)
{
    struct nxm_error error;
    uint64_t calls, failures;

    (void)state;
    mechanism_open("callback-probe");
    assert_int_equal(probe(&error, &calls, &failures), NXM_ECALL);
    assert_int_equal(error.status, NXMEM_STATUS_CALLBACK_FAILED);
    assert_non_null(strstr(error.text, "no reclaim path"));
    assert_int_equal(failures, 1);
}

/* --- the gate ----------------------------------------------------------------------------------------------------------- */

static void an_open_allocator_and_a_live_block_shut_the_gate(void **state)
{
    struct nxm_block block;
    struct nxm_gate gate;

    (void)state;
    mechanism_open("eager");
    assert_int_equal(nxm_module_unload(mechanism.module, &gate), NXM_EBUSY);
    assert_int_equal(gate.reason, NXM_GATE_HOST);
    assert_true(gate.handle_kept);
    assert_int_equal(gate.host.allocators, 1);
    assert_int_equal(gate.plugin.live_allocators, 1);
    block = mechanism_allocate(100);
    assert_int_equal(nxm_module_unload(mechanism.module, &gate), NXM_EBUSY);
    assert_int_equal(gate.host.allocations, 1);
    assert_int_equal(gate.plugin.live_allocations, 1);
    mechanism_release(&block);
    mechanism_drop();
}

static void blocks_never_freed_are_pushed_back_at_the_drop(void **state)
{
    (void)state;
    mechanism_open("eager");
    mechanism_allocate(100);
    mechanism_allocate(200);
    mechanism_drop();
    assert_int_equal(testplugin_ask("TerminalReleases"), 2);
    assert_host_tallies(0, 0, 0);
}

static void dropping_an_idle_plugin_unmaps_it(void **state)
{
    struct nxm_module_counters before = counters_now();

    (void)state;
    nxm_module_drop(mechanism.module);
    mechanism.module = NULL;
    assert_int_equal(counters_now().modules_unmapped, before.modules_unmapped + 1);
    assert_int_equal(counters_now().forced_module_leaks, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, mechanism_setup, mechanism_teardown)
#define TEST_MINOR_0(name) cmocka_unit_test_setup_teardown(name, mechanism_setup_minor_0, mechanism_teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(every_mechanism_is_published_in_its_order),
        TEST(a_host_of_another_major_is_refused),
        TEST(an_unknown_name_is_answered_with_what_there_is),
        TEST(every_factory_is_released_once),
        TEST(a_faulty_factory_fails_the_load_and_all_nineteen_come_back),
        TEST(a_short_vtable_is_refused_with_both_sizes),
        TEST(a_vtable_refused_after_ok_is_released),
        TEST(a_vtable_that_cannot_be_parsed_is_released),
        TEST(a_poisoned_tail_is_no_slot),
        TEST(a_mechanism_without_options_reports_none),
        TEST(lazy_offers_everything),
        TEST(two_openings_of_a_mechanism_have_two_ids),
        TEST_MINOR_0(a_slot_above_our_ceiling_is_published_and_not_entered),
        TEST(the_same_slot_at_a_common_minor_is_entered_once),
        TEST(a_slot_without_its_bit_is_not_entered),
        TEST(a_minor_0_mechanism_works_beside_a_current_one),
        TEST(a_round_trip_is_aligned_usable_and_credited),
        TEST(an_address_of_nobody_never_reaches_the_plugin),
        TEST(a_release_that_misdescribes_its_block_is_refused),
        TEST(a_siblings_block_is_not_released),
        TEST(a_partial_release_is_quarantined_and_not_refunded),
        TEST(a_state_from_the_future_keeps_everything),
        TEST_MINOR_0(at_minor_0_the_quarantining_mechanism_just_releases),
        TEST(a_refused_request_fails_the_allocation_and_leaves_nothing),
        TEST(a_granted_request_lets_the_allocation_go_on),
        TEST(a_host_without_the_path_says_so_through_the_plugin),
        TEST(an_open_allocator_and_a_live_block_shut_the_gate),
        TEST(blocks_never_freed_are_pushed_back_at_the_drop),
        TEST(dropping_an_idle_plugin_unmaps_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
