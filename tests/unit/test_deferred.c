/* core/deferred.c: queued releases, their completions, requests for memory. The teardown of every test wants the module
 * to unload, so a counter that does not come back to zero fails it. Leaked tables: test_deferred_leak.c. */
#include "core/deferred.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"
#include "tests/unit/support/fake.h"
#include "tests/unit/support/host.h"

/* What the embedder was told. */
static struct {
    unsigned calls;
    struct nxm_block block;
    struct nxm_release release;
    struct nxm_tallies tallies;
    uint64_t ids[64];
} told;

static void completed(void *owner, const struct nxm_block *block, const struct nxm_release *release)
{
    assert_ptr_equal(owner, &told);
    if (told.calls < 64)
        told.ids[told.calls] = block->id;
    told.calls++;
    told.block = *block;
    told.release = *release;
    told.tallies = host_tallies();
}

static int setup(void **state)
{
    int result = host_setup(state);

    memset(&told, 0, sizeof told);
    fake.extra_flags = NXMEM_CAPABILITY_DEFERRED_RELEASE;
    host.options.owner = &told;
    host.options.completed = completed;
    if (result == 0)
        host_open();
    return result;
}

static struct nxm_release enqueued(const struct nxm_block *block)
{
    struct nxm_release release;

    assert_int_equal(host_enqueue(block, &release), NXM_OK);
    return release;
}

static void assert_counts(uint64_t allocations, uint64_t queued)
{
    assert_int_equal(host_tallies().allocations, allocations);
    assert_int_equal(host_tallies().queued, queued);
    assert_int_equal(host_totals().queued, queued);
}

/* --- enqueue --------------------------------------------------------------------------------------------------------------- */

static void a_queued_block_is_releasing_and_counted_until_its_completion(void **state)
{
    struct nxm_block block = host_allocate(8192);
    struct nxm_release release = enqueued(&block);

    (void)state;
    assert_int_equal(release.outcome, NXM_RELEASE_QUEUED);
    assert_int_equal(release.ticket, fake_last_ticket());
    assert_int_equal(host_state(block.address), NXM_BLOCK_RELEASING);
    assert_counts(1, 1);
    assert_int_equal(nxm_allocator_pending(host.allocator), 1);
    assert_int_equal(host_totals().owned_bytes, 8192);
    assert_int_equal(told.calls, 0);
    assert_int_equal(nxm_allocator_drain(host.allocator, 10), 1);
    assert_int_equal(fake.last_callback_status, 0);
    assert_int_equal(host_state(block.address), 0);
    assert_counts(0, 0);
    assert_int_equal(host_totals().owned_bytes, 0);
}

static void the_embedder_is_told_after_the_counters_moved(void **state)
{
    struct nxm_block block = host_allocate(8192);
    struct nxm_release queued = enqueued(&block);

    (void)state;
    nxm_allocator_drain(host.allocator, 1);
    assert_int_equal(told.calls, 1);
    assert_memory_equal(&told.block, &block, sizeof block);
    assert_int_equal(told.release.outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(told.release.unmapped, 8192);
    assert_int_equal(told.release.ticket, queued.ticket);
    assert_int_equal(told.tallies.queued, 0);
    assert_int_equal(told.tallies.allocations, 0);
}

static void a_queued_block_cannot_be_released_again(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release = enqueued(&block);

    (void)state;
    assert_int_equal(host_enqueue(&block, &release), NXM_EBUSY);
    assert_int_equal(host_release(&block, &release), NXM_EBUSY);
    assert_int_equal(fake.enqueues, 1);
    assert_int_equal(fake.structured, 0);
    assert_counts(1, 1);
}

static void the_plugin_is_told_which_block(void **state)
{
    struct nxm_block block = host_allocate(100);

    (void)state;
    enqueued(&block);
    assert_int_equal(fake.last_allocation.struct_size, 56);
    assert_int_equal(fake.last_allocation.mechanism_id, nxm_allocator_mechanism_id(host.allocator));
    assert_int_equal(fake.last_allocation.allocation_id, block.id);
    assert_int_equal(fake.last_allocation.bytes, 100);
    assert_int_equal(fake.last_allocation.align, 256);
}

static void without_the_capability_nothing_is_touched(void **state)
{
    struct nxm_release release;
    struct nxm_block block;

    (void)state;
    host_close();
    fake.extra_flags = 0; /* the slot is published all the same */
    host_open();
    block = host_allocate(64);
    assert_int_equal(host_enqueue(&block, &release), NXM_EUNSUPPORTED);
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE);
    assert_int_equal(fake.enqueues + fake.structured, 0); /* not degraded to a release now */
    assert_counts(1, 0);
}

static void an_unknown_or_foreign_block_is_not_queued(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_allocator *sibling;
    struct nxm_release release;

    (void)state;
    assert_int_equal(nxm_allocator_enqueue(host.allocator, 0x123400, 0, NXM_BLOCK_LIVE, NULL, NULL, &release, NULL), NXM_ENOENT);
    assert_int_equal(nxm_allocator_open(host.module, 0, &host.options, &sibling, NULL), NXM_OK);
    assert_int_equal(nxm_allocator_enqueue(sibling, block.address, 0, NXM_BLOCK_LIVE, NULL, NULL, &release, NULL), NXM_ENOENT);
    nxm_allocator_unref(sibling);
    assert_int_equal(fake.enqueues, 0);
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE);
}

static void a_refused_enqueue_leaves_the_block_releasable(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;
    struct nxm_error error;

    (void)state;
    fake.enqueue_status = NXMEM_STATUS_BUSY;
    assert_int_equal(nxm_allocator_enqueue(host.allocator, block.address, 0, NXM_BLOCK_LIVE, NULL, NULL, &release, &error), NXM_ECALL);
    assert_int_equal(error.status, NXMEM_STATUS_BUSY);
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE);
    assert_counts(1, 0);
    assert_int_equal(told.calls, 0);
    assert_int_equal(host_release(&block, &release), NXM_OK);
    assert_counts(0, 0);
}

static void a_refusal_that_leaves_doubt_quarantines_the_block(void **state)
{
    static const uint32_t codes[] = { NXMEM_STATUS_RELEASE_QUARANTINED, NXMEM_STATUS_INTERNAL_ERROR, 4711 };

    (void)state;
    for (uint64_t i = 0; i < 3; i++) {
        struct nxm_block block = host_allocate(4096);
        struct nxm_release release;

        fake.enqueue_status = codes[i];
        assert_int_equal(host_enqueue(&block, &release), NXM_OK);
        assert_int_equal(release.outcome, NXM_RELEASE_QUARANTINED);
        assert_int_equal(release.status, codes[i]);
        assert_int_equal(host_state(block.address), 0);
        assert_int_equal(host_totals().quarantined_blocks, i + 1);
        assert_counts(0, 0);
    }
}

static void without_memory_the_block_stays_as_it_was(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;

    (void)state;
    nxm_blocks_claim(host.blocks, block.address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL);
    nxm_mem_fail_at(1);
    assert_int_equal(nxm_allocator_enqueue(host.allocator, block.address, 0, NXM_BLOCK_WAITING, NULL, NULL, &release, NULL), NXM_ENOMEM);
    nxm_mem_fail_at(0);
    assert_int_equal(host_state(block.address), NXM_BLOCK_WAITING);
    assert_int_equal(fake.enqueues, 0);
    assert_counts(1, 0);
    assert_int_equal(nxm_allocator_enqueue(host.allocator, block.address, 0, NXM_BLOCK_WAITING, NULL, NULL, &release, NULL), NXM_OK);
}

static NxmemStatus other_way_in(void *argument, const NxmemAllocation *allocation, uint64_t *ticket)
{
    ++*(int *)argument;
    return fake.last_published->enqueue_release(fake.last_published->ctx, allocation, ticket);
}

static void another_way_into_the_plugin_needs_no_capability_bit(void **state)
{
    struct nxm_release release;
    struct nxm_block block;
    int calls = 0;

    (void)state;
    host_close();
    fake.extra_flags = 0;
    host_open();
    block = host_allocate(64);
    assert_int_equal(nxm_allocator_enqueue(host.allocator, block.address, 0, NXM_BLOCK_LIVE, other_way_in, &calls, &release, NULL), NXM_OK);
    assert_int_equal(calls, 1);
    assert_counts(1, 1);
}

/* --- completion inside the call ----------------------------------------------------------------------------------------------- */

static struct nxm_tallies inside;
static uint64_t inside_outstanding;

static void look_inside(void)
{
    inside = host_tallies();
    inside_outstanding = host_totals().queued;
}

static void it_is_counted_before_the_plugin_is_entered(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    fake.in_enqueue = look_inside;
    enqueued(&block);
    assert_int_equal(inside.queued, 1);
    assert_int_equal(inside.allocations, 1);
    assert_int_equal(inside_outstanding, 1);
}

static void a_completion_inside_enqueue_never_sees_an_underflowed_count(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;

    (void)state;
    fake.complete_in_enqueue = true;
    fake.in_enqueue = look_inside;
    release = enqueued(&block);
    assert_int_equal(release.outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(release.unmapped, 64);
    assert_int_equal(fake.last_callback_status, 0);
    assert_int_equal(inside.queued, 0);
    assert_int_equal(inside.allocations, 0);
    assert_int_equal(inside_outstanding, 0);
    assert_int_equal(told.calls, 1);
    assert_int_equal(host_state(block.address), 0);
}

static void a_completion_wins_over_the_failure_that_follows_it(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;

    (void)state;
    fake.complete_in_enqueue = true;
    fake.enqueue_status = NXMEM_STATUS_CALLBACK_FAILED;
    assert_int_equal(host_enqueue(&block, &release), NXM_OK);
    assert_int_equal(release.outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(host_state(block.address), 0); /* not restored: the bytes are gone */
    assert_counts(0, 0);
    assert_int_equal(host_release(&block, &release), NXM_ENOENT);
}

static void a_failed_completion_inside_enqueue_leaves_the_block_live(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;

    (void)state;
    fake.complete_in_enqueue = true;
    fake.completion = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_FAILED, .keep = true };
    assert_int_equal(host_enqueue(&block, &release), NXM_ECALL);
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE);
    assert_counts(1, 0);
    assert_int_equal(host_release(&block, &release), NXM_OK);
}

/* --- completions ---------------------------------------------------------------------------------------------------------------- */

static void completions_come_in_the_order_of_the_queue_and_within_the_budget(void **state)
{
    struct nxm_block blocks[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        blocks[i] = host_allocate(64);
        enqueued(&blocks[i]);
    }
    assert_int_equal(nxm_allocator_drain(host.allocator, 2), 2);
    assert_counts(2, 2);
    assert_int_equal(nxm_allocator_drain(host.allocator, UINT64_MAX), 2);
    for (int i = 0; i < 4; i++)
        assert_int_equal(told.ids[i], blocks[i].id);
    assert_counts(0, 0);
}

static void a_failed_completion_makes_the_block_live_again(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    enqueued(&block);
    fake.completion = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_FAILED, .keep = true };
    nxm_allocator_drain(host.allocator, 1);
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE);
    assert_int_equal(told.release.outcome, NXM_RELEASE_FAILED);
    assert_counts(1, 0);
    fake.completion.set = false;
    enqueued(&block); /* and may be queued again */
    assert_counts(1, 1);
    nxm_allocator_drain(host.allocator, 1);
    assert_counts(0, 0);
}

static void a_quarantined_completion_is_recorded_and_its_span_barred(void **state)
{
    struct nxm_block block = host_allocate(8192), again = { .bytes = 64, .align = 256 };

    (void)state;
    enqueued(&block);
    fake.completion = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_QUARANTINED, .unmapped = 4096, .residual = 4096 };
    nxm_allocator_drain(host.allocator, 1);
    assert_int_equal(told.release.outcome, NXM_RELEASE_QUARANTINED);
    assert_int_equal(told.release.unmapped, 4096);
    assert_int_equal(host_totals().quarantined_bytes, 4096);
    assert_int_equal(host_state(block.address), 0);
    assert_counts(0, 0);
    fake.next_address = (void *)(uintptr_t)(block.address + 4096);
    assert_int_equal(nxm_allocator_allocate(host.allocator, &again, NULL, NULL, NULL), NXM_EEXIST);
}

static void a_completion_from_the_future_is_quarantined_whole(void **state)
{
    struct nxm_block block = host_allocate(8192);

    (void)state;
    enqueued(&block);
    fake.completion = (struct fake_answer){ .set = true, .state = 0x0BADF00D, .unmapped = 1, .residual = 1 };
    nxm_allocator_drain(host.allocator, 1);
    assert_int_equal(told.release.outcome, NXM_RELEASE_QUARANTINED);
    assert_int_equal(told.release.unmapped, 0);
    assert_int_equal(host_totals().quarantined_bytes, 8192);
}

static void completions_are_clamped_like_releases(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    enqueued(&block);
    fake.completion = (struct fake_answer){ .set = true, .unmapped = UINT64_C(1) << 60 };
    nxm_allocator_drain(host.allocator, 1);
    assert_int_equal(told.release.outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(told.release.unmapped, 64);
}

/* Sent by hand; the counters must not move. */
static void refused(uint32_t expected, uint64_t mechanism_id, uint64_t id, uint64_t ticket)
{
    struct nxm_tallies before = host_tallies();
    struct nxm_allocator_totals totals = host_totals();
    unsigned calls = told.calls;

    assert_int_equal(fake_send(fake.last_callbacks, mechanism_id, id, ticket, NXMEM_RELEASE_COMPLETE), expected);
    assert_int_equal(host_tallies().queued, before.queued);
    assert_int_equal(host_tallies().allocations, before.allocations);
    assert_int_equal(host_totals().queued, totals.queued);
    assert_int_equal(told.calls, calls);
}

static void a_duplicate_completion_is_refused(void **state)
{
    struct nxm_block first = host_allocate(64), second = host_allocate(64);
    uint64_t mechanism = nxm_allocator_mechanism_id(host.allocator);
    struct nxm_release release = enqueued(&first);

    (void)state;
    enqueued(&second);
    nxm_allocator_drain(host.allocator, 1);
    refused(NXMEM_STATUS_UNKNOWN_ALLOCATION, mechanism, first.id, release.ticket);
    assert_counts(1, 1); /* it does not stand in for the other */
}

static void a_stranger_is_refused(void **state)
{
    struct nxm_block live = host_allocate(64), queued = host_allocate(64);
    uint64_t mechanism = nxm_allocator_mechanism_id(host.allocator);

    (void)state;
    enqueued(&queued);
    refused(NXMEM_STATUS_UNKNOWN_ALLOCATION, mechanism, live.id, fake_last_ticket()); /* known, but not queued */
    refused(NXMEM_STATUS_UNKNOWN_ALLOCATION, mechanism, 0, fake_last_ticket());
    refused(NXMEM_STATUS_UNKNOWN_ALLOCATION, mechanism, UINT64_MAX, fake_last_ticket());
    assert_int_equal(host_state(live.address), NXM_BLOCK_LIVE);
}

static void another_mechanism_is_refused(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release = enqueued(&block);

    (void)state;
    refused(NXMEM_STATUS_WRONG_MECHANISM, nxm_allocator_mechanism_id(host.allocator) + 1, block.id, release.ticket);
    assert_int_equal(host_state(block.address), NXM_BLOCK_RELEASING);
}

static void a_wrong_ticket_is_refused(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release = enqueued(&block);

    (void)state;
    refused(NXMEM_STATUS_UNKNOWN_ALLOCATION, nxm_allocator_mechanism_id(host.allocator), block.id, release.ticket + 1);
    assert_counts(1, 1);
}

static void a_late_duplicate_does_not_complete_the_second_queueing(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release first = enqueued(&block);

    (void)state;
    fake.completion = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_FAILED, .keep = true };
    nxm_allocator_drain(host.allocator, 1);
    fake.completion.set = false;
    enqueued(&block); /* the same id, another ticket */
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
    enqueued(&block);
    shorter[0] = 8;
    shorter[1] = 0;
    assert_int_equal(callbacks->release_completed(callbacks->host_ctx, (void *)shorter).code, NXMEM_STATUS_SHORT_STRUCT);
    assert_int_equal(callbacks->release_completed(callbacks->host_ctx, (void *)(misaligned + 4)).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(callbacks->release_completed(callbacks->host_ctx, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(callbacks->release_completed(NULL, (void *)misaligned).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_counts(1, 1);
    free(shorter);
}

static void the_drain_stops_where_the_host_refused_and_says_how_far_it_came(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    enqueued(&block);
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
    enqueued(&block);
    fake.pending_status = NXMEM_STATUS_INTERNAL_ERROR;
    assert_int_equal(nxm_allocator_pending(host.allocator), 1);
}

/* --- teardown --------------------------------------------------------------------------------------------------------------------- */

static void queue(int count)
{
    for (int i = 0; i < count; i++) {
        struct nxm_block block = host_allocate(64);

        enqueued(&block);
    }
}

static uint64_t leaked(void)
{
    struct nxm_module_counters counters;

    nxm_module_counters(&counters);
    return counters.leaked_callback_tables;
}

static void teardown_offers_an_unbounded_budget(void **state)
{
    uint64_t before = leaked();

    (void)state;
    queue(20);
    host_close();
    assert_int_equal(fake.drains, 1);
    assert_int_equal(fake.last_drain_budget, UINT64_MAX);
    assert_int_equal(told.calls, 20);
    assert_int_equal(leaked(), before);
}

static void teardown_drains_in_as_many_passes_as_the_plugin_needs(void **state)
{
    uint64_t before = leaked();

    (void)state;
    queue(16);
    fake.drain_budget = 1;
    host_close();
    assert_int_equal(fake.drains, 16);
    assert_int_equal(leaked(), before);
}

static void teardown_with_nothing_queued_does_not_drain(void **state)
{
    (void)state;
    host_allocate(64);
    host_close();
    assert_int_equal(fake.drains, 0);
}

static void the_table_outlives_the_plugins_own_release(void **state)
{
    uint64_t before = leaked();

    (void)state;
    queue(1);
    fake.drain_nothing = true;
    fake.complete_in_release = true;
    host_close();
    assert_int_equal(fake.drains, 1);
    assert_int_equal(fake.last_callback_status, 0);
    assert_int_equal(told.calls, 1);
    assert_int_equal(leaked(), before);
}

static void teardown_leaves_queued_blocks_to_their_completion(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    enqueued(&block);
    fake.drain_nothing = true;
    fake.complete_in_release = true;
    host_close();
    assert_int_equal(fake.structured, 0); /* never pushed back beside its queued release */
    assert_int_equal(host_state(block.address), 0);
}

/* --- reclaim ------------------------------------------------------------------------------------------------------------------------ */

static int64_t reclaim_answer;
static uint64_t reclaim_asked;

static int64_t reclaim(void *owner, struct nxm_allocator *allocator, NxmemDeviceId device, uint64_t bytes)
{
    assert_ptr_equal(owner, &told);
    assert_ptr_equal(allocator, host.allocator);
    assert_int_equal(device.tier, NXMEM_TIER_DEVICE);
    reclaim_asked = bytes;
    return reclaim_answer;
}

static void reopen_with_reclaim(int64_t answer)
{
    host_close();
    reclaim_answer = answer;
    host.options.reclaim = reclaim;
    host_open();
    fake.reclaim_first = 4096;
}

static void a_host_without_reclaim_says_so(void **state)
{
    (void)state;
    fake.reclaim_first = 4096;
    host_allocate(64);
    assert_int_equal(fake.last_reclaim_status, NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
    assert_int_equal(fake.last_reclaimed, 0);
    assert_int_equal(host_totals().reclaim_calls, 1);
    assert_int_equal(host_totals().reclaim_failures, 1);
}

static void what_was_reclaimed_is_reported(void **state)
{
    (void)state;
    reopen_with_reclaim(1234);
    host_allocate(64);
    assert_int_equal(fake.last_reclaim_status, 0);
    assert_int_equal(fake.last_reclaimed, 1234);
    assert_int_equal(reclaim_asked, 4096);
    assert_int_equal(host_totals().reclaim_calls, 1);
    assert_int_equal(host_totals().reclaim_failures, 0);
}

static void zero_reclaimed_is_a_success(void **state)
{
    (void)state;
    reopen_with_reclaim(0);
    host_allocate(64);
    assert_int_equal(fake.last_reclaim_status, 0);
    assert_int_equal(fake.last_reclaimed, 0);
}

static void a_failing_reclaim_writes_zero(void **state)
{
    (void)state;
    reopen_with_reclaim(NXM_EBUSY);
    host_allocate(64);
    assert_int_equal(fake.last_reclaim_status, NXMEM_STATUS_CALLBACK_FAILED);
    assert_int_equal(fake.last_reclaimed, 0);
    assert_int_equal(host_totals().reclaim_failures, 1);
}

static uint32_t ask(NxmemDeviceId device, uint32_t struct_size)
{
    NxmemReclaimRequest request = { .struct_size = struct_size, .device = device, .bytes = 1 };
    uint64_t reclaimed = 77;
    uint32_t code = fake.last_callbacks->request_reclaim(fake.last_callbacks->host_ctx, &request, &reclaimed).code;

    if (code != 0)
        assert_int_equal(reclaimed, 0);
    return code;
}

static void reclaim_for_another_device_is_refused(void **state)
{
    (void)state;
    reopen_with_reclaim(5);
    assert_int_equal(ask((NxmemDeviceId){ NXMEM_TIER_DEVICE, 1 }, 32), NXMEM_STATUS_WRONG_DEVICE);
    assert_int_equal(ask((NxmemDeviceId){ NXMEM_TIER_HOST, 0 }, 32), NXMEM_STATUS_WRONG_DEVICE);
    assert_int_equal(ask((NxmemDeviceId){ 3, 0 }, 32), NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(ask((NxmemDeviceId){ NXMEM_TIER_DEVICE, 0 }, 16), NXMEM_STATUS_SHORT_STRUCT);
    assert_int_equal(ask((NxmemDeviceId){ NXMEM_TIER_DEVICE, 0 }, 32), 0);
    assert_int_equal(host_totals().reclaim_calls, 5);
    assert_int_equal(host_totals().reclaim_failures, 4);
}

static void null_pointers_in_reclaim_are_refused(void **state)
{
    const NxmemHostCallbacks *callbacks = fake.last_callbacks;
    NxmemReclaimRequest request = { .struct_size = sizeof request };
    uint64_t reclaimed = 77;

    (void)state;
    assert_int_equal(callbacks->request_reclaim(NULL, &request, &reclaimed).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(reclaimed, 0);
    assert_int_equal(callbacks->request_reclaim(callbacks->host_ctx, NULL, &reclaimed).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(callbacks->request_reclaim(callbacks->host_ctx, &request, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
}

/* --- threads -------------------------------------------------------------------------------------------------------------------------- */

#define ROUNDS 1000

static atomic_bool stop;
static atomic_uint ended;

static void count_completion(void *owner, const struct nxm_block *block, const struct nxm_release *release)
{
    (void)owner;
    (void)block;
    if (release->outcome == NXM_RELEASE_COMPLETE)
        atomic_fetch_add(&ended, 1);
}

static void *drainer(void *argument)
{
    (void)argument;
    while (!atomic_load(&stop))
        nxm_allocator_drain(host.allocator, 3);
    return NULL;
}

static void *enqueuer(void *argument)
{
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        struct nxm_block block = { .bytes = 64, .align = 64 };
        struct nxm_release release;

        if (nxm_allocator_allocate(host.allocator, &block, NULL, NULL, NULL) != NXM_OK || host_enqueue(&block, &release) != NXM_OK)
            return (void *)1;
    }
    return NULL;
}

static void completions_from_another_thread_race_the_enqueue_and_nothing_is_lost(void **state)
{
    pthread_t drain, enqueue[2];
    void *failed;

    (void)state;
    host_close();
    host.options.completed = count_completion;
    host_open();
    atomic_store(&stop, false);
    atomic_store(&ended, 0);
    assert_int_equal(pthread_create(&drain, NULL, drainer, NULL), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&enqueue[i], NULL, enqueuer, NULL), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(enqueue[i], &failed);
        assert_null(failed);
    }
    atomic_store(&stop, true);
    pthread_join(drain, NULL);
    nxm_allocator_drain(host.allocator, UINT64_MAX);
    assert_int_equal(atomic_load(&ended), 2 * ROUNDS);
    assert_counts(0, 0);
    assert_int_equal(fake.live, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, host_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_queued_block_is_releasing_and_counted_until_its_completion),
        TEST(the_embedder_is_told_after_the_counters_moved),
        TEST(a_queued_block_cannot_be_released_again),
        TEST(the_plugin_is_told_which_block),
        TEST(without_the_capability_nothing_is_touched),
        TEST(an_unknown_or_foreign_block_is_not_queued),
        TEST(a_refused_enqueue_leaves_the_block_releasable),
        TEST(a_refusal_that_leaves_doubt_quarantines_the_block),
        TEST(without_memory_the_block_stays_as_it_was),
        TEST(another_way_into_the_plugin_needs_no_capability_bit),
        TEST(it_is_counted_before_the_plugin_is_entered),
        TEST(a_completion_inside_enqueue_never_sees_an_underflowed_count),
        TEST(a_completion_wins_over_the_failure_that_follows_it),
        TEST(a_failed_completion_inside_enqueue_leaves_the_block_live),
        TEST(completions_come_in_the_order_of_the_queue_and_within_the_budget),
        TEST(a_failed_completion_makes_the_block_live_again),
        TEST(a_quarantined_completion_is_recorded_and_its_span_barred),
        TEST(a_completion_from_the_future_is_quarantined_whole),
        TEST(completions_are_clamped_like_releases),
        TEST(a_duplicate_completion_is_refused),
        TEST(a_stranger_is_refused),
        TEST(another_mechanism_is_refused),
        TEST(a_wrong_ticket_is_refused),
        TEST(a_late_duplicate_does_not_complete_the_second_queueing),
        TEST(what_cannot_be_read_is_refused),
        TEST(the_drain_stops_where_the_host_refused_and_says_how_far_it_came),
        TEST(absent_slots_drain_nothing_and_have_nothing_pending),
        TEST(where_the_plugin_cannot_count_the_hosts_count_stands_in),
        TEST(teardown_offers_an_unbounded_budget),
        TEST(teardown_drains_in_as_many_passes_as_the_plugin_needs),
        TEST(teardown_with_nothing_queued_does_not_drain),
        TEST(the_table_outlives_the_plugins_own_release),
        TEST(teardown_leaves_queued_blocks_to_their_completion),
        TEST(a_host_without_reclaim_says_so),
        TEST(what_was_reclaimed_is_reported),
        TEST(zero_reclaimed_is_a_success),
        TEST(a_failing_reclaim_writes_zero),
        TEST(reclaim_for_another_device_is_refused),
        TEST(null_pointers_in_reclaim_are_refused),
        TEST(completions_from_another_thread_race_the_enqueue_and_nothing_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
