/* core/queued.c: one party takes an entry, whichever comes first; nothing else finds it afterwards. */
#include "core/queued.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"

static struct nxm_queued queued;

static int empty(void **state)
{
    (void)state;
    nxm_queued_init(&queued);
    return 0;
}

static int clear(void **state)
{
    (void)state;
    nxm_queued_clear(&queued);
    return 0;
}

static struct nxm_entry *entering(uint64_t id)
{
    struct nxm_block block = { .id = id, .address = id * 4096, .bytes = 4096 };
    struct nxm_entry *entry = nxm_queued_reserve(&queued, &block);

    assert_non_null(entry);
    nxm_queued_publish(&queued, entry);
    return entry;
}

static void accepted(uint64_t id, uint64_t ticket)
{
    assert_int_equal(nxm_queued_settle(&queued, entering(id), true, ticket), NXM_SETTLED_STAYS);
}

static const struct nxm_release complete = { .outcome = NXM_RELEASE_COMPLETE, .unmapped = 4096 };

static void an_accepted_entry_is_taken_once_by_its_id_and_ticket(void **state)
{
    struct nxm_entry *entry;

    (void)state;
    accepted(7, 100);
    entry = nxm_queued_take(&queued, 7, 100);
    assert_non_null(entry);
    assert_int_equal(entry->block.address, 7 * 4096);
    assert_null(nxm_queued_take(&queued, 7, 100));
    nxm_queued_finish(&queued, entry, &complete);
    assert_null(nxm_queued_take(&queued, 7, 100));
}

static void a_stranger_finds_nothing(void **state)
{
    (void)state;
    accepted(7, 100);
    assert_null(nxm_queued_take(&queued, 8, 100));
    assert_null(nxm_queued_take(&queued, 7 + NXM_QUEUED_SHARDS, 100));                            /* the same shard */
    assert_null(nxm_queued_take(&queued, 7 + NXM_QUEUED_SHARDS * NXM_QUEUED_FIRST_BUCKETS, 100)); /* the same bucket */
}

static void a_known_ticket_must_match(void **state)
{
    (void)state;
    accepted(7, 100);
    assert_null(nxm_queued_take(&queued, 7, 101));
    nxm_queued_finish(&queued, nxm_queued_take(&queued, 7, 100), &complete);
}

static void an_unpublished_entry_is_not_found(void **state)
{
    struct nxm_block block = { .id = 7 };
    struct nxm_entry *entry = nxm_queued_reserve(&queued, &block);

    (void)state;
    assert_null(nxm_queued_take(&queued, 7, 0));
    nxm_queued_recycle(&queued, entry);
}

static void a_refused_entry_is_withdrawn(void **state)
{
    struct nxm_entry *entry = entering(7);

    (void)state;
    assert_int_equal(nxm_queued_settle(&queued, entry, false, 0), NXM_SETTLED_WITHDRAWN);
    assert_null(nxm_queued_take(&queued, 7, 0));
    nxm_queued_recycle(&queued, entry);
}

static void a_completion_inside_the_call_wins_over_either_answer(void **state)
{
    (void)state;
    for (int accept = 0; accept <= 1; accept++) {
        struct nxm_entry *entry = entering(7);

        assert_ptr_equal(nxm_queued_take(&queued, 7, 12345), entry); /* no ticket is known yet */
        assert_null(nxm_queued_take(&queued, 7, 12345));
        nxm_queued_finish(&queued, entry, &complete);
        assert_int_equal(nxm_queued_settle(&queued, entry, accept, 1), NXM_SETTLED_COMPLETED);
        assert_int_equal(entry->release.unmapped, 4096);
        nxm_queued_recycle(&queued, entry);
    }
}

static void many_entries_keep_their_own_tickets(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 20000; id++)
        accepted(id, id + 5);
    for (uint64_t id = 20000; id >= 1; id--) {
        struct nxm_entry *entry = nxm_queued_take(&queued, id, id + 5);

        assert_non_null(entry);
        assert_int_equal(entry->block.id, id);
        nxm_queued_finish(&queued, entry, &complete);
    }
}

/* What is released one after the other never needs memory: a free has no way to report that there is none. */
static void one_entry_of_each_shard_needs_no_memory(void **state)
{
    (void)state;
    nxm_mem_fail_at(1);
    for (uint64_t id = 1; id <= 4 * NXM_QUEUED_SHARDS; id++) {
        accepted(id, id);
        nxm_queued_finish(&queued, nxm_queued_take(&queued, id, id), &complete);
    }
    nxm_mem_fail_at(0);
}

static void without_memory_for_a_further_entry_none_is_given(void **state)
{
    struct nxm_block block = { .id = 7 + NXM_QUEUED_SHARDS };

    (void)state;
    accepted(7, 100);
    nxm_mem_fail_at(1);
    assert_null(nxm_queued_reserve(&queued, &block));
}

static void without_memory_to_grow_the_set_goes_on(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200; i++) { /* one shard, far past its first buckets */
        struct nxm_block block = { .id = 1 + i * NXM_QUEUED_SHARDS };
        struct nxm_entry *entry = nxm_queued_reserve(&queued, &block);

        nxm_mem_fail_at(1);
        nxm_queued_publish(&queued, entry);
        nxm_mem_fail_at(0);
        assert_int_equal(nxm_queued_settle(&queued, entry, true, i), NXM_SETTLED_STAYS);
    }
    for (uint64_t i = 0; i < 200; i++)
        nxm_queued_finish(&queued, nxm_queued_take(&queued, 1 + i * NXM_QUEUED_SHARDS, i), &complete);
}

static void a_recycled_entry_serves_again(void **state)
{
    struct nxm_entry *first = entering(7);

    (void)state;
    assert_int_equal(nxm_queued_settle(&queued, first, false, 0), NXM_SETTLED_WITHDRAWN);
    nxm_queued_recycle(&queued, first);
    nxm_mem_fail_at(1); /* the next request would fail: none is made */
    assert_ptr_equal(entering(7 + NXM_QUEUED_SHARDS), first);
    nxm_mem_fail_at(0);
}

/* --- two threads --------------------------------------------------------------------------------- */

#define ROUNDS 2000u

static atomic_uint_fast64_t open_id; /* the id now being entered */
static atomic_uint taken;

static void *completer(void *argument)
{
    (void)argument;
    for (uint64_t id = 1; id <= ROUNDS; id++) {
        struct nxm_entry *entry;

        while (atomic_load(&open_id) < id) {
        }
        entry = nxm_queued_take(&queued, id, id);
        if (entry == NULL)
            continue;
        atomic_fetch_add(&taken, 1);
        nxm_queued_finish(&queued, entry, &(struct nxm_release){ .unmapped = id });
    }
    return NULL;
}

static void a_completion_racing_the_refusal_is_seen_by_exactly_one(void **state)
{
    unsigned withdrawn = 0;
    pthread_t thread;

    (void)state;
    atomic_store(&open_id, 0);
    atomic_store(&taken, 0);
    assert_int_equal(pthread_create(&thread, NULL, completer, NULL), 0);
    for (uint64_t id = 1; id <= ROUNDS; id++) {
        struct nxm_entry *entry = entering(id);

        atomic_store(&open_id, id);
        if (nxm_queued_settle(&queued, entry, false, 0) == NXM_SETTLED_WITHDRAWN)
            withdrawn++;
        else
            assert_int_equal(entry->release.unmapped, id);
        nxm_queued_recycle(&queued, entry);
    }
    pthread_join(thread, NULL);
    assert_int_equal(withdrawn + atomic_load(&taken), ROUNDS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, empty, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_accepted_entry_is_taken_once_by_its_id_and_ticket),
        TEST(a_stranger_finds_nothing),
        TEST(a_known_ticket_must_match),
        TEST(an_unpublished_entry_is_not_found),
        TEST(a_refused_entry_is_withdrawn),
        TEST(a_completion_inside_the_call_wins_over_either_answer),
        TEST(many_entries_keep_their_own_tickets),
        TEST(one_entry_of_each_shard_needs_no_memory),
        TEST(without_memory_for_a_further_entry_none_is_given),
        TEST(without_memory_to_grow_the_set_goes_on),
        TEST(a_recycled_entry_serves_again),
        TEST(a_completion_racing_the_refusal_is_seen_by_exactly_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
