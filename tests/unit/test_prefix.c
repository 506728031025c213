/* core/prefix.c: what is read of a published struct, and what is refused. Sources are exact heap blocks, so
 * that one byte too many is a sanitizer's finding. */
#include "core/prefix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FLOOR 48u
#define MINOR_0 120u
#define MINOR_1 128u

static NxmemStatus any_allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    (void)ctx;
    (void)request;
    (void)result;
    return (NxmemStatus){ 0 };
}

static NxmemStatus any_deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped)
{
    (void)ctx;
    (void)allocation;
    (void)unmapped;
    return (NxmemStatus){ 0 };
}

static NxmemStatus any_release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome)
{
    (void)ctx;
    (void)allocation;
    (void)outcome;
    return (NxmemStatus){ 0 };
}

static NxmemStatus any_open(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **vtable)
{
    (void)ctx;
    (void)request;
    (void)vtable;
    return (NxmemStatus){ 0 };
}

static void any_reference(void *ctx)
{
    (void)ctx;
}

static NxmemAllocatorVtable good(void)
{
    return (NxmemAllocatorVtable){
        .struct_size = sizeof(NxmemAllocatorVtable),
        .abi_minor = 1,
        .mechanism_id = 7,
        .device = { NXMEM_TIER_HOST, 3 },
        .capability_flags = NXMEM_CAPABILITY_ALLOCATOR,
        .allocate = any_allocate,
        .deallocate = any_deallocate,
        .retain = any_reference,
        .release = any_reference,
        .release_allocation = any_release_allocation,
    };
}

/* The first `bytes` of *source in a heap block of exactly that size. */
static void *exact(const void *source, size_t bytes)
{
    void *block = malloc(bytes);

    memcpy(block, source, bytes);
    return block;
}

/* Reads an exact block of `bytes` that declares `declared`; the answer is in *ret_copy. */
static uint32_t read_exact(NxmemAllocatorVtable vtable, size_t bytes, uint32_t declared, uint32_t ceiling,
                           NxmemAllocatorVtable *ret_copy)
{
    void *block;
    uint32_t code;

    vtable.struct_size = declared;
    block = exact(&vtable, bytes);
    memset(ret_copy, 0xAA, sizeof *ret_copy);
    code = nxm_prefix_read_allocator(block, ceiling, ret_copy).code;
    free(block);
    return code;
}

/* --- allocator ----------------------------------------------------------------------------------- */

static void a_current_vtable_reads_back_intact(void **state)
{
    NxmemAllocatorVtable vtable = good(), copy;

    (void)state;
    assert_int_equal(read_exact(vtable, MINOR_1, MINOR_1, 1, &copy), 0);
    assert_memory_equal(&copy, &vtable, sizeof copy);
}

static void null_is_refused(void **state)
{
    NxmemAllocatorVtable copy;

    (void)state;
    assert_int_equal(nxm_prefix_read_allocator(NULL, 1, &copy).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(nxm_prefix_read_allocator_unvalidated(NULL, 1, &copy).code, NXMEM_STATUS_INVALID_ARGUMENT);
}

static void a_misaligned_pointer_is_refused_before_it_is_read(void **state)
{
    NxmemAllocatorVtable copy;

    (void)state;
    /* Nothing is mapped there: reading would be the end of the test. */
    assert_int_equal(nxm_prefix_read_allocator((const void *)4, 1, &copy).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(nxm_prefix_copy((const void *)12, 8, &copy, 8).code, NXMEM_STATUS_INVALID_ARGUMENT);
}

static void a_four_byte_struct_is_refused_without_reading_its_minor(void **state)
{
    NxmemAllocatorVtable copy;

    (void)state;
    for (uint32_t bytes = 4; bytes <= 8; bytes += 4)
        assert_int_equal(read_exact(good(), bytes, bytes, 1, &copy), NXMEM_STATUS_SHORT_STRUCT);
}

static void a_struct_that_cannot_reach_allocate_is_measured_against_minor_0(void **state)
{
    NxmemAllocatorVtable vtable = good(), copy;
    NxmemStatus status;
    void *block;

    (void)state;
    vtable.struct_size = FLOOR - 1;
    block = exact(&vtable, FLOOR - 1);
    status = nxm_prefix_read_allocator(block, 1, &copy);
    free(block);
    assert_int_equal(status.code, NXMEM_STATUS_SHORT_STRUCT);
    assert_non_null(strstr((char *)status.message, "47"));
    assert_non_null(strstr((char *)status.message, "120"));
}

static void minor_0_needs_exactly_its_prefix(void **state)
{
    NxmemAllocatorVtable vtable = good(), copy;

    (void)state;
    vtable.abi_minor = 0;
    assert_int_equal(read_exact(vtable, MINOR_0 - 1, MINOR_0 - 1, 1, &copy), NXMEM_STATUS_SHORT_STRUCT);
    assert_int_equal(read_exact(vtable, FLOOR, FLOOR, 1, &copy), NXMEM_STATUS_SHORT_STRUCT);
    assert_int_equal(read_exact(vtable, MINOR_0, MINOR_0, 1, &copy), 0);
    assert_int_equal(copy.abi_minor, 0);
    assert_null(copy.release_allocation);
}

static void a_struct_smaller_than_the_level_it_claims_is_refused(void **state)
{
    NxmemAllocatorVtable copy;

    (void)state;
    assert_int_equal(read_exact(good(), MINOR_0, MINOR_0, 1, &copy), NXMEM_STATUS_SHORT_STRUCT);
    assert_int_equal(read_exact(good(), MINOR_1 - 1, MINOR_1 - 1, 1, &copy), NXMEM_STATUS_SHORT_STRUCT);
    /* The ceiling does not soften the claim. */
    assert_int_equal(read_exact(good(), MINOR_0, MINOR_0, 0, &copy), NXMEM_STATUS_SHORT_STRUCT);
}

static void a_level_above_the_ceiling_is_clamped_not_refused(void **state)
{
    NxmemAllocatorVtable vtable = good(), copy;

    (void)state;
    assert_int_equal(read_exact(vtable, MINOR_1, MINOR_1, 0, &copy), 0);
    assert_int_equal(copy.abi_minor, 0);
    assert_null(copy.release_allocation);
    vtable.abi_minor = 9;
    assert_int_equal(read_exact(vtable, MINOR_1, MINOR_1, 1, &copy), 0);
    assert_int_equal(copy.abi_minor, 1);
    assert_non_null(copy.release_allocation);
}

static void a_slot_behind_the_declared_size_is_null_whatever_lies_there(void **state)
{
    NxmemAllocatorVtable vtable = good(), copy;

    (void)state;
    vtable.abi_minor = 0;
    memset(&vtable.release_allocation, 0xAB, sizeof vtable.release_allocation);
    assert_int_equal(read_exact(vtable, MINOR_1, MINOR_0, 1, &copy), 0); /* declared short, poison behind */
    assert_null(copy.release_allocation);
    assert_int_equal(read_exact(vtable, MINOR_1, MINOR_1, 1, &copy), 0); /* declared long, at minor 0 */
    assert_null(copy.release_allocation);
}

static void a_longer_struct_from_a_newer_peer_is_read_to_our_size(void **state)
{
    struct {
        NxmemAllocatorVtable vtable;
        uint64_t newer[16];
    } peer;
    struct {
        NxmemAllocatorVtable copy;
        uint64_t guard;
    } mine = { .guard = 0x1234 };

    (void)state;
    memset(&peer, 0xAB, sizeof peer);
    peer.vtable = good();
    peer.vtable.struct_size = sizeof peer;
    assert_int_equal(nxm_prefix_read_allocator(&peer.vtable, 1, &mine.copy).code, 0);
    assert_int_equal(mine.guard, 0x1234);
}

static void the_first_null_required_slot_is_named(void **state)
{
    static const struct {
        size_t offset;
        const char *name;
    } slots[] = {
        { offsetof(NxmemAllocatorVtable, allocate), "`allocate`" },
        { offsetof(NxmemAllocatorVtable, deallocate), "`deallocate`" },
        { offsetof(NxmemAllocatorVtable, retain), "`retain`" },
        { offsetof(NxmemAllocatorVtable, release), "`release`" },
    };

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        NxmemAllocatorVtable vtable = good(), copy;
        NxmemStatus status;

        for (size_t j = i; j < 4; j++)
            memset((char *)&vtable + slots[j].offset, 0, sizeof(void *));
        status = nxm_prefix_read_allocator(&vtable, 1, &copy);
        assert_int_equal(status.code, NXMEM_STATUS_SHORT_STRUCT);
        assert_non_null(strstr((char *)status.message, slots[i].name));
    }
}

static void mechanism_id_zero_is_refused_after_the_slots(void **state)
{
    NxmemAllocatorVtable vtable = good(), copy;

    (void)state;
    vtable.mechanism_id = 0;
    assert_int_equal(nxm_prefix_read_allocator(&vtable, 1, &copy).code, NXMEM_STATUS_INVALID_ARGUMENT);
    vtable.release = NULL;
    assert_int_equal(nxm_prefix_read_allocator(&vtable, 1, &copy).code, NXMEM_STATUS_SHORT_STRUCT);
}

static void the_unvalidated_read_finds_release_in_a_refused_vtable(void **state)
{
    NxmemAllocatorVtable vtable = good(), copy;

    (void)state;
    vtable.mechanism_id = 0;
    vtable.allocate = NULL;
    assert_int_equal(nxm_prefix_read_allocator_unvalidated(&vtable, 1, &copy).code, 0);
    assert_ptr_equal(copy.release, any_reference);
}

static void the_unvalidated_read_still_refuses_what_is_unsafe(void **state)
{
    NxmemAllocatorVtable vtable = good(), copy;
    void *block;

    (void)state;
    vtable.struct_size = MINOR_0; /* claims minor 1 */
    block = exact(&vtable, MINOR_0);
    assert_int_equal(nxm_prefix_read_allocator_unvalidated(block, 1, &copy).code, NXMEM_STATUS_SHORT_STRUCT);
    free(block);
    assert_int_equal(nxm_prefix_read_allocator_unvalidated((const void *)4, 1, &copy).code,
                     NXMEM_STATUS_INVALID_ARGUMENT);
}

/* --- capability vtables and factories ------------------------------------------------------------ */

static void a_backing_vtable_must_be_whole_and_its_allocators(void **state)
{
    NxmemVirtualBackingVtable vtable = { .struct_size = sizeof vtable, .abi_minor = 5, .mechanism_id = 7 }, copy;
    void *block = exact(&vtable, sizeof vtable);

    (void)state;
    assert_int_equal(nxm_prefix_read_virtual_backing(block, 1, 7, &copy).code, 0);
    assert_int_equal(copy.abi_minor, 1);
    assert_int_equal(nxm_prefix_read_virtual_backing(block, 1, 8, &copy).code, NXMEM_STATUS_WRONG_MECHANISM);
    free(block);
    vtable.struct_size = sizeof vtable - 1;
    block = exact(&vtable, sizeof vtable - 1);
    assert_int_equal(nxm_prefix_read_virtual_backing(block, 1, 7, &copy).code, NXMEM_STATUS_SHORT_STRUCT);
    free(block);
    assert_int_equal(nxm_prefix_read_virtual_backing(NULL, 1, 7, &copy).code, NXMEM_STATUS_INVALID_ARGUMENT);
}

static void a_mapping_vtable_must_be_whole_and_its_allocators(void **state)
{
    NxmemSharedMappingVtable vtable = { .struct_size = sizeof vtable, .abi_minor = 5, .mechanism_id = 7 }, copy;
    void *block = exact(&vtable, sizeof vtable);

    (void)state;
    assert_int_equal(nxm_prefix_read_shared_mapping(block, 1, 7, &copy).code, 0);
    assert_int_equal(copy.abi_minor, 1);
    assert_int_equal(nxm_prefix_read_shared_mapping(block, 1, 8, &copy).code, NXMEM_STATUS_WRONG_MECHANISM);
    free(block);
    vtable.struct_size = sizeof vtable - 1;
    block = exact(&vtable, sizeof vtable - 1);
    assert_int_equal(nxm_prefix_read_shared_mapping(block, 1, 7, &copy).code, NXMEM_STATUS_SHORT_STRUCT);
    free(block);
}

static void a_factory_needs_its_size_and_both_slots(void **state)
{
    NxmemAllocatorFactoryVtable vtable = {
        .struct_size = sizeof vtable, .abi_minor = 3, .open_allocator = any_open, .release = any_reference
    };
    NxmemAllocatorFactoryVtable copy;
    void *block = exact(&vtable, sizeof vtable);

    (void)state;
    assert_int_equal(nxm_prefix_read_factory(block, 1, &copy).code, 0);
    assert_int_equal(copy.abi_minor, 1);
    free(block);
    vtable.struct_size = sizeof vtable - 1;
    block = exact(&vtable, sizeof vtable - 1);
    assert_int_equal(nxm_prefix_read_factory(block, 1, &copy).code, NXMEM_STATUS_SHORT_STRUCT);
    free(block);
    vtable.struct_size = sizeof vtable;
    vtable.open_allocator = NULL;
    assert_int_equal(nxm_prefix_read_factory(&vtable, 1, &copy).code, NXMEM_STATUS_SHORT_STRUCT);
    vtable.open_allocator = any_open;
    vtable.release = NULL;
    assert_int_equal(nxm_prefix_read_factory(&vtable, 1, &copy).code, NXMEM_STATUS_SHORT_STRUCT);
}

/* --- the common part ----------------------------------------------------------------------------- */

static void a_copy_takes_exactly_the_declared_prefix_and_zeroes_the_rest(void **state)
{
    uint32_t *source = malloc(12);
    uint32_t copy[5];

    (void)state;
    source[0] = 12;
    source[1] = 11;
    source[2] = 22;
    memset(copy, 0xAA, sizeof copy);
    assert_int_equal(nxm_prefix_copy(source, 8, copy, sizeof copy).code, 0);
    assert_int_equal(copy[2], 22);
    assert_int_equal(copy[3], 0);
    assert_int_equal(copy[4], 0);
    free(source);
}

static void a_copy_never_writes_more_than_its_own_size(void **state)
{
    uint64_t source[4] = { 32, 1, 2, 3 }, copy[4] = { 9, 9, 9, 9 };

    (void)state;
    assert_int_equal(nxm_prefix_copy(source, 8, copy, 16).code, 0);
    assert_int_equal(copy[1], 1);
    assert_int_equal(copy[2], 9);
}

static void a_copy_below_its_floor_leaves_the_copy_alone(void **state)
{
    uint64_t source = 7, copy = 9;

    (void)state;
    assert_int_equal(nxm_prefix_copy(&source, 8, &copy, 8).code, NXMEM_STATUS_SHORT_STRUCT);
    assert_int_equal(copy, 9);
}

static void trim_forgets_what_was_not_claimed(void **state)
{
    uint32_t written[4] = { 8, 1, 2, 3 };

    (void)state;
    assert_int_equal(nxm_prefix_trim(written, sizeof written), 8);
    assert_int_equal(written[1], 1);
    assert_int_equal(written[2], 0);
    assert_int_equal(written[3], 0);
}

static void trim_takes_zero_and_too_much_as_everything(void **state)
{
    uint32_t written[2] = { 0, 5 };

    (void)state;
    assert_int_equal(nxm_prefix_trim(written, sizeof written), 8);
    written[0] = 800;
    assert_int_equal(nxm_prefix_trim(written, sizeof written), 8);
    assert_int_equal(written[1], 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_current_vtable_reads_back_intact),
        cmocka_unit_test(null_is_refused),
        cmocka_unit_test(a_misaligned_pointer_is_refused_before_it_is_read),
        cmocka_unit_test(a_four_byte_struct_is_refused_without_reading_its_minor),
        cmocka_unit_test(a_struct_that_cannot_reach_allocate_is_measured_against_minor_0),
        cmocka_unit_test(minor_0_needs_exactly_its_prefix),
        cmocka_unit_test(a_struct_smaller_than_the_level_it_claims_is_refused),
        cmocka_unit_test(a_level_above_the_ceiling_is_clamped_not_refused),
        cmocka_unit_test(a_slot_behind_the_declared_size_is_null_whatever_lies_there),
        cmocka_unit_test(a_longer_struct_from_a_newer_peer_is_read_to_our_size),
        cmocka_unit_test(the_first_null_required_slot_is_named),
        cmocka_unit_test(mechanism_id_zero_is_refused_after_the_slots),
        cmocka_unit_test(the_unvalidated_read_finds_release_in_a_refused_vtable),
        cmocka_unit_test(the_unvalidated_read_still_refuses_what_is_unsafe),
        cmocka_unit_test(a_backing_vtable_must_be_whole_and_its_allocators),
        cmocka_unit_test(a_mapping_vtable_must_be_whole_and_its_allocators),
        cmocka_unit_test(a_factory_needs_its_size_and_both_slots),
        cmocka_unit_test(a_copy_takes_exactly_the_declared_prefix_and_zeroes_the_rest),
        cmocka_unit_test(a_copy_never_writes_more_than_its_own_size),
        cmocka_unit_test(a_copy_below_its_floor_leaves_the_copy_alone),
        cmocka_unit_test(trim_forgets_what_was_not_claimed),
        cmocka_unit_test(trim_takes_zero_and_too_much_as_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
