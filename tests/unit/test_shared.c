/* core/shared.c, core/views.c: prefixes and the views of them, dying in either order. */
#include "core/shared.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/mem.h"
#include "tests/unit/support/fake.h"
#include "tests/unit/support/fake_map.h"
#include "tests/unit/support/host.h"

#define BYTES (16 * UINT64_C(4096))
#define PREFIX (4 * UINT64_C(4096))

static struct nxm_shared *prefix_of(uint64_t bytes)
{
    struct nxm_shared *shared = NULL;
    struct nxm_error error;

    if (nxm_shared_new(host.allocator, bytes, &shared, &error) != NXM_OK)
        fail_msg("%s", error.text);
    return shared;
}

static int commit_at(const struct nxm_shared *shared, const struct nxm_block *block, uint64_t offset,
                     struct nxm_shared_commit *ret_commit)
{
    return nxm_shared_commit(host.allocator, shared, block->address, block->bytes, offset, ret_commit, NULL);
}

static void view(const struct nxm_shared *shared, const struct nxm_block *block)
{
    struct nxm_shared_commit commit;

    assert_int_equal(commit_at(shared, block, 0, &commit), NXM_OK);
}

static void assert_views(uint64_t expected)
{
    assert_int_equal(host_totals().views, expected);
    assert_int_equal(fake_map.views, expected);
}

/* --- the handle ------------------------------------------------------------------------------------ */

static void a_prefix_is_made_and_given_back_once(void **state)
{
    NxmemSharedPrefixHandle zeroed = { .struct_size = 64 };
    struct nxm_shared *shared = prefix_of(PREFIX);
    struct nxm_shared_facts facts;

    (void)state;
    assert_memory_equal(&fake_map.last_made_before, &zeroed, sizeof zeroed);
    assert_ptr_equal(fake_map.last_ctx, nxm_allocator_shared_mapping(host.allocator)->ctx);
    nxm_shared_describe(shared, &facts);
    assert_int_equal(facts.bytes, PREFIX);
    assert_int_equal(facts.device_address, 0x5000);
    assert_int_equal(facts.committed_bytes, PREFIX);
    assert_int_equal(facts.mapped, 0);
    assert_views(0); /* making one is no view */
    nxm_shared_ref(shared);
    nxm_shared_unref(shared);
    assert_int_equal(fake_map.prefix_releases, 0);
    nxm_shared_unref(shared);
    assert_int_equal(fake_map.prefix_releases, 1);
    assert_memory_equal(&fake_map.last_released, &fake_map.last_prefix, sizeof fake_map.last_prefix);
    assert_int_equal(fake_map.prefix_frees, 1);
    nxm_shared_unref(NULL);
}

static void a_prefix_keeps_its_allocator(void **state)
{
    struct nxm_shared *shared = prefix_of(PREFIX);
    struct nxm_gate gate;

    (void)state;
    host_close();
    assert_int_equal(fake.releases, 0);
    assert_int_equal(nxm_module_unload(host.module, &gate), NXM_EBUSY);
    assert_int_equal(gate.host.allocators, 1);
    assert_int_equal(gate.plugin.live_capabilities, 1);
    nxm_shared_unref(shared);
    assert_int_equal(fake.releases, 1);
}

static void a_prefix_that_is_not_the_mechanism_s_own_is_refused_and_given_back(void **state)
{
    struct nxm_shared *shared = NULL;

    (void)state;
    fake_map.prefix_other_mechanism = 1000;
    assert_int_equal(nxm_shared_new(host.allocator, PREFIX, &shared, NULL), NXM_ECONTRACT);
    assert_int_equal(fake_map.prefix_releases, 1);
    fake_map.prefix_other_mechanism = 0;
    fake_map.prefix_other_device = 1;
    assert_int_equal(nxm_shared_new(host.allocator, PREFIX, &shared, NULL), NXM_ECONTRACT);
    assert_int_equal(fake_map.prefix_releases, 2);
    assert_int_equal(fake_map.handles, 0);
    assert_null(shared);
}

static void a_prefix_without_a_handle_is_refused_and_nothing_is_given_back(void **state)
{
    struct nxm_shared *shared = NULL;

    (void)state;
    fake_map.prefix_handle_zero = true;
    assert_int_equal(nxm_shared_new(host.allocator, PREFIX, &shared, NULL), NXM_ECONTRACT);
    fake_map.prefix_handle_zero = false;
    fake_map.prefix_size = 16; /* written up to the handle, and not further */
    assert_int_equal(nxm_shared_new(host.allocator, PREFIX, &shared, NULL), NXM_ECONTRACT);
    assert_int_equal(fake_map.prefix_releases, 0);
    fake_map.handles -= 2; /* what the fake thinks it gave out */
}

static void a_failed_creation_owes_nothing(void **state)
{
    struct nxm_shared *shared = NULL;

    (void)state;
    fake_map.prefix_status = NXMEM_STATUS_OUT_OF_MEMORY;
    assert_int_equal(nxm_shared_new(host.allocator, PREFIX, &shared, NULL), NXM_ENOMEM);
    fake_map.prefix_status = NXMEM_STATUS_DEVICE_ERROR;
    assert_int_equal(nxm_shared_new(host.allocator, PREFIX, &shared, NULL), NXM_ECALL);
    nxm_mem_fail_at(1);
    assert_int_equal(nxm_shared_new(host.allocator, PREFIX, &shared, NULL), NXM_ENOMEM);
    nxm_mem_fail_at(0);
    assert_int_equal(fake_map.prefix_creates, 2); /* not the one that we could not have recorded */
    assert_int_equal(fake_map.prefix_releases, 0);
}

/* --- views ----------------------------------------------------------------------------------------- */

static void a_commit_names_both_and_tells_what_it_cost(void **state)
{
    struct nxm_shared *shared = prefix_of(PREFIX);
    struct nxm_block block = host_allocate(BYTES);
    NxmemSharedPrefixCommitInfo zeroed = { .struct_size = 32 };
    struct nxm_shared_commit commit;

    (void)state;
    fake_map.view_owned = 4096;
    fake_map.view_mapped = PREFIX;
    assert_int_equal(commit_at(shared, &block, 4096, &commit), NXM_OK);
    assert_int_equal(commit.owned, 4096);
    assert_int_equal(commit.mapped, PREFIX);
    assert_int_equal(commit.granules, 4);
    assert_memory_equal(&fake_map.last_info_before, &zeroed, sizeof zeroed);
    assert_int_equal(fake_map.last_commit.struct_size, 136);
    assert_int_equal(fake_map.last_commit.prefix.struct_size, 64);
    assert_int_equal(fake_map.last_commit.prefix.handle, fake_map.last_prefix.handle);
    assert_int_equal(fake_map.last_commit.allocation.allocation_id, block.id);
    assert_int_equal(fake_map.last_commit.byte_offset, 4096);
    assert_views(1);
    assert_int_equal(host_totals().view_owned_bytes, 4096);
    assert_int_equal(host_totals().view_mapped_bytes, PREFIX);
    assert_int_equal(host_totals().owned_bytes, BYTES); /* not mixed with the block's own */
    nxm_shared_unref(shared);
}

static void what_a_plugin_makes_up_of_views_does_not_wrap_their_sums(void **state)
{
    const uint64_t most = PREFIX + (UINT64_C(1) << 40);
    struct nxm_shared *shared = prefix_of(PREFIX);
    struct nxm_block block = host_allocate(BYTES);
    struct nxm_shared_commit commit;
    struct nxm_release release;

    (void)state;
    fake_map.view_owned = fake_map.view_mapped = UINT64_MAX;
    assert_int_equal(commit_at(shared, &block, 0, &commit), NXM_OK);
    assert_int_equal(commit_at(shared, &block, 0, &commit), NXM_OK);
    assert_int_equal(commit.owned, most);
    assert_int_equal(commit.mapped, most);
    assert_int_equal(host_totals().view_owned_bytes, 2 * most);
    assert_int_equal(host_totals().view_mapped_bytes, 2 * most);
    assert_int_equal(host_release(&block, &release), NXM_OK);
    assert_int_equal(host_totals().view_owned_bytes + host_totals().view_mapped_bytes, 0);
    nxm_shared_unref(shared);
}

static void what_the_plugin_does_not_claim_to_write_costs_nothing(void **state)
{
    struct nxm_shared *shared = prefix_of(PREFIX);
    struct nxm_block block = host_allocate(BYTES);
    struct nxm_shared_commit commit;

    (void)state;
    fake_map.view_owned = 4096;
    fake_map.view_mapped = PREFIX;
    fake_map.info_size = 16;
    assert_int_equal(commit_at(shared, &block, 0, &commit), NXM_OK);
    assert_int_equal(commit.owned, 4096);
    assert_int_equal(commit.mapped, 0);
    nxm_shared_unref(shared);
}

static void a_view_outlives_its_prefix_and_goes_with_its_block(void **state)
{
    struct nxm_shared *shared = prefix_of(PREFIX);
    struct nxm_block block = host_allocate(BYTES);
    struct nxm_release release;

    (void)state;
    view(shared, &block);
    nxm_shared_unref(shared);
    assert_int_equal(fake_map.prefix_releases, 1); /* at once, whatever is mapped */
    assert_int_equal(fake_map.prefix_frees, 0);
    assert_views(1);
    assert_int_equal(host_release(&block, &release), NXM_OK);
    assert_views(0);
    assert_int_equal(fake_map.prefix_frees, 1);
}

static void a_prefix_outlives_its_views(void **state)
{
    struct nxm_shared *shared = prefix_of(PREFIX);
    struct nxm_block first = host_allocate(BYTES), second = host_allocate(BYTES);
    struct nxm_release release;

    (void)state;
    view(shared, &first);
    view(shared, &first);
    view(shared, &second);
    assert_views(3);
    assert_int_equal(host_release(&first, &release), NXM_OK);
    assert_views(1);
    assert_int_equal(host_release(&second, &release), NXM_OK);
    assert_views(0);
    assert_int_equal(fake_map.prefix_frees, 0);
    nxm_shared_unref(shared);
    assert_int_equal(fake_map.prefix_frees, 1);
}

static void a_view_goes_when_its_block_is_queued_and_not_later(void **state)
{
    struct nxm_shared *shared = prefix_of(PREFIX);
    struct nxm_block block = host_allocate(BYTES);

    (void)state;
    view(shared, &block);
    fake.drain_nothing = true;
    host_enqueued(&block);
    assert_views(0);
    assert_int_equal(host_totals().queued, 1);
    fake.drain_nothing = false;
    nxm_shared_unref(shared);
}

static void a_view_stays_when_its_block_stays(void **state)
{
    struct nxm_shared *shared = prefix_of(PREFIX);
    struct nxm_block block = host_allocate(BYTES);
    struct nxm_release release;

    (void)state;
    view(shared, &block);
    fake.enqueue_status = NXMEM_STATUS_BUSY;
    assert_int_equal(host_enqueue(&block, &release), NXM_ECALL);
    assert_views(1);
    fake.release = (struct fake_answer){ .set = true, .status = NXMEM_STATUS_BUSY };
    assert_int_equal(host_release(&block, &release), NXM_ECALL);
    assert_views(1);
    fake.release = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_FAILED, .keep = true };
    assert_int_equal(host_release(&block, &release), NXM_ECALL);
    assert_views(1);
    fake.release.set = false;
    nxm_shared_unref(shared);
}

static void a_view_goes_with_a_quarantined_block(void **state)
{
    struct nxm_shared *shared = prefix_of(PREFIX);
    struct nxm_block block = host_allocate(BYTES);
    struct nxm_release release;

    (void)state;
    view(shared, &block);
    fake.release = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_QUARANTINED, .residual = 4096 };
    assert_int_equal(host_release(&block, &release), NXM_OK);
    assert_views(0);
    fake.release.set = false;
    nxm_shared_unref(shared);
}

static void teardown_takes_blocks_and_views(void **state)
{
    struct nxm_shared *shared = prefix_of(PREFIX);
    struct nxm_block block = host_allocate(BYTES);

    (void)state;
    view(shared, &block);
    nxm_shared_unref(shared);
    host_close();
    assert_int_equal(fake_map.views, 0);
    assert_int_equal(fake_map.prefix_frees, 1);
}

/* --- refusals -------------------------------------------------------------------------------------- */

static void a_failed_commit_leaves_no_view(void **state)
{
    struct nxm_shared *shared = prefix_of(PREFIX);
    struct nxm_block block = host_allocate(BYTES);
    struct nxm_shared_commit commit = { .owned = 55 };

    (void)state;
    fake_map.prefix_commit_status = NXMEM_STATUS_OUT_OF_MEMORY;
    assert_int_equal(commit_at(shared, &block, 0, &commit), NXM_ENOMEM);
    fake_map.prefix_commit_status = NXMEM_STATUS_UNKNOWN_ALLOCATION;
    assert_int_equal(commit_at(shared, &block, 0, &commit), NXM_ECALL);
    assert_views(0);
    fake_map.prefix_commit_status = 0;
    nxm_mem_fail_at(1);
    assert_int_equal(commit_at(shared, &block, 0, &commit), NXM_ENOMEM);
    nxm_mem_fail_at(0);
    assert_int_equal(fake_map.prefix_commits, 2); /* a view that we could not record is not asked for */
    assert_int_equal(commit.owned, 55);
    nxm_shared_unref(shared);
}

static void a_prefix_must_fit_where_it_goes(void **state)
{
    const uint64_t bad[] = { BYTES - PREFIX + 1, BYTES, BYTES + 1, UINT64_MAX, UINT64_MAX - PREFIX + 1 };
    struct nxm_shared *shared = prefix_of(PREFIX), *huge = prefix_of(UINT64_MAX);
    struct nxm_block block = host_allocate(BYTES);
    struct nxm_shared_commit commit;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(commit_at(shared, &block, bad[i], &commit), NXM_EINVAL);
    assert_int_equal(commit_at(huge, &block, 1, &commit), NXM_EINVAL);
    assert_int_equal(fake_map.prefix_commits, 0);
    assert_int_equal(commit_at(shared, &block, BYTES - PREFIX, &commit), NXM_OK);
    nxm_shared_unref(shared);
    nxm_shared_unref(huge);
}

static void only_a_live_block_of_that_size_takes_a_view(void **state)
{
    struct nxm_shared *shared = prefix_of(PREFIX);
    struct nxm_block block = host_allocate(BYTES);
    struct nxm_shared_commit commit;

    (void)state;
    assert_int_equal(nxm_shared_commit(host.allocator, shared, block.address, BYTES + 1, 0, &commit, NULL), NXM_EINVAL);
    assert_int_equal(nxm_shared_commit(host.allocator, shared, block.address + 8, BYTES, 0, &commit, NULL), NXM_ENOENT);
    fake.drain_nothing = true;
    host_enqueued(&block);
    assert_int_equal(commit_at(shared, &block, 0, &commit), NXM_EBUSY);
    assert_int_equal(fake_map.prefix_commits, 0);
    fake.drain_nothing = false;
    nxm_shared_unref(shared);
}

static void a_foreign_prefix_is_neither_costed_nor_committed(void **state)
{
    struct nxm_shared *shared = prefix_of(PREFIX);
    struct nxm_allocator *sibling = host.allocator;
    struct nxm_shared_commit commit;
    struct nxm_block block;
    uint64_t owned = 55;

    (void)state;
    host_open();
    block = host_allocate(BYTES);
    assert_int_equal(nxm_shared_cost(host.allocator, shared, &owned, NULL), NXM_EINVAL);
    assert_int_equal(owned, 55); /* not 0 */
    assert_int_equal(commit_at(shared, &block, 0, &commit), NXM_EINVAL);
    assert_int_equal(fake_map.prefix_costs + fake_map.prefix_commits, 0);
    nxm_shared_unref(shared);
    nxm_allocator_unref(sibling);
}

static void the_cost_of_one_more_is_the_plugin_s_word(void **state)
{
    struct nxm_shared *shared = prefix_of(PREFIX);
    uint64_t owned = 55;

    (void)state;
    assert_int_equal(nxm_shared_cost(host.allocator, shared, &owned, NULL), NXM_OK);
    assert_int_equal(owned, 0);
    owned = 55;
    fake_map.prefix_cost_status = NXMEM_STATUS_UNKNOWN_ALLOCATION;
    assert_int_equal(nxm_shared_cost(host.allocator, shared, &owned, NULL), NXM_ECALL);
    assert_int_equal(owned, 55);
    nxm_shared_unref(shared);
}

static struct nxm_block racing;

static void release_meanwhile(void)
{
    struct nxm_release release;

    assert_int_equal(host_release(&racing, &release), NXM_OK);
}

static void a_view_of_a_block_that_goes_meanwhile_is_not_kept(void **state)
{
    struct nxm_shared *shared = prefix_of(PREFIX);
    struct nxm_shared_commit commit;

    (void)state;
    racing = host_allocate(BYTES);
    fake_map.in_prefix_commit = release_meanwhile;
    fake_map.view_owned = 4096;
    assert_int_equal(commit_at(shared, &racing, 0, &commit), NXM_OK); /* it was there */
    assert_views(0);
    assert_int_equal(host_totals().view_owned_bytes, 0);
    nxm_shared_unref(shared);
}

/* --- absent slots ---------------------------------------------------------------------------------- */

static void no_release(NxmemSharedMappingVtable *vtable)
{
    vtable->release_shared_prefix = NULL;
}

static void only_create_and_release(NxmemSharedMappingVtable *vtable)
{
    vtable->incremental_owned_bytes = NULL;
    vtable->commit_shared_prefix = NULL;
}

static void a_prefix_that_could_not_be_given_back_is_not_made(void **state)
{
    struct nxm_shared *shared;

    (void)state;
    host_close();
    fake_map.bend_sharing = no_release;
    host_open();
    assert_int_equal(nxm_shared_new(host.allocator, PREFIX, &shared, NULL), NXM_EUNSUPPORTED);
    assert_int_equal(fake_map.prefix_creates, 0);
}

static void an_absent_slot_is_never_a_silent_success(void **state)
{
    struct nxm_shared_commit commit;
    struct nxm_shared *shared;
    struct nxm_block block;
    uint64_t owned = 55;

    (void)state;
    host_close();
    fake_map.bend_sharing = only_create_and_release;
    host_open();
    shared = prefix_of(PREFIX);
    block = host_allocate(BYTES);
    assert_int_equal(nxm_shared_cost(host.allocator, shared, &owned, NULL), NXM_EUNSUPPORTED);
    assert_int_equal(owned, 55);
    assert_int_equal(commit_at(shared, &block, 0, &commit), NXM_EUNSUPPORTED);
    nxm_shared_unref(shared);
}

static void a_mechanism_without_the_capability_makes_none(void **state)
{
    struct nxm_shared *shared;

    (void)state;
    host_close();
    fake.without_flags = NXMEM_CAPABILITY_SHARED_MAPPING;
    host_open();
    assert_int_equal(nxm_shared_new(host.allocator, PREFIX, &shared, NULL), NXM_EUNSUPPORTED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, host_setup_mapping, host_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_prefix_is_made_and_given_back_once),
        TEST(a_prefix_keeps_its_allocator),
        TEST(a_prefix_that_is_not_the_mechanism_s_own_is_refused_and_given_back),
        TEST(a_prefix_without_a_handle_is_refused_and_nothing_is_given_back),
        TEST(a_failed_creation_owes_nothing),
        TEST(a_commit_names_both_and_tells_what_it_cost),
        TEST(what_a_plugin_makes_up_of_views_does_not_wrap_their_sums),
        TEST(what_the_plugin_does_not_claim_to_write_costs_nothing),
        TEST(a_view_outlives_its_prefix_and_goes_with_its_block),
        TEST(a_prefix_outlives_its_views),
        TEST(a_view_goes_when_its_block_is_queued_and_not_later),
        TEST(a_view_stays_when_its_block_stays),
        TEST(a_view_goes_with_a_quarantined_block),
        TEST(teardown_takes_blocks_and_views),
        TEST(a_failed_commit_leaves_no_view),
        TEST(a_prefix_must_fit_where_it_goes),
        TEST(only_a_live_block_of_that_size_takes_a_view),
        TEST(a_foreign_prefix_is_neither_costed_nor_committed),
        TEST(the_cost_of_one_more_is_the_plugin_s_word),
        TEST(a_view_of_a_block_that_goes_meanwhile_is_not_kept),
        TEST(a_prefix_that_could_not_be_given_back_is_not_made),
        TEST(an_absent_slot_is_never_a_silent_success),
        TEST(a_mechanism_without_the_capability_makes_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
