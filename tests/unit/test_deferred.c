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
    struct nxm_release release = host_enqueued(&under_way);

    (void)state;
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

/* --- threads ------------------------------------------------------------------------------------- */

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
        TEST(completions_from_another_thread_race_the_enqueue_and_nothing_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
