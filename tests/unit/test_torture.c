/* One life of a module, from load to unload, again and again: each time one more request for our own memory fails, or one
 * more call of the plugin. Whatever fails, both sides' books come out even. Tables leak here: a program of its own. */
#include "core/allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"
#include "tests/unit/support/fake.h"
#include "tests/unit/support/host.h"

#define BLOCKS 12

/* --- a plugin whose n-th call fails ------------------------------------------------------------------ */

enum { NEGOTIATE = 1, CREATE, OPEN, FIRST_SLOT };

static struct {
    unsigned calls_to_failure; /* 0: none planned */
    uint32_t status;
    NxmemAllocatorVtable original;
} plan;

static bool fails_now(void)
{
    return plan.calls_to_failure != 0 && --plan.calls_to_failure == 0;
}

static NxmemStatus allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    return fails_now() ? fake_status(plan.status) : plan.original.allocate(ctx, request, result);
}

static NxmemStatus deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped)
{
    return fails_now() ? fake_status(plan.status) : plan.original.deallocate(ctx, allocation, unmapped);
}

static NxmemStatus release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome)
{
    return fails_now() ? fake_status(plan.status) : plan.original.release_allocation(ctx, allocation, outcome);
}

static NxmemStatus enqueue_release(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket)
{
    return fails_now() ? fake_status(plan.status) : plan.original.enqueue_release(ctx, allocation, ticket);
}

static NxmemStatus drain_releases(void *ctx, uint64_t max, uint64_t *retired)
{
    return fails_now() ? fake_status(plan.status) : plan.original.drain_releases(ctx, max, retired);
}

static NxmemStatus pending_release_count(void *ctx, uint64_t *count)
{
    return fails_now() ? fake_status(plan.status) : plan.original.pending_release_count(ctx, count);
}

static bool without_structured;

static void wrap(NxmemAllocatorVtable *vtable)
{
    plan.original = *vtable;
    vtable->allocate = allocate;
    vtable->deallocate = deallocate;
    vtable->release_allocation = without_structured ? NULL : release_allocation;
    vtable->enqueue_release = enqueue_release;
    vtable->drain_releases = drain_releases;
    vtable->pending_release_count = pending_release_count;
}

static void plan_failure(unsigned call, uint32_t status)
{
    fake.negotiate_status = call == NEGOTIATE ? status : 0;
    fake.create_status = call == CREATE ? status : 0;
    fake.open_status = call == OPEN ? status : 0;
    plan.calls_to_failure = call >= FIRST_SLOT ? call - FIRST_SLOT + 1 : 0;
    plan.status = status;
}

/* --- the life ------------------------------------------------------------------------------------------ */

static struct nxm_module_counters counters(void)
{
    struct nxm_module_counters now;

    nxm_module_counters(&now);
    return now;
}

/* A queued release that teardown could not drain: completed late, it reclaims its table. */
static void complete_the_rest(struct fake_state *state, struct nxm_module_counters before)
{
    uint64_t leaked = counters().leaked_callback_tables - before.leaked_callback_tables;
    uint32_t status;

    assert_int_equal(fake.queued != 0, leaked == 1);
    while (fake.queued != 0) {
        assert_true(fake_complete_one(state, &status));
        assert_int_equal(status, NXMEM_STATUS_OK);
    }
    assert_int_equal(counters().reclaimed_callback_tables - before.reclaimed_callback_tables, leaked);
}

/* Whatever happened before, nothing is owed now, and the module goes unless a leaked table keeps it. */
static void end_module(struct nxm_module_counters before)
{
    bool leaked = counters().leaked_callback_tables != before.leaked_callback_tables;
    struct nxm_gate gate = { 0 };

    assert_int_equal(nxm_module_unload(host.module, &gate), leaked ? NXM_EBUSY : NXM_OK);
    assert_int_equal(gate.reason, leaked ? NXM_GATE_REFERENCED : NXM_GATE_OPEN);
    assert_int_equal(gate.host.allocators + gate.host.allocations + gate.host.queued, 0);
    assert_int_equal(counters().modules_unmapped - before.modules_unmapped, leaked ? 0 : 1);
    assert_int_equal(counters().forced_module_leaks, before.forced_module_leaks);
    assert_int_equal(fake.factory_releases, 1);
}

static void use_allocator(void)
{
    struct nxm_block blocks[BLOCKS];
    struct nxm_release release;
    uint64_t allocated = 0, gone = 0;
    bool there[BLOCKS];

    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = (struct nxm_block){ .bytes = 64 + i, .align = 64, .class_ = NXM_CLASS_DEVICE };
        there[i] = nxm_allocator_allocate(host.allocator, &blocks[i], NULL, NULL, NULL) == NXM_OK;
        allocated += there[i];
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        int result;

        /* The sixth keeps a residue: its span needs memory to be remembered in. */
        fake.release = (struct fake_answer){ .set = i == 5, .state = NXMEM_RELEASE_QUARANTINED, .residual = 1 };
        if (!there[i] || i % 4 == 3)
            continue;
        result = i % 2 == 0 ? host_enqueue(&blocks[i], &release) : host_release(&blocks[i], &release);
        if (result == NXM_OK && release.outcome != NXM_RELEASE_QUEUED)
            gone++;
        if (result != NXM_OK)
            assert_int_equal(host_state(blocks[i].address), NXM_BLOCK_LIVE);
    }
    fake.release.set = false;
    gone += nxm_allocator_drain(host.allocator, 2);
    (void)nxm_allocator_pending(host.allocator);
    assert_int_equal(host_tallies().allocations, allocated - gone);
    assert_int_equal(host_tallies().queued, fake.queued);
}

/* False when the module did not even load. */
static bool live_once(void)
{
    struct nxm_module_counters before = counters();
    struct fake_state *state;

    memset(&host, 0, sizeof host);
    fake.extra_flags = NXMEM_CAPABILITY_DEFERRED_RELEASE;
    fake.bend = wrap;
    if (nxm_module_load(UNIT_DIR "/plugins/fake.so", NULL, &host.module, NULL) != NXM_OK) {
        assert_int_equal(counters().forced_module_leaks, before.forced_module_leaks);
        return false;
    }
    if (nxm_blocks_new(&host.blocks) == NXM_OK) {
        host.options.blocks = host.blocks;
        if (host_try_open(NULL) == NXM_OK) {
            use_allocator();
            state = fake.last_state;
            host_close();
            assert_int_equal(fake.releases, fake.opens);
            complete_the_rest(state, before);
        }
    }
    assert_int_equal(fake.releases, fake.opens);
    assert_int_equal(fake.live + fake.queued, 0);
    end_module(before);
    nxm_blocks_free(host.blocks);
    return true;
}

/* --- one more failure each time --------------------------------------------------------------------------- */

static int setup(void **state)
{
    (void)state;
    fake_reset();
    memset(&plan, 0, sizeof plan);
    without_structured = false;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    nxm_mem_fail_at(0);
    fake_reset();
    return 0;
}

/* Whether the failure planned for the n-th request is still to come: then one of the next n meets it. */
static bool still_planned(unsigned n)
{
    bool met = false;

    for (unsigned i = 0; i < n && !met; i++) {
        void *probe = nxm_mem_new(1);

        met = probe == NULL;
        nxm_mem_free(probe);
    }
    return met;
}

static void any_request_for_memory_may_fail(void **state)
{
    unsigned request = 0;

    do {
        setup(state);
        nxm_mem_fail_at(++request);
        (void)live_once();
    } while (!still_planned(request));
    assert_true(request > 1 + 6); /* module, its path, table, allocator, a shard's buckets and records at the least */
}

static void any_call_fails(uint32_t status)
{
    unsigned call = 0;

    for (bool spent = true; spent; call++) {
        fake_reset();
        plan_failure(call + 1, status);
        assert_int_equal(live_once(), call + 1 != NEGOTIATE && call + 1 != CREATE);
        spent = plan.calls_to_failure == 0;
    }
    assert_true(call > FIRST_SLOT + BLOCKS);
}

static void any_call_of_the_plugin_may_fail(void **state)
{
    static const uint32_t statuses[] = { NXMEM_STATUS_OUT_OF_MEMORY, NXMEM_STATUS_BUSY, NXMEM_STATUS_INTERNAL_ERROR,
                                         NXMEM_STATUS_RELEASE_QUARANTINED, 4711 };

    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        setup(state);
        any_call_fails(statuses[i]);
    }
}

static void any_call_may_fail_without_the_structured_slot(void **state)
{
    static const uint32_t statuses[] = { NXMEM_STATUS_DEVICE_ERROR, NXMEM_STATUS_INTERNAL_ERROR };

    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        setup(state);
        without_structured = true;
        any_call_fails(statuses[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_request_for_memory_may_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(any_call_of_the_plugin_may_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(any_call_may_fail_without_the_structured_slot, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
