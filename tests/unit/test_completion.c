/* core/deferred.c: which completions are accepted, and what they do. The teardown of every test wants the module to
 * unload, so a counter that does not come back to zero fails it. */
#include "core/allocator.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/allocator_state.h"
#include "tests/unit/support/fake.h"
#include "tests/unit/support/host.h"

/* --- completions --------------------------------------------------------------------------------- */

static void completions_come_in_the_order_of_the_queue_and_within_the_budget(void **state)
{
    struct nxm_block blocks[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        blocks[i] = host_allocate(64);
        host_enqueued(&blocks[i]);
    }
    assert_int_equal(nxm_allocator_drain(host.allocator, 2), 2);
    host_assert_counts(2, 2);
    assert_int_equal(nxm_allocator_drain(host.allocator, UINT64_MAX), 2);
    for (int i = 0; i < 4; i++)
        assert_int_equal(host_told.ids[i], blocks[i].id);
    host_assert_counts(0, 0);
}

static void a_failed_completion_makes_the_block_live_again(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    host_enqueued(&block);
    fake.completion = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_FAILED, .keep = true };
    nxm_allocator_drain(host.allocator, 1);
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE);
    assert_int_equal(host_told.release.outcome, NXM_RELEASE_FAILED);
    host_assert_counts(1, 0);
    fake.completion.set = false;
    host_enqueued(&block); /* and may be queued again */
    host_assert_counts(1, 1);
    nxm_allocator_drain(host.allocator, 1);
    host_assert_counts(0, 0);
}

/* The plugin contradicts itself: what it still has cannot be where something else lives. */
static void a_failed_completion_whose_address_was_given_away_is_kept_back(void **state)
{
    struct nxm_block block = host_allocate(64), newcomer;

    (void)state;
    host_enqueued(&block);
    fake.next_address = (void *)(uintptr_t)block.address;
    newcomer = host_allocate(32);
    host_assert_counts(2, 1);
    fake.completion = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_FAILED, .keep = true };
    nxm_allocator_drain(host.allocator, 1);
    assert_int_equal(host_told.block.id, block.id);
    assert_int_equal(host_told.release.outcome, NXM_RELEASE_QUARANTINED);
    assert_int_equal(host_told.release.retained, 64);
    host_assert_counts(1, 0);
    assert_int_equal(host_totals().quarantined_blocks, 1);
    assert_int_equal(host_totals().quarantined_bytes, 64);
    assert_int_equal(host_totals().owned_bytes, 32);
    assert_int_equal(newcomer.address, block.address);
    assert_int_equal(host_state(newcomer.address), NXM_BLOCK_LIVE);
}

/* Who knows that the plugin's memory there is gone may say so, and is believed in that case only. */
static void what_a_contradiction_bars_can_be_unbarred(void **state)
{
    struct nxm_block block = host_allocate(64), newcomer, again = { .bytes = 64, .align = 256 };
    struct nxm_release release;

    (void)state;
    host_enqueued(&block);
    fake.next_address = (void *)(uintptr_t)block.address;
    newcomer = host_allocate(64);
    fake.completion = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_FAILED, .keep = true };
    nxm_allocator_drain(host.allocator, 1);
    fake.completion.set = false;
    assert_int_equal(host_release(&newcomer, &release), NXM_OK);
    fake.next_address = (void *)(uintptr_t)block.address;
    assert_int_equal(nxm_allocator_allocate(host.allocator, &again, NULL, NULL, NULL), NXM_EEXIST);
    assert_true(nxm_allocator_unbar(host.allocator, block.address, 64));
    fake.next_address = (void *)(uintptr_t)block.address;
    assert_int_equal(nxm_allocator_allocate(host.allocator, &again, NULL, NULL, NULL), NXM_OK);
    assert_int_equal(host_release(&again, &release), NXM_OK);
    assert_int_equal(host_totals().quarantined_blocks, 1);
}

static void a_quarantined_completion_is_recorded_and_its_span_barred(void **state)
{
    struct nxm_block block = host_allocate(8192), again = { .bytes = 64, .align = 256 };

    (void)state;
    host_enqueued(&block);
    fake.completion =
        (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_QUARANTINED, .unmapped = 4096, .residual = 4096 };
    nxm_allocator_drain(host.allocator, 1);
    assert_int_equal(host_told.release.outcome, NXM_RELEASE_QUARANTINED);
    assert_int_equal(host_told.release.unmapped, 4096);
    assert_int_equal(host_totals().quarantined_bytes, 4096);
    assert_int_equal(host_state(block.address), 0);
    host_assert_counts(0, 0);
    fake.next_address = (void *)(uintptr_t)(block.address + 4096);
    assert_int_equal(nxm_allocator_allocate(host.allocator, &again, NULL, NULL, NULL), NXM_EEXIST);
    assert_false(nxm_allocator_unbar(host.allocator, block.address, 8192));
}

static void a_completion_from_the_future_is_quarantined_whole(void **state)
{
    struct nxm_block block = host_allocate(8192);

    (void)state;
    host_enqueued(&block);
    fake.completion = (struct fake_answer){ .set = true, .state = 0x0BADF00D, .unmapped = 1, .residual = 1 };
    nxm_allocator_drain(host.allocator, 1);
    assert_int_equal(host_told.release.outcome, NXM_RELEASE_QUARANTINED);
    assert_int_equal(host_told.release.unmapped, 0);
    assert_int_equal(host_totals().quarantined_bytes, 8192);
}

static void completions_are_clamped_like_releases(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    host_enqueued(&block);
    fake.completion = (struct fake_answer){ .set = true, .unmapped = UINT64_C(1) << 60 };
    nxm_allocator_drain(host.allocator, 1);
    assert_int_equal(host_told.release.outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(host_told.release.unmapped, 64);
}

/* Sent by hand; the counters must not move. */
static void refused(uint32_t expected, uint64_t mechanism_id, uint64_t id, uint64_t ticket)
{
    struct nxm_tallies before = host_tallies();
    struct nxm_allocator_totals totals = host_totals();
    unsigned calls = host_told.calls;

    assert_int_equal(fake_send(fake.last_callbacks, mechanism_id, id, ticket, NXMEM_RELEASE_COMPLETE), expected);
    assert_int_equal(host_tallies().queued, before.queued);
    assert_int_equal(host_tallies().allocations, before.allocations);
    assert_int_equal(host_totals().queued, totals.queued);
    assert_int_equal(host_told.calls, calls);
}

static void the_gate_sees_the_thread_that_completes(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    host_enqueued(&block);
    nxm_allocator_drain(host.allocator, 1);
    assert_int_equal(host_told.tallies.inside, 1);
    assert_int_equal(host_tallies().inside, 0);
    refused(NXMEM_STATUS_UNKNOWN_ALLOCATION, nxm_allocator_mechanism_id(host.allocator), block.id, fake_last_ticket());
    assert_int_equal(host_tallies().inside, 0); /* it leaves by every way */
}

static void take_an_id(void *unused, const struct nxm_block *block, const struct nxm_release *release)
{
    (void)unused, (void)block, (void)release;
    nxm_block_next_id();
}

static void *drain(void *ret_line)
{
    nxm_allocator_drain(host.allocator, 1);
    *(uint32_t *)ret_line = nxm_spread_here();
    return NULL;
}

/* Else another thread that is inside all the while could be out of the sum when a line is below zero. */
static void what_a_thread_raised_it_lowers_on_the_same_line(void **state)
{
    const struct nxm_spread *tallies = nxm_module_tallies(host.module);
    struct nxm_block block;
    uint32_t line = 0;
    pthread_t thread;

    (void)state;
    host_close();
    host.options.completed = take_an_id;
    host_open();
    block = host_allocate(64);
    host_enqueued(&block);
    assert_int_equal(pthread_create(&thread, NULL, drain, &line), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_not_equal(line, 0); /* given to it in between */
    for (unsigned i = 0; i < NXM_SPREAD_LINES; i++) {
        assert_int_equal(tallies->lines[i].sums[NXM_TALLY_INSIDE], 0);
        assert_int_equal(host.allocator->sums.lines[i].sums[NXM_SUM_TELLING], 0);
    }
}

static void a_duplicate_completion_is_refused(void **state)
{
    struct nxm_block first = host_allocate(64), second = host_allocate(64);
    uint64_t mechanism = nxm_allocator_mechanism_id(host.allocator);
    struct nxm_release release = host_enqueued(&first);

    (void)state;
    host_enqueued(&second);
    nxm_allocator_drain(host.allocator, 1);
    refused(NXMEM_STATUS_UNKNOWN_ALLOCATION, mechanism, first.id, release.ticket);
    host_assert_counts(1, 1); /* it does not stand in for the other */
}

static void a_stranger_is_refused(void **state)
{
    struct nxm_block live = host_allocate(64), queued = host_allocate(64);
    uint64_t mechanism = nxm_allocator_mechanism_id(host.allocator);

    (void)state;
    host_enqueued(&queued);
    refused(NXMEM_STATUS_UNKNOWN_ALLOCATION, mechanism, live.id, fake_last_ticket()); /* known, but not queued */
    refused(NXMEM_STATUS_UNKNOWN_ALLOCATION, mechanism, 0, fake_last_ticket());
    refused(NXMEM_STATUS_UNKNOWN_ALLOCATION, mechanism, UINT64_MAX, fake_last_ticket());
    assert_int_equal(host_state(live.address), NXM_BLOCK_LIVE);
}

static void another_mechanism_is_refused(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release = host_enqueued(&block);

    (void)state;
    refused(NXMEM_STATUS_WRONG_MECHANISM, nxm_allocator_mechanism_id(host.allocator) + 1, block.id, release.ticket);
    assert_int_equal(host_state(block.address), NXM_BLOCK_RELEASING);
}

static void a_wrong_ticket_is_refused(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release = host_enqueued(&block);

    (void)state;
    refused(NXMEM_STATUS_UNKNOWN_ALLOCATION, nxm_allocator_mechanism_id(host.allocator), block.id, release.ticket + 1);
    host_assert_counts(1, 1);
}

static void a_late_duplicate_does_not_complete_the_second_queueing(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release first = host_enqueued(&block);

    (void)state;
    fake.completion = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_FAILED, .keep = true };
    nxm_allocator_drain(host.allocator, 1);
    fake.completion.set = false;
    host_enqueued(&block); /* the same id, another ticket */
    refused(NXMEM_STATUS_UNKNOWN_ALLOCATION, nxm_allocator_mechanism_id(host.allocator), block.id, first.ticket);
    assert_int_equal(host_state(block.address), NXM_BLOCK_RELEASING);
}

static void what_cannot_be_read_is_refused(void **state)
{
    struct nxm_block block = host_allocate(64);
    uint32_t *shorter = malloc(8); /* exact */
    char misaligned[sizeof(NxmemReleaseCompletion) + 16] __attribute__((aligned(8))) = { 0 };
    const NxmemHostCallbacks *callbacks = fake.last_callbacks;

    (void)state;
    host_enqueued(&block);
    shorter[0] = 8;
    shorter[1] = 0;
    assert_int_equal(callbacks->release_completed(callbacks->host_ctx, (void *)shorter).code,
                     NXMEM_STATUS_SHORT_STRUCT);
    assert_int_equal(callbacks->release_completed(callbacks->host_ctx, (void *)(misaligned + 4)).code,
                     NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(callbacks->release_completed(callbacks->host_ctx, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(callbacks->release_completed(NULL, (void *)misaligned).code, NXMEM_STATUS_INVALID_ARGUMENT);
    host_assert_counts(1, 1);
    free(shorter);
}

static void the_drain_stops_where_the_host_refused_and_says_how_far_it_came(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    host_enqueued(&block);
    fake.drain_status = NXMEM_STATUS_CALLBACK_FAILED;
    assert_int_equal(nxm_allocator_drain(host.allocator, 5), 1); /* counted on the error path too */
}

static void bend_drain_and_pending_away(NxmemAllocatorVtable *vtable)
{
    vtable->drain_releases = NULL;
    vtable->pending_release_count = NULL;
}

static void absent_slots_drain_nothing_and_have_nothing_pending(void **state)
{
    (void)state;
    host_close();
    fake.extra_flags = 0;
    fake.bend = bend_drain_and_pending_away;
    host_open();
    assert_int_equal(nxm_allocator_drain(host.allocator, 5), 0);
    assert_int_equal(nxm_allocator_pending(host.allocator), 0);
}

static void where_the_plugin_cannot_count_the_hosts_count_stands_in(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    host_enqueued(&block);
    fake.pending_status = NXMEM_STATUS_INTERNAL_ERROR;
    assert_int_equal(nxm_allocator_pending(host.allocator), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, host_setup_deferred, host_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(completions_come_in_the_order_of_the_queue_and_within_the_budget),
        TEST(a_failed_completion_makes_the_block_live_again),
        TEST(a_failed_completion_whose_address_was_given_away_is_kept_back),
        TEST(what_a_contradiction_bars_can_be_unbarred),
        TEST(a_quarantined_completion_is_recorded_and_its_span_barred),
        TEST(a_completion_from_the_future_is_quarantined_whole),
        TEST(completions_are_clamped_like_releases),
        TEST(the_gate_sees_the_thread_that_completes),
        TEST(what_a_thread_raised_it_lowers_on_the_same_line),
        TEST(a_duplicate_completion_is_refused),
        TEST(a_stranger_is_refused),
        TEST(another_mechanism_is_refused),
        TEST(a_wrong_ticket_is_refused),
        TEST(a_late_duplicate_does_not_complete_the_second_queueing),
        TEST(what_cannot_be_read_is_refused),
        TEST(the_drain_stops_where_the_host_refused_and_says_how_far_it_came),
        TEST(absent_slots_drain_nothing_and_have_nothing_pending),
        TEST(where_the_plugin_cannot_count_the_hosts_count_stands_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
