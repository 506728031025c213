/* core/terminal.c: what a plugin is told of a release, and what its answer is taken to mean. */
#include "core/terminal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct nxm_block block = { .address = 0x7000, .bytes = 8192, .align = 256, .id = 42, .owned = 16384 };

static struct nxm_release judge(uint32_t state, uint64_t unmapped, uint64_t residual, uint32_t struct_size)
{
    NxmemReleaseOutcome outcome = {
        .struct_size = struct_size,
        .state = state,
        .allocation_bytes = block.bytes,
        .unmapped_bytes = unmapped,
        .residual_owned_bytes = residual,
    };

    return nxm_terminal_judge_outcome(&outcome, &block);
}

#define WHOLE ((uint32_t)sizeof(NxmemReleaseOutcome))

static void assert_release(struct nxm_release release, enum nxm_release_outcome outcome, uint64_t unmapped,
                           uint64_t retained)
{
    assert_int_equal(release.outcome, outcome);
    assert_int_equal(release.unmapped, unmapped);
    assert_int_equal(release.retained, retained);
}

static void complete_credits_what_was_unmapped(void **state)
{
    (void)state;
    assert_release(judge(NXMEM_RELEASE_COMPLETE, 8192, 0, WHOLE), NXM_RELEASE_COMPLETE, 8192, 0);
    assert_release(judge(NXMEM_RELEASE_COMPLETE, 0, 0, WHOLE), NXM_RELEASE_COMPLETE, 0, 0);
}

static void no_more_is_credited_than_the_block_had(void **state)
{
    (void)state;
    assert_release(judge(NXMEM_RELEASE_COMPLETE, UINT64_C(1) << 60, 0, WHOLE), NXM_RELEASE_COMPLETE, 8192, 0);
    assert_release(judge(NXMEM_RELEASE_QUARANTINED, UINT64_C(1) << 60, 1, WHOLE), NXM_RELEASE_QUARANTINED, 8192, 1);
}

static void complete_with_a_residue_is_a_quarantine_of_the_residue(void **state)
{
    (void)state;
    assert_release(judge(NXMEM_RELEASE_COMPLETE, 4096, 4096, WHOLE), NXM_RELEASE_QUARANTINED, 4096, 4096);
}

static void quarantine_keeps_the_residue_it_names(void **state)
{
    (void)state;
    assert_release(judge(NXMEM_RELEASE_QUARANTINED, 4096, 4096, WHOLE), NXM_RELEASE_QUARANTINED, 4096, 4096);
    assert_release(judge(NXMEM_RELEASE_QUARANTINED, 0, 16384, WHOLE), NXM_RELEASE_QUARANTINED, 0, 16384);
    assert_release(judge(NXMEM_RELEASE_QUARANTINED, 0, UINT64_C(1) << 60, WHOLE), NXM_RELEASE_QUARANTINED, 0, 16384);
}

static void failed_is_failed(void **state)
{
    (void)state;
    assert_release(judge(NXMEM_RELEASE_FAILED, 0, 0, WHOLE), NXM_RELEASE_FAILED, 0, 0);
}

static void a_state_from_the_future_quarantines_everything(void **state)
{
    (void)state;
    assert_release(judge(3, 8192, 0, WHOLE), NXM_RELEASE_QUARANTINED, 0, 8192);
    assert_release(judge(0x0BADF00D, 100, 100, WHOLE), NXM_RELEASE_QUARANTINED, 0, 8192);
}

static void a_state_that_was_not_written_is_not_complete(void **state)
{
    (void)state;
    assert_release(judge(NXMEM_RELEASE_COMPLETE, 8192, 0, 4), NXM_RELEASE_QUARANTINED, 0, 8192);
    assert_release(judge(NXMEM_RELEASE_FAILED, 0, 0, 7), NXM_RELEASE_QUARANTINED, 0, 8192);
}

static void bytes_that_were_not_written_are_not_believed(void **state)
{
    (void)state;
    assert_release(judge(NXMEM_RELEASE_COMPLETE, 8192, 5, 16), NXM_RELEASE_COMPLETE, 0, 0);
    assert_release(judge(NXMEM_RELEASE_QUARANTINED, 4096, 100, 24), NXM_RELEASE_QUARANTINED, 4096, 8192);
}

static void an_outcome_of_size_zero_or_newer_is_whole(void **state)
{
    (void)state;
    assert_release(judge(NXMEM_RELEASE_QUARANTINED, 4096, 4096, 0), NXM_RELEASE_QUARANTINED, 4096, 4096);
    assert_release(judge(NXMEM_RELEASE_QUARANTINED, 4096, 4096, 9000), NXM_RELEASE_QUARANTINED, 4096, 4096);
}

static void statuses_that_say_nothing_happened_leave_the_block_live(void **state)
{
    static const uint32_t codes[] = { 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 13, 14 };

    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct nxm_release release = nxm_terminal_judge_status(codes[i], &block);

        assert_int_equal(release.outcome, NXM_RELEASE_FAILED);
        assert_int_equal(release.status, codes[i]);
    }
}

static void statuses_that_leave_doubt_quarantine_everything(void **state)
{
    static const uint32_t codes[] = { NXMEM_STATUS_RELEASE_QUARANTINED, NXMEM_STATUS_INTERNAL_ERROR, 15, 9999,
                                      UINT32_MAX };

    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        assert_release(nxm_terminal_judge_status(codes[i], &block), NXM_RELEASE_QUARANTINED, 0, 8192);
        assert_int_equal(nxm_terminal_judge_status(codes[i], &block).status, codes[i]);
    }
}

/* --- the slots ----------------------------------------------------------------------------------- */

static struct {
    unsigned plain, structured;
    NxmemAllocation asked;
    NxmemReleaseOutcome found;
    uint64_t unmapped_found;
    void *ctx;
} plugin;

static NxmemStatus deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped)
{
    plugin.plain++;
    plugin.ctx = ctx;
    plugin.asked = *allocation;
    plugin.unmapped_found = *unmapped;
    *unmapped = UINT64_C(1) << 61;
    return (NxmemStatus){ 0 };
}

static NxmemStatus release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome)
{
    plugin.structured++;
    plugin.ctx = ctx;
    plugin.asked = *allocation;
    plugin.found = *outcome;
    return (NxmemStatus){ 0 };
}

static const NxmemAllocatorVtable vtable = {
    .mechanism_id = 9,
    .device = { NXMEM_TIER_HOST, 2 },
    .ctx = (void *)0x55,
    .deallocate = deallocate,
    .release_allocation = release_allocation,
};

static void the_allocation_is_named_in_full(void **state)
{
    NxmemAllocation expected = {
        .struct_size = 56,
        .mechanism_id = 9,
        .allocation_id = 42,
        .device = { NXMEM_TIER_HOST, 2 },
        .ptr = (uint8_t *)0x7000,
        .bytes = 8192,
        .align = 256,
    };
    struct nxm_release release;

    (void)state;
    nxm_terminal_release(&vtable, true, &block, &release);
    assert_memory_equal(&plugin.asked, &expected, sizeof expected);
    assert_ptr_equal(plugin.ctx, vtable.ctx);
    nxm_terminal_release(&vtable, false, &block, &release);
    assert_memory_equal(&plugin.asked, &expected, sizeof expected);
}

static void the_outcome_comes_zeroed_with_its_size(void **state)
{
    NxmemReleaseOutcome expected = { .struct_size = 296 };
    struct nxm_release release;

    (void)state;
    nxm_terminal_release(&vtable, true, &block, &release);
    assert_memory_equal(&plugin.found, &expected, sizeof expected);
}

static void the_slot_is_the_one_chosen_and_deallocate_is_clamped_too(void **state)
{
    struct nxm_release release;

    (void)state;
    memset(&plugin, 0, sizeof plugin);
    nxm_terminal_release(&vtable, false, &block, &release);
    assert_int_equal(plugin.plain, 1);
    assert_int_equal(plugin.structured, 0);
    assert_int_equal(plugin.unmapped_found, 0);
    assert_release(release, NXM_RELEASE_COMPLETE, 8192, 0);
    nxm_terminal_release(&vtable, true, &block, &release);
    assert_int_equal(plugin.plain, 1);
    assert_int_equal(plugin.structured, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(complete_credits_what_was_unmapped),
        cmocka_unit_test(no_more_is_credited_than_the_block_had),
        cmocka_unit_test(complete_with_a_residue_is_a_quarantine_of_the_residue),
        cmocka_unit_test(quarantine_keeps_the_residue_it_names),
        cmocka_unit_test(failed_is_failed),
        cmocka_unit_test(a_state_from_the_future_quarantines_everything),
        cmocka_unit_test(a_state_that_was_not_written_is_not_complete),
        cmocka_unit_test(bytes_that_were_not_written_are_not_believed),
        cmocka_unit_test(an_outcome_of_size_zero_or_newer_is_whole),
        cmocka_unit_test(statuses_that_say_nothing_happened_leave_the_block_live),
        cmocka_unit_test(statuses_that_leave_doubt_quarantine_everything),
        cmocka_unit_test(the_allocation_is_named_in_full),
        cmocka_unit_test(the_outcome_comes_zeroed_with_its_size),
        cmocka_unit_test(the_slot_is_the_one_chosen_and_deallocate_is_clamped_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
