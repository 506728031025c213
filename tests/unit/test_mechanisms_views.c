/* Our host against `lazy` of the test plugin, and against the mechanisms that break its rules: ranges, shared prefixes, and
 * provider contexts. */
#include "core/backing.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/provider.h"
#include "core/shared.h"
#include "tests/unit/support/mechanism.h"

enum { GRANULE = 4096, PREFIX = 16 * 1024, BLOCK = 64 * 1024 };

static const struct nxm_shape whole = { BLOCK, 4096 };

/* --- ranges ------------------------------------------------------------------------------------------------------------- */

static struct nxm_block reserve(void)
{
    struct nxm_block block = { .bytes = BLOCK, .align = 4096, .class_ = NXM_CLASS_DEVICE };
    struct nxm_error error;

    if (nxm_backing_allocate(mechanism.allocator, &block, NULL, 0, &error) != NXM_OK)
        fail_msg("%s", error.text);
    return block;
}

static int commit(const struct nxm_block *block, uint64_t offset, uint64_t bytes)
{
    const NxmemByteRange range = { offset, bytes };
    struct nxm_error error;

    return nxm_backing_commit(mechanism.allocator, block->address, &whole, &range, &error);
}

static uint64_t committed(const struct nxm_block *block)
{
    return nxm_backing_committed(mechanism.allocator, block->address, &whole);
}

static void lazy_commits_decommits_and_says_what_is_mapped(void **state)
{
    const NxmemByteRange first = { 0, 8192 }, hundred = { 0, 100 };
    struct nxm_block block;
    struct nxm_error error;
    uint64_t number = 99;

    (void)state;
    mechanism_open("lazy");
    block = reserve();
    assert_int_equal(block.owned, 0);
    assert_int_equal(committed(&block), 0);
    assert_int_equal(commit(&block, 0, 8192), NXM_OK);
    assert_int_equal(committed(&block), 8192);
    assert_int_equal(nxm_backing_decommit(mechanism.allocator, block.address, &whole, &first, &number, &error), NXM_OK);
    assert_int_equal(number, 8192);
    assert_int_equal(committed(&block), 0);
    assert_int_equal(nxm_backing_cost_of_ranges(mechanism.allocator, block.address, &whole, &hundred, 1, &number, &error),
                     NXM_OK);
    assert_int_equal(number, GRANULE);
    assert_int_equal(nxm_backing_cost_of_block(mechanism.allocator, &whole, NULL, 0, &number, &error), NXM_OK);
    assert_int_equal(number, BLOCK);
    assert_int_equal(mechanism_release(&block).unmapped, 0);
}

static void no_span_that_wraps_reaches_the_plugin(void **state)
{
    static const NxmemByteRange bad[] = { { 0, BLOCK + 1 }, { BLOCK, 1 }, { 1, UINT64_MAX }, { UINT64_MAX, 1 } };
    struct nxm_block block;
    struct nxm_error error;
    uint64_t number;

    (void)state;
    mechanism_open("spans-unchecked");
    block = reserve();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(commit(&block, bad[i].offset, bad[i].bytes), NXM_EINVAL);
        assert_int_equal(nxm_backing_decommit(mechanism.allocator, block.address, &whole, &bad[i], &number, &error),
                         NXM_EINVAL);
        assert_int_equal(nxm_backing_cost_of_ranges(mechanism.allocator, block.address, &whole, &bad[i], 1, &number,
                                                    &error), NXM_EINVAL);
    }
    assert_int_equal(faulty_host_ask("BackingCalls"), 0);
}

static void a_decommit_is_credited_no_more_than_its_block(void **state)
{
    const NxmemByteRange first = { 0, 4096 };
    struct nxm_block block;
    struct nxm_error error;
    uint64_t number = 99;

    (void)state;
    mechanism_open("decommit-overclaims");
    block = reserve();
    assert_int_equal(nxm_backing_decommit(mechanism.allocator, block.address, &whole, &first, &number, &error), NXM_OK);
    assert_in_range(number, 0, BLOCK);
}

static void slots_that_are_not_there_are_unsupported(void **state)
{
    struct nxm_shared *shared = NULL;
    struct nxm_error error;
    struct nxm_block block = { .bytes = BLOCK, .align = 4096, .class_ = NXM_CLASS_DEVICE };

    (void)state;
    mechanism_open("backing-empty");
    assert_int_equal(nxm_backing_allocate(mechanism.allocator, &block, NULL, 0, &error), NXM_EUNSUPPORTED);
    mechanism_drop();
    mechanism_open("mapping-empty");
    assert_int_equal(nxm_shared_new(mechanism.allocator, PREFIX, &shared, &error), NXM_EUNSUPPORTED);
    assert_null(shared);
}

/* --- prefixes ----------------------------------------------------------------------------------------------------------- */

static struct nxm_shared *share(void)
{
    struct nxm_shared *shared = NULL;
    struct nxm_error error;

    if (nxm_shared_new(mechanism.allocator, PREFIX, &shared, &error) != NXM_OK)
        fail_msg("%s", error.text);
    return shared;
}

static struct nxm_block block_for_views(void)
{
    struct nxm_block block = { .bytes = BLOCK, .align = 4096, .class_ = NXM_CLASS_DEVICE };
    struct nxm_error error;

    assert_int_equal(nxm_allocator_allocate(mechanism.allocator, &block, NULL, NULL, &error), NXM_OK);
    return block;
}

static struct nxm_shared_commit map(const struct nxm_shared *shared, const struct nxm_block *block)
{
    struct nxm_shared_commit answer;
    struct nxm_error error;

    if (nxm_shared_commit(mechanism.allocator, shared, block->address, BLOCK, 0, &answer, &error) != NXM_OK)
        fail_msg("%s", error.text);
    return answer;
}

static uint64_t views(void)
{
    return gate_now().plugin.live_views;
}

static void a_prefix_is_costed_once(void **state)
{
    struct nxm_shared_commit answer;
    struct nxm_shared *shared;
    struct nxm_block block;
    struct nxm_error error;
    uint64_t owned = 99;

    (void)state;
    mechanism_open("lazy");
    shared = share();
    assert_int_equal(nxm_shared_cost(mechanism.allocator, shared, &owned, &error), NXM_OK);
    assert_int_equal(owned, 0);
    block = block_for_views();
    answer = map(shared, &block);
    assert_int_equal(answer.owned, 0);
    assert_int_equal(answer.mapped, PREFIX);
    assert_int_equal(answer.granules, 4);
    nxm_shared_unref(shared);
}

static void its_memory_outlives_handle_and_views_in_either_order(void **state)
{
    (void)state;
    mechanism_open("lazy");
    for (uint64_t handle_first = 0; handle_first <= 1; handle_first++) {
        struct nxm_shared *shared = share();
        struct nxm_block block = block_for_views();

        map(shared, &block);
        if (handle_first)
            nxm_shared_unref(shared);
        else
            mechanism_release(&block);
        assert_int_equal(testplugin_ask("PrefixBackingFrees"), handle_first);
        if (handle_first)
            mechanism_release(&block);
        else
            nxm_shared_unref(shared);
        assert_int_equal(testplugin_ask("PrefixBackingFrees"), handle_first + 1);
    }
}

static void a_committed_prefix_is_a_live_view_until_its_block_goes(void **state)
{
    struct nxm_shared *shared;
    struct nxm_block block;
    struct nxm_gate gate;

    (void)state;
    mechanism_open("lazy");
    shared = share();
    assert_int_equal(views(), 0);
    block = block_for_views();
    map(shared, &block);
    assert_int_equal(views(), 1);
    nxm_shared_unref(shared);
    assert_int_equal(views(), 1);
    assert_int_equal(nxm_module_unload(mechanism.module, &gate), NXM_EBUSY);
    assert_int_equal(gate.plugin.live_views, 1);
    mechanism_release(&block);
    assert_int_equal(views(), 0);
}

static void a_held_prefix_shuts_the_gate(void **state)
{
    struct nxm_shared *shared;
    struct nxm_gate gate;

    (void)state;
    mechanism_open("lazy");
    shared = share();
    mechanism_drop(); /* the prefix keeps the allocator */
    assert_int_equal(nxm_module_unload(mechanism.module, &gate), NXM_EBUSY);
    assert_true(gate.handle_kept);
    assert_int_equal(gate.plugin.live_capabilities, 1);
    nxm_shared_unref(shared);
    assert_int_equal(gate_now().reason, NXM_GATE_OPEN);
}

static void a_prefix_of_another_opening_is_neither_costed_nor_committed(void **state)
{
    struct nxm_allocator *other;
    struct nxm_shared_commit answer;
    struct nxm_shared *shared;
    struct nxm_block block;
    struct nxm_error error;
    uint64_t owned = 99;

    (void)state;
    mechanism_open("lazy");
    other = mechanism_open_beside("lazy");
    assert_int_not_equal(nxm_allocator_mechanism_id(mechanism.allocator), nxm_allocator_mechanism_id(other));
    assert_int_equal(nxm_shared_new(other, PREFIX, &shared, &error), NXM_OK);
    block = block_for_views();
    assert_int_equal(nxm_shared_cost(mechanism.allocator, shared, &owned, &error), NXM_EINVAL);
    assert_int_equal(nxm_shared_commit(mechanism.allocator, shared, block.address, BLOCK, 0, &answer, &error), NXM_EINVAL);
    assert_int_equal(views(), 0);
    nxm_shared_unref(shared);
    nxm_allocator_unref(other);
}

static void a_prefix_that_is_not_ours_is_given_back(void **state)
{
    static const char *const names[] = { "prefix-zero", "prefix-foreign", "prefix-elsewhere" };

    (void)state;
    for (uint64_t i = 0; i < 3; i++) {
        struct nxm_shared *shared = NULL;
        struct nxm_error error;

        mechanism_open(names[i]);
        assert_int_equal(nxm_shared_new(mechanism.allocator, PREFIX, &shared, &error), NXM_ECONTRACT);
        assert_null(shared);
        assert_int_equal(faulty_host_ask("PrefixReleases"), i); /* handle 0 names nothing */
        assert_int_equal(gate_now().plugin.live_capabilities, 0);
        mechanism_drop();
    }
}

/* --- provider contexts --------------------------------------------------------------------------------------------------- */

static struct nxm_provider *bind_provider(void)
{
    struct nxm_provider *provider;

    assert_int_equal(nxm_provider_new(&provider), NXM_OK);
    mechanism.options.pins = nxm_provider_source(provider);
    mechanism_open("lazy");
    return provider;
}

static void *wait_for_provider(void *provider)
{
    nxm_provider_wait(provider);
    return NULL;
}

static void a_queued_release_holds_the_end_of_its_context(void **state)
{
    struct nxm_provider *provider = bind_provider();
    struct nxm_block block = mechanism_allocate(100);
    pthread_t thread;

    (void)state;
    assert_int_equal(nxm_provider_pins(provider), 0);
    mechanism_enqueue(&block);
    assert_int_equal(nxm_provider_pins(provider), 1);
    nxm_provider_retire(provider);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_provider, provider), 0);
    assert_int_equal(nxm_provider_pins(provider), 1);
    assert_int_equal(nxm_allocator_drain(mechanism.allocator, 1), 1);
    pthread_join(thread, NULL); /* it ends, or the test does not */
    assert_int_equal(nxm_provider_pins(provider), 0);
    mechanism_drop();
    nxm_provider_unref(provider);
}

static void a_context_without_queued_releases_ends_at_once(void **state)
{
    struct nxm_provider *provider = bind_provider();
    struct nxm_block block = mechanism_allocate(100);

    (void)state;
    mechanism_release(&block);
    nxm_provider_retire(provider);
    nxm_provider_wait(provider);
    mechanism_drop();
    nxm_provider_unref(provider);
}

static void a_retiring_context_queues_no_more(void **state)
{
    struct nxm_provider *provider = bind_provider();
    struct nxm_block block = mechanism_allocate(100);
    struct nxm_release release;
    struct nxm_error error;

    (void)state;
    nxm_provider_retire(provider);
    assert_int_equal(nxm_allocator_enqueue(mechanism.allocator, block.address, block.id, NXM_BLOCK_LIVE, NULL, NULL, &release,
                                           &error), NXM_ERETIRED);
    assert_host_tallies(1, 1, 0);
    assert_int_equal(gate_now().plugin.queued_releases, 0); /* the plugin was not entered */
    assert_int_equal(mechanism_release(&block).outcome, NXM_RELEASE_COMPLETE);
    mechanism_drop();
    nxm_provider_unref(provider);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, mechanism_setup, mechanism_teardown)
#define TEST_FAULTY(name) cmocka_unit_test_setup_teardown(name, mechanism_setup_faulty, mechanism_teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(lazy_commits_decommits_and_says_what_is_mapped),
        TEST_FAULTY(no_span_that_wraps_reaches_the_plugin),
        TEST_FAULTY(a_decommit_is_credited_no_more_than_its_block),
        TEST_FAULTY(slots_that_are_not_there_are_unsupported),
        TEST(a_prefix_is_costed_once),
        TEST(its_memory_outlives_handle_and_views_in_either_order),
        TEST(a_committed_prefix_is_a_live_view_until_its_block_goes),
        TEST(a_held_prefix_shuts_the_gate),
        TEST(a_prefix_of_another_opening_is_neither_costed_nor_committed),
        TEST_FAULTY(a_prefix_that_is_not_ours_is_given_back),
        TEST(a_queued_release_holds_the_end_of_its_context),
        TEST(a_context_without_queued_releases_ends_at_once),
        TEST(a_retiring_context_queues_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
