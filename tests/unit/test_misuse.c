/* core/misuse.c and core/graves.c: what a report can say about a refused free. */
#include "core/misuse.h"

#include <pthread.h>
#include <stdatomic.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* The graves once more, where whoever reads or writes gives way between any two words. */
#include <sched.h>
#define NXM_GRAVE_SET(field, value) (sched_yield(), __atomic_store_n(&grave->field, (value), __ATOMIC_RELEASE))
#define NXM_GRAVE_GET(field) (sched_yield(), __atomic_load_n(&grave->field, __ATOMIC_ACQUIRE))
#define nxm_graves slow_graves
#define nxm_graves_bury slow_bury
#define nxm_graves_bury_known slow_bury_known
#define nxm_graves_find slow_find
#include "core/graves.h"
#include "core/graves.c"

static struct nxm_misuse list[NXM_MISUSES_MAX + 1];

/* One process, one list: the tests run in this order. */
static void the_same_again_is_counted(void **state)
{
    struct nxm_misuse first = { .kind = NXM_MISUSE_TWICE, .address = 1, .stack = 7, .allocated = 8, .freed = 9 };
    struct nxm_misuse again = first, others[4] = { first, first, first, first };

    (void)state;
    assert_int_equal(nxm_misuse_list(list, 1), 0);
    again.address = 2;
    others[0].kind = NXM_MISUSE_INSIDE;
    others[1].stack = 1;
    others[2].allocated = 1;
    others[3].freed = 1;
    nxm_misuse_note(&first);
    nxm_misuse_note(&again);
    for (int i = 0; i < 4; i++)
        nxm_misuse_note(&others[i]);
    nxm_misuse_note(&first);
    assert_int_equal(nxm_misuse_list(list, NXM_MISUSES_MAX), 5);
    assert_int_equal(list[0].count, 3);
    assert_int_equal(list[0].address, 1);
    for (int i = 1; i < 5; i++)
        assert_int_equal(list[i].count, 1);
}

static void only_the_first_are_kept(void **state)
{
    (void)state;
    memset(list, 0xEE, sizeof list);
    for (uint32_t i = 0; i < 2 * NXM_MISUSES_MAX; i++)
        nxm_misuse_note(&(struct nxm_misuse){ .kind = NXM_MISUSE_PLUGINS, .stack = 100 + i });
    assert_int_equal(nxm_misuse_list(list, NXM_MISUSES_MAX), NXM_MISUSES_MAX);
    assert_int_equal(list[NXM_MISUSES_MAX - 1].stack, 100 + NXM_MISUSES_MAX - 6);
    assert_int_equal(list[NXM_MISUSES_MAX].stack, 0xEEEEEEEE); /* nothing behind the end */
}

static void a_list_may_be_short(void **state)
{
    (void)state;
    memset(list, 0, sizeof list);
    assert_int_equal(nxm_misuse_list(list, 2), NXM_MISUSES_MAX);
    assert_int_equal(list[1].count, 1);
    assert_int_equal(list[2].count, 0);
}

/* --- graves ------------------------------------------------------------------------------------------------------- */

static const struct nxm_block block = { .address = 0x7000000000, .bytes = 4096, .id = 5, .api = 3, .class_ = NXM_CLASS_PINNED,
                                        .stack = 11 };

static void a_grave_tells_whose_it_is(void **state)
{
    struct nxm_block found;
    uint32_t stack;

    (void)state;
    assert_false(slow_find(block.address, &found, &stack));
    slow_bury(&block, 12);
    assert_true(slow_find(block.address, &found, &stack));
    assert_int_equal(found.bytes, 4096);
    assert_int_equal(found.id, 5);
    assert_int_equal(found.api, 3);
    assert_int_equal(found.class_, NXM_CLASS_PINNED);
    assert_int_equal(found.stack, 11);
    assert_int_equal(stack, 12);
    for (uint64_t i = 1; i < 1 << 16; i++) /* among them many of the same place */
        assert_false(slow_find(block.address + (i << 8), &found, &stack));
    assert_false(slow_find(0, &found, &stack));
}

static void the_latest_at_an_address_counts(void **state)
{
    struct nxm_block later = block, found;
    uint32_t stack;

    (void)state;
    later.id = 6;
    later.stack = 21;
    slow_bury(&block, 12);
    slow_bury(&later, 0);
    assert_true(slow_find(block.address, &found, &stack));
    assert_int_equal(found.id, 6);
    assert_int_equal(found.stack, 21);
    assert_int_equal(stack, 0);
}

static void who_finds_a_grave_taken_goes_without(void **state)
{
    struct nxm_grave *grave = nxm_grave_of(nxm_shard_hash(block.address));
    struct nxm_block later = block, found;
    uint32_t stack;

    (void)state;
    later.id = 7;
    slow_bury(&block, 12);
    nxm_spin_acquire(&grave->lock, NXM_RANK_MISUSE);
    slow_bury(&later, 0);
    assert_false(slow_find(block.address, &found, &stack)); /* somebody is writing */
    nxm_spin_release(&grave->lock);
    assert_true(slow_find(block.address, &found, &stack));
    assert_int_equal(found.id, block.id);
    assert_int_equal(stack, 12);
}

enum { ROUNDS = 20000 };

static atomic_int busy;

static void *bury_many(void *seed)
{
    struct nxm_block mine = block;

    for (uint64_t i = 0; i < ROUNDS; i++) {
        mine.bytes = mine.id = i * 2 + *(const uint64_t *)seed;
        mine.stack = (uint32_t)mine.id;
        slow_bury(&mine, (uint32_t)mine.id);
    }
    atomic_fetch_sub(&busy, 1);
    return NULL;
}

static void a_grave_is_of_one_block(void **state)
{
    uint64_t seeds[] = { 1, 2 };
    pthread_t threads[2];
    struct nxm_block found;
    uint32_t stack;

    (void)state;
    slow_bury(&(struct nxm_block){ .address = block.address, .bytes = 1, .id = 1, .stack = 1 }, 1);
    atomic_store(&busy, 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, bury_many, &seeds[i]), 0);
    while (atomic_load(&busy)) {
        if (!slow_find(block.address, &found, &stack))
            continue;
        assert_int_equal(found.bytes, found.id);
        assert_int_equal(found.stack, (uint32_t)found.id);
        assert_int_equal(stack, (uint32_t)found.id);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(slow_find(block.address, &found, &stack));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_again_is_counted),
        cmocka_unit_test(only_the_first_are_kept),
        cmocka_unit_test(a_list_may_be_short),
        cmocka_unit_test(a_grave_tells_whose_it_is),
        cmocka_unit_test(the_latest_at_an_address_counts),
        cmocka_unit_test(who_finds_a_grave_taken_goes_without),
        cmocka_unit_test(a_grave_is_of_one_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
