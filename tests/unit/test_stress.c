/* All slots of one allocator under eight threads that want the same blocks, while a ninth keeps asking to unload. Every
 * count must come out exact. */
#include "core/allocator.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support/fake.h"
#include "tests/unit/support/host.h"

#define THREADS 8
#define STEPS 4000
#define SHELF 64
#define BYTES 96
#define ALIGN 64

/* Where any thread finds the blocks of all. Read without a lock: address and id may be of two blocks, and then the host
 * must say that there is none. */
static struct {
    atomic_uint_fast64_t address, id;
} shelf[SHELF];

struct tally {
    uint64_t allocated, released, queued, refused;
};

static struct {
    atomic_uint_fast64_t completed;
    atomic_bool stop;
    uint64_t attempts;
} outside;

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void completed(void *owner, const struct nxm_block *block, const struct nxm_release *release)
{
    (void)owner;
    assert_int_equal(block->bytes, BYTES);
    assert_int_equal(release->outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(release->unmapped, BYTES);
    atomic_fetch_add(&outside.completed, 1);
}

/* --- one step each --------------------------------------------------------------------------------- */

static void step_allocate(size_t place, struct tally *tally)
{
    struct nxm_block block = { .bytes = BYTES, .align = ALIGN, .class_ = NXM_CLASS_DEVICE };

    assert_int_equal(nxm_allocator_allocate(host.allocator, &block, NULL, NULL, NULL), NXM_OK);
    tally->allocated++;
    atomic_store(&shelf[place].id, block.id);
    atomic_store(&shelf[place].address, block.address);
}

static void count(int result, const struct nxm_release *release, struct tally *tally)
{
    if (result != NXM_OK) {
        assert_true(result == NXM_ENOENT || result == NXM_EBUSY); /* somebody else had it */
        tally->refused++;
    } else if (release->outcome == NXM_RELEASE_QUEUED) {
        tally->queued++;
    } else {
        assert_int_equal(release->outcome, NXM_RELEASE_COMPLETE);
        assert_int_equal(release->unmapped, BYTES);
        tally->released++;
    }
}

static void step_release(size_t place, struct tally *tally)
{
    struct nxm_block block = { .address = atomic_load(&shelf[place].address), .id = atomic_load(&shelf[place].id) };
    struct nxm_release release;

    count(host_release(&block, &release), &release, tally);
}

static void step_release_shaped(size_t place, struct tally *tally)
{
    uint64_t address = atomic_load(&shelf[place].address);
    struct nxm_release release;

    count(nxm_allocator_release_shaped(host.allocator, address, BYTES, ALIGN, &release, NULL), &release, tally);
}

static void step_enqueue(size_t place, struct tally *tally)
{
    struct nxm_block block = { .address = atomic_load(&shelf[place].address), .id = atomic_load(&shelf[place].id) };
    struct nxm_release release;

    /* The completion may come from another thread's drain before the enqueue has returned. */
    if (host_enqueue(&block, &release) != NXM_OK)
        tally->refused++;
    else
        tally->queued++;
}

static void step_look(size_t place, struct tally *tally)
{
    struct nxm_allocator_totals totals;

    (void)place;
    (void)tally;
    nxm_allocator_totals(host.allocator, &totals);
    assert_true(totals.owned_bytes <= (uint64_t)THREADS * STEPS * BYTES); /* no sum ever runs below zero */
    assert_true(totals.mapped_bytes <= (uint64_t)THREADS * STEPS * BYTES);
    assert_true(totals.queued <= (uint64_t)THREADS * STEPS);
    assert_true(nxm_allocator_pending(host.allocator) <= (uint64_t)THREADS * STEPS);
}

static void step_drain(size_t place, struct tally *tally)
{
    (void)tally;
    assert_true(nxm_allocator_drain(host.allocator, 1 + place % 4) <= 1 + place % 4);
}

static void step_hold(size_t place, struct tally *tally)
{
    (void)place;
    (void)tally;
    nxm_allocator_ref(host.allocator);
    nxm_allocator_unref(host.allocator);
}

/* A slot that is new to the allocator gets its step here. */
static void (*const steps[])(size_t place, struct tally *tally) = {
    step_allocate, step_allocate, step_allocate, step_release, step_release_shaped,
    step_enqueue,  step_enqueue,  step_drain,    step_look,    step_hold,
};

/* --- the threads ------------------------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    uint64_t seed;
    struct tally tally;
};

static void *work(void *argument)
{
    struct worker *worker = argument;

    for (unsigned i = 0; i < STEPS; i++) {
        size_t step = next_random(&worker->seed) % (sizeof steps / sizeof steps[0]);

        steps[step](next_random(&worker->seed) % SHELF, &worker->tally);
    }
    return NULL;
}

static void *ask_to_unload(void *unused)
{
    struct nxm_gate gate;

    do {
        assert_int_equal(nxm_module_unload(host.module, &gate), NXM_EBUSY);
        assert_true(gate.handle_kept);
        assert_int_equal(gate.reason, NXM_GATE_HOST);
        assert_int_equal(gate.host.allocators, 1);
        assert_true(gate.host.allocations <= (uint64_t)THREADS * STEPS);
        assert_true(gate.host.queued <= (uint64_t)THREADS * STEPS);
        outside.attempts++;
        sched_yield();
    } while (!atomic_load(&outside.stop));
    return unused;
}

static struct tally run_all(void)
{
    static struct worker workers[THREADS];
    struct tally sum = { 0 };
    pthread_t asker;

    memset(workers, 0, sizeof workers);
    assert_int_equal(pthread_create(&asker, NULL, ask_to_unload, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].seed = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        sum.allocated += workers[i].tally.allocated;
        sum.released += workers[i].tally.released;
        sum.queued += workers[i].tally.queued;
        sum.refused += workers[i].tally.refused;
    }
    atomic_store(&outside.stop, true);
    assert_int_equal(pthread_join(asker, NULL), 0);
    return sum;
}

static int setup(void **state)
{
    int result = host_setup(state);

    memset(shelf, 0, sizeof shelf);
    memset(&outside, 0, sizeof outside);
    fake.extra_flags = NXMEM_CAPABILITY_DEFERRED_RELEASE;
    host.options.completed = completed;
    if (result == 0)
        host_open();
    return result;
}

/* --- what is left ------------------------------------------------------------------------------------ */

static void every_count_is_exact_after_eight_threads_used_every_slot(void **state)
{
    struct tally sum;
    struct nxm_class_totals blocks;
    uint64_t live, waiting;

    (void)state;
    sum = run_all();
    waiting = sum.queued - atomic_load(&outside.completed);
    live = sum.allocated - sum.released - sum.queued;
    assert_true(sum.released > 0 && sum.queued > 0 && sum.refused > 0 && live > 0 && outside.attempts > 0);

    /* What is queued is still allocated, for both sides. */
    host_assert_counts(live + waiting, waiting);
    assert_int_equal(nxm_allocator_pending(host.allocator), waiting);
    assert_int_equal(host_totals().owned_bytes, (live + waiting) * BYTES);
    assert_int_equal(host_totals().mapped_bytes, (live + waiting) * BYTES);
    assert_int_equal(host_totals().quarantined_blocks, 0);
    assert_int_equal(fake.allocates, sum.allocated);
    assert_int_equal(fake.structured, sum.released);
    assert_int_equal(fake.enqueues, sum.queued);
    assert_int_equal(fake.live, live + waiting);

    assert_int_equal(nxm_allocator_drain(host.allocator, UINT64_MAX), waiting);
    assert_int_equal(atomic_load(&outside.completed), sum.queued);
    host_assert_counts(live, 0);
    nxm_blocks_totals(host.blocks, NXM_CLASS_DEVICE, &blocks);
    assert_int_equal(blocks.live_blocks, live);
    assert_int_equal(blocks.live_bytes, live * BYTES);
    assert_int_equal(blocks.ever_blocks, sum.allocated);
    assert_int_equal(blocks.ever_bytes, sum.allocated * BYTES);

    host_close();
    assert_int_equal(fake.structured, sum.released + live); /* pushed back, each once */
    assert_int_equal(fake.live, 0);
    assert_int_equal(fake.deallocates, 0);
    nxm_blocks_totals(host.blocks, NXM_CLASS_DEVICE, &blocks);
    assert_int_equal(blocks.live_blocks, 0);
    assert_int_equal(blocks.live_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_count_is_exact_after_eight_threads_used_every_slot, setup, host_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
