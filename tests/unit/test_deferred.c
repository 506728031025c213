/* core/deferred.c: queued releases and their completions. The teardown of every test wants the module to unload, so a
 * counter that does not come back to zero fails it. Leaked tables: test_deferred_leak.c. */
#include "core/allocator.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/mem.h"
#include "core/queued.h"
#include "tests/unit/support/fake.h"
#include "tests/unit/support/host.h"

/* --- enqueue ------------------------------------------------------------------------------------- */

static void a_queued_block_is_releasing_and_counted_until_its_completion(void **state)
{
    struct nxm_block block = host_allocate(8192);
    struct nxm_release release = host_enqueued(&block);

    (void)state;
    assert_int_equal(release.outcome, NXM_RELEASE_QUEUED);
    assert_int_equal(release.ticket, fake_last_ticket());
    assert_int_equal(host_state(block.address), NXM_BLOCK_RELEASING);
    host_assert_counts(1, 1);
    assert_int_equal(nxm_allocator_pending(host.allocator), 1);
    assert_int_equal(host_totals().owned_bytes, 8192);
    assert_int_equal(host_told.calls, 0);
    assert_int_equal(nxm_allocator_drain(host.allocator, 10), 1);
    assert_int_equal(fake.last_callback_status, 0);
    assert_int_equal(host_state(block.address), 0);
    host_assert_counts(0, 0);
    assert_int_equal(host_totals().owned_bytes, 0);
}

static void the_embedder_is_told_after_the_counters_moved(void **state)
{
    struct nxm_block block = host_allocate(8192);
    struct nxm_release queued = host_enqueued(&block);

    (void)state;
    nxm_allocator_drain(host.allocator, 1);
    assert_int_equal(host_told.calls, 1);
    assert_memory_equal(&host_told.block, &block, sizeof block);
    assert_int_equal(host_told.release.outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(host_told.release.unmapped, 8192);
    assert_int_equal(host_told.release.ticket, queued.ticket);
    assert_int_equal(host_told.tallies.queued, 0);
    assert_int_equal(host_told.tallies.allocations, 0);
}

static void a_queued_block_cannot_be_released_again(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release = host_enqueued(&block);

    (void)state;
    assert_int_equal(host_enqueue(&block, &release), NXM_EBUSY);
    assert_int_equal(host_release(&block, &release), NXM_EBUSY);
    assert_int_equal(fake.enqueues, 1);
    assert_int_equal(fake.structured, 0);
    host_assert_counts(1, 1);
}

static void the_plugin_is_told_which_block(void **state)
{
    struct nxm_block block = host_allocate(100);

    (void)state;
    host_enqueued(&block);
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
    host_assert_counts(1, 0);
}

static void an_unknown_or_foreign_block_is_not_queued(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_allocator *sibling;
    struct nxm_release release;

    (void)state;
    assert_int_equal(nxm_allocator_enqueue(host.allocator, 0x123400, 0, NXM_BLOCK_LIVE, NULL, NULL, &release, NULL),
                     NXM_ENOENT);
    assert_int_equal(nxm_allocator_open(host.module, 0, &host.options, &sibling, NULL), NXM_OK);
    assert_int_equal(nxm_allocator_enqueue(sibling, block.address, 0, NXM_BLOCK_LIVE, NULL, NULL, &release, NULL),
                     NXM_ENOENT);
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
    assert_int_equal(
        nxm_allocator_enqueue(host.allocator, block.address, 0, NXM_BLOCK_LIVE, NULL, NULL, &release, &error),
        NXM_ECALL);
    assert_int_equal(error.status, NXMEM_STATUS_BUSY);
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE);
    host_assert_counts(1, 0);
    assert_int_equal(host_told.calls, 0);
    assert_int_equal(host_release(&block, &release), NXM_OK);
    host_assert_counts(0, 0);
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
        host_assert_counts(0, 0);
    }
}

/* The shard's own entry is taken by a release that is under way. */
static void without_memory_the_block_stays_as_it_was(void **state)
{
    struct nxm_block under_way = host_allocate(64), block;
    struct nxm_release release;

    (void)state;
    nxm_mem_fail_at(1);
    release = host_enqueued(&under_way);
    do
        block = host_allocate(64);
    while ((block.id - under_way.id) % NXM_QUEUED_SHARDS != 0);
    nxm_blocks_claim(host.blocks, block.address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL);
    nxm_mem_fail_at(1);
    assert_int_equal(
        nxm_allocator_enqueue(host.allocator, block.address, 0, NXM_BLOCK_WAITING, NULL, NULL, &release, NULL),
        NXM_ENOMEM);
    nxm_mem_fail_at(0);
    assert_int_equal(host_state(block.address), NXM_BLOCK_WAITING);
    assert_int_equal(fake.enqueues, 1);
    host_assert_counts(NXM_QUEUED_SHARDS + 1, 1);
    assert_int_equal(
        nxm_allocator_enqueue(host.allocator, block.address, 0, NXM_BLOCK_WAITING, NULL, NULL, &release, NULL), NXM_OK);
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
    assert_int_equal(
        nxm_allocator_enqueue(host.allocator, block.address, 0, NXM_BLOCK_LIVE, other_way_in, &calls, &release, NULL),
        NXM_OK);
    assert_int_equal(calls, 1);
    host_assert_counts(1, 1);
}

/* --- completion inside the call ------------------------------------------------------------------ */

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
    host_enqueued(&block);
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
    release = host_enqueued(&block);
    assert_int_equal(release.outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(release.unmapped, 64);
    assert_int_equal(fake.last_callback_status, 0);
    assert_int_equal(inside.queued, 0);
    assert_int_equal(inside.allocations, 0);
    assert_int_equal(inside_outstanding, 0);
    assert_int_equal(host_told.calls, 1);
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
    host_assert_counts(0, 0);
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
    host_assert_counts(1, 0);
    assert_int_equal(host_release(&block, &release), NXM_OK);
}

static atomic_uint ended;

static void count_completion(void *owner, const struct nxm_block *block, const struct nxm_release *release)
{
    (void)owner;
    (void)block;
    if (release->outcome == NXM_RELEASE_COMPLETE)
        atomic_fetch_add(&ended, 1);
}

static uint64_t queued_while_told;

static void look_while_told(void *owner, const struct nxm_block *block, const struct nxm_release *release)
{
    (void)owner, (void)block, (void)release;
    queued_while_told = host_totals().queued;
}

/* Over for the gate, but not for whoever asked for it; inside the call, and after it. */
static void a_release_counts_as_queued_until_the_embedder_knows(void **state)
{
    (void)state;
    host_close();
    host.options.completed = look_while_told;
    host_open();
    for (int in_call = 0; in_call <= 1; in_call++) {
        struct nxm_block block = host_allocate(64);

        queued_while_told = 0;
        fake.complete_in_enqueue = in_call;
        host_enqueued(&block);
        assert_int_equal(nxm_allocator_drain(host.allocator, 1), !in_call);
        assert_int_equal(queued_while_told, 1);
        assert_int_equal(host_totals().queued, 0);
    }
}

/* The plugin cannot count, so what it is told is what is outstanding. */
static void nothing_that_ended_inside_its_call_is_outstanding(void **state)
{
    (void)state;
    fake.pending_status = NXMEM_STATUS_BUSY;
    for (int told = 0; told <= 1; told++) {
        host_close();
        host.options.completed = told ? count_completion : NULL;
        host_open();
        for (int refuse = 0; refuse <= 1; refuse++) {
            struct nxm_block block = host_allocate(64);

            fake.complete_in_enqueue = true;
            fake.enqueue_status = refuse ? NXMEM_STATUS_BUSY : 0;
            host_enqueued(&block);
            assert_int_equal(nxm_allocator_pending(host.allocator), 0);
        }
    }
}

/* --- threads ------------------------------------------------------------------------------------- */

#define ROUNDS 1000

static atomic_bool stop;

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

        if (nxm_allocator_allocate(host.allocator, &block, NULL, NULL, NULL) != NXM_OK ||
            host_enqueue(&block, &release) != NXM_OK)
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
    host_assert_counts(0, 0);
    assert_int_equal(fake.live, 0);
}

/* --- entries ------------------------------------------------------------------------------------- */

/* Twice the shards: each serves more than the one entry that needs no memory. */
static void an_ended_enqueue_gives_its_entry_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4 * NXM_QUEUED_SHARDS; i++) {
        struct nxm_block block = host_allocate(64);
        struct nxm_release release;

        fake.complete_in_enqueue = i % 2 == 0;
        fake.enqueue_status = i % 2 == 0 ? 0 : NXMEM_STATUS_BUSY;
        nxm_mem_fail_at(1);
        assert_int_equal(host_enqueue(&block, &release), i % 2 == 0 ? NXM_OK : NXM_ECALL);
        nxm_mem_fail_at(0);
        if (i % 2 != 0)
            assert_int_equal(host_release(&block, &release), NXM_OK);
    }
}

/* --- drain and pending ----------------------------------------------------------------------------- */

static void what_was_retired_before_a_drain_failed_is_retired(void **state)
{
    struct nxm_block first = host_allocate(64), second = host_allocate(64);

    (void)state;
    host_enqueued(&first);
    host_enqueued(&second);
    fake.drain_status = NXMEM_STATUS_BUSY;
    assert_int_equal(nxm_allocator_drain(host.allocator, 8), 2);
    host_assert_counts(0, 0);
}

static void a_plugin_that_cannot_count_is_counted_for(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    host_enqueued(&block);
    fake.pending_status = NXMEM_STATUS_BUSY;
    assert_int_equal(nxm_allocator_pending(host.allocator), 1);
}

static void bend_queue_away(NxmemAllocatorVtable *vtable)
{
    vtable->enqueue_release = NULL;
    vtable->drain_releases = NULL;
    vtable->pending_release_count = NULL;
}

static void absent_slots_are_not_entered(void **state)
{
    (void)state;
    host_close();
    fake.extra_flags = 0;
    fake.bend = bend_queue_away;
    host_open();
    assert_int_equal(nxm_allocator_drain(host.allocator, 8), 0);
    assert_int_equal(nxm_allocator_pending(host.allocator), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, host_setup_deferred, host_teardown)

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
        TEST(a_release_counts_as_queued_until_the_embedder_knows),
        TEST(nothing_that_ended_inside_its_call_is_outstanding),
        TEST(an_ended_enqueue_gives_its_entry_back),
        TEST(what_was_retired_before_a_drain_failed_is_retired),
        TEST(a_plugin_that_cannot_count_is_counted_for),
        TEST(absent_slots_are_not_entered),
        TEST(completions_from_another_thread_race_the_enqueue_and_nothing_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
