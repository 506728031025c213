/* core/allocator.c, accounts.c: releasing a block now, from one thread and from many. The teardown of every test wants
 * the module to unload, so a tally that does not come back to zero fails it. */
#include "core/allocator.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

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

/* --- release ------------------------------------------------------------------------------------- */

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
    assert_int_equal(
        nxm_allocator_release(host.allocator, (uint64_t)(uintptr_t)&local, 0, NXM_BLOCK_LIVE, &release, NULL),
        NXM_ENOENT);
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
    assert_int_equal(nxm_allocator_release(host.allocator, block.address, block.id + 1, NXM_BLOCK_LIVE, &release, NULL),
                     NXM_ENOENT);
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
    assert_int_equal(nxm_allocator_release(host.allocator, block.address, block.id, NXM_BLOCK_WAITING, &release, NULL),
                     NXM_OK);
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
    assert_int_equal(nxm_allocator_release(host.allocator, block.address, 0, NXM_BLOCK_LIVE, &release, &error),
                     NXM_ECALL);
    assert_int_equal(error.status, NXMEM_STATUS_BUSY);
    fake.release = (struct fake_answer){ .set = true, .status = NXMEM_STATUS_OUT_OF_MEMORY };
    assert_int_equal(nxm_allocator_release(host.allocator, block.address, 0, NXM_BLOCK_LIVE, &release, &error),
                     NXM_ECALL);
    assert_int_equal(error.code, NXM_ECALL);
    assert_int_equal(nxm_blocks_find(host.blocks, block.address, &found), NXM_OK);
    assert_memory_equal(&found, &block, sizeof block); /* exactly as it was */
    assert_int_equal(host_tallies().allocations, 1);
    fake.release.set = false;
    assert_int_equal(host_release(&block, &release), NXM_OK);
}

static void assert_quarantined(const struct nxm_block *block, const struct nxm_release *release, uint64_t unmapped,
                               uint64_t retained)
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
    fake.release =
        (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_QUARANTINED, .unmapped = 4096, .residual = 4096 };
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

/* --- threads ------------------------------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS 500

static void *churn(void *argument)
{
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        struct nxm_block block = { .bytes = 64, .align = 64 };
        struct nxm_release release;

        if (nxm_allocator_allocate(host.allocator, &block, NULL, NULL, NULL) != NXM_OK ||
            host_release(&block, &release) != NXM_OK)
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
        TEST(threads_allocate_and_release_side_by_side),
        TEST(a_concurrent_double_release_has_one_winner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
