/* Our host against the misbehaving plugin over host memory: each fault is survived, and the books come out even. */
#include "core/allocator.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support/mechanism.h"

static void assert_refused(const char *name, int result, uint32_t status)
{
    struct nxm_error error;

    assert_int_equal(mechanism_try_open(name, &error), result);
    assert_int_equal(error.status, status);
    assert_host_tallies(0, 0, 0);
    assert_int_equal(gate_now().reason, NXM_GATE_OPEN);
}

/* --- vtables --------------------------------------------------------------------------------------------------------- */

static void assert_works(const char *name, bool structured)
{
    struct nxm_release release;
    struct nxm_block block;

    mechanism_open(name);
    assert_int_equal(nxm_allocator_structured_release(mechanism.allocator), structured);
    assert_non_null(nxm_allocator_virtual_backing(mechanism.allocator));
    assert_non_null(nxm_allocator_shared_mapping(mechanism.allocator));
    block = mechanism_allocate(100);
    release = mechanism_release(&block);
    assert_int_equal(release.outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(release.unmapped, 100);
}

static void vtables_from_the_future_are_read_to_our_size(void **state)
{
    (void)state;
    assert_works("newer-vtables", true);
}

static void vtables_that_end_with_their_page_are_not_overread(void **state)
{
    (void)state;
    assert_works("page-end-vtables", true);
    mechanism_drop();
    assert_works("page-end-minor-0", false);
}

static void short_vtables_that_end_with_their_page_are_refused(void **state)
{
    (void)state;
    assert_refused("page-end-short", NXM_ECALL, NXMEM_STATUS_SHORT_STRUCT);
    assert_refused("page-end-stub", NXM_ECALL, NXMEM_STATUS_SHORT_STRUCT);
}

static void a_name_beyond_any_bound_falls_back_to_the_factorys(void **state)
{
    (void)state;
    mechanism_open("long-name");
    assert_string_equal(nxm_allocator_name(mechanism.allocator), "long-name");
}

static void deferred_release_without_a_drain_is_refused_and_released(void **state)
{
    (void)state;
    assert_refused("drain-missing", NXM_ECONTRACT, 0);
    assert_int_equal(faulty_host_ask("AllocatorReleases"), 1);
}

static void capability_vtables_without_slots_are_kept_as_they_are(void **state)
{
    (void)state;
    mechanism_open("backing-empty");
    assert_null(nxm_allocator_virtual_backing(mechanism.allocator)->commit_range);
    mechanism_drop();
    mechanism_open("mapping-empty");
    assert_null(nxm_allocator_shared_mapping(mechanism.allocator)->create_shared_prefix);
}

static void callbacks_out_of_an_opening_are_answered_and_change_nothing(void **state)
{
    struct nxm_allocator_totals totals;

    (void)state;
    mechanism_open("reenters-open");
    assert_int_equal(faulty_host_ask("BogusCalls"), 1);
    assert_int_equal(faulty_host_ask("BogusAccepted"), 0);
    nxm_allocator_totals(mechanism.allocator, &totals);
    assert_int_equal(totals.reclaim_calls, 1);
    assert_int_equal(totals.reclaim_failures, 1);
    assert_host_tallies(1, 0, 0);
}

static void *drop_allocator(void *argument)
{
    nxm_allocator_unref(argument);
    return NULL;
}

static void a_release_that_does_not_return_stops_nobody_else(void **state)
{
    void *found = nxm_module_symbol(mechanism.module, "NxmemFaultyHostLetGo");
    struct nxm_allocator *held = mechanism_open_beside("holds-release");
    struct nxm_block block;
    void (*let_go)(void);
    struct nxm_gate gate;
    pthread_t thread;

    (void)state;
    assert_non_null(found);
    memcpy(&let_go, &found, sizeof let_go);
    assert_int_equal(pthread_create(&thread, NULL, drop_allocator, held), 0);
    while (faulty_host_ask("AllocatorReleases") == 0)
        sched_yield();
    mechanism_open("sound");
    block = mechanism_allocate(100);
    assert_int_equal(mechanism_release(&block).outcome, NXM_RELEASE_COMPLETE);
    mechanism_drop();
    assert_host_tallies(1, 0, 0);
    assert_int_equal(nxm_module_unload(mechanism.module, &gate), NXM_EBUSY); /* its code is still running */
    assert_int_equal(gate.reason, NXM_GATE_HOST);
    let_go();
    pthread_join(thread, NULL);
    assert_host_tallies(0, 0, 0);
}

/* --- allocating -------------------------------------------------------------------------------------------------------- */

static void a_result_that_claims_more_or_nothing_is_whole(void **state)
{
    static const char *const names[] = { "answer-newer", "answer-unsized" };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct nxm_block block;

        mechanism_open(names[i]);
        block = mechanism_allocate(100);
        assert_int_equal(block.owned, 100);
        assert_int_equal(mechanism_release(&block).outcome, NXM_RELEASE_COMPLETE);
        mechanism_drop();
    }
}

static int try_allocate(struct nxm_block *block)
{
    struct nxm_error error;

    *block = (struct nxm_block){ .bytes = 300, .align = 256, .class_ = NXM_CLASS_DEVICE };
    return nxm_allocator_allocate(mechanism.allocator, block, NULL, NULL, &error);
}

static void an_address_that_was_not_claimed_is_none(void **state)
{
    struct nxm_block block;

    (void)state;
    mechanism_open("answer-cut");
    assert_int_equal(try_allocate(&block), NXM_ECONTRACT);
    assert_host_tallies(1, 0, 0);
    assert_int_equal(faulty_host_ask("TerminalReleases"), 0); /* nothing to hand back */
}

static void a_block_that_wraps_is_handed_back(void **state)
{
    struct nxm_block block;

    (void)state;
    mechanism_open("wraps-space");
    assert_int_equal(try_allocate(&block), NXM_ECONTRACT);
    assert_host_tallies(1, 0, 0);
    assert_int_equal(faulty_host_ask("TerminalReleases"), 1);
    assert_int_equal(gate_now().plugin.live_allocations, 0);
}

static void huge_sums_go_as_they_came(void **state)
{
    struct nxm_allocator_totals totals;
    struct nxm_block block;

    (void)state;
    mechanism_open("owns-too-much");
    block = mechanism_allocate(100);
    assert_int_equal(mechanism_release(&block).unmapped, 100);
    nxm_allocator_totals(mechanism.allocator, &totals);
    assert_int_equal(totals.owned_bytes, 0);
    assert_int_equal(totals.mapped_bytes, 0);
}

static void a_quarantined_address_is_not_accepted_again(void **state)
{
    struct nxm_block block, again;

    (void)state;
    mechanism_open("reissues");
    block = mechanism_allocate(300);
    assert_int_equal(mechanism_release(&block).outcome, NXM_RELEASE_QUARANTINED);
    assert_int_equal(try_allocate(&again), NXM_EEXIST);
    assert_int_equal(again.address, block.address);
    assert_host_tallies(1, 0, 0);
    assert_int_equal(faulty_host_ask("TerminalReleases"), 2); /* handed back */
    assert_int_equal(gate_now().plugin.live_allocations, 0);
}

static void wrong_requests_are_refused_and_never_reach_the_embedder(void **state)
{
    struct nxm_allocator_totals totals;
    struct nxm_block block;

    (void)state;
    mechanism_give_reclaim(1);
    mechanism_open("asks-wrongly");
    block = mechanism_allocate(100);
    assert_int_equal(faulty_host_ask("BogusCalls"), 6);
    assert_int_equal(faulty_host_ask("BogusAccepted"), 0);
    assert_int_equal(mechanism.reclaim_asked, 0);
    nxm_allocator_totals(mechanism.allocator, &totals);
    assert_int_equal(totals.reclaim_calls, totals.reclaim_failures);
    mechanism_release(&block);
}

/* --- releasing at once ------------------------------------------------------------------------------------------------- */

static void releases_end_as_the_rules_say(void **state)
{
    static const struct {
        const char *name;
        enum nxm_release_outcome outcome;
        uint64_t unmapped, retained;
        uint32_t status;
    } rows[] = {
        { "outcome-newer", NXM_RELEASE_COMPLETE, 100, 0, 0 },
        { "outcome-unsized", NXM_RELEASE_COMPLETE, 100, 0, 0 },
        { "outcome-cut", NXM_RELEASE_QUARANTINED, 0, 100, 0 },
        { "release-unknown-status", NXM_RELEASE_QUARANTINED, 0, 100, 77 },
        { "deallocate-overclaims", NXM_RELEASE_COMPLETE, 100, 0, 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct nxm_release release;
        struct nxm_block block;

        mechanism_open(rows[i].name);
        block = mechanism_allocate(100);
        release = mechanism_release(&block);
        assert_int_equal(release.outcome, rows[i].outcome);
        assert_int_equal(release.unmapped, rows[i].unmapped);
        assert_int_equal(release.retained, rows[i].retained);
        assert_int_equal(release.status, rows[i].status);
        assert_host_tallies(1, 0, 0);
        mechanism_drop();
    }
}

/* --- queued releases ---------------------------------------------------------------------------------------------------- */

static void queue_three(const char *name)
{
    mechanism_open(name);
    for (unsigned i = 0; i < 3; i++) {
        struct nxm_block block = mechanism_allocate(100);

        assert_int_equal(mechanism_enqueue(&block).outcome, NXM_RELEASE_QUEUED);
    }
    assert_host_tallies(1, 3, 3);
}

static void bogus_completions_are_refused_and_the_real_ones_count_once(void **state)
{
    static const struct {
        const char *name;
        uint64_t bogus;
    } rows[] = { { "completes-short", 3 },         { "completes-wrong-ticket", 3 }, { "completes-null", 3 },
                 { "completes-first-for-all", 2 }, { "completes-at-once", 21 },     { "completes-backwards", 0 },
                 { "pending-lies", 0 } };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t before = faulty_host_ask("BogusCalls");

        mechanism.completions = 0;
        queue_three(rows[i].name);
        assert_int_equal(nxm_allocator_drain(mechanism.allocator, UINT64_MAX), 3);
        assert_int_equal(faulty_host_ask("BogusCalls") - before, rows[i].bogus);
        assert_int_equal(faulty_host_ask("BogusAccepted"), 0);
        assert_int_equal(mechanism.completions, 3);
        assert_host_tallies(1, 0, 0);
        mechanism_drop();
    }
}

static void a_completion_is_credited_no_more_than_its_block(void **state)
{
    (void)state;
    queue_three("completes-huge");
    nxm_allocator_drain(mechanism.allocator, UINT64_MAX);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(mechanism.outcomes[i].outcome, NXM_RELEASE_COMPLETE);
        assert_int_equal(mechanism.outcomes[i].unmapped, 100);
    }
}

static void a_quarantined_completion_keeps_its_residue(void **state)
{
    struct nxm_allocator_totals totals;

    (void)state;
    queue_three("completes-quarantined");
    nxm_allocator_drain(mechanism.allocator, UINT64_MAX);
    assert_int_equal(mechanism.outcomes[2].outcome, NXM_RELEASE_QUARANTINED);
    assert_int_equal(mechanism.outcomes[2].unmapped, 50);
    assert_int_equal(mechanism.outcomes[2].retained, 50);
    nxm_allocator_totals(mechanism.allocator, &totals);
    assert_int_equal(totals.quarantined_blocks, 3);
    assert_int_equal(totals.quarantined_bytes, 150);
    assert_host_tallies(1, 0, 0);
}

static void a_thread_that_stays_in_the_plugin_keeps_it_mapped(void **state)
{
    (void)state;
    queue_three("completes-slowly");
    assert_int_equal(nxm_allocator_drain(mechanism.allocator, UINT64_MAX), 3);
    gate_now(); /* the plugin joins its threads when it is asked */
    assert_int_equal(mechanism.completions, 3);
    assert_host_tallies(1, 0, 0);
}

static void what_the_plugin_denies_is_drained_all_the_same(void **state)
{
    (void)state;
    queue_three("pending-lies");
    assert_int_equal(nxm_allocator_pending(mechanism.allocator), 0);
    mechanism_drop();
    assert_int_equal(mechanism.completions, 3);
    assert_host_tallies(0, 0, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, mechanism_setup_faulty, mechanism_teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(vtables_from_the_future_are_read_to_our_size),
        TEST(vtables_that_end_with_their_page_are_not_overread),
        TEST(short_vtables_that_end_with_their_page_are_refused),
        TEST(a_name_beyond_any_bound_falls_back_to_the_factorys),
        TEST(deferred_release_without_a_drain_is_refused_and_released),
        TEST(capability_vtables_without_slots_are_kept_as_they_are),
        TEST(callbacks_out_of_an_opening_are_answered_and_change_nothing),
        TEST(a_release_that_does_not_return_stops_nobody_else),
        TEST(a_result_that_claims_more_or_nothing_is_whole),
        TEST(an_address_that_was_not_claimed_is_none),
        TEST(a_block_that_wraps_is_handed_back),
        TEST(huge_sums_go_as_they_came),
        TEST(a_quarantined_address_is_not_accepted_again),
        TEST(wrong_requests_are_refused_and_never_reach_the_embedder),
        TEST(releases_end_as_the_rules_say),
        TEST(bogus_completions_are_refused_and_the_real_ones_count_once),
        TEST(a_completion_is_credited_no_more_than_its_block),
        TEST(a_quarantined_completion_keeps_its_residue),
        TEST(a_thread_that_stays_in_the_plugin_keeps_it_mapped),
        TEST(what_the_plugin_denies_is_drained_all_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
