/* core/module.c, allocator.c, deferred.c: counters are read, and moved, in the order in which things go from one to the other.
 * nxm_spread_sum and nxm_queued_settle are wrapped, so that a test stands between two steps. A module stays behind here: a program of
 * its own. */
#include "core/module.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/allocator_state.h"
#include "core/gate.h"
#include "tests/unit/support/fake.h"
#include "tests/unit/support/host.h"

#define READINGS_MAX 16

static struct {
    const struct nxm_spread *spread;
    unsigned sum;
} readings[READINGS_MAX];
static unsigned count;
static void (*between)(void); /* once, after the first look for threads inside: no lock is held there */

uint64_t __real_nxm_spread_sum(const struct nxm_spread *spread, unsigned sum);
uint64_t __wrap_nxm_spread_sum(const struct nxm_spread *spread, unsigned sum);

uint64_t __wrap_nxm_spread_sum(const struct nxm_spread *spread, unsigned sum)
{
    uint64_t read = __real_nxm_spread_sum(spread, sum);
    void (*now)(void) = between;

    if (count < READINGS_MAX) {
        readings[count].spread = spread;
        readings[count++].sum = sum;
    }
    if (now != NULL && spread == nxm_module_tallies(host.module) && sum == NXM_TALLY_INSIDE) {
        between = NULL;
        now();
    }
    return read;
}

/* A thread of the plugin that is quick: it completes what stays before its enqueuer does anything more. */
static bool complete_at_once;
static uint64_t outstanding_when_told;

enum nxm_settled __real_nxm_queued_settle(struct nxm_queued *queued, struct nxm_entry *entry, bool accepted, uint64_t ticket);
enum nxm_settled __wrap_nxm_queued_settle(struct nxm_queued *queued, struct nxm_entry *entry, bool accepted, uint64_t ticket);

enum nxm_settled __wrap_nxm_queued_settle(struct nxm_queued *queued, struct nxm_entry *entry, bool accepted, uint64_t ticket)
{
    enum nxm_settled settled = __real_nxm_queued_settle(queued, entry, accepted, ticket);
    uint32_t status;

    if (complete_at_once)
        assert_true(fake_complete_one(fake.last_state, &status));
    return settled;
}

/* How often anything had been read before; all there is when it never was. */
static unsigned when(const struct nxm_spread *spread, unsigned sum)
{
    for (unsigned i = 0; i < count; i++) {
        if (readings[i].spread == spread && readings[i].sum == sum)
            return i;
    }
    return READINGS_MAX;
}

static int setup(void **state)
{
    int result = host_setup(state);

    fake.extra_flags = NXMEM_CAPABILITY_DEFERRED_RELEASE;
    fake.drain_nothing = true;
    between = NULL;
    complete_at_once = false;
    if (result == 0)
        host_open();
    count = 0;
    return result;
}

static int teardown_of_a_kept_module(void **state)
{
    (void)state;
    nxm_blocks_free(host.blocks);
    fake_reset();
    return 0;
}

/* A completion lowers the others first and is inside until then: whoever finds them at 0 has not looked inside too early. */
static void the_gate_looks_last_for_threads_inside(void **state)
{
    const struct nxm_spread *tallies = nxm_module_tallies(host.module);
    struct nxm_gate gate;

    (void)state;
    nxm_module_query_gate(host.module, &gate);
    assert_true(when(tallies, NXM_TALLY_ALLOCATIONS) < when(tallies, NXM_TALLY_INSIDE));
    assert_true(when(&host.allocator->sums, NXM_SUM_QUEUED) < when(tallies, NXM_TALLY_INSIDE));
    assert_true(when(tallies, NXM_TALLY_INSIDE) < READINGS_MAX);
}

static struct fake_state *left_behind;

static void queue_one_and_close(void)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;

    left_behind = fake.last_state;
    assert_int_equal(host_enqueue(&block, &release), NXM_OK);
    assert_int_equal(release.outcome, NXM_RELEASE_QUEUED);
    host_close();
}

static void the_gate_looks_first_for_allocators_which_raise_the_others(void **state)
{
    struct nxm_gate gate;
    uint32_t status;

    (void)state;
    between = queue_one_and_close;
    nxm_module_query_gate(host.module, &gate);
    assert_null(between);
    assert_int_equal(gate.host.allocators, 1);
    assert_true(fake_complete_one(left_behind, &status));
    nxm_module_drop(host.module);
}

static void a_release_that_is_being_told_is_not_missed(void **state)
{
    struct nxm_allocator_totals totals;

    (void)state;
    nxm_allocator_totals(host.allocator, &totals);
    assert_true(when(&host.allocator->sums, NXM_SUM_QUEUED) < when(&host.allocator->sums, NXM_SUM_TELLING));
    assert_true(when(&host.allocator->sums, NXM_SUM_TELLING) < READINGS_MAX);
}

static void count_outstanding(void *owner, const struct nxm_block *block, const struct nxm_release *release)
{
    (void)owner, (void)block, (void)release;
    outstanding_when_told = nxm_allocator_pending(host.allocator);
}

static void what_stays_is_outstanding_before_anybody_can_complete_it(void **state)
{
    struct nxm_block block;

    (void)state;
    host_close();
    host.options.completed = count_outstanding;
    host_open();
    fake.pending_status = NXMEM_STATUS_BUSY; /* it does not say: our own count stands in */
    complete_at_once = true;
    block = host_allocate(64);
    assert_int_equal(host_enqueued(&block).outcome, NXM_RELEASE_QUEUED);
    assert_int_equal(outstanding_when_told, 1);
    assert_int_equal(nxm_allocator_pending(host.allocator), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, host_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_gate_looks_last_for_threads_inside),
        TEST(a_release_that_is_being_told_is_not_missed),
        TEST(what_stays_is_outstanding_before_anybody_can_complete_it),
        cmocka_unit_test_setup_teardown(the_gate_looks_first_for_allocators_which_raise_the_others, setup, teardown_of_a_kept_module),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
