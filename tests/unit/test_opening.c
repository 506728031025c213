/* core/opening.c: what is asked at open, and that everything refused after the plugin's OK is released once. The
 * teardown of every test wants as many releases as opens and an unloaded module. */
#include "core/allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"
#include "tests/unit/support/fake.h"
#include "tests/unit/support/host.h"

/* --- the request --------------------------------------------------------------------------------- */

static void the_request_says_what_is_wanted(void **state)
{
    (void)state;
    host.options.required_capabilities = NXMEM_CAPABILITY_STRUCTURED_RELEASE;
    host_open();
    assert_int_equal(fake.last_open.struct_size, 32);
    assert_int_equal(fake.last_open.abi_minor, 1);
    assert_int_equal(fake.last_open.device.tier, NXMEM_TIER_DEVICE);
    assert_int_equal(fake.last_open.device.index, 0);
    assert_int_equal(fake.last_open.required_capability_flags, NXMEM_CAPABILITY_STRUCTURED_RELEASE);
    assert_non_null(fake.last_open.callbacks);
    assert_int_equal(fake.last_open.callbacks->struct_size, 32);
    assert_int_equal(fake.last_open.callbacks->abi_minor, 1);
    assert_non_null(fake.last_open.callbacks->host_ctx);
    assert_non_null(fake.last_open.callbacks->request_reclaim);
    assert_non_null(fake.last_open.callbacks->release_completed);
}

static void the_negotiated_minor_is_passed_on(void **state)
{
    (void)state;
    host_open();
    assert_int_equal(fake.last_open.abi_minor, 0);
    assert_int_equal(fake.last_open.callbacks->abi_minor, 0);
}

static void what_was_opened_can_be_asked_for(void **state)
{
    (void)state;
    host_open();
    assert_ptr_equal(nxm_allocator_published(host.allocator), fake.last_published);
    assert_int_equal(nxm_allocator_mechanism_id(host.allocator), fake.last_published->mechanism_id);
    assert_string_equal(nxm_allocator_name(host.allocator), "plain");
    assert_int_equal(nxm_allocator_device(host.allocator).tier, NXMEM_TIER_DEVICE);
    assert_int_equal(nxm_allocator_capabilities(host.allocator), fake.last_published->capability_flags);
    assert_null(nxm_allocator_virtual_backing(host.allocator));
    assert_null(nxm_allocator_shared_mapping(host.allocator));
    assert_int_equal(host_tallies().allocators, 1);
}

static void a_mechanism_number_out_of_range_calls_nobody(void **state)
{
    (void)state;
    assert_int_equal(nxm_allocator_open(host.module, 1, &host.options, &host.allocator, NULL), NXM_ENOMECHANISM);
    assert_int_equal(fake.opens, 0);
}

static void without_memory_nothing_is_opened(void **state)
{
    (void)state;
    nxm_mem_fail_at(1);
    assert_int_equal(host_try_open(NULL), NXM_ENOMEM);
    nxm_mem_fail_at(0);
    assert_int_equal(fake.opens, 0);
}

/* --- refusals ------------------------------------------------------------------------------------ */

static void refused(int code, uint32_t status)
{
    struct nxm_error error = { .text = "" };

    assert_int_equal(host_try_open(&error), code);
    assert_int_equal(error.code, code);
    assert_int_equal(error.status, status);
    assert_null(host.allocator);
    assert_int_equal(host_tallies().allocators, 0);
}

/* The plugin said OK, so exactly one release was owed and paid. */
static void refused_and_released(int code, uint32_t status)
{
    refused(code, status);
    assert_int_equal(fake.opens, 1);
    assert_int_equal(fake.releases, 1);
}

static void a_failing_open_owes_nothing(void **state)
{
    (void)state;
    fake.open_status = NXMEM_STATUS_UNSUPPORTED_CAPABILITY; /* and the output was written */
    refused(NXM_ECALL, NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
    assert_int_equal(fake.releases, 0);
    fake.open_status = NXMEM_STATUS_OUT_OF_MEMORY;
    refused(NXM_ENOMEM, NXMEM_STATUS_OUT_OF_MEMORY);
}

static void ok_with_a_null_vtable_is_refused(void **state)
{
    (void)state;
    fake.open_returns_null = true;
    refused(NXM_ECALL, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(fake.releases, 0); /* nothing to find `release` in */
}

static void bend_allocate_away(NxmemAllocatorVtable *vtable)
{
    vtable->allocate = NULL;
}

static void a_missing_slot_is_refused_and_released(void **state)
{
    (void)state;
    fake.bend = bend_allocate_away;
    refused_and_released(NXM_ECALL, NXMEM_STATUS_SHORT_STRUCT);
}

static void (*release_slot)(void *ctx);
static void *release_ctx;

static void bend_release_away(NxmemAllocatorVtable *vtable)
{
    release_slot = vtable->release;
    release_ctx = vtable->ctx;
    vtable->release = NULL;
}

static void without_a_release_slot_it_is_refused_and_nothing_can_be_paid(void **state)
{
    (void)state;
    fake.bend = bend_release_away;
    assert_int_equal(host_try_open(NULL), NXM_ECALL);
    assert_int_equal(fake.releases, 0);
    assert_int_equal(host_tallies().allocators, 0);
    release_slot(release_ctx); /* what it published no way to */
}

static void bend_id_to_zero(NxmemAllocatorVtable *vtable)
{
    vtable->mechanism_id = 0;
}

static void mechanism_id_zero_is_refused_and_released(void **state)
{
    (void)state;
    fake.bend = bend_id_to_zero;
    refused_and_released(NXM_ECALL, NXMEM_STATUS_INVALID_ARGUMENT);
}

static void bend_short_but_readable(NxmemAllocatorVtable *vtable)
{
    vtable->struct_size = 120; /* at a claimed minor of 1 */
    fake.vtable_bytes = 120;
}

static void a_vtable_below_its_own_claim_is_refused_and_cannot_be_released(void **state)
{
    NxmemAllocatorVtable kept;

    (void)state;
    fake.bend = bend_short_but_readable;
    refused(NXM_ECALL, NXMEM_STATUS_SHORT_STRUCT);
    assert_int_equal(fake.releases, 0);
    /* The ABI leaves such a state with the plugin; here it is given back for it. */
    memcpy(&kept, fake.last_published, 120);
    kept.release(kept.ctx);
}

static void bend_tier(NxmemAllocatorVtable *vtable)
{
    vtable->device.tier = 4242;
}

static void an_unknown_tier_is_refused_and_released(void **state)
{
    (void)state;
    fake.bend = bend_tier;
    refused_and_released(NXM_ECONTRACT, 0);
}

static void bend_index(NxmemAllocatorVtable *vtable)
{
    vtable->device.index++;
}

static void bend_to_host(NxmemAllocatorVtable *vtable)
{
    vtable->device.tier = NXMEM_TIER_HOST;
}

static void another_device_than_the_factorys_is_refused_and_released(void **state)
{
    (void)state;
    fake.bend = bend_index;
    refused_and_released(NXM_ECONTRACT, 0);
    fake.bend = bend_to_host;
    refused(NXM_ECONTRACT, 0);
    assert_int_equal(fake.releases, 2);
}

static void a_required_bit_that_is_missing_is_refused_and_released(void **state)
{
    (void)state;
    host.options.required_capabilities = NXMEM_CAPABILITY_DEFERRED_RELEASE;
    refused_and_released(NXM_ECONTRACT, 0);
}

static void a_clear_allocator_bit_is_refused_and_released(void **state)
{
    (void)state;
    fake.without_flags = NXMEM_CAPABILITY_ALLOCATOR;
    refused_and_released(NXM_ECONTRACT, 0);
}

static void unknown_bits_are_refused_and_released(void **state)
{
    (void)state;
    fake.extra_flags = UINT64_C(1) << 40;
    refused_and_released(NXM_ECONTRACT, 0);
}

static void bend_enqueue_away(NxmemAllocatorVtable *vtable)
{
    vtable->enqueue_release = NULL;
}

static void bend_drain_away(NxmemAllocatorVtable *vtable)
{
    vtable->drain_releases = NULL;
}

static void deferred_release_without_its_slots_is_refused_and_released(void **state)
{
    (void)state;
    fake.extra_flags = NXMEM_CAPABILITY_DEFERRED_RELEASE;
    fake.bend = bend_enqueue_away;
    refused_and_released(NXM_ECONTRACT, 0);
    fake.bend = bend_drain_away;
    refused(NXM_ECONTRACT, 0);
    assert_int_equal(fake.releases, 2);
}

static void a_mechanism_id_already_open_is_refused_and_released(void **state)
{
    struct nxm_allocator *first;

    (void)state;
    fake.fixed_mechanism_id = true;
    host_open();
    first = host.allocator;
    host.allocator = NULL;
    assert_int_equal(host_try_open(NULL), NXM_ECONTRACT);
    assert_int_equal(fake.opens, 2);
    assert_int_equal(fake.releases, 1);
    nxm_allocator_unref(first);
    host_open(); /* free again */
}

/* The list of the module must not lead through one that is gone. */
static void allocators_leave_in_any_order_and_their_ids_are_free_again(void **state)
{
    static const unsigned orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

    (void)state;
    for (unsigned i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        struct nxm_allocator *open[3];

        for (unsigned j = 0; j < 3; j++) {
            fake.fixed_mechanism_id = j == i % 3;
            host_open();
            open[j] = host.allocator;
        }
        fake.fixed_mechanism_id = true;
        for (unsigned j = 0, taken = 1; j < 3; j++) {
            nxm_allocator_unref(open[orders[i][j]]);
            if (orders[i][j] == i % 3)
                taken = 0;
            assert_int_equal(host_try_open(NULL), taken ? NXM_ECONTRACT : NXM_OK);
            if (!taken)
                host_close();
        }
        host.allocator = NULL;
        assert_int_equal(host_tallies().allocators, 0);
    }
}

static void read_table(void)
{
    assert_int_equal(fake.last_callbacks->struct_size, 32); /* a sanitizer would see it gone */
}

static void the_callback_table_is_alive_while_the_debt_is_paid(void **state)
{
    (void)state;
    fake.bend = bend_tier;
    fake.in_release = read_table;
    refused_and_released(NXM_ECONTRACT, 0);
}

/* --- capability vtables -------------------------------------------------------------------------- */

static NxmemVirtualBackingVtable backing;
static NxmemSharedMappingVtable mapping;

static void bend_backing_in(NxmemAllocatorVtable *vtable)
{
    backing = (NxmemVirtualBackingVtable){ .struct_size = sizeof backing,
                                           .abi_minor = 1,
                                           .mechanism_id = vtable->mechanism_id };
    vtable->virtual_backing = &backing;
}

static void bend_mapping_in(NxmemAllocatorVtable *vtable)
{
    mapping = (NxmemSharedMappingVtable){ .struct_size = sizeof mapping,
                                          .abi_minor = 1,
                                          .mechanism_id = vtable->mechanism_id };
    vtable->shared_mapping = &mapping;
}

static void bend_foreign_backing_in(NxmemAllocatorVtable *vtable)
{
    bend_backing_in(vtable);
    backing.mechanism_id++;
}

static void bend_foreign_mapping_in(NxmemAllocatorVtable *vtable)
{
    bend_mapping_in(vtable);
    mapping.mechanism_id++;
}

static void bend_short_backing_in(NxmemAllocatorVtable *vtable)
{
    bend_backing_in(vtable);
    backing.struct_size--;
}

static void virtual_backing_is_read_kept_and_no_slot_invented(void **state)
{
    (void)state;
    fake.extra_flags = NXMEM_CAPABILITY_VIRTUAL_BACKING;
    fake.bend = bend_backing_in;
    host_open();
    memset(&backing, 0xAB, sizeof backing); /* the copy is what is used */
    assert_non_null(nxm_allocator_virtual_backing(host.allocator));
    assert_null(nxm_allocator_virtual_backing(host.allocator)->commit_range);
    assert_null(nxm_allocator_shared_mapping(host.allocator));
}

static void shared_mapping_is_read_kept_and_no_slot_invented(void **state)
{
    (void)state;
    fake.extra_flags = NXMEM_CAPABILITY_SHARED_MAPPING;
    fake.bend = bend_mapping_in;
    host_open();
    memset(&mapping, 0xAB, sizeof mapping);
    assert_non_null(nxm_allocator_shared_mapping(host.allocator));
    assert_null(nxm_allocator_shared_mapping(host.allocator)->create_shared_prefix);
    assert_null(nxm_allocator_virtual_backing(host.allocator));
    assert_int_equal(host_totals().views, 0);
}

static void a_bit_without_its_vtable_is_refused_and_released(void **state)
{
    (void)state;
    fake.extra_flags = NXMEM_CAPABILITY_VIRTUAL_BACKING;
    refused_and_released(NXM_ECONTRACT, 0);
    fake.extra_flags = NXMEM_CAPABILITY_SHARED_MAPPING;
    refused(NXM_ECONTRACT, 0);
    assert_int_equal(fake.releases, 2);
}

static void a_vtable_without_its_bit_is_refused_and_released(void **state)
{
    (void)state;
    fake.bend = bend_backing_in;
    refused_and_released(NXM_ECONTRACT, 0);
    fake.bend = bend_mapping_in;
    refused(NXM_ECONTRACT, 0);
    assert_int_equal(fake.releases, 2);
}

static void a_capability_of_another_mechanism_is_refused_and_released(void **state)
{
    (void)state;
    fake.extra_flags = NXMEM_CAPABILITY_VIRTUAL_BACKING;
    fake.bend = bend_foreign_backing_in;
    refused_and_released(NXM_ECALL, NXMEM_STATUS_WRONG_MECHANISM);
    fake.extra_flags = NXMEM_CAPABILITY_SHARED_MAPPING;
    fake.bend = bend_foreign_mapping_in;
    refused(NXM_ECALL, NXMEM_STATUS_WRONG_MECHANISM);
    assert_int_equal(fake.releases, 2);
}

static void a_short_capability_vtable_is_refused_and_released(void **state)
{
    (void)state;
    fake.extra_flags = NXMEM_CAPABILITY_VIRTUAL_BACKING;
    fake.bend = bend_short_backing_in;
    refused_and_released(NXM_ECALL, NXMEM_STATUS_SHORT_STRUCT);
}

/* --- what was negotiated ------------------------------------------------------------------------- */

/* The module anew, with these bits not offered by the plugin. */
static void reload_without(uint64_t bits)
{
    struct nxm_gate gate;

    assert_int_equal(nxm_module_unload(host.module, &gate), NXM_OK);
    fake.unmapped = 0; /* the teardown counts one */
    fake.not_negotiated = bits;
    assert_int_equal(nxm_module_load(UNIT_DIR "/plugins/fake.so", NULL, &host.module, NULL), NXM_OK);
    assert_int_equal(nxm_module_capabilities(host.module), NXMEM_CAPABILITY_KNOWN_MASK & ~bits);
}

static void bits_that_were_not_negotiated_are_not_used(void **state)
{
    struct nxm_release release;
    struct nxm_block block;

    (void)state;
    reload_without(NXMEM_CAPABILITY_KNOWN_MASK & ~NXMEM_CAPABILITY_ALLOCATOR);
    fake.maps = true;
    fake.extra_flags = NXMEM_CAPABILITY_KNOWN_MASK;
    host_open();
    assert_int_equal(nxm_allocator_capabilities(host.allocator), NXMEM_CAPABILITY_ALLOCATOR);
    assert_null(nxm_allocator_virtual_backing(host.allocator));
    assert_null(nxm_allocator_shared_mapping(host.allocator));
    assert_false(nxm_allocator_structured_release(host.allocator));
    block = host_allocate(64);
    assert_int_equal(host_enqueue(&block, &release), NXM_EUNSUPPORTED);
    assert_int_equal(host_release(&block, &release), NXM_OK);
    assert_int_equal(fake.enqueues, 0);
    assert_int_equal(fake.structured, 0);
    assert_int_equal(fake.deallocates, 1);
}

static void a_required_bit_that_was_not_negotiated_is_missing(void **state)
{
    (void)state;
    reload_without(NXMEM_CAPABILITY_DEFERRED_RELEASE);
    fake.extra_flags = NXMEM_CAPABILITY_DEFERRED_RELEASE;
    host.options.required_capabilities = NXMEM_CAPABILITY_DEFERRED_RELEASE;
    refused_and_released(NXM_ECONTRACT, 0);
}

/* --- names and levels ---------------------------------------------------------------------------- */

static void bend_name_away(NxmemAllocatorVtable *vtable)
{
    vtable->name = NULL;
}

static void bend_name_bad(NxmemAllocatorVtable *vtable)
{
    vtable->name = (const uint8_t *)"\xFF";
}

static void bend_name(NxmemAllocatorVtable *vtable)
{
    vtable->name = (const uint8_t *)"own name";
}

static void a_name_that_is_none_falls_back_to_the_factorys(void **state)
{
    (void)state;
    fake.bend = bend_name_away;
    host_open();
    assert_string_equal(nxm_allocator_name(host.allocator), "plain");
    host_close();
    fake.bend = bend_name_bad;
    host_open();
    assert_string_equal(nxm_allocator_name(host.allocator), "plain");
    host_close();
    fake.bend = bend_name;
    host_open();
    assert_string_equal(nxm_allocator_name(host.allocator), "own name");
}

static void structured_at_a_common_minor_of_1_is_entered(void **state)
{
    (void)state;
    host_open();
    assert_true(nxm_allocator_structured_release(host.allocator));
}

static void structured_is_not_entered_below_minor_1_of_the_host(void **state)
{
    (void)state;
    host_open(); /* publishes the bit, minor 1 and the slot: clamped, not refused */
    assert_false(nxm_allocator_structured_release(host.allocator));
}

static void bend_to_minor_0(NxmemAllocatorVtable *vtable)
{
    vtable->abi_minor = 0;
}

static void bend_structured_away(NxmemAllocatorVtable *vtable)
{
    vtable->release_allocation = NULL;
}

static void structured_is_not_entered_when_one_condition_fails(void **state)
{
    (void)state;
    fake.bend = bend_to_minor_0;
    host_open();
    assert_false(nxm_allocator_structured_release(host.allocator));
    host_close();
    fake.bend = bend_structured_away; /* bit without slot: silently the plain one */
    host_open();
    assert_false(nxm_allocator_structured_release(host.allocator));
    host_close();
    fake.bend = NULL;
    fake.without_flags = NXMEM_CAPABILITY_STRUCTURED_RELEASE; /* slot without bit */
    host_open();
    assert_false(nxm_allocator_structured_release(host.allocator));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, host_setup, host_teardown)
#define TEST_MINOR_0(name) cmocka_unit_test_setup_teardown(name, host_setup_minor_0, host_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_request_says_what_is_wanted),
        TEST_MINOR_0(the_negotiated_minor_is_passed_on),
        TEST(what_was_opened_can_be_asked_for),
        TEST(a_mechanism_number_out_of_range_calls_nobody),
        TEST(without_memory_nothing_is_opened),
        TEST(a_failing_open_owes_nothing),
        TEST(ok_with_a_null_vtable_is_refused),
        TEST(a_missing_slot_is_refused_and_released),
        TEST(without_a_release_slot_it_is_refused_and_nothing_can_be_paid),
        TEST(mechanism_id_zero_is_refused_and_released),
        TEST(a_vtable_below_its_own_claim_is_refused_and_cannot_be_released),
        TEST(an_unknown_tier_is_refused_and_released),
        TEST(another_device_than_the_factorys_is_refused_and_released),
        TEST(a_required_bit_that_is_missing_is_refused_and_released),
        TEST(a_clear_allocator_bit_is_refused_and_released),
        TEST(unknown_bits_are_refused_and_released),
        TEST(deferred_release_without_its_slots_is_refused_and_released),
        TEST(a_mechanism_id_already_open_is_refused_and_released),
        TEST(allocators_leave_in_any_order_and_their_ids_are_free_again),
        TEST(the_callback_table_is_alive_while_the_debt_is_paid),
        TEST(virtual_backing_is_read_kept_and_no_slot_invented),
        TEST(shared_mapping_is_read_kept_and_no_slot_invented),
        TEST(a_bit_without_its_vtable_is_refused_and_released),
        TEST(a_vtable_without_its_bit_is_refused_and_released),
        TEST(a_capability_of_another_mechanism_is_refused_and_released),
        TEST(a_short_capability_vtable_is_refused_and_released),
        TEST(bits_that_were_not_negotiated_are_not_used),
        TEST(a_required_bit_that_was_not_negotiated_is_missing),
        TEST(a_name_that_is_none_falls_back_to_the_factorys),
        TEST(structured_at_a_common_minor_of_1_is_entered),
        TEST_MINOR_0(structured_is_not_entered_below_minor_1_of_the_host),
        TEST(structured_is_not_entered_when_one_condition_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
