/* core/allocator.c, accounts.c: what is asked of the plugin, and what is not accepted of it. The teardown of every
 * test wants the module to unload, so a tally that does not come back to zero fails it. */
#include "core/allocator.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/allocator_state.h"
#include "core/mem.h"
#include "tests/unit/support/fake.h"
#include "tests/unit/support/host.h"

static int setup(void **state)
{
    int result = host_setup(state);

    if (result == 0)
        host_open();
    return result;
}

static int setup_minor_0(void **state)
{
    int result = host_setup_minor_0(state);

    if (result == 0)
        host_open();
    return result;
}

static int allocate(uint64_t bytes, uint64_t align, struct nxm_block *ret_block, struct nxm_error *ret_error)
{
    *ret_block =
        (struct nxm_block){ .address = 0xABC, .bytes = bytes, .align = align, .class_ = NXM_CLASS_DEVICE, .tag = 5 };
    return nxm_allocator_allocate(host.allocator, ret_block, NULL, NULL, ret_error);
}

/* Refused, and nothing at all is left of it on our side. */
static void refused(uint64_t bytes, uint64_t align, int code)
{
    struct nxm_block block;
    struct nxm_error error;

    assert_int_equal(allocate(bytes, align, &block, &error), code);
    assert_int_equal(error.code, code);
    assert_int_equal(block.address, 0xABC); /* written on success only */
    assert_int_equal(host_tallies().allocations, 0);
    assert_int_equal(host_totals().owned_bytes, 0);
}

/* --- allocate ------------------------------------------------------------------------------------ */

static void a_served_block_is_recorded_with_what_the_caller_gave(void **state)
{
    struct nxm_block block, found;

    (void)state;
    assert_int_equal(allocate(8192, 512, &block, NULL), NXM_OK);
    assert_int_equal(nxm_blocks_find(host.blocks, block.address, &found), NXM_OK);
    assert_memory_equal(&block, &found, sizeof found);
    assert_int_equal(block.bytes, 8192);
    assert_int_equal(block.align, 512);
    assert_int_equal(block.address % 512, 0);
    assert_int_equal(block.tag, 5);
    assert_int_equal(block.state, NXM_BLOCK_LIVE);
    assert_ptr_equal(block.allocator, host.allocator);
    assert_int_equal(host_tallies().allocations, 1);
}

static void the_request_is_sized_zeroed_and_carries_identity(void **state)
{
    NxmemAllocRequest expected = { .struct_size = 64, .bytes = 100, .align = 256 };
    NxmemAllocResult prepared = { .struct_size = 32 };
    struct nxm_block block;

    (void)state;
    assert_int_equal(allocate(100, 256, &block, NULL), NXM_OK);
    expected.mechanism_id = nxm_allocator_mechanism_id(host.allocator);
    expected.allocation_id = block.id;
    assert_memory_equal(&fake.last_request, &expected, sizeof expected);
    assert_memory_equal(&fake.last_result_seen, &prepared, sizeof prepared);
}

static void ids_are_never_used_twice_even_after_a_failure(void **state)
{
    struct nxm_block first, second;

    (void)state;
    assert_int_equal(allocate(64, 64, &first, NULL), NXM_OK);
    fake.allocate_status = NXMEM_STATUS_OUT_OF_MEMORY;
    assert_int_equal(allocate(64, 64, &second, NULL), NXM_ENOMEM);
    fake.allocate_status = 0;
    assert_int_equal(allocate(64, 64, &second, NULL), NXM_OK);
    assert_true(second.id >= first.id + 2);
}

static void a_failing_status_leaves_nothing_and_only_one_is_capacity(void **state)
{
    (void)state;
    fake.allocate_status = NXMEM_STATUS_OUT_OF_MEMORY;
    refused(64, 64, NXM_ENOMEM);
    fake.allocate_status = NXMEM_STATUS_INTERNAL_ERROR;
    refused(64, 64, NXM_ECALL);
    fake.allocate_status = NXMEM_STATUS_WRONG_MECHANISM;
    refused(64, 64, NXM_ECALL);
    fake.allocate_status = 777;
    refused(64, 64, NXM_ECALL);
}

static void a_failure_names_tier_size_and_the_plugins_words(void **state)
{
    struct nxm_block block;
    struct nxm_error error;

    (void)state;
    fake.allocate_status = NXMEM_STATUS_DEVICE_ERROR;
    assert_int_equal(allocate(12345, 64, &block, &error), NXM_ECALL);
    assert_non_null(strstr(error.text, "12345"));
    assert_non_null(strstr(error.text, "device:0"));
    assert_non_null(strstr(error.text, "DEVICE_ERROR"));
}

/* Two axes, each with a figure that no memory can cost. */
static void what_a_plugin_makes_up_is_counted_as_far_as_it_can_be_true(void **state)
{
    const uint64_t growth = UINT64_C(1) << 40;
    struct nxm_block honest, liar, other;
    struct nxm_release release;

    (void)state;
    fake.owned = 4096 + growth;
    fake.mapped = 5;
    assert_int_equal(allocate(4096, 64, &honest, NULL), NXM_OK);
    assert_int_equal(honest.owned, 4096 + growth);
    fake.owned = fake.mapped = UINT64_MAX;
    assert_int_equal(allocate(64, 64, &liar, NULL), NXM_OK);
    assert_int_equal(liar.owned, 64 + growth);
    assert_int_equal(allocate(64, 64, &other, NULL), NXM_OK);
    assert_int_equal(host_totals().owned_bytes, 4096 + 128 + 3 * growth);
    assert_int_equal(host_totals().mapped_bytes, 5 + 128 + 2 * growth);
    assert_int_equal(host_release(&liar, &release), NXM_OK);
    assert_int_equal(host_totals().owned_bytes, 4096 + 64 + 2 * growth);
    assert_int_equal(host_release(&other, &release), NXM_OK);
    assert_int_equal(host_totals().mapped_bytes, 5);
    assert_int_equal(host_release(&honest, &release), NXM_OK);
    assert_int_equal(host_totals().owned_bytes + host_totals().mapped_bytes, 0);
}

static void ok_without_a_pointer_is_refused(void **state)
{
    (void)state;
    fake.allocate_returns_null = true;
    refused(64, 64, NXM_ECONTRACT);
    assert_int_equal(fake.structured + fake.deallocates, 0); /* there is nothing to hand back */
}

static void a_pointer_that_was_not_claimed_is_none(void **state)
{
    (void)state;
    fake.result_size = 8; /* ends before ptr */
    refused(64, 64, NXM_ECONTRACT);
}

static void sizes_that_were_not_claimed_count_as_zero(void **state)
{
    struct nxm_block block;

    (void)state;
    fake.result_size = 16; /* ends behind ptr */
    assert_int_equal(allocate(64, 64, &block, NULL), NXM_OK);
    assert_int_equal(block.owned, 0);
    assert_int_equal(block.mapped, 0);
}

static void a_misaligned_block_is_handed_back(void **state)
{
    (void)state;
    fake.misalign = 64;
    refused(4096, 256, NXM_ECONTRACT);
    assert_int_equal(fake.structured, 1);
    assert_int_equal(fake.live, 0);
    assert_int_equal(allocate(4096, 64, &(struct nxm_block){ 0 }, NULL), NXM_OK); /* asked for less, so it is aligned */
}

static void a_misaligned_block_goes_back_through_deallocate_where_structured_is_not(void **state)
{
    (void)state;
    fake.misalign = 64;
    refused(4096, 256, NXM_ECONTRACT);
    assert_int_equal(fake.deallocates, 1);
    assert_int_equal(fake.structured, 0);
}

static void a_block_that_wraps_round_the_address_space_is_handed_back(void **state)
{
    (void)state;
    fake.next_address = (void *)(UINT64_MAX - 4095);
    refused(8192, 256, NXM_ECONTRACT);
    assert_int_equal(fake.structured, 1);
}

static void alignment_zero_or_no_power_of_two_never_reaches_the_plugin(void **state)
{
    (void)state;
    refused(64, 0, NXM_EINVAL);
    refused(64, 3, NXM_EINVAL);
    refused(64, UINT64_MAX, NXM_EINVAL);
    assert_int_equal(fake.allocates, 0);
}

static void a_size_that_cannot_be_rounded_never_reaches_the_plugin(void **state)
{
    (void)state;
    refused(UINT64_MAX, 2, NXM_ENOMEM);
    refused(UINT64_MAX - 510, 512, NXM_ENOMEM);
    assert_int_equal(fake.allocates, 0);
    fake.allocate_status = NXMEM_STATUS_OUT_OF_MEMORY;
    refused(UINT64_MAX, 1, NXM_ENOMEM); /* nothing to round: the plugin's to refuse */
    refused(UINT64_MAX - 511, 512, NXM_ENOMEM);
    assert_int_equal(fake.allocates, 2);
}

static void zero_bytes_are_passed_through_and_released_as_zero(void **state)
{
    struct nxm_release release;
    struct nxm_block block;

    (void)state;
    assert_int_equal(allocate(0, 256, &block, NULL), NXM_OK);
    assert_int_not_equal(block.address, 0);
    assert_int_equal(fake.last_request.bytes, 0);
    assert_int_equal(host_release(&block, &release), NXM_OK);
    assert_int_equal(fake.last_allocation.bytes, 0);
}

static void a_live_address_handed_out_again_goes_back_by_its_own_id(void **state)
{
    struct nxm_block first, second;
    struct nxm_release release;

    (void)state;
    assert_int_equal(allocate(4096, 256, &first, NULL), NXM_OK);
    fake.next_address = (void *)(uintptr_t)first.address;
    assert_int_equal(allocate(64, 256, &second, NULL), NXM_EEXIST);
    assert_int_equal(second.address, first.address);
    assert_int_not_equal(fake.last_allocation.allocation_id, first.id);
    assert_int_equal(fake.last_allocation.bytes, 64);
    assert_int_equal(host_tallies().allocations, 1);
    /* The first owner is not disturbed. */
    assert_int_equal(host_release(&first, &release), NXM_OK);
    assert_int_equal(fake.last_allocation.allocation_id, first.id);
    assert_int_equal(release.unmapped, 4096);
}

/* An owner who may know better than the plugin what still stands at an address. */
static struct knowing {
    unsigned asked, removes; /* so many times he says that he has made way */
    bool in_vain;
} knowing;

static bool make_way(void *owner, struct nxm_allocator *allocator, const struct nxm_block *newcomer)
{
    struct nxm_block stale;

    assert_ptr_equal(owner, &knowing);
    assert_ptr_equal(allocator, host.allocator);
    assert_int_equal(fake.deallocates + fake.structured, 0); /* nothing went back: the address is the newcomer's alone */
    knowing.asked++;
    if (!knowing.in_vain && nxm_blocks_find(host.blocks, newcomer->address, &stale) == NXM_OK)
        nxm_blocks_remove(host.blocks, stale.address, stale.id);
    return knowing.asked <= knowing.removes;
}

/* A record that is not the allocator's, at the address that the plugin hands out next. */
static uint64_t something_stands_in_the_way(struct knowing owner)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;
    struct nxm_block stale = { .address = block.address, .bytes = 64, .id = nxm_block_next_id(), .state = NXM_BLOCK_LIVE };

    assert_int_equal(host_release(&block, &release), NXM_OK);
    assert_int_equal(nxm_blocks_insert(host.blocks, &stale), NXM_OK);
    host_close();
    knowing = owner;
    host.options.owner = &knowing;
    host.options.stale = make_way;
    host_open();
    fake.deallocates = fake.structured = 0;
    fake.next_address = (void *)(uintptr_t)block.address;
    return block.address;
}

static void an_owner_who_knows_better_makes_way_before_anything_goes_back(void **state)
{
    struct nxm_block block;
    struct nxm_release release;
    uint64_t address = something_stands_in_the_way((struct knowing){ .removes = 1 });

    (void)state;
    assert_int_equal(allocate(64, 256, &block, NULL), NXM_OK);
    assert_int_equal(block.address, address);
    assert_int_equal(knowing.asked, 1);
    assert_int_equal(host_release(&block, &release), NXM_OK);
}

static void an_owner_who_knows_no_better_changes_nothing(void **state)
{
    struct nxm_block block;
    uint64_t address = something_stands_in_the_way((struct knowing){ .in_vain = true });

    (void)state;
    assert_int_equal(allocate(64, 256, &block, NULL), NXM_EEXIST);
    assert_int_equal(knowing.asked, 1);
    assert_int_equal(host_state(address), NXM_BLOCK_LIVE);
    assert_int_equal(host_tallies().allocations, 0);
}

static void an_owner_who_makes_way_in_vain_is_not_asked_for_ever(void **state)
{
    struct nxm_block block;

    (void)state;
    something_stands_in_the_way((struct knowing){ .removes = UINT_MAX, .in_vain = true });
    assert_int_equal(allocate(64, 256, &block, NULL), NXM_EEXIST);
    assert_in_range(knowing.asked, 2, 64);
    assert_int_equal(fake.deallocates + fake.structured, 1);
}

static void a_record_without_memory_is_rolled_back(void **state)
{
    (void)state;
    nxm_mem_fail_at(1); /* the first record of a fresh table needs memory */
    refused(4096, 256, NXM_ENOMEM);
    nxm_mem_fail_at(0);
    assert_int_equal(fake.structured, 1);
    assert_int_equal(fake.live, 0);
}

static void a_record_that_fails_leaves_the_callers_address(void **state)
{
    struct nxm_block block = { .address = 0x1234000, .bytes = 4096, .align = 256 };

    (void)state;
    nxm_mem_fail_at(1); /* as above */
    assert_int_equal(nxm_allocator_allocate(host.allocator, &block, NULL, NULL, NULL), NXM_ENOMEM);
    nxm_mem_fail_at(0);
    assert_int_equal(block.address, 0x1234000);
    assert_int_equal(fake.live, 0);
}

/* Lines are read one after the other, so a sum may seem to be below zero while somebody moves it. */
static void no_sum_is_shown_below_zero(void **state)
{
    (void)state;
    nxm_spread_lower(&host.allocator->sums, NXM_SUM_BYTES, 64);
    assert_int_equal(host_totals().owned_bytes, 0);
    assert_int_equal(host_totals().mapped_bytes, 0);
    nxm_spread_raise(&host.allocator->sums, NXM_SUM_OWNED_BEYOND, 100);
    assert_int_equal(host_totals().owned_bytes, 36);
    assert_int_equal(host_totals().mapped_bytes, 0);
}

static void owned_and_mapped_are_two_sums(void **state)
{
    struct nxm_block first, second;
    struct nxm_release release;

    (void)state;
    fake.owned = 1000;
    fake.mapped = 70;
    assert_int_equal(allocate(64, 64, &first, NULL), NXM_OK);
    fake.owned = 2000;
    fake.mapped = 0; /* the bytes asked for */
    assert_int_equal(allocate(64, 64, &second, NULL), NXM_OK);
    assert_int_equal(host_totals().owned_bytes, 3000);
    assert_int_equal(host_totals().mapped_bytes, 134);
    assert_int_equal(host_release(&first, &release), NXM_OK);
    assert_int_equal(host_totals().owned_bytes, 2000);
    assert_int_equal(host_totals().mapped_bytes, 64);
    assert_int_equal(host_release(&second, &release), NXM_OK);
    assert_int_equal(host_totals().owned_bytes, 0);
    assert_int_equal(host_totals().mapped_bytes, 0);
}

static NxmemStatus other_way_in(void *argument, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    *(uint64_t *)argument = request->allocation_id;
    return fake.last_published->allocate(fake.last_published->ctx, request, result);
}

static void another_way_into_the_plugin_obeys_the_same_rules(void **state)
{
    struct nxm_block block = { .bytes = 64, .align = 256 };
    uint64_t id = 0;

    (void)state;
    fake.misalign = 64;
    assert_int_equal(nxm_allocator_allocate(host.allocator, &block, other_way_in, &id, NULL), NXM_ECONTRACT);
    assert_int_equal(fake.structured, 1);
    fake.misalign = 0;
    assert_int_equal(nxm_allocator_allocate(host.allocator, &block, other_way_in, &id, NULL), NXM_OK);
    assert_int_equal(block.id, id);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, host_teardown)
#define TEST_MINOR_0(name) cmocka_unit_test_setup_teardown(name, setup_minor_0, host_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_served_block_is_recorded_with_what_the_caller_gave),
        TEST(the_request_is_sized_zeroed_and_carries_identity),
        TEST(ids_are_never_used_twice_even_after_a_failure),
        TEST(a_failing_status_leaves_nothing_and_only_one_is_capacity),
        TEST(a_failure_names_tier_size_and_the_plugins_words),
        TEST(what_a_plugin_makes_up_is_counted_as_far_as_it_can_be_true),
        TEST(ok_without_a_pointer_is_refused),
        TEST(a_pointer_that_was_not_claimed_is_none),
        TEST(sizes_that_were_not_claimed_count_as_zero),
        TEST(a_misaligned_block_is_handed_back),
        TEST_MINOR_0(a_misaligned_block_goes_back_through_deallocate_where_structured_is_not),
        TEST(a_block_that_wraps_round_the_address_space_is_handed_back),
        TEST(alignment_zero_or_no_power_of_two_never_reaches_the_plugin),
        TEST(a_size_that_cannot_be_rounded_never_reaches_the_plugin),
        TEST(zero_bytes_are_passed_through_and_released_as_zero),
        TEST(a_live_address_handed_out_again_goes_back_by_its_own_id),
        TEST(an_owner_who_knows_better_makes_way_before_anything_goes_back),
        TEST(an_owner_who_knows_no_better_changes_nothing),
        TEST(an_owner_who_makes_way_in_vain_is_not_asked_for_ever),
        TEST(a_record_without_memory_is_rolled_back),
        TEST(a_record_that_fails_leaves_the_callers_address),
        TEST(no_sum_is_shown_below_zero),
        TEST(owned_and_mapped_are_two_sums),
        TEST(another_way_into_the_plugin_obeys_the_same_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
