/* core/blocks: the live-block table against a plain array and against planned failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/blocks.h"
#include "core/blocks_quiet.h"
#include "core/mem.h"
#include "core/result.h"
#include "core/shard.h"

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

static void a_found_record_is_the_inserted_one_in_every_field(void **state)
{
    struct nxm_block block = { .address = BASE, .bytes = 300, .align = 512, .id = nxm_block_next_id(), .context = 5, .tag = 6,
                               .stack = 7, .device = 1, .api = 9, .class_ = NXM_CLASS_POOL, .state = NXM_BLOCK_WAITING, .flags = 11 };
    struct nxm_block found;

    assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
    assert_int_equal(nxm_blocks_find(*state, BASE, &found), NXM_OK);
    assert_memory_equal(&found, &block, sizeof block);
}

static void find_is_exact_and_containing_is_not(void **state)
{
    struct nxm_block block = make(BASE, 4096), found = { .id = 99 };

    assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
    assert_int_equal(nxm_blocks_find(*state, BASE + 1, &found), NXM_ENOENT);
    assert_int_equal(found.id, 99);
    assert_int_equal(nxm_blocks_containing(*state, BASE, &found), NXM_OK);
    assert_int_equal(nxm_blocks_containing(*state, BASE + 4095, &found), NXM_OK);
    assert_int_equal(found.id, block.id);
    found.id = 99;
    assert_int_equal(nxm_blocks_containing(*state, BASE + 4096, &found), NXM_ENOENT);
    assert_int_equal(nxm_blocks_containing(*state, BASE - 1, &found), NXM_ENOENT);
    assert_int_equal(found.id, 99);
}

static void of_nested_blocks_the_innermost_contains(void **state)
{
    struct nxm_block outer = make(BASE, 1 << 20), inner = make(BASE + 4096, 4096), found;

    assert_int_equal(nxm_blocks_insert(*state, &outer), NXM_OK);
    assert_int_equal(nxm_blocks_insert(*state, &inner), NXM_OK);
    assert_int_equal(nxm_blocks_containing(*state, BASE + 5000, &found), NXM_OK);
    assert_int_equal(found.id, inner.id);
    assert_int_equal(nxm_blocks_containing(*state, BASE + 9000, &found), NXM_OK);
    assert_int_equal(found.id, outer.id);
}

static void of_blocks_that_start_close_together_the_last_contains(void **state)
{
    struct nxm_block blocks[5], found;

    for (unsigned i = 0; i < 5; i++) { /* not in their order */
        blocks[i] = make(BASE + i * 2 % 5 * 16, 256);
        assert_int_equal(nxm_blocks_insert(*state, &blocks[i]), NXM_OK);
    }
    for (uint64_t at = 0; at < 64; at++) {
        assert_int_equal(nxm_blocks_containing(*state, BASE + at, &found), NXM_OK);
        assert_int_equal(found.address, BASE + at / 16 * 16);
    }
    assert_int_equal(nxm_blocks_containing(*state, BASE + 300, &found), NXM_OK);
    assert_int_equal(found.address, BASE + 64);
    assert_int_equal(nxm_blocks_containing(*state, BASE + 320, &found), NXM_ENOENT);
}

/* From one byte to half of all there is, each found from every distance; and nobody finds them when they are gone. */
static void a_block_of_any_size_is_found_from_its_last_byte(void **state)
{
    for (unsigned bits = 0; bits < 47; bits++) {
        struct nxm_block block = make(BASE - (UINT64_C(1) << bits), UINT64_C(1) << bits), found;

        assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
        for (unsigned i = 0; i <= bits; i++) {
            assert_int_equal(nxm_blocks_containing(*state, BASE - (UINT64_C(1) << i), &found), NXM_OK);
            assert_int_equal(found.id, block.id);
        }
        assert_int_equal(nxm_blocks_containing(*state, BASE - 1, &found), NXM_OK);
        assert_int_equal(nxm_blocks_containing(*state, BASE, &found), NXM_ENOENT);
        assert_int_equal(nxm_blocks_remove(*state, block.address, block.id), NXM_OK);
        assert_int_equal(nxm_blocks_containing(*state, BASE - 1, &found), NXM_ENOENT);
        assert_int_equal(nxm_blocks_containing(*state, BASE - 1, &found), NXM_ENOENT); /* the second time there is no trace of it */
    }
}

static void a_block_that_comes_back_larger_is_found_in_all_of_it(void **state)
{
    struct nxm_block block = make(BASE, 100), credit = make(BASE + (UINT64_C(1) << 40), 1 << 19), found;

    assert_int_equal(nxm_blocks_insert(*state, &credit), NXM_OK); /* the peak is not at stake while they are small */
    assert_int_equal(nxm_blocks_remove(*state, credit.address, credit.id), NXM_OK);
    for (int i = 0; i < 30; i++) {
        block.id = nxm_block_next_id();
        assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
        assert_int_equal(nxm_blocks_containing(*state, BASE + block.bytes - 1, &found), NXM_OK);
        assert_int_equal(nxm_blocks_remove(*state, BASE, block.id), NXM_OK);
        if (i % 3 == 0) /* in between, somebody sees that nothing is there */
            assert_int_equal(nxm_blocks_containing(*state, BASE + block.bytes - 1, &found), NXM_ENOENT);
        block.bytes *= 2;
    }
}

/* The next address from there whose record lies in one certain shard. */
static uint64_t of_one_shard(uint64_t address)
{
    while (nxm_shard_hash(address) >> 54 != 7)
        address += 1024;
    return address;
}

static void insert_and_find_inside(struct nxm_blocks *table, const struct nxm_block *block)
{
    struct nxm_block found;

    assert_int_equal(nxm_blocks_insert(table, block), NXM_OK);
    assert_int_equal(nxm_blocks_containing(table, block->address + block->bytes - 1, &found), NXM_OK);
    assert_int_equal(found.id, block->id);
}

static void a_start_that_was_forgotten_is_noted_again_when_its_block_comes_back(void **state)
{
    struct nxm_block first = make(of_one_shard(BASE), 100), second = make(of_one_shard(first.address + 1024), 100), found;

    insert_and_find_inside(*state, &first);
    insert_and_find_inside(*state, &second);
    assert_int_equal(nxm_blocks_remove(*state, first.address, first.id), NXM_OK);
    assert_int_equal(nxm_blocks_remove(*state, second.address, second.id), NXM_OK);
    assert_int_equal(nxm_blocks_containing(*state, first.address + 50, &found), NXM_ENOENT);
    assert_int_equal(nxm_blocks_containing(*state, second.address + 50, &found), NXM_ENOENT);
    insert_and_find_inside(*state, &second);
    insert_and_find_inside(*state, &first);
}

static void blocks_of_one_chain_are_told_apart(void **state)
{
    struct nxm_block first = make(of_one_shard(BASE), 100), second = make(first.address + 1024, 100), found;

    while (nxm_shard_hash(second.address) >> 48 != nxm_shard_hash(first.address) >> 48) /* of 64 chains, too, the same */
        second.address += 1024;
    insert_and_find_inside(*state, &first);
    insert_and_find_inside(*state, &second);
    assert_int_equal(nxm_blocks_containing(*state, first.address + 50, &found), NXM_OK);
    assert_int_equal(found.id, first.id);
    assert_int_equal(nxm_blocks_remove(*state, first.address, first.id), NXM_OK);
    assert_int_equal(nxm_blocks_containing(*state, first.address + 50, &found), NXM_ENOENT);
    insert_and_find_inside(*state, &first);
    assert_int_equal(nxm_blocks_remove(*state, second.address, second.id), NXM_OK);
    assert_int_equal(nxm_blocks_containing(*state, second.address + 50, &found), NXM_ENOENT);
    assert_int_equal(nxm_blocks_containing(*state, first.address + 50, &found), NXM_OK);
}

static void a_block_that_follows_another_one_has_its_start_noted(void **state)
{
    struct nxm_block first = make(of_one_shard(BASE), 100), second = make(of_one_shard(first.address + 1024), 100);

    insert_and_find_inside(*state, &first);
    assert_int_equal(nxm_blocks_remove(*state, first.address, first.id), NXM_OK);
    insert_and_find_inside(*state, &second);
}

static void a_block_at_the_end_of_the_address_space_contains_its_last_byte(void **state)
{
    struct nxm_block block = make(UINT64_MAX - 4095, 4096), endless = make(UINT64_MAX - 65535, UINT64_MAX), found;

    assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
    assert_int_equal(nxm_blocks_containing(*state, UINT64_MAX, &found), NXM_OK);
    assert_int_equal(found.id, block.id);
    assert_int_equal(nxm_blocks_insert(*state, &endless), NXM_OK);
    assert_int_equal(nxm_blocks_containing(*state, UINT64_MAX - 5000, &found), NXM_OK);
    assert_int_equal(found.id, endless.id);
}

static void a_block_that_would_reach_beyond_the_address_space_contains_what_there_is(void **state)
{
    struct nxm_block block = make(UINT64_MAX - 100, 4096), found;

    assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
    assert_int_equal(nxm_blocks_containing(*state, UINT64_MAX - 50, &found), NXM_OK);
    assert_int_equal(found.id, block.id);
    assert_int_equal(nxm_blocks_containing(*state, UINT64_MAX, &found), NXM_OK);
    assert_int_equal(nxm_blocks_containing(*state, 10, &found), NXM_ENOENT);
    block = make(BASE, UINT64_MAX);
    assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
    assert_int_equal(nxm_blocks_containing(*state, BASE + (UINT64_C(1) << 45), &found), NXM_OK);
    assert_int_equal(found.id, block.id);
    assert_int_equal(nxm_blocks_containing(*state, UINT64_MAX - 5000, &found), NXM_OK);
    assert_int_equal(found.id, block.id);
}

/* Beyond the 48 bits of which bits are kept, every record is looked at, in whatever order. */
static void of_blocks_far_away_too_the_last_contains(void **state)
{
    const uint64_t far = UINT64_C(1) << 60;
    struct nxm_block last, found;

    assert_int_equal(nxm_blocks_containing(*state, far, &found), NXM_ENOENT);
    for (uint64_t i = 0; i < 40; i++) {
        last = make(far + i * 4096, (100 - i) * 4096);
        assert_int_equal(nxm_blocks_insert(*state, &last), NXM_OK);
    }
    assert_int_equal(nxm_blocks_containing(*state, far + 100 * 4096 - 1, &found), NXM_OK);
    assert_int_equal(found.id, last.id);
    assert_int_equal(nxm_blocks_containing(*state, far + 100 * 4096, &found), NXM_ENOENT);
    assert_int_equal(nxm_blocks_containing(*state, far + 20 * 4096 - 1, &found), NXM_OK);
    assert_int_equal(found.address, far + 19 * 4096);
    assert_int_equal(nxm_blocks_containing(*state, far - 1, &found), NXM_ENOENT);
}

/* Their bits would be the near one's, if its address were cut. */
static void a_block_far_away_is_not_taken_for_a_near_one(void **state)
{
    struct nxm_block near = make(BASE, UINT64_MAX), far = make(BASE | UINT64_C(1) << 60, 100), found;

    assert_int_equal(nxm_blocks_insert(*state, &near), NXM_OK);
    assert_int_equal(nxm_blocks_insert(*state, &far), NXM_OK);
    assert_int_equal(nxm_blocks_containing(*state, far.address + 50, &found), NXM_OK);
    assert_int_equal(found.id, far.id);
}

static void below_the_first_block_nothing_is_found(void **state)
{
    struct nxm_block lowest = make(256, 16), above = make(UINT64_C(1) << 20, 100), found;

    assert_int_equal(nxm_blocks_insert(*state, &above), NXM_OK);
    assert_int_equal(nxm_blocks_containing(*state, 5000, &found), NXM_ENOENT);
    assert_int_equal(nxm_blocks_insert(*state, &lowest), NXM_OK);
    assert_int_equal(nxm_blocks_containing(*state, 271, &found), NXM_OK);
    assert_int_equal(nxm_blocks_containing(*state, 272, &found), NXM_ENOENT);
    assert_int_equal(nxm_blocks_containing(*state, 5, &found), NXM_ENOENT);
}

static void a_removed_block_contains_nothing(void **state)
{
    struct nxm_block block = make(BASE, 4096), found;

    assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
    assert_int_equal(nxm_blocks_remove(*state, BASE, block.id), NXM_OK);
    assert_int_equal(nxm_blocks_find(*state, BASE, &found), NXM_ENOENT);
    assert_int_equal(nxm_blocks_containing(*state, BASE + 1, &found), NXM_ENOENT);
}

static void a_count_that_comes_to_nothing_releases_once(void **state)
{
    struct nxm_block block = make(BASE, 4096), found;

    block.tag = 1;
    assert_int_equal(nxm_blocks_count(*state, BASE, 1, &found), NXM_ENOENT);
    assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
    assert_int_equal(nxm_blocks_count(*state, BASE, 1, &found), NXM_OK);
    assert_int_equal(found.tag, 2);
    assert_int_equal(nxm_blocks_count(*state, BASE, -1, &found), NXM_OK);
    assert_int_equal(found.state, NXM_BLOCK_LIVE);
    assert_int_equal(nxm_blocks_count(*state, BASE, -1, &found), NXM_OK);
    assert_int_equal(found.state, NXM_BLOCK_RELEASING);
    assert_int_equal(nxm_blocks_count(*state, BASE, -1, &found), NXM_ENOENT);
    assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).ever_blocks, 1);
}

static void an_empty_block_is_found_by_its_address_only(void **state)
{
    struct nxm_block block = make(BASE, 0), found;

    assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
    assert_int_equal(nxm_blocks_containing(*state, BASE, &found), NXM_OK);
    assert_int_equal(nxm_blocks_containing(*state, BASE + 1, &found), NXM_ENOENT);
}

static void inserting_over_a_live_or_waiting_record_is_refused(void **state)
{
    struct nxm_block first = make(BASE, 100), second = make(BASE, 200), found;

    assert_int_equal(nxm_blocks_insert(*state, &first), NXM_OK);
    assert_int_equal(nxm_blocks_insert(*state, &second), NXM_EEXIST);
    assert_int_equal(nxm_blocks_claim(*state, BASE, 0, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL), NXM_OK);
    assert_int_equal(nxm_blocks_insert(*state, &second), NXM_EEXIST);
    assert_int_equal(nxm_blocks_find(*state, BASE, &found), NXM_OK);
    assert_int_equal(found.id, first.id);
    assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).live_bytes, 100);
}

static void a_releasing_record_is_replaced_and_its_late_remover_finds_nothing(void **state)
{
    struct nxm_block first = make(BASE, 100), second = make(BASE, 200), found;

    second.class_ = NXM_CLASS_POOL;
    assert_int_equal(nxm_blocks_insert(*state, &first), NXM_OK);
    assert_int_equal(nxm_blocks_claim(*state, BASE, 0, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, NULL), NXM_OK);
    assert_int_equal(nxm_blocks_insert(*state, &second), NXM_OK);
    assert_int_equal(nxm_blocks_remove(*state, BASE, first.id), NXM_ENOENT);
    assert_int_equal(nxm_blocks_find(*state, BASE, &found), NXM_OK);
    assert_int_equal(found.id, second.id);
    assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).live_blocks, 0);
    assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).live_bytes, 0);
    assert_int_equal(totals_of(*state, NXM_CLASS_POOL).live_bytes, 200);
}

static void a_claim_tells_the_loser_the_state_it_met(void **state)
{
    struct nxm_block block = make(BASE, 100), met = { 0 };

    assert_int_equal(nxm_blocks_claim(*state, BASE, 0, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, &met), NXM_ENOENT);
    assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
    assert_int_equal(nxm_blocks_claim(*state, BASE, 0, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, &met), NXM_OK);
    assert_int_equal(met.state, NXM_BLOCK_LIVE);
    assert_int_equal(nxm_blocks_claim(*state, BASE, 0, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, &met), NXM_EBUSY);
    assert_int_equal(met.state, NXM_BLOCK_WAITING);
    assert_int_equal(met.id, block.id);
    assert_int_equal(nxm_blocks_claim(*state, BASE, 0, NXM_BLOCK_LIVE | NXM_BLOCK_WAITING, NXM_BLOCK_RELEASING, &met), NXM_OK);
    assert_int_equal(met.state, NXM_BLOCK_WAITING);
}

static void a_claim_by_id_leaves_another_block_at_that_address_alone(void **state)
{
    struct nxm_block block = make(BASE, 100), met = { .id = 99 };

    assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
    assert_int_equal(nxm_blocks_claim(*state, BASE, block.id + 1000, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, &met), NXM_ENOENT);
    assert_int_equal(met.id, 99);
    assert_int_equal(nxm_blocks_find(*state, BASE, &met), NXM_OK);
    assert_int_equal(met.state, NXM_BLOCK_LIVE);
    assert_int_equal(nxm_blocks_claim(*state, BASE, block.id, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, NULL), NXM_OK);
}

static void a_record_without_id_state_or_class_is_refused(void **state)
{
    struct nxm_block block = make(BASE, 1), found;

    block.id = 0;
    assert_int_equal(nxm_blocks_insert(*state, &block), NXM_EINVAL);
    block = make(BASE, 1);
    block.state = 0;
    assert_int_equal(nxm_blocks_insert(*state, &block), NXM_EINVAL);
    block.state = NXM_BLOCK_LIVE | NXM_BLOCK_WAITING;
    assert_int_equal(nxm_blocks_insert(*state, &block), NXM_EINVAL);
    block = make(BASE, 1);
    block.class_ = NXM_CLASS_COUNT;
    assert_int_equal(nxm_blocks_insert(*state, &block), NXM_EINVAL);
    assert_int_equal(nxm_blocks_find(*state, BASE, &found), NXM_ENOENT);
}

static void ids_are_never_zero_and_never_repeat(void **state)
{
    uint64_t last = nxm_block_next_id();

    (void)state;
    assert_int_not_equal(last, 0);
    for (int i = 0; i < 1000; i++) {
        uint64_t next = nxm_block_next_id();

        assert_true(next > last);
        last = next;
    }
}

static void totals_keep_live_peak_and_ever_apart_per_class(void **state)
{
    struct nxm_block a = make(BASE, 100), b = make(BASE + 4096, 50), c = make(BASE + 8192, 10);
    struct nxm_class_totals totals;

    c.class_ = NXM_CLASS_MANAGED;
    assert_int_equal(nxm_blocks_insert(*state, &a), NXM_OK);
    assert_int_equal(nxm_blocks_insert(*state, &b), NXM_OK);
    assert_int_equal(nxm_blocks_insert(*state, &c), NXM_OK);
    assert_int_equal(nxm_blocks_claim(*state, BASE, 0, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, NULL), NXM_OK);
    assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).live_bytes, 150); /* RELEASING still counts */
    assert_int_equal(nxm_blocks_remove(*state, BASE, a.id), NXM_OK);
    a.id = nxm_block_next_id();
    a.bytes = 20;
    assert_int_equal(nxm_blocks_insert(*state, &a), NXM_OK);
    totals = totals_of(*state, NXM_CLASS_DEVICE);
    assert_int_equal(totals.live_blocks, 2);
    assert_int_equal(totals.live_bytes, 70);
    assert_int_equal(totals.peak_bytes, 150);
    assert_int_equal(totals.ever_blocks, 3);
    assert_int_equal(totals.ever_bytes, 170);
    totals = totals_of(*state, NXM_CLASS_MANAGED);
    assert_int_equal(totals.live_bytes, 10);
    assert_int_equal(totals.peak_bytes, 10);
}

/* Neighbours at every distance that the bits know of: what is noticed of one that is gone changes nothing for the others. */
static void blocks_are_found_beside_what_was_forgotten(void **state)
{
    for (unsigned bits = 10; bits < 40; bits++) {
        uint64_t distance = UINT64_C(1) << bits;
        struct nxm_block first = make(BASE, 512), second = make(BASE + distance, 512), found;

        assert_int_equal(nxm_blocks_insert(*state, &first), NXM_OK);
        assert_int_equal(nxm_blocks_insert(*state, &second), NXM_OK);
        assert_int_equal(nxm_blocks_remove(*state, second.address, second.id), NXM_OK);
        assert_int_equal(nxm_blocks_containing(*state, second.address + 1, &found), NXM_ENOENT);
        assert_int_equal(nxm_blocks_containing(*state, first.address + 1, &found), NXM_OK);
        assert_int_equal(nxm_blocks_insert(*state, &second), NXM_OK);
        assert_int_equal(nxm_blocks_containing(*state, second.address + 1, &found), NXM_OK);
        assert_int_equal(nxm_blocks_remove(*state, first.address, first.id), NXM_OK);
        assert_int_equal(nxm_blocks_containing(*state, first.address + 1, &found), NXM_ENOENT);
        assert_int_equal(nxm_blocks_containing(*state, second.address + 1, &found), NXM_OK);
        assert_int_equal(nxm_blocks_remove(*state, second.address, second.id), NXM_OK);
    }
}

/* What one thread gives back and takes again counts once, however much of it there is. */
static void the_peak_of_one_thread_is_exact(void **state)
{
    uint64_t seed = 42, live = 0, peak = 0;
    struct nxm_block blocks[40];

    memset(blocks, 0, sizeof blocks);
    for (int i = 0; i < 20000; i++) {
        struct nxm_block *block = &blocks[seed % 40];

        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        if (block->id != 0) {
            assert_int_equal(nxm_blocks_remove(*state, block->address, block->id), NXM_OK);
            live -= block->bytes;
            block->id = 0;
        } else {
            *block = make(BASE + (uint64_t)(block - blocks) * 4096, seed >> 20 & UINT64_MAX >> (seed >> 58 | 36));
            assert_int_equal(nxm_blocks_insert(*state, block), NXM_OK);
            live += block->bytes;
            peak = live > peak ? live : peak;
        }
        if (i % 100 == 0)
            assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).peak_bytes, peak);
    }
    assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).live_bytes, live);
}

/* --- against a model --------------------------------------------------------------------------------- */

#define SPOTS 700

struct model {
    struct nxm_block blocks[SPOTS]; /* id 0: nothing there */
    struct nxm_class_totals totals[NXM_CLASS_COUNT];
};

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static uint64_t spot_address(size_t spot)
{
    return BASE + spot * 512;
}

static void model_leave(struct model *model, size_t spot)
{
    struct nxm_class_totals *totals = &model->totals[model->blocks[spot].class_];

    totals->live_blocks--;
    totals->live_bytes -= model->blocks[spot].bytes;
}

static void model_insert(struct model *model, struct nxm_blocks *table, size_t spot, uint64_t random)
{
    struct nxm_block block = make(spot_address(spot), 1 + random % 512), *there = &model->blocks[spot];
    int expected = there->id != 0 && there->state != NXM_BLOCK_RELEASING ? NXM_EEXIST : NXM_OK;
    struct nxm_class_totals *totals;

    block.class_ = (uint8_t)(random / 512 % NXM_CLASS_COUNT);
    assert_int_equal(nxm_blocks_insert(table, &block), expected);
    if (expected != NXM_OK)
        return;
    if (there->id != 0)
        model_leave(model, spot);
    *there = block;
    totals = &model->totals[block.class_];
    totals->live_blocks++;
    totals->ever_blocks++;
    totals->live_bytes += block.bytes;
    totals->ever_bytes += block.bytes;
    if (totals->live_bytes > totals->peak_bytes)
        totals->peak_bytes = totals->live_bytes;
}

static void model_claim(struct model *model, struct nxm_blocks *table, size_t spot, uint64_t random)
{
    static const enum nxm_block_state targets[] = { NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NXM_BLOCK_RELEASING };
    struct nxm_block *there = &model->blocks[spot], met;
    unsigned from = (unsigned)(random % 8);
    enum nxm_block_state to = targets[random / 8 % 3];
    int expected = there->id == 0 ? NXM_ENOENT : (there->state & from) != 0 ? NXM_OK : NXM_EBUSY;

    assert_int_equal(nxm_blocks_claim(table, spot_address(spot), 0, from, to, &met), expected);
    if (expected != NXM_ENOENT)
        assert_memory_equal(&met, there, sizeof met);
    if (expected == NXM_OK)
        there->state = (uint8_t)to;
}

static void model_remove(struct model *model, struct nxm_blocks *table, size_t spot, uint64_t random)
{
    struct nxm_block *there = &model->blocks[spot];
    uint64_t id = random % 4 == 0 ? there->id + 1 : there->id;
    int expected = there->id != 0 && id == there->id ? NXM_OK : NXM_ENOENT;

    assert_int_equal(nxm_blocks_remove(table, spot_address(spot), id), expected);
    if (expected == NXM_OK) {
        model_leave(model, spot);
        there->id = 0;
    }
}

static void model_look(struct model *model, struct nxm_blocks *table, size_t spot, uint64_t random)
{
    const struct nxm_block *there = &model->blocks[spot];
    uint64_t inside = random % 512;
    struct nxm_block found;

    assert_int_equal(nxm_blocks_find(table, spot_address(spot), &found), there->id == 0 ? NXM_ENOENT : NXM_OK);
    assert_int_equal(nxm_blocks_containing(table, spot_address(spot) + inside, &found),
                     there->id != 0 && inside < there->bytes ? NXM_OK : NXM_ENOENT);
    if (there->id != 0 && inside < there->bytes)
        assert_memory_equal(&found, there, sizeof found);
}

static bool visit_model(void *argument, const struct nxm_block *block)
{
    struct model *model = argument;
    size_t spot = (size_t)(block->address - BASE) / 512;

    assert_true(spot < SPOTS);
    assert_memory_equal(block, &model->blocks[spot], sizeof *block);
    model->blocks[spot].id = 0; /* seen: a second visit would differ */
    return true;
}

static void random_operations_agree_with_a_plain_array(void **state)
{
    static struct model model;
    uint64_t seed = 0x9E3779B97F4A7C15;

    memset(&model, 0, sizeof model);
    for (int i = 0; i < 60000; i++) {
        size_t spot = next_random(&seed) % SPOTS;
        uint64_t random = next_random(&seed) >> 8;

        switch (next_random(&seed) % 8) {
        case 0: case 1: case 2:
            model_insert(&model, *state, spot, random);
            break;
        case 3: case 4:
            model_claim(&model, *state, spot, random);
            break;
        case 5: case 6:
            model_remove(&model, *state, spot, random);
            break;
        default:
            model_look(&model, *state, spot, random);
            break;
        }
    }
    for (int class_ = 0; class_ < NXM_CLASS_COUNT; class_++) {
        struct nxm_class_totals totals = totals_of(*state, (enum nxm_class)class_);

        assert_memory_equal(&totals, &model.totals[class_], sizeof totals);
    }
    nxm_blocks_each(*state, visit_model, &model);
    for (size_t spot = 0; spot < SPOTS; spot++)
        assert_int_equal(model.blocks[spot].id, 0);
}

/* --- growth ------------------------------------------------------------------------------------------ */

#define MANY 200000u
#define CROWDED 80000u /* more than the first buckets of every shard */

static bool count_visit(void *visits, const struct nxm_block *block)
{
    (void)block;
    ++*(unsigned *)visits;
    return true;
}

static void a_hundred_thousands_are_found_again_after_growth(void **state)
{
    static uint64_t ids[MANY];
    struct nxm_block found;
    unsigned visits = 0;

    for (unsigned i = 0; i < MANY; i++) {
        struct nxm_block block = make(BASE + i * UINT64_C(512), 512);

        ids[i] = block.id;
        assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(nxm_blocks_find(*state, BASE + i * UINT64_C(512), &found), NXM_OK);
        assert_int_equal(found.id, ids[i]);
    }
    assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).live_blocks, MANY);
    nxm_blocks_each(*state, count_visit, &visits);
    assert_int_equal(visits, MANY);
}

/* Every request of a growing table fails once: the insert says so, changes nothing, and works the next time. Where it was
 * only for shorter chains, the insert works all the same. */
static void a_failed_growth_leaves_the_table_as_it_was(void **state)
{
    unsigned failures = 0;

    for (unsigned i = 0; i < CROWDED; i++) {
        struct nxm_block block = make(BASE + i * UINT64_C(512), 512), found;
        int result;

        nxm_mem_fail_at(1);
        result = nxm_blocks_insert(*state, &block);
        nxm_mem_fail_at(0);
        if (result == NXM_ENOMEM) {
            failures++;
            assert_int_equal(nxm_blocks_find(*state, block.address, &found), NXM_ENOENT);
            assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).live_blocks, i);
            assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).ever_bytes, i * UINT64_C(512));
            result = nxm_blocks_insert(*state, &block);
        }
        assert_int_equal(result, NXM_OK);
    }
    /* Where blocks start, then each piece of half a MiB for records: none for shorter chains, nor for pieces that are mapped ahead. */
    assert_in_range(failures, 1 + 1, 1 + CROWDED * 145 / (512 << 10));
    assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).live_blocks, CROWDED);
    assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).ever_bytes, CROWDED * UINT64_C(512));
    for (unsigned i = 0; i < CROWDED; i++) {
        struct nxm_block found;

        assert_int_equal(nxm_blocks_find(*state, BASE + i * UINT64_C(512), &found), NXM_OK);
    }
}

#define OF_ONE_SHARD 30000u /* whose chains want a piece of memory of their own */

static void without_memory_for_shorter_chains_the_old_ones_go_on(void **state)
{
    uint64_t address = BASE, first = address;

    for (unsigned i = 0; i < OF_ONE_SHARD; address += 1024) {
        struct nxm_block block = make(address, 512), found;

        if (nxm_shard_hash(address) >> 54 != 7)
            continue;
        i++;
        nxm_mem_fail_at(1);
        int result = nxm_blocks_insert(*state, &block);
        nxm_mem_fail_at(0);
        if (result == NXM_ENOMEM)
            result = nxm_blocks_insert(*state, &block);
        assert_int_equal(result, NXM_OK);
        assert_int_equal(nxm_blocks_find(*state, address, &found), NXM_OK);
    }
    for (; first < address; first += 1024) {
        struct nxm_block found;

        assert_int_equal(nxm_blocks_find(*state, first, &found), nxm_shard_hash(first) >> 54 == 7 ? NXM_OK : NXM_ENOENT);
    }
}

#define WHILE_MOVED 1000u

static void blocks_are_claimed_and_removed_while_chains_are_moved(void **state)
{
    static struct nxm_block blocks[WHILE_MOVED];
    uint64_t address = BASE;

    for (unsigned i = 0; i < WHILE_MOVED; i++) {
        unsigned other = i * 7 % (i + 1);

        blocks[i] = make(address = of_one_shard(address + 1024), 512);
        assert_int_equal(nxm_blocks_insert(*state, &blocks[i]), NXM_OK);
        assert_int_equal(nxm_blocks_claim(*state, blocks[other].address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, NULL), NXM_OK);
        assert_int_equal(nxm_blocks_remove(*state, blocks[other].address, blocks[other].id), NXM_OK);
        assert_int_equal(nxm_blocks_insert(*state, &blocks[other]), NXM_OK);
        assert_int_equal(nxm_blocks_insert(*state, &blocks[i / 2]), NXM_EEXIST);
    }
}

static void a_table_that_cannot_be_made_is_enomem(void **state)
{
    struct nxm_blocks *table = NULL;

    (void)state;
    for (unsigned n = 1; n <= 2; n++) {
        nxm_mem_fail_at(n);
        assert_int_equal(nxm_blocks_new(&table), NXM_ENOMEM);
        assert_null(table);
    }
    nxm_blocks_free(NULL);
}

static void recycled_records_cost_no_new_memory(void **state)
{
    struct nxm_blocks *table = *state;
    struct nxm_shard *shard = nxm_blocks_place_of(table, BASE).shard;

    for (unsigned i = 0; i < 5000; i++) {
        struct nxm_block block = make(BASE, 512);

        assert_int_equal(nxm_blocks_insert(table, &block), NXM_OK);
        assert_int_equal(nxm_blocks_remove(table, BASE, block.id), NXM_OK);
    }
    assert_ptr_equal(shard->first, shard->last);
    assert_int_equal(shard->first->fresh, 1); /* one record has ever been used */
}

/* --- walking ----------------------------------------------------------------------------------------- */

#define WALKED 3000u

struct walk {
    struct nxm_blocks *table;
    unsigned char seen[WALKED];
    unsigned visits;
    unsigned inserted;
};

static bool visit_and_grow(void *argument, const struct nxm_block *block)
{
    struct walk *walk = argument;
    uint64_t number = (block->address - BASE) / 512;

    if (number >= WALKED)
        return true;
    walk->seen[number]++;
    for (int i = 0; i < 8; i++) { /* takes the shard's lock: the walk must not hold it */
        struct nxm_block more = make(BASE + (WALKED + walk->inserted++) * UINT64_C(512), 1);

        assert_int_equal(nxm_blocks_insert(walk->table, &more), NXM_OK);
    }
    return true;
}

static void a_walk_sees_each_lasting_record_once_while_the_table_grows(void **state)
{
    static struct walk walk;

    memset(&walk, 0, sizeof walk);
    walk.table = *state;
    for (unsigned i = 0; i < WALKED; i++) {
        struct nxm_block block = make(BASE + i * UINT64_C(512), 1);

        assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
    }
    nxm_blocks_each(*state, visit_and_grow, &walk);
    for (unsigned i = 0; i < WALKED; i++)
        assert_int_equal(walk.seen[i], 1);
}

static bool visit_and_remove(void *argument, const struct nxm_block *block)
{
    struct walk *walk = argument;

    walk->visits++;
    assert_int_equal(nxm_blocks_remove(walk->table, block->address, block->id), NXM_OK);
    return walk->visits < 100;
}

static void a_walk_may_remove_what_it_visits_and_stops_when_told(void **state)
{
    static struct walk walk;

    memset(&walk, 0, sizeof walk);
    walk.table = *state;
    for (unsigned i = 0; i < 150; i++) {
        struct nxm_block block = make(BASE + i * UINT64_C(512), 1);

        assert_int_equal(nxm_blocks_insert(*state, &block), NXM_OK);
    }
    nxm_blocks_each(*state, visit_and_remove, &walk);
    assert_int_equal(walk.visits, 100);
    assert_int_equal(totals_of(*state, NXM_CLASS_DEVICE).live_blocks, 50);
}

static void classes_have_their_words_and_their_leak_mark(void **state)
{
    (void)state;
    assert_string_equal(nxm_class_words(NXM_CLASS_DEVICE), "device");
    assert_true(nxm_class_is_leak(NXM_CLASS_DEVICE));
    assert_false(nxm_class_is_leak(NXM_CLASS_VMM_RESERVED));
    for (int class_ = 0; class_ < NXM_CLASS_COUNT; class_++)
        assert_non_null(nxm_class_words((enum nxm_class)class_));
}

#define with_table(test) cmocka_unit_test_setup_teardown(test, table_new, table_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_table(a_found_record_is_the_inserted_one_in_every_field),
        with_table(find_is_exact_and_containing_is_not),
        with_table(of_nested_blocks_the_innermost_contains),
        with_table(of_blocks_that_start_close_together_the_last_contains),
        with_table(a_block_of_any_size_is_found_from_its_last_byte),
        with_table(a_block_that_comes_back_larger_is_found_in_all_of_it),
        with_table(a_start_that_was_forgotten_is_noted_again_when_its_block_comes_back),
        with_table(blocks_of_one_chain_are_told_apart),
        with_table(a_block_that_follows_another_one_has_its_start_noted),
        with_table(blocks_are_found_beside_what_was_forgotten),
        with_table(without_memory_for_shorter_chains_the_old_ones_go_on),
        with_table(blocks_are_claimed_and_removed_while_chains_are_moved),
        with_table(the_peak_of_one_thread_is_exact),
        with_table(a_block_at_the_end_of_the_address_space_contains_its_last_byte),
        with_table(a_block_that_would_reach_beyond_the_address_space_contains_what_there_is),
        with_table(of_blocks_far_away_too_the_last_contains),
        with_table(a_block_far_away_is_not_taken_for_a_near_one),
        with_table(below_the_first_block_nothing_is_found),
        with_table(a_removed_block_contains_nothing),
        with_table(a_count_that_comes_to_nothing_releases_once),
        with_table(an_empty_block_is_found_by_its_address_only),
        with_table(inserting_over_a_live_or_waiting_record_is_refused),
        with_table(a_releasing_record_is_replaced_and_its_late_remover_finds_nothing),
        with_table(a_claim_tells_the_loser_the_state_it_met),
        with_table(a_claim_by_id_leaves_another_block_at_that_address_alone),
        with_table(a_record_without_id_state_or_class_is_refused),
        with_table(totals_keep_live_peak_and_ever_apart_per_class),
        with_table(random_operations_agree_with_a_plain_array),
        with_table(a_hundred_thousands_are_found_again_after_growth),
        with_table(a_failed_growth_leaves_the_table_as_it_was),
        with_table(recycled_records_cost_no_new_memory),
        with_table(a_walk_sees_each_lasting_record_once_while_the_table_grows),
        with_table(a_walk_may_remove_what_it_visits_and_stops_when_told),
        cmocka_unit_test(a_table_that_cannot_be_made_is_enomem),
        cmocka_unit_test(ids_are_never_zero_and_never_repeat),
        cmocka_unit_test(classes_have_their_words_and_their_leak_mark),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
