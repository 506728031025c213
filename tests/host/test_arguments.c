/* include/nxmem_host.h: structs of another size than this library's, and pointers that are not there. */
#include "nxmem_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/host/api_fixture.h"
#include "tests/unit/support/fake.h"
#include "tests/unit/support/fake_map.h"

/* --- structs that grow --------------------------------------------------------------------------------- */

static void a_struct_of_tomorrow_keeps_what_we_do_not_know(void **state)
{
    struct {
        nxmem_host_block today;
        uint64_t tomorrow;
    } block = { .today = { .struct_size = sizeof block }, .tomorrow = 55 };

    (void)state;
    assert_int_equal(nxmem_host_allocate(api.allocator, 64, 256, &block.today, &api.error), NXMEM_HOST_OK);
    assert_int_equal(block.today.struct_size, sizeof block);
    assert_int_equal(block.today.bytes, 64);
    assert_int_equal(block.tomorrow, 55);
}

/* Exact allocations: one byte beyond what the caller has is seen by a sanitizer. */
static void a_struct_that_is_too_small_is_left_alone(void **state)
{
    uint32_t *four = malloc(sizeof *four);

    (void)state;
    *four = sizeof *four;
    assert_int_equal(nxmem_host_allocate(api.allocator, 64, 256, (void *)four, (void *)four), NXMEM_HOST_ARGUMENT);
    assert_int_equal(fake.allocates, 0);
    assert_int_equal(nxmem_host_mechanism_at(api.plugin, 0, (void *)four), NXMEM_HOST_ARGUMENT);
    nxmem_host_statistics_of(api.allocator, (void *)four);
    nxmem_host_counters_now((void *)four);
    nxmem_host_ask(api.plugin, (void *)four);
    assert_int_equal(*four, sizeof *four);
    free(four);
}

static void a_struct_that_nobody_sized_is_left_alone(void **state)
{
    const uint32_t sizes[] = { 0, 3, 4, 63, 127 };
    unsigned char *bytes = malloc(127), *before = malloc(127);

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memset(bytes, 0xAB, 127);
        memcpy(bytes, &sizes[i], sizeof sizes[i]);
        memcpy(before, bytes, 127);
        nxmem_host_statistics_of(api.allocator, (void *)bytes);
        assert_memory_equal(bytes, before, 127);
    }
    free(bytes);
    free(before);
}

static void options_are_judged_by_their_size(void **state)
{
    struct {
        nxmem_host_options today;
        uint64_t tomorrow;
    } grown = { .today = { .struct_size = sizeof grown } };
    nxmem_host_allocator *other = NULL;

    (void)state;
    api.options.struct_size -= 8;
    assert_int_equal(nxmem_host_open(api.plugin, 0, &api.options, &other, &api.error), NXMEM_HOST_ARGUMENT);
    grown.tomorrow = 1; /* a wish that this library knows nothing of */
    assert_int_equal(nxmem_host_open(api.plugin, 0, &grown.today, &other, &api.error), NXMEM_HOST_ARGUMENT);
    assert_int_equal(fake.opens, 0);
    grown.tomorrow = 0;
    assert_int_equal(nxmem_host_open(api.plugin, 0, &grown.today, &other, &api.error), NXMEM_HOST_OK);
    nxmem_host_close(other);
}

/* --- places that are not there ------------------------------------------------------------------------- */

static nxmem_host_block block; /* a live one, of API_BYTES */
static nxmem_host_prefix *prefix;
static const NxmemByteRange range = { 0, 4096 };

static int load(void) { return nxmem_host_load(API_PLUGIN, NULL, NULL, NULL); }
static int load_without_a_path(void) { return nxmem_host_load(NULL, NULL, NULL, NULL); }
static int mechanism_at(void) { return nxmem_host_mechanism_at(api.plugin, 0, NULL); }
static int find(void) { return nxmem_host_find(api.plugin, NULL, NULL, NULL, NULL); }
static int provider_new(void) { return nxmem_host_provider_new(NULL, NULL); }
static int open_one(void) { return nxmem_host_open(api.plugin, 0, NULL, NULL, NULL); }
static int allocate(void) { return nxmem_host_allocate(api.allocator, 64, 64, NULL, NULL); }
static int allocate_committed(void) { return nxmem_host_allocate_committed(api.allocator, 64, 64, NULL, 0, NULL, NULL); }
static int prefix_new(void) { return nxmem_host_prefix_new(api.allocator, 64, NULL, NULL); }
static int prefix_cost(void) { return nxmem_host_prefix_cost(api.allocator, prefix, NULL, NULL); }
static int cost(void) { return nxmem_host_cost(api.allocator, block.address, API_BYTES, 256, &range, 1, NULL, NULL); }
static int cost_of_none(void) { return nxmem_host_cost(api.allocator, NULL, 64, 64, NULL, 0, NULL, NULL); }

static int allocate_with_lost_ranges(void)
{
    nxmem_host_block other = NXMEM_HOST_SIZED(nxmem_host_block);

    return nxmem_host_allocate_committed(api.allocator, API_BYTES, 256, NULL, 1, &other, NULL);
}

static int cost_of_lost_ranges(void)
{
    uint64_t number;

    return nxmem_host_cost(api.allocator, NULL, API_BYTES, 256, NULL, 1, &number, NULL);
}

static int commit_lost_ranges(void)
{
    uint64_t done = 99;
    int result = nxmem_host_commit(api.allocator, block.address, API_BYTES, 256, NULL, 1, &done, NULL);

    assert_int_equal(done, 0);
    return result;
}

static int decommit_a_lost_range(void)
{
    return nxmem_host_decommit(api.allocator, block.address, API_BYTES, 256, NULL, NULL, NULL);
}

static int statistics_of(void) { nxmem_host_statistics_of(api.allocator, NULL); return 0; }
static int prefix_facts_of(void) { nxmem_host_prefix_facts_of(prefix, NULL); return 0; }
static int ask(void) { nxmem_host_ask(api.plugin, NULL); return 0; }
static int counters_now(void) { nxmem_host_counters_now(NULL); return 0; }
static int symbol(void) { return nxmem_host_symbol(api.plugin, NULL) != NULL; }
static int commit(void) { return nxmem_host_commit(api.allocator, block.address, API_BYTES, 256, &range, 1, NULL, NULL); }
static int decommit(void) { return nxmem_host_decommit(api.allocator, block.address, API_BYTES, 256, &range, NULL, NULL); }
static int prefix_commit(void) { return nxmem_host_prefix_commit(api.allocator, prefix, block.address, API_BYTES, 0, NULL, NULL); }
static int unload(void) { return nxmem_host_unload(&api.plugin, NULL, NULL) == NXMEM_HOST_BUSY ? 0 : 99; }
static int drain(void) { return nxmem_host_drain(api.allocator, 1, NULL, NULL); }

static int release(void)
{
    nxmem_host_block other = api_allocate(64);

    return nxmem_host_release(api.allocator, other.address, 64, 256, NULL, NULL);
}

static int enqueue(void)
{
    nxmem_host_block other = api_allocate(64);

    return nxmem_host_enqueue(api.allocator, other.address, 64, 256, NULL, NULL);
}

/* One row for each function that has an output (test_library.sh wants none missing): refused before the plugin hears of it, or
 * done as if the output had been there. */
static const struct row {
    const char *name;
    int (*call)(void);
    int expected;
} rows[] = {
#define ROW(function, call, expected) { #function ": " #call, call, NXMEM_HOST_##expected }
    ROW(nxmem_host_load, load, ARGUMENT),
    ROW(nxmem_host_load, load_without_a_path, ARGUMENT),
    ROW(nxmem_host_mechanism_at, mechanism_at, ARGUMENT),
    ROW(nxmem_host_find, find, ARGUMENT),
    ROW(nxmem_host_provider_new, provider_new, ARGUMENT),
    ROW(nxmem_host_open, open_one, ARGUMENT),
    ROW(nxmem_host_allocate, allocate, ARGUMENT),
    ROW(nxmem_host_allocate_committed, allocate_committed, ARGUMENT),
    ROW(nxmem_host_allocate_committed, allocate_with_lost_ranges, ARGUMENT),
    ROW(nxmem_host_commit, commit_lost_ranges, ARGUMENT),
    ROW(nxmem_host_decommit, decommit_a_lost_range, ARGUMENT),
    ROW(nxmem_host_cost, cost, ARGUMENT),
    ROW(nxmem_host_cost, cost_of_none, ARGUMENT),
    ROW(nxmem_host_cost, cost_of_lost_ranges, ARGUMENT),
    ROW(nxmem_host_prefix_new, prefix_new, ARGUMENT),
    ROW(nxmem_host_prefix_cost, prefix_cost, ARGUMENT),
    ROW(nxmem_host_symbol, symbol, OK),
    ROW(nxmem_host_statistics_of, statistics_of, OK),
    ROW(nxmem_host_prefix_facts_of, prefix_facts_of, OK),
    ROW(nxmem_host_ask, ask, OK),
    ROW(nxmem_host_counters_now, counters_now, OK),
    ROW(nxmem_host_commit, commit, OK),
    ROW(nxmem_host_prefix_commit, prefix_commit, OK),
    ROW(nxmem_host_decommit, decommit, OK),
    ROW(nxmem_host_release, release, OK),
    ROW(nxmem_host_enqueue, enqueue, OK),
    ROW(nxmem_host_drain, drain, OK),
    ROW(nxmem_host_unload, unload, OK),
};

/* Calls that the plugin has seen. */
static uint64_t heard(void)
{
    return fake.opens + fake.allocates + fake.deallocates + fake.structured + fake.enqueues + fake.drains + fake_map.commits +
           fake_map.decommits + fake_map.costs + fake_map.prefix_creates + fake_map.prefix_commits + fake_map.prefix_costs;
}

static void a_place_that_is_not_there_is_refused_or_not_missed(void **state)
{
    (void)state;
    block = NXMEM_HOST_SIZED(nxmem_host_block);
    assert_int_equal(nxmem_host_allocate_committed(api.allocator, API_BYTES, 256, NULL, 0, &block, &api.error), NXMEM_HOST_OK);
    assert_int_equal(nxmem_host_prefix_new(api.allocator, 4096, &prefix, &api.error), NXMEM_HOST_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t before = heard();
        int result = rows[i].call();

        if (result != rows[i].expected)
            fail_msg("%s: %s", rows[i].name, nxmem_host_class_name((uint32_t)result));
        if (result != NXMEM_HOST_OK && heard() != before)
            fail_msg("%s: the plugin was asked", rows[i].name);
    }
    nxmem_host_prefix_free(prefix);
}

#define PLAIN(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)
#define OPEN(name) cmocka_unit_test_setup_teardown(name, api_setup_open, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPEN(a_struct_of_tomorrow_keeps_what_we_do_not_know),
        OPEN(a_struct_that_is_too_small_is_left_alone),
        OPEN(a_struct_that_nobody_sized_is_left_alone),
        PLAIN(options_are_judged_by_their_size),
        OPEN(a_place_that_is_not_there_is_refused_or_not_missed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
