/* include/nxmem_host.h over the fake plugin: what becomes of blocks, and what is mapped into them. */
#include "nxmem_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/host/api_fixture.h"
#include "tests/unit/support/fake.h"
#include "tests/unit/support/fake_map.h"

/* --- releases ------------------------------------------------------------------------------------------ */

static void a_release_tells_what_became_of_the_block(void **state)
{
    nxmem_host_block block = api_allocate(8192), other = api_allocate(8192);
    nxmem_host_release_result result;

    (void)state;
    fake.release = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_QUARANTINED, .unmapped = 4096, .residual = 4096 };
    assert_int_equal(api_release(&block, &result), NXMEM_HOST_OK);
    assert_int_equal(result.outcome, NXMEM_HOST_QUARANTINED);
    assert_int_equal(result.unmapped, 4096);
    assert_int_equal(result.retained, 4096);
    assert_int_equal(api_statistics().quarantined_blocks, 1);
    assert_int_equal(api_statistics().quarantined_bytes, 4096);
    assert_int_equal(api_release(&block, &result), NXMEM_HOST_UNKNOWN);
    assert_int_equal(result.outcome, NXMEM_HOST_FAILED);
    fake.release = (struct fake_answer){ .set = true, .status = NXMEM_STATUS_BUSY };
    assert_int_equal(api_release(&other, &result), NXMEM_HOST_CALL);
    assert_int_equal(result.outcome, NXMEM_HOST_FAILED);
    assert_int_equal(result.status, NXMEM_STATUS_BUSY);
    assert_string_equal(api.error.what, "release_allocation");
    assert_int_equal(api_statistics().live_blocks, 1);
    fake.release.set = false;
    assert_int_equal(nxmem_host_release(api.allocator, other.address, 8192, 256, NULL, NULL), NXMEM_HOST_OK);
}

static void a_drain_that_fails_says_how_far_it_came(void **state)
{
    nxmem_host_block first = api_allocate(64), second = api_allocate(64);
    nxmem_host_release_result result;
    uint64_t retired = 99;

    (void)state;
    assert_int_equal(api_enqueue(&first, &result), NXMEM_HOST_OK);
    assert_int_equal(api_enqueue(&second, &result), NXMEM_HOST_OK);
    fake.drain_budget = 1;
    fake.drain_status = NXMEM_STATUS_CALLBACK_FAILED;
    assert_int_equal(nxmem_host_drain(api.allocator, 5, &retired, &api.error), NXMEM_HOST_CALL);
    assert_int_equal(retired, 1);
    assert_string_equal(api.error.what, "drain_releases");
    assert_int_equal(fake.last_drain_budget, 5);
    fake.drain_status = 0;
    assert_int_equal(nxmem_host_drain(api.allocator, 5, NULL, NULL), NXMEM_HOST_OK);
    assert_int_equal(nxmem_host_pending(api.allocator), 0);
}

/* What a refused completion says on standard error, and with `less` does not. It is said once in a process: by no other test here. */
static void the_library_can_be_told_to_say_less(void **state)
{
    int file = memfd_create("said", 0), kept = dup(STDERR_FILENO);
    uint64_t id = nxmem_host_mechanism_id(api.allocator);
    off_t quiet;

    (void)state;
    assert_true(file >= 0 && kept >= 0);
    assert_true(dup2(file, STDERR_FILENO) >= 0);
    nxmem_host_say_less(1);
    fake_send(fake.last_callbacks, id, 4711, 1, NXMEM_RELEASE_COMPLETE);
    quiet = lseek(file, 0, SEEK_END);
    nxmem_host_say_less(0);
    fake_send(fake.last_callbacks, id, 4711, 1, NXMEM_RELEASE_COMPLETE);
    dup2(kept, STDERR_FILENO);
    assert_int_equal(quiet, 0);
    assert_true(lseek(file, 0, SEEK_END) > 0);
    close(file);
    close(kept);
}

static void a_duplicate_address_is_refused(void **state)
{
    nxmem_host_block block = api_allocate(64), other = NXMEM_HOST_SIZED(nxmem_host_block);

    (void)state;
    fake.next_address = block.address;
    assert_int_equal(nxmem_host_allocate(api.allocator, 64, 64, &other, &api.error), NXMEM_HOST_DUPLICATE);
    assert_int_equal(fake.structured, 1);
    assert_int_equal(api_statistics().live_blocks, 1);
}

/* What docs/plugin-abi.md says of overlaps: only one that a search of all blocks would find is not seen. */
static void overlaps_are_refused_where_they_show(void **state)
{
    nxmem_host_block block = api_allocate(8192), other = NXMEM_HOST_SIZED(nxmem_host_block);
    nxmem_host_release_result result;
    char *inside = (char *)block.address + 4096;

    (void)state;
    fake.next_address = inside;
    assert_int_equal(nxmem_host_allocate(api.allocator, 64, 64, &other, &api.error), NXMEM_HOST_OK);
    assert_int_equal(api_statistics().live_blocks, 2);
    assert_int_equal(api_release(&other, &result), NXMEM_HOST_OK);
    fake.release = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_QUARANTINED, .residual = 8192 };
    assert_int_equal(api_release(&block, &result), NXMEM_HOST_OK);
    fake.release.set = false;
    fake.next_address = inside;
    assert_int_equal(nxmem_host_allocate(api.allocator, 64, 64, &other, &api.error), NXMEM_HOST_DUPLICATE);
    assert_int_equal(api_statistics().live_blocks, 0);
}

static void statistics_add_up(void **state)
{
    nxmem_host_block block;

    (void)state;
    fake.owned = 4096;
    fake.mapped = 8192;
    block = api_allocate(100);
    assert_int_equal(block.owned, 4096);
    assert_int_equal(block.mapped, 8192);
    api_allocate(50);
    assert_int_equal(nxmem_host_release(api.allocator, block.address, 100, 256, NULL, NULL), NXMEM_HOST_OK);
    assert_int_equal(api_statistics().live_blocks, 1);
    assert_int_equal(api_statistics().live_bytes, 50);
    assert_int_equal(api_statistics().peak_bytes, 150);
    assert_int_equal(api_statistics().ever_blocks, 2);
    assert_int_equal(api_statistics().ever_bytes, 150);
    assert_int_equal(api_statistics().owned_bytes, 4096);
    assert_int_equal(api_statistics().mapped_bytes, 8192);
}

/* --- backing and prefixes ------------------------------------------------------------------------------ */

static void ranges_are_committed_one_after_the_other(void **state)
{
    const NxmemByteRange ranges[] = { { 0, 4096 }, { 8192, 4096 }, { API_BYTES, 1 }, { 4096, 1 } };
    nxmem_host_block block = NXMEM_HOST_SIZED(nxmem_host_block);
    uint64_t done = 99, number = 0;

    (void)state;
    assert_int_equal(nxmem_host_allocate_committed(api.allocator, API_BYTES, 256, NULL, 0, &block, &api.error), NXMEM_HOST_OK);
    assert_int_equal(nxmem_host_commit(api.allocator, block.address, API_BYTES, 256, ranges, 4, &done, &api.error), NXMEM_HOST_ARGUMENT);
    assert_int_equal(done, 2); /* those stay */
    assert_int_equal(nxmem_host_committed(api.allocator, block.address, API_BYTES, 256), 8192);
    assert_int_equal(nxmem_host_commit(api.allocator, block.address, API_BYTES, 256, NULL, 0, NULL, NULL), NXMEM_HOST_OK);
    assert_int_equal(nxmem_host_decommit(api.allocator, block.address, API_BYTES, 256, &ranges[0], &number, &api.error), NXMEM_HOST_OK);
    assert_int_equal(number, 4096);
    assert_int_equal(nxmem_host_decommit(api.allocator, block.address, API_BYTES, 256, &ranges[1], NULL, &api.error), NXMEM_HOST_OK);
    assert_int_equal(nxmem_host_committed(api.allocator, block.address, API_BYTES, 256), 0);
    assert_int_equal(nxmem_host_cost(api.allocator, block.address, API_BYTES, 256, ranges, 2, &number, &api.error), NXMEM_HOST_OK);
    assert_int_equal(number, 8192);
    assert_int_equal(nxmem_host_cost(api.allocator, NULL, API_BYTES, 256, ranges, 1, &number, &api.error), NXMEM_HOST_OK);
    assert_int_equal(number, 4096);
    assert_int_equal(nxmem_host_cost(api.allocator, block.address, API_BYTES, 256, &ranges[2], 1, &number, &api.error), NXMEM_HOST_ARGUMENT);
}

static void a_prefix_is_shared_and_counted(void **state)
{
    nxmem_host_prefix_facts facts = NXMEM_HOST_SIZED(nxmem_host_prefix_facts);
    nxmem_host_view view = NXMEM_HOST_SIZED(nxmem_host_view);
    nxmem_host_block block = api_allocate(API_BYTES);
    nxmem_host_prefix *prefix;
    uint64_t owned = 55;

    (void)state;
    fake_map.view_mapped = 8192;
    assert_int_equal(nxmem_host_prefix_new(api.allocator, 8192, &prefix, &api.error), NXMEM_HOST_OK);
    nxmem_host_prefix_facts_of(prefix, &facts);
    assert_int_equal(facts.bytes, 8192);
    assert_int_equal(facts.committed_bytes, 8192);
    assert_int_equal(facts.device_address, 0x5000);
    assert_int_equal(nxmem_host_prefix_cost(api.allocator, prefix, &owned, &api.error), NXMEM_HOST_OK);
    assert_int_equal(owned, 0);
    assert_int_equal(nxmem_host_prefix_commit(api.allocator, prefix, block.address, API_BYTES, API_BYTES, &view, &api.error), NXMEM_HOST_ARGUMENT);
    assert_int_equal(nxmem_host_prefix_commit(api.allocator, prefix, block.address, API_BYTES, 0, &view, &api.error), NXMEM_HOST_OK);
    assert_int_equal(view.mapped, 8192);
    assert_int_equal(view.granules, 2);
    assert_int_equal(nxmem_host_prefix_commit(api.allocator, prefix, block.address, API_BYTES, 0, NULL, NULL), NXMEM_HOST_OK);
    assert_int_equal(api_statistics().views, 2);
    assert_int_equal(api_statistics().view_mapped_bytes, 16384);
    nxmem_host_prefix_free(prefix);
    assert_int_equal(api_statistics().views, 2);
    nxmem_host_prefix_free(NULL);
}

static void what_a_mechanism_has_not_is_unsupported(void **state)
{
    nxmem_host_block block = NXMEM_HOST_SIZED(nxmem_host_block);
    nxmem_host_release_result result;
    nxmem_host_prefix *prefix;

    (void)state;
    fake.extra_flags = 0;
    api_open();
    assert_int_equal(nxmem_host_allocate_committed(api.allocator, 64, 64, NULL, 0, &block, &api.error), NXMEM_HOST_UNSUPPORTED);
    assert_int_equal(nxmem_host_prefix_new(api.allocator, 64, &prefix, &api.error), NXMEM_HOST_UNSUPPORTED);
    block = api_allocate(64);
    assert_int_equal(api_enqueue(&block, &result), NXMEM_HOST_UNSUPPORTED);
    assert_int_equal(result.outcome, NXMEM_HOST_FAILED);
    assert_int_equal(nxmem_host_pending(api.allocator), 0);
}

#define PLAIN(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)
#define OPEN(name) cmocka_unit_test_setup_teardown(name, api_setup_open, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPEN(a_release_tells_what_became_of_the_block),
        OPEN(a_drain_that_fails_says_how_far_it_came),
        OPEN(the_library_can_be_told_to_say_less),
        OPEN(a_duplicate_address_is_refused),
        OPEN(overlaps_are_refused_where_they_show),
        OPEN(statistics_add_up),
        OPEN(ranges_are_committed_one_after_the_other),
        OPEN(a_prefix_is_shared_and_counted),
        PLAIN(what_a_mechanism_has_not_is_unsupported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
