/* core/blocks by many threads: addresses that are recycled, and growth under a reader. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/blocks.h"
#include "core/result.h"

#define BASE UINT64_C(0x7f0000000000)

static int table_new(void **state)
{
    return nxm_blocks_new((struct nxm_blocks **)state);
}

static int table_free(void **state)
{
    nxm_blocks_free(*state);
    return 0;
}

static struct nxm_block make(uint64_t address, uint64_t bytes)
{
    return (struct nxm_block){ .address = address, .bytes = bytes, .id = nxm_block_next_id(), .device = 0,
                               .class_ = NXM_CLASS_DEVICE, .state = NXM_BLOCK_LIVE };
}

static struct nxm_class_totals totals_of(struct nxm_blocks *table, enum nxm_class class_)
{
    struct nxm_class_totals totals;

    nxm_blocks_totals(table, class_, &totals);
    return totals;
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

#define THREADS 4
#define ROUNDS 8000u
#define CONTESTED 24u
#define IDS (THREADS * ROUNDS * 2u + 1)

static struct {
    struct nxm_blocks *table;
    atomic_uchar born[IDS], ended[IDS]; /* by their ids */
    atomic_ulong made, inserted, won;
} contest;

static struct nxm_block contestant(uint64_t address)
{
    struct nxm_block block = make(address, 64);

    block.id = atomic_fetch_add(&contest.made, 1) + 1;
    assert_true(block.id < IDS);
    return block;
}

/* One winner ends each id; sometimes it removes late, after somebody else reused the address. */
static void contest_end(uint64_t address, uint64_t *seed)
{
    struct nxm_block met;

    if (nxm_blocks_claim(contest.table, address, 0, NXM_BLOCK_LIVE | NXM_BLOCK_WAITING, NXM_BLOCK_RELEASING, &met) != NXM_OK)
        return;
    atomic_fetch_add(&contest.won, 1);
    assert_int_equal(atomic_fetch_add(&contest.ended[met.id], 1), 0);
    if (next_random(seed) % 4 == 0) {
        struct nxm_block again = contestant(address);

        if (nxm_blocks_insert(contest.table, &again) == NXM_OK) {
            atomic_fetch_add(&contest.born[again.id], 1);
            atomic_fetch_add(&contest.inserted, 1);
        }
    }
    (void)nxm_blocks_remove(contest.table, address, met.id);
}

static void *contest_run(void *argument)
{
    uint64_t seed = (uintptr_t)argument * UINT64_C(0x9E3779B97F4A7C15) + 1;

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t address = BASE + next_random(&seed) % CONTESTED * 512;
        struct nxm_block block = contestant(address), met;

        switch (next_random(&seed) % 4) {
        case 0:
            contest_end(address, &seed);
            break;
        case 1:
            (void)nxm_blocks_claim(contest.table, address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, &met);
            break;
        case 2:
            if (nxm_blocks_containing(contest.table, address + 32, &met) == NXM_OK)
                assert_int_equal(met.address, address);
            break;
        default:
            if (nxm_blocks_insert(contest.table, &block) == NXM_OK) {
                atomic_fetch_add(&contest.born[block.id], 1);
                atomic_fetch_add(&contest.inserted, 1);
            }
            break;
        }
    }
    return NULL;
}

static bool visit_survivor(void *argument, const struct nxm_block *block)
{
    (void)argument;
    assert_int_not_equal(block->state, NXM_BLOCK_RELEASING);
    assert_int_equal(atomic_load(&contest.ended[block->id]), 0);
    atomic_store(&contest.ended[block->id], 1);
    return true;
}

static void threads_that_recycle_addresses_have_one_winner_and_lose_no_record(void **state)
{
    pthread_t threads[THREADS];

    memset(&contest, 0, sizeof contest);
    contest.table = *state;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, contest_run, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(atomic_load(&contest.won) > 0);
    assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).live_blocks, contest.inserted - contest.won);
    assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).live_bytes, (contest.inserted - contest.won) * 64);
    nxm_blocks_each(*state, visit_survivor, NULL);
    for (size_t i = 0; i < IDS; i++)
        assert_int_equal(atomic_load(&contest.born[i]), atomic_load(&contest.ended[i]));
}

static struct {
    struct nxm_blocks *table;
    atomic_bool stop;
} reading;

static void *look_for_the_lasting(void *unused)
{
    struct nxm_block found;

    while (!atomic_load(&reading.stop)) {
        for (uint64_t i = 0; i < 16; i++) {
            assert_int_equal(nxm_blocks_find(reading.table, BASE + i * 512, &found), NXM_OK);
            assert_int_equal(nxm_blocks_containing(reading.table, BASE + i * 512 + 100, &found), NXM_OK);
            assert_int_equal(found.address, BASE + i * 512);
        }
    }
    return unused;
}

static void lasting_blocks_stay_findable_while_the_table_grows(void **state)
{
    pthread_t reader;

    reading.table = *state;
    atomic_store(&reading.stop, false);
    for (uint64_t i = 0; i < 16; i++) {
        struct nxm_block block = make(BASE + i * 512, 512);

        assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
    }
    assert_int_equal(pthread_create(&reader, NULL, look_for_the_lasting, NULL), 0);
    for (uint64_t i = 16; i < 80000; i++) {
        struct nxm_block block = make(BASE + i * 512, 1);

        assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
    }
    atomic_store(&reading.stop, true);
    assert_int_equal(pthread_join(reader, NULL), 0);
}

/* A block of which every field says the same number. */
static struct nxm_block uniform(uint64_t address, uint64_t number)
{
    return (struct nxm_block){ .address = address, .bytes = 64 + number % 2 * 448, .align = number, .id = nxm_block_next_id(),
                               .allocator = (void *)(uintptr_t)number, .context = number, .owned = number, .mapped = number, .tag = number,
                               .stack = (uint32_t)number, .device = (int32_t)number, .api = (uint16_t)number, .flags = (uint32_t)number,
                               .class_ = NXM_CLASS_DEVICE, .state = NXM_BLOCK_LIVE };
}

static bool is_uniform(const struct nxm_block *block)
{
    uint64_t number = block->tag;

    return block->align == number && (uintptr_t)block->allocator == number && block->context == number && block->owned == number &&
           block->mapped == number && block->stack == number && block->device == (int32_t)number && block->api == (uint16_t)number &&
           block->flags == number && block->bytes == 64 + number % 2 * 448 && block->id != 0;
}

static atomic_ulong seen;

static void *look_for_torn_ones(void *unused)
{
    struct nxm_block found;

    while (!atomic_load(&reading.stop)) {
        for (uint64_t i = 0; i < 4; i++) {
            if (nxm_blocks_find(reading.table, BASE + i * 512, &found) == NXM_OK) {
                assert_true(found.address == BASE + i * 512 && is_uniform(&found));
                atomic_fetch_add(&seen, 1);
            }
            if (nxm_blocks_containing(reading.table, BASE + i * 512 + 63, &found) == NXM_OK)
                assert_true(found.address == BASE + i * 512 && is_uniform(&found));
        }
    }
    return unused;
}

/* The records are used for other addresses at once, and their chains grow and go. */
static void what_is_read_while_addresses_are_recycled_was_there_as_a_whole(void **state)
{
    pthread_t readers[2];

    reading.table = *state;
    atomic_store(&reading.stop, false);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, look_for_torn_ones, NULL), 0);
    for (uint64_t i = 1; i < 60000 || (atomic_load(&seen) < 1000 && i < 10000000); i++) {
        struct nxm_block block = uniform(BASE + i % 4 * 512, i), other = uniform(BASE + (UINT64_C(1) << 30) + i % 8000 * 512, i);

        assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
        if (i % 3 == 0)
            assert_int_equal(nxm_blocks_claim(*state, block.address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, NULL), NXM_OK);
        assert_int_equal(nxm_blocks_remove(*state, block.address, block.id), NXM_OK);
        (void)nxm_blocks_insert(*state, &other);
    }
    atomic_store(&reading.stop, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    assert_true(atomic_load(&seen) >= 1000);
}

static void *take_and_give(void *argument)
{
    uint64_t address = BASE + (uint64_t)(uintptr_t)argument * 4096;

    for (int i = 0; i < 20000; i++) {
        struct nxm_block block = make(address, 1000);

        assert_int_equal(nxm_blocks_insert(reading.table, &block), NXM_OK);
        assert_int_equal(nxm_blocks_remove(reading.table, address, block.id), NXM_OK);
    }
    return NULL;
}

static void the_peak_of_several_threads_is_never_too_low_and_bounded(void **state)
{
    pthread_t threads[4];
    struct nxm_block all = make(BASE + (1 << 20), 5000);

    reading.table = *state;
    assert_int_equal(nxm_blocks_insert(*state, &all), NXM_OK);
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).peak_bytes, 5000 + 4 * 1000); /* each had its block once */
    assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).live_bytes, 5000);
    assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).ever_blocks, 4 * 20000 + 1);
}

static void *take_much_and_give_it_all(void *unused)
{
    struct nxm_block blocks[64];

    for (uint64_t i = 0; i < 64; i++) {
        blocks[i] = make(BASE + (i << 24), UINT64_C(4) << 20);
        assert_int_equal(nxm_blocks_insert(reading.table, &blocks[i]), NXM_OK);
    }
    for (uint64_t i = 0; i < 64; i++)
        assert_int_equal(nxm_blocks_remove(reading.table, blocks[i].address, blocks[i].id), NXM_OK);
    return unused;
}

static void what_a_thread_keeps_of_the_peak_is_bounded(void **state)
{
    uint64_t all = UINT64_C(256) << 20, peak;
    pthread_t thread;

    reading.table = *state;
    for (int i = 0; i < 4; i++) { /* one after the other: it was never more than `all` at once */
        assert_int_equal(pthread_create(&thread, NULL, take_much_and_give_it_all, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    peak = totals_of(*state, NXM_CLASS_DEVICE).peak_bytes;
    assert_true(peak >= all && peak <= all + 3 * all / 64);
}

#define with_table(test) cmocka_unit_test_setup_teardown(test, table_new, table_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_table(threads_that_recycle_addresses_have_one_winner_and_lose_no_record),
        with_table(what_is_read_while_addresses_are_recycled_was_there_as_a_whole),
        with_table(the_peak_of_several_threads_is_never_too_low_and_bounded),
        with_table(what_a_thread_keeps_of_the_peak_is_bounded),
        with_table(lasting_blocks_stay_findable_while_the_table_grows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
