/* Ranges, shared prefixes, views and queued releases of `lazy` under eight threads that want the same blocks, while a ninth keeps
 * asking to unload: the slots that test_stress.c has no plugin for. Every count must come out exact. */
#include "core/backing.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/shared.h"
#include "tests/unit/support/mechanism.h"

enum { THREADS = 8, STEPS = 3000, SHELF = 32, GRANULE = 4096, PREFIX = 2 * GRANULE, BLOCK = 8 * GRANULE };

static const struct nxm_shape whole = { BLOCK, GRANULE };
static atomic_uint_fast64_t shelf[SHELF]; /* where any thread finds the blocks of all */
static atomic_uint_fast64_t allocated, ended; /* released at once, or taken by the queue */
static atomic_uint_fast64_t met; /* calls that met a live block */
static atomic_bool stop;
static struct nxm_shared *prefix;

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Somebody else may have it, or have had it; nothing else may go wrong. */
static void is_one_of_ours(int result)
{
    if (result == NXM_OK)
        atomic_fetch_add(&met, 1);
    assert_true(result == NXM_OK || result == NXM_ENOENT || result == NXM_EBUSY || result == NXM_ECALL);
}

static void step_allocate(uint64_t place)
{
    struct nxm_block block = { .bytes = BLOCK, .align = GRANULE, .class_ = NXM_CLASS_DEVICE };
    const NxmemByteRange some = { 0, 3 * GRANULE };

    assert_int_equal(nxm_backing_allocate(mechanism.allocator, &block, &some, place % 2, NULL), NXM_OK);
    atomic_fetch_add(&allocated, 1);
    atomic_store(&shelf[place % SHELF], block.address);
}

static void step_range(uint64_t place)
{
    const NxmemByteRange range = { place % 8 * GRANULE, GRANULE };
    uint64_t address = atomic_load(&shelf[place % SHELF]), number = 0;

    if (place % 3 == 0) {
        is_one_of_ours(nxm_backing_commit(mechanism.allocator, address, &whole, &range, NULL));
    } else if (place % 3 == 1) {
        is_one_of_ours(nxm_backing_decommit(mechanism.allocator, address, &whole, &range, &number, NULL));
        assert_true(number <= BLOCK);
    } else {
        assert_true(nxm_backing_committed(mechanism.allocator, address, &whole) <= BLOCK);
        is_one_of_ours(nxm_backing_cost_of_ranges(mechanism.allocator, address, &whole, &range, 1, &number, NULL));
    }
}

static void step_view(uint64_t place)
{
    struct nxm_shared_commit commit;
    uint64_t owned;

    is_one_of_ours(nxm_shared_cost(mechanism.allocator, prefix, &owned, NULL));
    is_one_of_ours(nxm_shared_commit(mechanism.allocator, prefix, atomic_load(&shelf[place % SHELF]), BLOCK,
                                     place % 4 * PREFIX, &commit, NULL));
}

static void step_prefix(uint64_t place)
{
    struct nxm_shared *own;
    struct nxm_shared_commit commit;

    assert_int_equal(nxm_shared_new(mechanism.allocator, PREFIX, &own, NULL), NXM_OK);
    is_one_of_ours(nxm_shared_commit(mechanism.allocator, own, atomic_load(&shelf[place % SHELF]), BLOCK, 0, &commit, NULL));
    nxm_shared_unref(own); /* before its view */
}

static void step_release(uint64_t place)
{
    uint64_t address = atomic_load(&shelf[place % SHELF]);
    struct nxm_release release;
    int result = place % 2 ? nxm_allocator_enqueue(mechanism.allocator, address, 0, NXM_BLOCK_LIVE, NULL, NULL, &release, NULL)
                           : nxm_allocator_release(mechanism.allocator, address, 0, NXM_BLOCK_LIVE, &release, NULL);

    is_one_of_ours(result);
    if (result == NXM_OK)
        atomic_fetch_add(&ended, 1);
}

static void step_drain(uint64_t place)
{
    assert_true(nxm_allocator_drain(mechanism.allocator, 1 + place % 4) <= 1 + place % 4);
    assert_true(nxm_allocator_pending(mechanism.allocator) <= (uint64_t)THREADS * STEPS);
}

static void *work(void *number)
{
    static void (*const steps[])(uint64_t) = { step_allocate, step_allocate, step_range, step_range, step_view,
                                               step_prefix,   step_release,  step_release, step_drain };
    uint64_t seed = (uint64_t)(uintptr_t)number * UINT64_C(0x9E3779B97F4A7C15);

    for (unsigned i = 0; i < STEPS; i++) {
        size_t step = next_random(&seed) % (sizeof steps / sizeof steps[0]);

        steps[step](next_random(&seed));
    }
    return NULL;
}

static void *ask_to_unload(void *attempts)
{
    struct nxm_gate gate;

    do {
        assert_int_equal(nxm_module_unload(mechanism.module, &gate), NXM_EBUSY);
        assert_true(gate.handle_kept);
        assert_int_equal(gate.reason, NXM_GATE_HOST);
        ++*(uint64_t *)attempts;
        sched_yield();
    } while (!atomic_load(&stop));
    return NULL;
}

static bool end_block(void *unused, const struct nxm_block *block)
{
    struct nxm_release release;

    (void)unused;
    assert_int_equal(nxm_allocator_release(mechanism.allocator, block->address, block->id, NXM_BLOCK_LIVE, &release, NULL), NXM_OK);
    atomic_fetch_add(&ended, 1);
    return true;
}

static void every_count_comes_out_exact(void **state)
{
    struct nxm_allocator_totals totals;
    pthread_t threads[THREADS], asker;
    uint64_t attempts = 0;

    (void)state;
    mechanism_open("lazy");
    assert_int_equal(nxm_shared_new(mechanism.allocator, PREFIX, &prefix, NULL), NXM_OK);
    assert_int_equal(pthread_create(&asker, NULL, ask_to_unload, &attempts), 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(asker, NULL), 0);
    assert_true(attempts > 0);
    assert_true(atomic_load(&met) > THREADS * STEPS / 4); /* they were at work */

    while (nxm_allocator_drain(mechanism.allocator, UINT64_MAX) > 0)
        continue;
    assert_int_equal(nxm_allocator_pending(mechanism.allocator), 0);
    nxm_allocator_totals(mechanism.allocator, &totals);
    assert_int_equal(totals.queued, 0);
    struct nxm_gate gate = gate_now();
    assert_int_equal(gate.host.allocations, atomic_load(&allocated) - atomic_load(&ended));
    assert_int_equal(gate.plugin.live_allocations, gate.host.allocations);
    assert_int_equal(gate.plugin.live_views, totals.views);

    nxm_blocks_each(mechanism.blocks, end_block, NULL);
    nxm_allocator_totals(mechanism.allocator, &totals);
    assert_int_equal(totals.views, 0);
    assert_int_equal(totals.owned_bytes, 0);
    assert_int_equal(totals.mapped_bytes, 0);
    assert_int_equal(atomic_load(&ended), atomic_load(&allocated));
    nxm_shared_unref(prefix);
    gate = gate_now();
    assert_int_equal(gate.plugin.live_allocations, 0);
    assert_int_equal(gate.plugin.live_views, 0);
    mechanism_drop();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_count_comes_out_exact, mechanism_setup, mechanism_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
