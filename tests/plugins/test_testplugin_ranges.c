/* The committed ranges of `lazy`. */
#include "tests/plugins/mechanism_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { GRANULE = 4096, BLOCK = 64 * 1024 };

static const NxmemVirtualBackingVtable *backing_of(const struct mechanism *m)
{
    return m->vtable->virtual_backing;
}

static uint64_t committed(const struct mechanism *m, const NxmemAllocation *block)
{
    uint64_t bytes = 99;

    assert_int_equal(backing_of(m)->committed_bytes(backing_of(m)->ctx, block, &bytes).code, NXMEM_STATUS_OK);
    return bytes;
}

static uint32_t commit(const struct mechanism *m, const NxmemAllocation *block, uint64_t offset, uint64_t bytes)
{
    NxmemRangeRequest request = range_of(block, offset, bytes);

    return backing_of(m)->commit_range(backing_of(m)->ctx, &request).code;
}

static uint64_t decommitted(const struct mechanism *m, const NxmemAllocation *block, uint64_t offset, uint64_t bytes)
{
    NxmemRangeRequest request = range_of(block, offset, bytes);
    uint64_t unmapped = 99;

    assert_int_equal(backing_of(m)->decommit_range(backing_of(m)->ctx, &request, &unmapped).code, NXMEM_STATUS_OK);
    return unmapped;
}

static uint64_t estimated(const struct mechanism *m, const NxmemAllocation *block, uint64_t offset, uint64_t bytes)
{
    NxmemRangeRequest request = range_of(block, offset, bytes);
    uint64_t mapped = 99;

    assert_int_equal(backing_of(m)->mapped_bytes_for_ranges(backing_of(m)->ctx, &request, 1, &mapped).code, 0);
    return mapped;
}

/* Reserves, with the ranges given. */
static NxmemAllocation must_reserve(const struct mechanism *m, uint64_t id, uint64_t bytes, const NxmemByteRange *ranges,
                                    uint64_t count, uint64_t expected)
{
    NxmemAllocRequest request = request_for(m->vtable, id, bytes, 4096);
    NxmemAllocResult result = {.struct_size = sizeof result};

    request.committed_ranges = ranges;
    request.committed_range_count = count;
    assert_int_equal(backing_of(m)->allocate_committed(backing_of(m)->ctx, &request, &result).code, NXMEM_STATUS_OK);
    assert_non_null(result.ptr);
    assert_int_equal(result.owned_bytes, expected);
    assert_int_equal(result.mapped_bytes, expected);
    return allocation_of(&request, &result);
}

/* No ranges, by a pointer that is none: the count is what counts. */
static NxmemAllocation reserve_nothing(const struct mechanism *m, uint64_t id, uint64_t bytes)
{
    return must_reserve(m, id, bytes, (const NxmemByteRange *)(uintptr_t)8, 0, 0);
}

static void a_reservation_commits_decommits_and_says_so(void **state)
{
    struct mechanism m;
    NxmemAllocation block;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    block = reserve_nothing(&m, 1, BLOCK);
    assert_int_equal(committed(&m, &block), 0);
    assert_int_equal(commit(&m, &block, 0, 8192), NXMEM_STATUS_OK);
    assert_int_equal(committed(&m, &block), 8192);
    assert_int_equal(commit(&m, &block, 100, 50), NXMEM_STATUS_OK); /* again: nothing changes */
    assert_int_equal(committed(&m, &block), 8192);
    assert_int_equal(decommitted(&m, &block, 0, 8192), 8192);
    assert_int_equal(decommitted(&m, &block, 0, 8192), 0);
    assert_int_equal(committed(&m, &block), 0);
    assert_int_equal(released(&m, &block), 0);
    mechanism_close(&m);
}

static void ranges_given_at_allocation_count_once_where_they_overlap(void **state)
{
    static const NxmemByteRange ranges[] = {{0, 100}, {50, 4096}, {BLOCK - 1, 1}, {BLOCK, 0}};
    struct mechanism m;
    NxmemAllocation block;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    block = must_reserve(&m, 1, BLOCK, ranges, 4, 3 * GRANULE);
    assert_int_equal(committed(&m, &block), 3 * GRANULE);
    assert_int_equal(released(&m, &block), 3 * GRANULE);
    mechanism_close(&m);
}

static void a_plain_allocation_is_committed_in_full(void **state)
{
    struct mechanism m;
    NxmemAllocation block;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    block = must_allocate(m.vtable, 1, 5000, 64);
    assert_int_equal(committed(&m, &block), 5000);
    assert_int_equal(decommitted(&m, &block, 4096, 904), 904); /* its last granule is cut */
    assert_int_equal(released(&m, &block), 4096);
    mechanism_close(&m);
}

static void a_decommit_leaves_granules_it_covers_in_part(void **state)
{
    struct mechanism m;
    NxmemAllocation block;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    block = must_allocate(m.vtable, 1, BLOCK, 4096);
    assert_int_equal(decommitted(&m, &block, 1, 2 * GRANULE - 2), 0);
    assert_int_equal(decommitted(&m, &block, 1, 3 * GRANULE - 2), GRANULE);
    assert_int_equal(committed(&m, &block), BLOCK - GRANULE);
    released(&m, &block);
    mechanism_close(&m);
}

static void no_span_wraps_or_ends_beyond_its_block(void **state)
{
    static const NxmemByteRange bad[] = {
        {0, BLOCK + 1}, {BLOCK, 1}, {BLOCK + 1, 0}, {1, UINT64_MAX}, {UINT64_MAX, 1}, {UINT64_MAX, UINT64_MAX},
        {UINT64_MAX - 4095, 8192}, {4096, UINT64_MAX - 4095},
    };
    struct mechanism m;
    NxmemAllocation block;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    block = reserve_nothing(&m, 1, BLOCK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const NxmemVirtualBackingVtable *backing = backing_of(&m);
        NxmemRangeRequest request = range_of(&block, bad[i].offset, bad[i].bytes);
        NxmemAllocRequest wanted = request_for(m.vtable, 2, BLOCK, 4096);
        NxmemAllocResult result = {.struct_size = sizeof result};
        uint64_t number = 99;

        wanted.committed_ranges = &bad[i];
        wanted.committed_range_count = 1;
        assert_int_equal(backing->commit_range(backing->ctx, &request).code, NXMEM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(backing->decommit_range(backing->ctx, &request, &number).code, NXMEM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(number, 0);
        assert_int_equal(backing->mapped_bytes_for_ranges(backing->ctx, &request, 1, &number).code,
                         NXMEM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(backing->allocate_committed(backing->ctx, &wanted, &result).code,
                         NXMEM_STATUS_INVALID_ARGUMENT);
        assert_null(result.ptr);
        wanted.allocation_id = 0;
        assert_int_equal(backing->mapped_bytes_for_allocation(backing->ctx, &wanted, &number).code,
                         NXMEM_STATUS_INVALID_ARGUMENT);
    }
    assert_int_equal(committed(&m, &block), 0);
    assert_report(&m, 1, 1, 0, 0, 0);
    released(&m, &block);
    mechanism_close(&m);
}

static void an_estimate_is_never_below_what_a_commit_maps(void **state)
{
    static const uint64_t points[] = {0, 1, 4095, 4096, 4097, 8191, 8192, 20000, BLOCK - 4097, BLOCK - 1, BLOCK};
    enum { POINTS = sizeof points / sizeof points[0] };
    struct mechanism m;
    uint64_t id = 0;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    for (size_t from = 0; from < POINTS; from++) {
        for (size_t to = from; to < POINTS; to++) {
            NxmemAllocation block = reserve_nothing(&m, ++id, BLOCK);
            uint64_t guess = estimated(&m, &block, points[from], points[to] - points[from]);

            assert_int_equal(guess % GRANULE, 0);
            assert_int_equal(commit(&m, &block, points[from], points[to] - points[from]), NXMEM_STATUS_OK);
            assert_int_equal(committed(&m, &block), guess);
            released(&m, &block);
        }
    }
    mechanism_close(&m);
}

static void two_bytes_over_an_edge_are_two_granules(void **state)
{
    struct mechanism m;
    NxmemAllocation block;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    block = reserve_nothing(&m, 1, BLOCK);
    assert_int_equal(estimated(&m, &block, 4095, 2), 2 * GRANULE);
    assert_int_equal(estimated(&m, &block, 0, 100), GRANULE);
    assert_int_equal(estimated(&m, &block, 0, 0), 0);
    released(&m, &block);
    mechanism_close(&m);
}

static void estimates_add_up_and_none_is_none(void **state)
{
    struct mechanism m;
    NxmemAllocation block;
    NxmemRangeRequest requests[2];
    uint64_t mapped = 99;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    block = reserve_nothing(&m, 1, BLOCK);
    requests[0] = range_of(&block, 0, 1);
    requests[1] = range_of(&block, 4095, 2);
    assert_int_equal(backing_of(&m)->mapped_bytes_for_ranges(backing_of(&m)->ctx, requests, 2, &mapped).code, 0);
    assert_int_equal(mapped, 3 * GRANULE);
    mapped = 99;
    assert_int_equal(backing_of(&m)->mapped_bytes_for_ranges(backing_of(&m)->ctx, (const NxmemRangeRequest *)8, 0,
                                                             &mapped).code, 0);
    assert_int_equal(mapped, 0);
    released(&m, &block);
    mechanism_close(&m);
}

static void an_allocation_not_made_yet_is_estimated_without_an_id(void **state)
{
    static const NxmemByteRange ranges[] = {{4095, 2}, {0, 0}};
    struct mechanism m;
    NxmemAllocRequest request;
    uint64_t mapped = 99;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    request = request_for(m.vtable, 0, BLOCK, 4096);
    assert_int_equal(backing_of(&m)->mapped_bytes_for_allocation(backing_of(&m)->ctx, &request, &mapped).code, 0);
    assert_int_equal(mapped, BLOCK);
    request.committed_ranges = ranges;
    request.committed_range_count = 2;
    assert_int_equal(backing_of(&m)->mapped_bytes_for_allocation(backing_of(&m)->ctx, &request, &mapped).code, 0);
    assert_int_equal(mapped, 2 * GRANULE);
    request.committed_range_count = 0;
    request.bytes = UINT64_MAX; /* rounds to no number */
    assert_int_equal(backing_of(&m)->mapped_bytes_for_allocation(backing_of(&m)->ctx, &request, &mapped).code, 0);
    assert_int_equal(mapped, UINT64_MAX);
    mechanism_close(&m);
}

static void range_slots_check_mechanism_device_id_and_shape(void **state)
{
    struct mechanism m;
    NxmemAllocation block;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    block = must_allocate(m.vtable, 1, BLOCK, 4096);
    for (int wrong = 0; wrong < 5; wrong++) {
        static const uint32_t codes[] = {NXMEM_STATUS_WRONG_MECHANISM, NXMEM_STATUS_WRONG_DEVICE,
                                         NXMEM_STATUS_UNKNOWN_ALLOCATION, NXMEM_STATUS_INVALID_ARGUMENT,
                                         NXMEM_STATUS_INVALID_ARGUMENT};
        const NxmemVirtualBackingVtable *backing = backing_of(&m);
        NxmemRangeRequest request = range_of(&block, 0, 10);
        uint64_t number = 99;

        request.allocation.mechanism_id += wrong == 0;
        request.allocation.device.index += wrong <= 1;
        request.allocation.allocation_id += wrong <= 2;
        request.allocation.bytes += wrong == 3;
        request.allocation.ptr += wrong == 4;
        assert_int_equal(backing->commit_range(backing->ctx, &request).code, codes[wrong]);
        assert_int_equal(backing->decommit_range(backing->ctx, &request, &number).code, codes[wrong]);
        assert_int_equal(number, 0);
        assert_int_equal(backing->mapped_bytes_for_ranges(backing->ctx, &request, 1, &number).code, codes[wrong]);
        assert_int_equal(backing->committed_bytes(backing->ctx, &request.allocation, &number).code, codes[wrong]);
        assert_int_equal(number, 0);
    }
    assert_int_equal(committed(&m, &block), BLOCK);
    released(&m, &block);
    mechanism_close(&m);
}

static void range_slots_refuse_what_they_cannot_read(void **state)
{
    struct mechanism m;
    NxmemAllocation block;
    NxmemRangeRequest request, *exact;
    const NxmemVirtualBackingVtable *backing;
    uint64_t number;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    backing = backing_of(&m);
    block = must_allocate(m.vtable, 1, BLOCK, 4096);
    request = range_of(&block, 0, 10);
    exact = exact_prefix(&request, sizeof request - 8);
    assert_int_equal(backing->commit_range(backing->ctx, exact).code, NXMEM_STATUS_SHORT_STRUCT);
    assert_int_equal(backing->decommit_range(backing->ctx, exact, &number).code, NXMEM_STATUS_SHORT_STRUCT);
    free(exact);
    assert_int_equal(backing->commit_range(backing->ctx, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(backing->decommit_range(backing->ctx, &request, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(backing->mapped_bytes_for_ranges(backing->ctx, NULL, 1, &number).code,
                     NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(backing->mapped_bytes_for_ranges(backing->ctx, &request, 1, NULL).code,
                     NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(backing->mapped_bytes_for_allocation(backing->ctx, NULL, &number).code,
                     NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(backing->committed_bytes(backing->ctx, &block, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(committed(&m, &block), BLOCK);
    released(&m, &block);
    mechanism_close(&m);
}

static void a_queued_release_credits_what_was_committed(void **state)
{
    static const NxmemByteRange range = {0, 2 * GRANULE};
    struct mechanism m;
    NxmemAllocation block;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    block = must_reserve(&m, 1, BLOCK, &range, 1, 2 * GRANULE);
    assert_int_equal(enqueue(&m, &block, NULL), NXMEM_STATUS_OK);
    assert_int_equal(commit(&m, &block, 0, BLOCK), NXMEM_STATUS_UNKNOWN_ALLOCATION);
    assert_int_equal(drained(&m, UINT64_MAX), 1);
    assert_int_equal(m.plugin.host.log[0].outcome.allocation_bytes, BLOCK);
    assert_int_equal(m.plugin.host.log[0].outcome.unmapped_bytes, 2 * GRANULE);
    mechanism_close(&m);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reservation_commits_decommits_and_says_so),
        cmocka_unit_test(ranges_given_at_allocation_count_once_where_they_overlap),
        cmocka_unit_test(a_plain_allocation_is_committed_in_full),
        cmocka_unit_test(a_decommit_leaves_granules_it_covers_in_part),
        cmocka_unit_test(no_span_wraps_or_ends_beyond_its_block),
        cmocka_unit_test(an_estimate_is_never_below_what_a_commit_maps),
        cmocka_unit_test(two_bytes_over_an_edge_are_two_granules),
        cmocka_unit_test(estimates_add_up_and_none_is_none),
        cmocka_unit_test(an_allocation_not_made_yet_is_estimated_without_an_id),
        cmocka_unit_test(range_slots_check_mechanism_device_id_and_shape),
        cmocka_unit_test(range_slots_refuse_what_they_cannot_read),
        cmocka_unit_test(a_queued_release_credits_what_was_committed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
