/* core/allocator.c, accounts.c: allocate, release, tear down. The teardown of every test wants the module to unload,
 * so a tally that does not come back to zero fails it. */
#include "core/allocator.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

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
    *ret_block = (struct nxm_block){ .address = 0xABC, .bytes = bytes, .align = align, .class_ = NXM_CLASS_DEVICE, .tag = 5 };
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

/* --- allocate ------------------------------------------------------------------------------------------------------------ */

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
    assert_int_not_equal(fake.last_allocation.allocation_id, first.id);
    assert_int_equal(fake.last_allocation.bytes, 64);
    assert_int_equal(host_tallies().allocations, 1);
    /* The first owner is not disturbed. */
    assert_int_equal(host_release(&first, &release), NXM_OK);
    assert_int_equal(fake.last_allocation.allocation_id, first.id);
    assert_int_equal(release.unmapped, 4096);
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

/* --- release ------------------------------------------------------------------------------------------------------------- */

static void a_complete_release_credits_and_forgets(void **state)
{
    struct nxm_block block = host_allocate(8192);
    struct nxm_release release;

    (void)state;
    assert_int_equal(host_release(&block, &release), NXM_OK);
    assert_int_equal(release.outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(release.unmapped, 8192);
    assert_int_equal(fake.structured, 1);
    assert_int_equal(fake.deallocates, 0);
    assert_int_equal(host_state(block.address), 0);
    assert_int_equal(host_tallies().allocations, 0);
}

static void at_minor_0_the_baseline_slot_is_entered(void **state)
{
    struct nxm_block block = host_allocate(8192);
    struct nxm_release release;

    (void)state;
    assert_int_equal(host_release(&block, &release), NXM_OK);
    assert_int_equal(release.unmapped, 8192);
    assert_int_equal(fake.structured, 0);
    assert_int_equal(fake.deallocates, 1);
}

static void an_unknown_address_never_reaches_the_plugin(void **state)
{
    struct nxm_release release = { .ticket = 99 };
    int local;

    (void)state;
    assert_int_equal(nxm_allocator_release(host.allocator, (uint64_t)(uintptr_t)&local, 0, NXM_BLOCK_LIVE, &release, NULL), NXM_ENOENT);
    assert_int_equal(release.ticket, 99);
    assert_int_equal(fake.structured + fake.deallocates, 0);
}

static void a_double_release_never_reaches_the_plugin(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;

    (void)state;
    assert_int_equal(host_release(&block, &release), NXM_OK);
    assert_int_equal(host_release(&block, &release), NXM_ENOENT);
    assert_int_equal(fake.structured, 1);
}

static void another_id_at_the_address_is_not_it(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;

    (void)state;
    assert_int_equal(nxm_allocator_release(host.allocator, block.address, block.id + 1, NXM_BLOCK_LIVE, &release, NULL), NXM_ENOENT);
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE);
    assert_int_equal(nxm_allocator_release(host.allocator, block.address, 0, NXM_BLOCK_LIVE, &release, NULL), NXM_OK);
}

static void a_siblings_block_is_not_ours_and_stays_undisturbed(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_allocator *sibling;
    struct nxm_release release;

    (void)state;
    assert_int_equal(nxm_allocator_open(host.module, 0, &host.options, &sibling, NULL), NXM_OK);
    assert_int_not_equal(nxm_allocator_mechanism_id(sibling), nxm_allocator_mechanism_id(host.allocator));
    assert_int_equal(nxm_allocator_release(sibling, block.address, 0, NXM_BLOCK_LIVE, &release, NULL), NXM_ENOENT);
    assert_int_equal(fake.structured, 0);
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE);
    nxm_allocator_unref(sibling);
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE); /* nor does its teardown push it back */
}

static void only_the_states_asked_for_are_released(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;

    (void)state;
    assert_int_equal(nxm_blocks_claim(host.blocks, block.address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL), NXM_OK);
    assert_int_equal(host_release(&block, &release), NXM_EBUSY);
    assert_int_equal(fake.structured, 0);
    assert_int_equal(nxm_allocator_release(host.allocator, block.address, block.id, NXM_BLOCK_WAITING, &release, NULL), NXM_OK);
}

static void a_wrong_shape_never_reaches_the_plugin(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;

    (void)state;
    assert_int_equal(nxm_allocator_release_shaped(host.allocator, block.address, 65, 256, &release, NULL), NXM_EINVAL);
    assert_int_equal(nxm_allocator_release_shaped(host.allocator, block.address, 64, 128, &release, NULL), NXM_EINVAL);
    assert_int_equal(fake.structured, 0);
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE);
    assert_int_equal(nxm_allocator_release_shaped(host.allocator, block.address, 64, 256, &release, NULL), NXM_OK);
}

static void a_failed_release_leaves_the_block_live_and_releasable(void **state)
{
    struct nxm_block block = host_allocate(64), found;
    struct nxm_error error;
    struct nxm_release release;

    (void)state;
    fake.release = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_FAILED, .keep = true };
    assert_int_equal(nxm_allocator_release(host.allocator, block.address, 0, NXM_BLOCK_LIVE, &release, &error), NXM_ECALL);
    assert_int_equal(error.status, NXMEM_STATUS_BUSY);
    fake.release = (struct fake_answer){ .set = true, .status = NXMEM_STATUS_OUT_OF_MEMORY };
    assert_int_equal(nxm_allocator_release(host.allocator, block.address, 0, NXM_BLOCK_LIVE, &release, &error), NXM_ECALL);
    assert_int_equal(error.code, NXM_ECALL);
    assert_int_equal(nxm_blocks_find(host.blocks, block.address, &found), NXM_OK);
    assert_memory_equal(&found, &block, sizeof block); /* exactly as it was */
    assert_int_equal(host_tallies().allocations, 1);
    fake.release.set = false;
    assert_int_equal(host_release(&block, &release), NXM_OK);
}

static void assert_quarantined(const struct nxm_block *block, const struct nxm_release *release, uint64_t unmapped, uint64_t retained)
{
    assert_int_equal(release->outcome, NXM_RELEASE_QUARANTINED);
    assert_int_equal(release->unmapped, unmapped);
    assert_int_equal(release->retained, retained);
    assert_int_equal(host_state(block->address), 0);
    assert_int_equal(host_tallies().allocations, 0);
    assert_int_equal(host_totals().quarantined_blocks, 1);
    assert_int_equal(host_totals().quarantined_bytes, retained);
    assert_int_equal(host_totals().owned_bytes, 0);
}

static void a_partial_release_is_quarantined_and_never_released_again(void **state)
{
    struct nxm_block block = host_allocate(8192);
    struct nxm_release release;

    (void)state;
    fake.release = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_QUARANTINED, .unmapped = 4096, .residual = 4096 };
    assert_int_equal(host_release(&block, &release), NXM_OK);
    assert_quarantined(&block, &release, 4096, 4096);
    assert_int_equal(host_release(&block, &release), NXM_ENOENT);
    host_close();
    assert_int_equal(fake.structured, 1);
}

static void a_status_that_leaves_doubt_is_quarantined_and_never_released_again(void **state)
{
    static const uint32_t codes[] = { NXMEM_STATUS_RELEASE_QUARANTINED, NXMEM_STATUS_INTERNAL_ERROR, 4711 };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct nxm_block block = host_allocate(8192);
        struct nxm_release release;

        fake.release = (struct fake_answer){ .set = true, .status = codes[i] };
        assert_int_equal(host_release(&block, &release), NXM_OK);
        assert_quarantined(&block, &release, 0, 8192);
        assert_int_equal(release.status, codes[i]);
        fake.release.set = false;
        host_close();
        assert_int_equal(fake.structured, i + 1); /* the teardown did not try again */
        host_open();
    }
}

static void deallocate_with_a_doubtful_status_is_quarantined_too(void **state)
{
    struct nxm_block block = host_allocate(8192);
    struct nxm_release release;

    (void)state;
    fake.release = (struct fake_answer){ .set = true, .status = NXMEM_STATUS_INTERNAL_ERROR };
    assert_int_equal(host_release(&block, &release), NXM_OK);
    assert_quarantined(&block, &release, 0, 8192);
    assert_int_equal(fake.deallocates, 1);
}

static void a_quarantined_span_is_not_accepted_again(void **state)
{
    struct nxm_block block = host_allocate(8192), again;
    struct nxm_release release;
    unsigned long long handed_back = fake.structured + 1;

    (void)state;
    fake.release = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_QUARANTINED, .residual = 8192 };
    assert_int_equal(host_release(&block, &release), NXM_OK);
    fake.release.set = false;
    for (uint64_t offset = 0; offset <= 8192 - 256; offset += 4096 - 128) {
        fake.next_address = (void *)(uintptr_t)(block.address + (offset & ~UINT64_C(255)));
        assert_int_equal(allocate(64, 256, &again, NULL), NXM_EEXIST);
        assert_int_equal(fake.structured, ++handed_back);
    }
    fake.next_address = (void *)(uintptr_t)(block.address - 256); /* reaches into it */
    assert_int_equal(allocate(512, 256, &again, NULL), NXM_EEXIST);
    fake.next_address = (void *)(uintptr_t)(block.address - 256); /* ends before it */
    assert_int_equal(allocate(256, 256, &again, NULL), NXM_OK);
}

/* A plugin that serves the address again before its releaser has come back, once. */
static struct nxm_block newcomer;

static NxmemStatus reusing_release(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome)
{
    (void)ctx;
    *outcome = (NxmemReleaseOutcome){ .struct_size = sizeof *outcome, .unmapped_bytes = allocation->bytes };
    if (newcomer.address == 0) {
        fake.next_address = allocation->ptr;
        assert_int_equal(allocate(allocation->bytes, allocation->align, &newcomer, NULL), NXM_OK);
    }
    return fake_status(0);
}

static void bend_release(NxmemAllocatorVtable *vtable)
{
    vtable->release_allocation = reusing_release;
}

static void an_address_reused_during_its_release_belongs_to_the_newcomer(void **state)
{
    struct nxm_block block;
    struct nxm_release release;

    (void)state;
    host_close();
    fake.bend = bend_release;
    newcomer.address = 0;
    host_open();
    block = host_allocate(4096);
    assert_int_equal(host_release(&block, &release), NXM_OK);
    assert_int_equal(release.outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(newcomer.address, block.address);
    assert_int_equal(host_state(newcomer.address), NXM_BLOCK_LIVE);
    assert_int_equal(host_tallies().allocations, 1);
}

/* --- teardown ------------------------------------------------------------------------------------------------------------- */

static void teardown_pushes_back_what_is_live_or_waiting(void **state)
{
    struct nxm_block first = host_allocate(64), second = host_allocate(64);

    (void)state;
    assert_int_equal(nxm_blocks_claim(host.blocks, second.address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL), NXM_OK);
    host_close();
    assert_int_equal(fake.structured, 2);
    assert_int_equal(fake.live, 0);
    assert_int_equal(host_state(first.address), 0);
    assert_int_equal(host_state(second.address), 0);
    assert_int_equal(host_tallies().allocations, 0);
    assert_int_equal(fake.releases, 1);
}

static void teardown_asks_once_whatever_the_plugin_answers(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    fake.release = (struct fake_answer){ .set = true, .status = NXMEM_STATUS_BUSY };
    host_close();
    assert_int_equal(fake.structured, 1);
    assert_int_equal(host_state(block.address), 0);
}

static void teardown_waits_for_the_last_reference(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    nxm_allocator_ref(host.allocator);
    nxm_allocator_unref(host.allocator);
    assert_int_equal(fake.releases, 0);
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE);
    nxm_allocator_unref(NULL);
}

static void teardown_of_many_blocks_forgets_none(void **state)
{
    (void)state;
    for (int i = 0; i < 3000; i++)
        host_allocate(64);
    host_close();
    assert_int_equal(fake.structured, 3000);
    assert_int_equal(fake.live, 0);
}

static void an_open_allocator_shuts_the_gate_and_holds_its_factory(void **state)
{
    struct nxm_gate gate;

    (void)state;
    assert_int_equal(nxm_module_unload(host.module, &gate), NXM_EBUSY);
    assert_int_equal(gate.reason, NXM_GATE_HOST);
    assert_int_equal(gate.host.allocators, 1);
    assert_int_equal(gate.plugin.live_allocators, 1);
    assert_true(gate.handle_kept);
    assert_int_equal(fake.factory_releases, 0);
}

static void a_live_block_shuts_the_gate(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;
    struct nxm_gate gate;

    (void)state;
    assert_int_equal(nxm_module_unload(host.module, &gate), NXM_EBUSY);
    assert_int_equal(gate.host.allocations, 1);
    assert_int_equal(gate.plugin.live_allocations, 1);
    assert_int_equal(host_release(&block, &release), NXM_OK);
}

/* --- threads --------------------------------------------------------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS 500

static void *churn(void *argument)
{
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        struct nxm_block block = { .bytes = 64, .align = 64 };
        struct nxm_release release;

        if (nxm_allocator_allocate(host.allocator, &block, NULL, NULL, NULL) != NXM_OK || host_release(&block, &release) != NXM_OK)
            return (void *)1;
    }
    return NULL;
}

static void threads_allocate_and_release_side_by_side(void **state)
{
    pthread_t threads[THREADS];
    void *failed;

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(host_tallies().allocations, 0);
    assert_int_equal(fake.live, 0);
}

static struct nxm_block contested[ROUNDS];
static atomic_uint winners;

static void *release_all(void *argument)
{
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        struct nxm_release release;

        if (host_release(&contested[i], &release) == NXM_OK)
            atomic_fetch_add(&winners, 1);
    }
    return NULL;
}

static void a_concurrent_double_release_has_one_winner(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    atomic_store(&winners, 0);
    for (int i = 0; i < ROUNDS; i++)
        contested[i] = host_allocate(64);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, release_all, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&winners), ROUNDS);
    assert_int_equal(fake.structured, ROUNDS);
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
        TEST(a_record_without_memory_is_rolled_back),
        TEST(owned_and_mapped_are_two_sums),
        TEST(another_way_into_the_plugin_obeys_the_same_rules),
        TEST(a_complete_release_credits_and_forgets),
        TEST_MINOR_0(at_minor_0_the_baseline_slot_is_entered),
        TEST(an_unknown_address_never_reaches_the_plugin),
        TEST(a_double_release_never_reaches_the_plugin),
        TEST(another_id_at_the_address_is_not_it),
        TEST(a_siblings_block_is_not_ours_and_stays_undisturbed),
        TEST(only_the_states_asked_for_are_released),
        TEST(a_wrong_shape_never_reaches_the_plugin),
        TEST(a_failed_release_leaves_the_block_live_and_releasable),
        TEST(a_partial_release_is_quarantined_and_never_released_again),
        TEST(a_status_that_leaves_doubt_is_quarantined_and_never_released_again),
        TEST_MINOR_0(deallocate_with_a_doubtful_status_is_quarantined_too),
        TEST(a_quarantined_span_is_not_accepted_again),
        TEST(an_address_reused_during_its_release_belongs_to_the_newcomer),
        TEST(teardown_pushes_back_what_is_live_or_waiting),
        TEST(teardown_asks_once_whatever_the_plugin_answers),
        TEST(teardown_waits_for_the_last_reference),
        TEST(teardown_of_many_blocks_forgets_none),
        TEST(an_open_allocator_shuts_the_gate_and_holds_its_factory),
        TEST(a_live_block_shuts_the_gate),
        TEST(threads_allocate_and_release_side_by_side),
        TEST(a_concurrent_double_release_has_one_winner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
