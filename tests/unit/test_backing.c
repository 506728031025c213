/* core/backing.c: blocks committed in ranges; what is refused before the plugin hears of it. */
#include "core/backing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/mem.h"
#include "tests/unit/support/fake.h"
#include "tests/unit/support/fake_map.h"
#include "tests/unit/support/host.h"

#define BYTES (16 * UINT64_C(4096))

static const struct nxm_shape shape = { BYTES, 256 };
static const NxmemByteRange first_two = { 0, 8192 };

static int try_allocate(uint64_t bytes, const NxmemByteRange *ranges, uint64_t count, struct nxm_block *ret_block)
{
    *ret_block = (struct nxm_block){ .bytes = bytes, .align = 256, .class_ = NXM_CLASS_DEVICE };
    return nxm_backing_allocate(host.allocator, ret_block, ranges, count, NULL);
}

static struct nxm_block allocate(const NxmemByteRange *ranges, uint64_t count)
{
    struct nxm_block block;

    assert_int_equal(try_allocate(BYTES, ranges, count, &block), NXM_OK);
    return block;
}

static int commit(const struct nxm_block *block, uint64_t offset, uint64_t bytes)
{
    NxmemByteRange range = { offset, bytes };

    return nxm_backing_commit(host.allocator, block->address, &shape, &range, NULL);
}

static uint64_t committed(const struct nxm_block *block)
{
    return nxm_backing_committed(host.allocator, block->address, &shape);
}

/* --- allocate -------------------------------------------------------------------------------------- */

static void ranges_reach_the_plugin_through_the_backing_vtable(void **state)
{
    const NxmemByteRange ranges[] = { { 0, 4096 }, { 8192, 4097 } };
    struct nxm_block block = allocate(ranges, 2);

    (void)state;
    assert_ptr_equal(fake_map.last_ctx, nxm_allocator_virtual_backing(host.allocator)->ctx);
    assert_ptr_not_equal(fake_map.last_ctx, fake.last_published->ctx);
    assert_int_equal(fake_map.last_range_count, 2);
    assert_memory_equal(fake_map.last_ranges, ranges, sizeof ranges);
    assert_int_equal(fake_map.last_request.allocation_id, block.id);
    assert_int_equal(fake_map.last_request.mechanism_id, nxm_allocator_mechanism_id(host.allocator));
    assert_int_equal(fake_map.last_request.bytes, BYTES);
    assert_int_equal(fake_map.last_request.struct_size, 64);
    assert_int_equal(block.owned, 3 * 4096);
    assert_int_equal(block.mapped, 3 * 4096);
    assert_int_equal(host_totals().mapped_bytes, 3 * 4096);
    assert_int_equal(committed(&block), 3 * 4096);
}

static void no_ranges_reserve_and_commit_nothing(void **state)
{
    struct nxm_block block = allocate(NULL, 0);

    (void)state;
    assert_int_equal(fake_map.last_range_count, 0);
    assert_null(fake_map.last_request.committed_ranges);
    assert_int_equal(block.mapped, 0);
    assert_int_equal(committed(&block), 0);
}

static void such_a_block_is_released_like_any_other(void **state)
{
    struct nxm_block block = allocate(&first_two, 1);
    struct nxm_release release;

    (void)state;
    assert_int_equal(host_tallies().allocations, 1);
    assert_int_equal(host_release(&block, &release), NXM_OK);
    assert_int_equal(release.outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(host_tallies().allocations, 0);
    assert_int_equal(fake.structured, 1);
}

static void a_range_that_leaves_the_new_block_is_refused_before_the_call(void **state)
{
    const NxmemByteRange bad[] = { { 0, BYTES + 1 }, { BYTES, 1 }, { BYTES + 1, 0 }, { 4096, UINT64_MAX }, { UINT64_MAX, 4096 } };
    struct nxm_block block;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        NxmemByteRange ranges[] = { first_two, bad[i] };

        assert_int_equal(try_allocate(BYTES, ranges, 2, &block), NXM_EINVAL);
    }
    assert_int_equal(fake.allocates, 0);
}

static void a_range_to_the_very_end_is_fine(void **state)
{
    const NxmemByteRange ranges[] = { { BYTES - 4096, 4096 }, { BYTES, 0 } };

    (void)state;
    allocate(ranges, 2);
}

static void its_results_are_checked_as_those_of_a_plain_allocation(void **state)
{
    struct nxm_block block;

    (void)state;
    fake.allocate_returns_null = true;
    assert_int_equal(try_allocate(64, NULL, 0, &block), NXM_ECONTRACT);
    fake.allocate_returns_null = false;
    fake.misalign = 8;
    assert_int_equal(try_allocate(64, NULL, 0, &block), NXM_ECONTRACT);
    assert_int_equal(fake.structured, 1); /* handed back */
    fake.allocate_status = NXMEM_STATUS_OUT_OF_MEMORY;
    assert_int_equal(try_allocate(64, NULL, 0, &block), NXM_ENOMEM);
    assert_int_equal(host_tallies().allocations, 0);
}

/* --- ranges ---------------------------------------------------------------------------------------- */

static void commits_and_decommits_are_counted_by_the_plugin(void **state)
{
    struct nxm_block block = allocate(NULL, 0);
    uint64_t unmapped = 99;

    (void)state;
    assert_int_equal(commit(&block, 0, 8192), NXM_OK);
    assert_int_equal(committed(&block), 8192);
    assert_int_equal(commit(&block, 0, 8192), NXM_OK);
    assert_int_equal(committed(&block), 8192);
    assert_int_equal(fake_map.last_range.allocation.allocation_id, block.id);
    assert_int_equal(fake_map.last_range.struct_size, 80);
    assert_int_equal(fake_map.last_range.allocation.struct_size, 56);
    assert_int_equal(nxm_backing_decommit(host.allocator, block.address, &shape, &first_two, &unmapped, NULL), NXM_OK);
    assert_int_equal(unmapped, 8192);
    assert_int_equal(committed(&block), 0);
    assert_int_equal(nxm_backing_decommit(host.allocator, block.address, &shape, &first_two, &unmapped, NULL), NXM_OK);
    assert_int_equal(unmapped, 0); /* a success */
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE);
}

static void no_range_reaches_the_plugin_that_leaves_the_block(void **state)
{
    const NxmemByteRange bad[] = { { 0, BYTES + 1 }, { BYTES, 1 }, { BYTES - 1, 2 }, { 4096, UINT64_MAX }, { UINT64_MAX, 2 } };
    struct nxm_block block = allocate(NULL, 0);
    uint64_t number = 55;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(nxm_backing_commit(host.allocator, block.address, &shape, &bad[i], NULL), NXM_EINVAL);
        assert_int_equal(nxm_backing_decommit(host.allocator, block.address, &shape, &bad[i], &number, NULL), NXM_EINVAL);
        assert_int_equal(nxm_backing_cost_of_ranges(host.allocator, block.address, &shape, &bad[i], 1, &number, NULL), NXM_EINVAL);
        assert_int_equal(nxm_backing_cost_of_block(host.allocator, &shape, &bad[i], 1, &number, NULL), NXM_EINVAL);
    }
    assert_int_equal(fake_map.commits + fake_map.decommits + fake_map.costs, 0);
    assert_int_equal(number, 55);
}

static void a_block_of_another_shape_or_owner_is_refused_before_the_call(void **state)
{
    const struct nxm_shape shorter = { BYTES - 1, 256 }, coarser = { BYTES, 512 };
    struct nxm_block block = allocate(NULL, 0);
    struct nxm_allocator *sibling = host.allocator;
    uint64_t number;

    (void)state;
    assert_int_equal(nxm_backing_commit(host.allocator, block.address, &shorter, &first_two, NULL), NXM_EINVAL);
    assert_int_equal(nxm_backing_commit(host.allocator, block.address, &coarser, &first_two, NULL), NXM_EINVAL);
    assert_int_equal(nxm_backing_commit(host.allocator, block.address + 256, &shape, &first_two, NULL), NXM_ENOENT);
    assert_int_equal(nxm_backing_committed(host.allocator, block.address, &coarser), 0);
    assert_int_equal(nxm_backing_committed(host.allocator, block.address + 256, &shape), 0);
    host_open();
    assert_int_equal(nxm_backing_decommit(host.allocator, block.address, &shape, &first_two, &number, NULL), NXM_ENOENT);
    assert_int_equal(fake_map.commits + fake_map.decommits + fake_map.committed_calls, 0);
    nxm_allocator_unref(sibling);
}

static void a_block_that_is_being_released_takes_no_ranges(void **state)
{
    struct nxm_block block = allocate(NULL, 0);
    struct nxm_release release;

    (void)state;
    fake.drain_nothing = true;
    assert_int_equal(host_enqueue(&block, &release), NXM_OK);
    assert_int_equal(commit(&block, 0, 4096), NXM_EBUSY);
    assert_int_equal(committed(&block), 0);
    assert_int_equal(fake_map.commits + fake_map.committed_calls, 0);
    fake.drain_nothing = false;
}

static void no_more_is_credited_than_the_block_has(void **state)
{
    struct nxm_block block = allocate(&first_two, 1);
    uint64_t unmapped = 0;

    (void)state;
    fake_map.unmapped_more = UINT64_C(1) << 60;
    assert_int_equal(nxm_backing_decommit(host.allocator, block.address, &shape, &first_two, &unmapped, NULL), NXM_OK);
    assert_int_equal(unmapped, BYTES);
}

static void a_failing_slot_changes_nothing_and_its_output_is_not_believed(void **state)
{
    struct nxm_block block = allocate(&first_two, 1);
    uint64_t number = 55;

    (void)state;
    fake_map.commit_status = NXMEM_STATUS_OUT_OF_MEMORY;
    assert_int_equal(commit(&block, 0, 4096), NXM_ENOMEM);
    fake_map.commit_status = NXMEM_STATUS_UNKNOWN_ALLOCATION;
    assert_int_equal(commit(&block, 0, 4096), NXM_ECALL); /* not out of memory */
    fake_map.decommit_status = NXMEM_STATUS_OUT_OF_MEMORY;
    assert_int_equal(nxm_backing_decommit(host.allocator, block.address, &shape, &first_two, &number, NULL), NXM_ECALL);
    fake_map.cost_status = NXMEM_STATUS_DEVICE_ERROR;
    assert_int_equal(nxm_backing_cost_of_ranges(host.allocator, block.address, &shape, &first_two, 1, &number, NULL), NXM_ECALL);
    assert_int_equal(nxm_backing_cost_of_block(host.allocator, &shape, &first_two, 1, &number, NULL), NXM_ECALL);
    assert_int_equal(number, 55);
    fake_map.committed_status = NXMEM_STATUS_DEVICE_ERROR;
    assert_int_equal(committed(&block), 0); /* it has no other way to say so */
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE);
}

/* --- costs ----------------------------------------------------------------------------------------- */

static void costs_are_the_mechanism_s_own_granules(void **state)
{
    const NxmemByteRange straddling = { 4095, 2 }, ranges[] = { { 0, 100 }, { 100, 100 }, { 9000, 1 } };
    struct nxm_block block = allocate(NULL, 0);
    uint64_t mapped = 0;

    (void)state;
    assert_int_equal(nxm_backing_cost_of_ranges(host.allocator, block.address, &shape, &straddling, 1, &mapped, NULL), NXM_OK);
    assert_int_equal(mapped, 8192);
    assert_int_equal(nxm_backing_cost_of_ranges(host.allocator, block.address, &shape, ranges, 3, &mapped, NULL), NXM_OK);
    assert_int_equal(mapped, 8192);
    assert_int_equal(fake_map.last_range_count, 3);
    assert_int_equal(fake_map.last_range.allocation.allocation_id, block.id);
    assert_int_equal(nxm_backing_cost_of_block(host.allocator, &shape, ranges, 3, &mapped, NULL), NXM_OK);
    assert_int_equal(mapped, 8192);
    assert_int_equal(fake_map.last_request.allocation_id, 0); /* names no allocation */
    assert_int_equal(fake_map.last_request.mechanism_id, nxm_allocator_mechanism_id(host.allocator));
}

static void no_ranges_cost_nothing_and_nobody_is_asked(void **state)
{
    struct nxm_block block = allocate(NULL, 0);
    uint64_t mapped = 55;

    (void)state;
    assert_int_equal(nxm_backing_cost_of_ranges(host.allocator, block.address, &shape, NULL, 0, &mapped, NULL), NXM_OK);
    assert_int_equal(mapped, 0);
    assert_int_equal(fake_map.costs, 0);
}

static void a_cost_is_asked_for_alignments_that_can_be_only(void **state)
{
    const struct nxm_shape bad[] = { { 64, 0 }, { 64, 48 } };
    uint64_t mapped;

    (void)state;
    assert_int_equal(nxm_backing_cost_of_block(host.allocator, &bad[0], NULL, 0, &mapped, NULL), NXM_EINVAL);
    assert_int_equal(nxm_backing_cost_of_block(host.allocator, &bad[1], NULL, 0, &mapped, NULL), NXM_EINVAL);
    assert_int_equal(fake_map.costs, 0);
}

static void without_memory_no_cost_is_asked(void **state)
{
    struct nxm_block block = allocate(NULL, 0);
    uint64_t mapped;

    (void)state;
    nxm_mem_fail_at(1);
    assert_int_equal(nxm_backing_cost_of_ranges(host.allocator, block.address, &shape, &first_two, 1, &mapped, NULL), NXM_ENOMEM);
    nxm_mem_fail_at(0);
    assert_int_equal(fake_map.costs, 0);
}

/* --- absent slots ---------------------------------------------------------------------------------- */

static void drop_slots(NxmemVirtualBackingVtable *vtable)
{
    vtable->allocate_committed = NULL;
    vtable->commit_range = NULL;
    vtable->decommit_range = NULL;
    vtable->mapped_bytes_for_ranges = NULL;
    vtable->mapped_bytes_for_allocation = NULL;
    vtable->committed_bytes = NULL;
}

static void assert_unsupported(const struct nxm_block *block)
{
    struct nxm_block other;
    uint64_t number = 55;

    assert_int_equal(try_allocate(64, NULL, 0, &other), NXM_EUNSUPPORTED);
    assert_int_equal(commit(block, 0, 64), NXM_EUNSUPPORTED);
    assert_int_equal(nxm_backing_decommit(host.allocator, block->address, &shape, &first_two, &number, NULL), NXM_EUNSUPPORTED);
    assert_int_equal(nxm_backing_cost_of_ranges(host.allocator, block->address, &shape, &first_two, 1, &number, NULL), NXM_EUNSUPPORTED);
    assert_int_equal(nxm_backing_cost_of_ranges(host.allocator, block->address, &shape, NULL, 0, &number, NULL), NXM_EUNSUPPORTED);
    assert_int_equal(nxm_backing_cost_of_block(host.allocator, &shape, NULL, 0, &number, NULL), NXM_EUNSUPPORTED);
    assert_int_equal(committed(block), 0);
    assert_int_equal(number, 55);
}

static void an_absent_slot_is_never_a_silent_success(void **state)
{
    struct nxm_block block;

    (void)state;
    host_close();
    fake_map.bend_backing = drop_slots;
    host_open();
    block = host_allocate(BYTES);
    assert_non_null(nxm_allocator_virtual_backing(host.allocator));
    assert_unsupported(&block);
}

static void a_mechanism_without_the_capability_has_none_of_it(void **state)
{
    struct nxm_block block;

    (void)state;
    host_close();
    fake.without_flags = NXMEM_CAPABILITY_VIRTUAL_BACKING;
    host_open();
    block = host_allocate(BYTES);
    assert_unsupported(&block);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, host_setup_mapping, host_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ranges_reach_the_plugin_through_the_backing_vtable),
        TEST(no_ranges_reserve_and_commit_nothing),
        TEST(such_a_block_is_released_like_any_other),
        TEST(a_range_that_leaves_the_new_block_is_refused_before_the_call),
        TEST(a_range_to_the_very_end_is_fine),
        TEST(its_results_are_checked_as_those_of_a_plain_allocation),
        TEST(commits_and_decommits_are_counted_by_the_plugin),
        TEST(no_range_reaches_the_plugin_that_leaves_the_block),
        TEST(a_block_of_another_shape_or_owner_is_refused_before_the_call),
        TEST(a_block_that_is_being_released_takes_no_ranges),
        TEST(no_more_is_credited_than_the_block_has),
        TEST(a_failing_slot_changes_nothing_and_its_output_is_not_believed),
        TEST(costs_are_the_mechanism_s_own_granules),
        TEST(no_ranges_cost_nothing_and_nobody_is_asked),
        TEST(a_cost_is_asked_for_alignments_that_can_be_only),
        TEST(without_memory_no_cost_is_asked),
        TEST(an_absent_slot_is_never_a_silent_success),
        TEST(a_mechanism_without_the_capability_has_none_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
