/* The misbehaving plugin does exactly what its table says about memory: a test of a host is worth what its
 * planted fault is. Driven here by the raw ABI, over the fake driver. */
#include "tests/plugins/faulty_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- allocating --- */

static void refused_allocations_leave_nothing_behind(void **state)
{
    static const struct {
        const char *word;
        uint32_t code;
        bool address;
    } rows[] = {{"oom", NXMEM_STATUS_OUT_OF_MEMORY, true},
                {"internal", NXMEM_STATUS_INTERNAL_ERROR, false},
                {"unknown-status", 77, false},
                {"ok-null", NXMEM_STATUS_OK, false}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture f;
        NxmemAllocRequest request;
        NxmemAllocResult result = {.struct_size = sizeof result};

        faulty_open(&f, rows[i].word, false);
        request = request_for(f.vtable, 1, 100, 512);
        assert_int_equal(f.vtable->allocate(f.ctx, &request, &result).code, rows[i].code);
        assert_int_equal(result.ptr != NULL, rows[i].address);
        assert_int_equal(f.cuda->live, 0);
        assert_int_equal(plugin_report(&f.plugin).live_allocations, 0);
        assert_int_equal(faulty_counter(&f, "NxmemFaultyAllocations"), 1);
        faulty_close(&f);
    }
}

static void a_misaligned_block_can_be_handed_back(void **state)
{
    struct fixture f;
    NxmemAllocRequest request;
    NxmemAllocResult result = {.struct_size = sizeof result};
    NxmemAllocation block;

    (void)state;
    faulty_open(&f, "misaligned", false);
    request = request_for(f.vtable, 1, 100, 512);
    assert_int_equal(f.vtable->allocate(f.ctx, &request, &result).code, NXMEM_STATUS_OK);
    assert_int_equal((uintptr_t)result.ptr % 512, 256);
    block = allocation_of(&request, &result);
    assert_int_equal(f.cuda->live, 1);
    assert_int_equal(release_now(f.vtable, &block, NULL), NXMEM_STATUS_OK);
    assert_int_equal(f.cuda->live, 0);
    faulty_close(&f);
}

static void a_duplicate_has_the_address_of_a_live_block_and_its_own_id(void **state)
{
    struct fixture f;
    NxmemAllocation first, second, third;

    (void)state;
    faulty_open(&f, "duplicate", false);
    first = must_allocate(f.vtable, 1, 100, 512);
    second = must_allocate(f.vtable, 2, 100, 512);
    assert_ptr_equal(first.ptr, second.ptr);
    assert_int_equal(f.cuda->live, 1);
    assert_int_equal(release_now(f.vtable, &second, NULL), NXMEM_STATUS_OK);
    assert_int_equal(f.cuda->live, 1);
    assert_int_equal(release_now(f.vtable, &first, NULL), NXMEM_STATUS_OK);
    assert_int_equal(f.cuda->live, 0);
    third = must_allocate(f.vtable, 3, 100, 512); /* nothing live to repeat */
    assert_int_equal(f.cuda->live, 1);
    assert_int_equal(release_now(f.vtable, &third, NULL), NXMEM_STATUS_OK);
    faulty_close(&f);
}

static void slow_and_reentrant_serve_in_the_end(void **state)
{
    struct fixture f;
    NxmemAllocation block;

    (void)state;
    faulty_open(&f, "slow", false);
    block = must_allocate(f.vtable, 1, 100, 512);
    assert_int_equal(release_now(f.vtable, &block, NULL), NXMEM_STATUS_OK);
    faulty_close(&f);
    faulty_open(&f, "reentrant", false);
    block = must_allocate(f.vtable, 1, 100, 512);
    assert_int_equal(f.plugin.host.reclaims, 1);
    assert_int_equal(f.plugin.host.reclaim_bytes, 100);
    assert_int_equal(release_now(f.vtable, &block, NULL), NXMEM_STATUS_OK);
    faulty_close(&f);
}

/* --- releasing --- */

static void terminal_releases_answer_as_planted(void **state)
{
    static const struct {
        const char *word;
        uint32_t code, state;
        uint64_t unmapped, residual;
        bool driver_freed;
        uint32_t again; /* what a second release is told */
    } rows[] = {
        {"release-failed", NXMEM_STATUS_OK, NXMEM_RELEASE_FAILED, 0, 0, false, NXMEM_STATUS_OK},
        {"release-internal", NXMEM_STATUS_INTERNAL_ERROR, NXMEM_RELEASE_FAILED, 0, 0, false, NXMEM_STATUS_UNKNOWN_ALLOCATION},
        {"release-busy", NXMEM_STATUS_BUSY, NXMEM_RELEASE_FAILED, 0, 0, false, NXMEM_STATUS_BUSY},
        {"release-quarantines", NXMEM_STATUS_OK, NXMEM_RELEASE_QUARANTINED, 50, 51, false, NXMEM_STATUS_UNKNOWN_ALLOCATION},
        {"release-status-12", NXMEM_STATUS_RELEASE_QUARANTINED, NXMEM_RELEASE_FAILED, 0, 0, false, NXMEM_STATUS_UNKNOWN_ALLOCATION},
        {"release-unknown-state", NXMEM_STATUS_OK, 0x0BADF00D, 101, 0, false, NXMEM_STATUS_UNKNOWN_ALLOCATION},
        {"release-overclaims", NXMEM_STATUS_OK, NXMEM_RELEASE_COMPLETE, UINT64_C(1) << 60, 7, true, NXMEM_STATUS_UNKNOWN_ALLOCATION},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture f;
        NxmemAllocation block;
        NxmemReleaseOutcome outcome = {.struct_size = sizeof outcome};
        bool held = !rows[i].driver_freed;

        faulty_open(&f, rows[i].word, true);
        assert_null(f.companion);
        assert_null(f.vtable->enqueue_release);
        block = must_allocate(f.vtable, 1, 101, 512);
        assert_int_equal(f.vtable->release_allocation(f.ctx, &block, &outcome).code, rows[i].code);
        assert_int_equal(outcome.state, rows[i].state);
        assert_int_equal(outcome.unmapped_bytes, rows[i].unmapped);
        assert_int_equal(outcome.residual_owned_bytes, rows[i].residual);
        assert_int_equal(f.cuda->live, held);
        assert_int_equal(plugin_report(&f.plugin).live_allocations, held);
        assert_int_equal(f.vtable->release_allocation(f.ctx, &block, &outcome).code, rows[i].again);
        assert_int_equal(f.cuda->live, held);
        if (held)
            free((void *)(block.ptr - FAKE_ALIGNMENT));
        faulty_close(&f);
    }
}

/* --- queued releases --- */

static void open_with_block(struct fixture *f, const char *word, NxmemAllocation *block)
{
    faulty_open(f, word, false);
    *block = must_allocate(f->vtable, 1, 100, 512);
}

static uint32_t enqueue(const struct fixture *f, const NxmemAllocation *block)
{
    uint64_t ticket;

    return f->vtable->enqueue_release(f->ctx, block, &ticket).code;
}

static void busy_touches_nothing(void **state)
{
    struct fixture f;
    NxmemAllocation block;

    (void)state;
    open_with_block(&f, "enqueue-busy", &block);
    assert_int_equal(enqueue(&f, &block), NXMEM_STATUS_BUSY);
    assert_int_equal(f.plugin.host.completions, 0);
    assert_int_equal(release_now(f.vtable, &block, NULL), NXMEM_STATUS_OK);
    faulty_close(&f);
}

static void completes_then_fails_has_freed_the_block(void **state)
{
    struct fixture f;
    NxmemAllocation block;

    (void)state;
    open_with_block(&f, "completes-then-fails", &block);
    assert_int_equal(enqueue(&f, &block), NXMEM_STATUS_INTERNAL_ERROR);
    assert_int_equal(f.plugin.host.completions, 1);
    assert_int_equal(f.cuda->live, 0);
    assert_int_equal(release_now(f.vtable, &block, NULL), NXMEM_STATUS_UNKNOWN_ALLOCATION);
    faulty_close(&f);
}

static void never_completes_stays_queued_and_keeps_its_allocator(void **state)
{
    struct fixture f;
    NxmemAllocation block;
    uint64_t retired = 9, count = 9;

    (void)state;
    open_with_block(&f, "never-completes", &block);
    assert_int_equal(enqueue(&f, &block), NXMEM_STATUS_OK);
    assert_int_equal(f.vtable->drain_releases(f.ctx, UINT64_MAX, &retired).code, NXMEM_STATUS_OK);
    assert_int_equal(retired, 0);
    assert_int_equal(f.vtable->pending_release_count(f.ctx, &count).code, NXMEM_STATUS_OK);
    assert_int_equal(count, 1);
    f.vtable->release(f.ctx);
    f.vtable = NULL;
    assert_int_equal(plugin_report(&f.plugin).queued_releases, 1);
    assert_int_equal(plugin_report(&f.plugin).live_allocators, 1);
    free((void *)(block.ptr - FAKE_ALIGNMENT));
    faulty_close(&f);
}

static void bogus_completions_come_with_the_real_one(void **state)
{
    static const char *const words[] = {"completes-twice", "completes-stranger", "completes-foreign"};

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct fixture f;
        NxmemAllocation block;
        const NxmemReleaseCompletion *bogus, *real;

        open_with_block(&f, words[i], &block);
        assert_int_equal(enqueue(&f, &block), NXMEM_STATUS_OK);
        assert_int_equal(f.plugin.host.completions, 2);
        bogus = &f.plugin.host.log[i == 0 ? 1 : 0];
        real = &f.plugin.host.log[i == 0 ? 0 : 1];
        assert_int_equal(real->allocation_id, 1);
        assert_int_equal(real->mechanism_id, f.vtable->mechanism_id);
        assert_int_equal(bogus->allocation_id == 1, i != 1);
        assert_int_equal(bogus->mechanism_id == real->mechanism_id, i != 2);
        assert_int_equal(bogus->ticket == real->ticket, i == 0);
        assert_int_equal(faulty_counter(&f, "NxmemFaultyBogusCompletions"), 1);
        assert_int_equal(faulty_counter(&f, "NxmemFaultyBogusAccepted"), 1); /* this host believes anything */
        assert_int_equal(f.cuda->live, 0);
        faulty_close(&f);
    }
}

static void completes_later_does_so_from_a_thread_that_counts_until_joined(void **state)
{
    struct fixture f;
    NxmemAllocation blocks[3];
    uint64_t retired = 0;

    (void)state;
    faulty_open(&f, "completes-later", false);
    for (unsigned i = 0; i < 3; i++) {
        blocks[i] = must_allocate(f.vtable, 1 + i, 100, 512);
        assert_int_equal(enqueue(&f, &blocks[i]), NXMEM_STATUS_OK);
    }
    assert_int_equal(f.vtable->drain_releases(f.ctx, UINT64_MAX, &retired).code, NXMEM_STATUS_OK);
    assert_int_equal(retired, 3);
    assert_int_equal(f.plugin.host.completions, 3);
    assert_int_equal(f.cuda->live, 0);
    assert_int_equal(plugin_report(&f.plugin).queued_releases, 0);
    faulty_close(&f);
}

static void other_ends_than_complete_are_reported_as_they_are(void **state)
{
    struct fixture f;
    NxmemAllocation block;

    (void)state;
    open_with_block(&f, "completes-failed", &block);
    assert_int_equal(enqueue(&f, &block), NXMEM_STATUS_OK);
    assert_int_equal(f.plugin.host.log[0].outcome.state, NXMEM_RELEASE_FAILED);
    assert_int_equal(release_now(f.vtable, &block, NULL), NXMEM_STATUS_OK); /* live again, as said */
    faulty_close(&f);
    open_with_block(&f, "completes-unknown", &block);
    assert_int_equal(enqueue(&f, &block), NXMEM_STATUS_OK);
    assert_int_equal(f.plugin.host.log[0].outcome.state, 0x0BADF00D);
    assert_int_equal(plugin_report(&f.plugin).live_allocations, 1);
    assert_int_equal(plugin_report(&f.plugin).queued_releases, 0);
    free((void *)(block.ptr - FAKE_ALIGNMENT));
    faulty_close(&f);
}

/* --- the report --- */

static void reports_are_wrong_from_the_first_opening_on(void **state)
{
    struct fixture f;
    NxmemUnloadReport report = {.struct_size = sizeof report};

    (void)state;
    faulty_open(&f, "report-fails", false);
    assert_int_equal(f.plugin.readiness(&report).code, NXMEM_STATUS_INTERNAL_ERROR);
    faulty_close(&f);
    faulty_open(&f, "report-lies", false);
    assert_int_equal(plugin_report(&f.plugin).live_allocators, 0);
    faulty_close(&f);
    faulty_open(&f, "report-overcounts", false);
    f.vtable->release(f.ctx);
    f.vtable = NULL;
    assert_int_equal(plugin_report(&f.plugin).live_views, 1);
    faulty_close(&f);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_allocations_leave_nothing_behind),
        cmocka_unit_test(a_misaligned_block_can_be_handed_back),
        cmocka_unit_test(a_duplicate_has_the_address_of_a_live_block_and_its_own_id),
        cmocka_unit_test(slow_and_reentrant_serve_in_the_end),
        cmocka_unit_test(terminal_releases_answer_as_planted),
        cmocka_unit_test(busy_touches_nothing),
        cmocka_unit_test(completes_then_fails_has_freed_the_block),
        cmocka_unit_test(never_completes_stays_queued_and_keeps_its_allocator),
        cmocka_unit_test(bogus_completions_come_with_the_real_one),
        cmocka_unit_test(completes_later_does_so_from_a_thread_that_counts_until_joined),
        cmocka_unit_test(other_ends_than_complete_are_reported_as_they_are),
        cmocka_unit_test(reports_are_wrong_from_the_first_opening_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
