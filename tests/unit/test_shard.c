/* core/shard and spin by themselves: what a reader does when somebody writes at the worst moment, how chains grow. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include "core/mem.h"
#include "core/shard.h"

#define PAGE 4096u
#define BASE UINT64_C(0x7f0000000000)

static struct nxm_shard shard;
static struct nxm_supply supply;

static int start(void **state)
{
    (void)state;
    memset(&shard, 0, sizeof shard);
    return 0;
}

static int end(void **state)
{
    (void)state;
    nxm_supply_clear(&supply);
    return 0;
}

static struct nxm_block uniform(uint64_t address, uint64_t number)
{
    return (struct nxm_block){ .address = address, .bytes = 512, .align = number, .id = number, .allocator = (void *)(uintptr_t)number,
                               .context = number, .owned = number, .mapped = number, .tag = number, .stack = (uint32_t)number,
                               .flags = (uint32_t)number, .class_ = NXM_CLASS_DEVICE, .state = NXM_BLOCK_LIVE };
}

static bool is_uniform(const struct nxm_block *block, uint64_t number)
{
    struct nxm_block wanted = uniform(block->address, number);

    return memcmp(block, &wanted, sizeof wanted) == 0;
}

static struct nxm_record *insert(uint64_t address, uint64_t number)
{
    struct nxm_block block = uniform(address, number);
    uint64_t hash = nxm_shard_hash(address);
    struct nxm_record *record;

    nxm_shard_acquire(&shard, &supply);
    record = nxm_shard_take(&shard, &supply);
    assert_non_null(record);
    nxm_shard_write(record, &block);
    nxm_link_push(nxm_shard_head(&shard, hash), record, hash);
    nxm_shard_release(&shard);
    return record;
}

static uint64_t address_of(uint64_t i)
{
    return BASE + i * 4096;
}

static bool finds(uint64_t address, uint64_t number)
{
    struct nxm_block found;

    return nxm_shard_find(&shard, nxm_shard_hash(address), address, &found) && is_uniform(&found, number);
}

/* --- somebody writes while a reader is in the middle of a record: the page fault of its second half lets him ------------------ */

static struct {
    char *page;
    struct nxm_record *record;
    struct nxm_block becomes;
} interruption;

static void write_meanwhile(int signal_number)
{
    (void)signal_number;
    mprotect(interruption.page, PAGE, PROT_READ | PROT_WRITE);
    nxm_spin_acquire(&shard.lock, NXM_RANK_BLOCKS);
    nxm_shard_write(interruption.record, &interruption.becomes);
    nxm_spin_release(&shard.lock);
}

/* A record of which the first 16 bytes at least lie in another page than its end. */
static struct nxm_record *record_across_pages(uint64_t *ret_address)
{
    for (uint64_t i = 0; i < 1000; i++) {
        struct nxm_record *record = insert(address_of(i), 1);
        uintptr_t at = (uintptr_t)record;

        *ret_address = address_of(i);
        if (at / PAGE != (at + 80) / PAGE && at / PAGE == (at + 16) / PAGE && shard.old == 0)
            return record;
    }
    fail_msg("no record lies so");
    return NULL;
}

static void interrupt_at_the_second_half(struct nxm_record *record, struct nxm_block becomes)
{
    interruption.page = (char *)(((uintptr_t)record + 80) & ~(uintptr_t)(PAGE - 1));
    interruption.record = record;
    interruption.becomes = becomes;
    signal(SIGSEGV, write_meanwhile);
    assert_int_equal(mprotect(interruption.page, PAGE, PROT_NONE), 0);
}

static void what_was_written_while_it_was_read_is_read_again(void **state)
{
    struct nxm_block found;
    uint64_t address;
    struct nxm_record *record = record_across_pages(&address);

    (void)state;
    interrupt_at_the_second_half(record, uniform(address, 2));
    assert_true(nxm_shard_find(&shard, nxm_shard_hash(address), address, &found));
    signal(SIGSEGV, SIG_DFL);
    assert_true(is_uniform(&found, 2));
}

static void a_record_that_became_another_block_while_it_was_read_is_not_found(void **state)
{
    struct nxm_block found = { .id = 99 };
    uint64_t address;
    struct nxm_record *record = record_across_pages(&address);

    (void)state;
    interrupt_at_the_second_half(record, uniform(address_of(5000), 2));
    assert_false(nxm_shard_find(&shard, nxm_shard_hash(address), address, &found));
    signal(SIGSEGV, SIG_DFL);
    assert_int_equal(found.id, 99);
}

static void what_was_written_while_it_was_looked_around_is_read_again(void **state)
{
    struct nxm_block found;
    uint64_t address;
    struct nxm_record *record = record_across_pages(&address);
    bool any;

    (void)state;
    interrupt_at_the_second_half(record, uniform(address, 2));
    assert_true(nxm_shard_around(&shard, nxm_shard_hash(address), address >> NXM_GRANULE_BITS, address + 8, &found, &any));
    signal(SIGSEGV, SIG_DFL);
    assert_true(any && is_uniform(&found, 2));
}

/* --- a reader that comes while somebody is inside ------------------------------------------------------------------------------- */

static atomic_bool begun;

static void *find_the_first(void *ret_found)
{
    atomic_store(&begun, true);
    if (!nxm_shard_find(&shard, nxm_shard_hash(BASE), BASE, ret_found))
        ((struct nxm_block *)ret_found)->id = 99;
    return NULL;
}

static void who_reads_while_somebody_is_inside_sees_what_he_leaves(void **state)
{
    struct nxm_record *record = insert(BASE, 1);
    struct nxm_block found, becomes = uniform(BASE, 2);
    pthread_t reader;

    (void)state;
    nxm_spin_acquire(&shard.lock, NXM_RANK_BLOCKS);
    __atomic_store_n(&record->block.tag, UINT64_C(2), __ATOMIC_RELEASE); /* half of it */
    atomic_store(&begun, false);
    assert_int_equal(pthread_create(&reader, NULL, find_the_first, &found), 0);
    while (!atomic_load(&begun))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    nanosleep(&(struct timespec){ .tv_nsec = 30000000 }, NULL); /* it sees what is there now, if it does not care */
    nxm_shard_write(record, &becomes);
    nxm_spin_release(&shard.lock);
    assert_int_equal(pthread_join(reader, NULL), 0);
    assert_true(is_uniform(&found, 2));
}

static void a_lock_is_taken_once_until_it_is_let_go(void **state)
{
    (void)state;
    assert_true(nxm_spin_try(&shard.lock, NXM_RANK_BLOCKS));
    assert_false(nxm_spin_try(&shard.lock, NXM_RANK_BLOCKS));
    nxm_spin_release(&shard.lock);
    assert_true(nxm_spin_try(&shard.lock, NXM_RANK_BLOCKS));
    nxm_spin_release(&shard.lock);
}

/* --- growth -------------------------------------------------------------------------------------------------------------------- */

#define MANY 3000u

static void all_are_found_after_each_step_of_growth(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < MANY; i++) {
        insert(address_of(i), i + 1);
        if (shard.old != 0 || i % 100 == 0) {
            for (uint64_t j = 0; j <= i; j++)
                assert_true(finds(address_of(j), j + 1));
        }
    }
}

static void chains_stay_short(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < MANY; i++)
        insert(address_of(i), i + 1);
    assert_true(nxm_chains_of(shard.chains)->length >= MANY / 2);
    assert_true(nxm_chains_of(shard.chains)->length <= MANY * 2);
    assert_int_equal(shard.old, 0);
}

static void shards_that_fill_evenly_need_room_at_different_times(void **state)
{
    static struct nxm_shard many[16];
    unsigned together = 0, most = 0;

    (void)state;
    memset(many, 0, sizeof many);
    for (unsigned i = 0; i < 1000; i++, together = 0) {
        for (unsigned j = 0; j < 16; j++) {
            const struct nxm_chunk *last = many[j].last;

            assert_non_null(nxm_shard_take(&many[j], &supply));
            together += many[j].last != last;
        }
        most = i > 500 && together > most ? together : most;
    }
    assert_in_range(most, 1, 8);
}

static void chains_that_are_given_back_are_empty_and_serve_again_once(void **state)
{
    struct nxm_chains *first, *second;

    (void)state;
    for (uint64_t i = 0; i < MANY; i++)
        insert(address_of(i), i + 1);
    first = nxm_supply_chains(&supply, 64);
    for (uint64_t i = 0; i < 64; i++)
        assert_int_equal(first->heads[i], 0);
    second = nxm_supply_chains(&supply, 64);
    assert_ptr_not_equal(first, second);
    nxm_supply_give(&supply, second);
    assert_ptr_equal(nxm_supply_chains(&supply, 64), second);
}

#define with_shard(test) cmocka_unit_test_setup_teardown(test, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_shard(what_was_written_while_it_was_read_is_read_again),
        with_shard(a_record_that_became_another_block_while_it_was_read_is_not_found),
        with_shard(what_was_written_while_it_was_looked_around_is_read_again),
        with_shard(who_reads_while_somebody_is_inside_sees_what_he_leaves),
        with_shard(a_lock_is_taken_once_until_it_is_let_go),
        with_shard(all_are_found_after_each_step_of_growth),
        with_shard(chains_stay_short),
        with_shard(shards_that_fill_evenly_need_room_at_different_times),
        with_shard(chains_that_are_given_back_are_empty_and_serve_again_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
