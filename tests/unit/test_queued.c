/* core/queued.c: one party takes an entry, whichever comes first; nothing else finds it afterwards. */
#include "core/queued.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/ids.h"
#include "core/mem.h"

static struct nxm_queued queued;

static int empty(void **state)
{
    (void)state;
    alarm(200); /* a wait without end ends */
    nxm_queued_init(&queued, NULL);
    return 0;
}

/* Every seat is somebody else's: what is queued goes to the shards at once. */
static int crowded(void **state)
{
    empty(state);
    for (unsigned i = 0; i < NXM_QUEUED_SEATS; i++)
        atomic_store(&queued.seats[i].word, NXM_SEAT_BUSY);
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

static struct nxm_entry *take(uint64_t id, uint64_t ticket)
{
    bool stayed;

    return nxm_queued_take(&queued, id, ticket, &stayed);
}

static const struct nxm_release complete = { .outcome = NXM_RELEASE_COMPLETE, .unmapped = 4096 };

/* Says that it has taken the entry in a way that orders nothing else. */
static void *take_say_so_and_finish(void *argument)
{
    atomic_bool *taken = argument;
    struct nxm_entry *entry = take(7, 100);

    atomic_store_explicit(taken, true, memory_order_relaxed);
    nxm_queued_finish(&queued, entry, &complete);
    return NULL;
}

static void the_enqueuer_sees_the_whole_outcome_of_a_completion_elsewhere(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct nxm_entry *entry = entering(7);
        atomic_bool taken = false;
        pthread_t thread;

        entry->release = (struct nxm_release){ 0 };
        assert_int_equal(pthread_create(&thread, NULL, take_say_so_and_finish, &taken), 0);
        while (!atomic_load_explicit(&taken, memory_order_relaxed))
            sched_yield();
        assert_int_equal(nxm_queued_settle(&queued, entry, i % 2 == 0, 100), NXM_SETTLED_COMPLETED); /* whatever the plugin said */
        assert_int_equal(entry->release.outcome, complete.outcome);
        assert_int_equal(entry->release.unmapped, complete.unmapped);
        assert_int_equal(pthread_join(thread, NULL), 0);
        nxm_queued_recycle(&queued, entry);
    }
}

/* More than the one of each shard that is no memory of its own; a sanitizer sees what is not freed. */
static void what_is_still_queued_goes_with_the_set(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 4 * NXM_QUEUED_SHARDS; id++)
        accepted(id, id);
}

static void an_accepted_entry_is_taken_once_by_its_id_and_ticket(void **state)
{
    struct nxm_entry *entry;

    (void)state;
    accepted(7, 100);
    entry = take(7, 100);
    assert_non_null(entry);
    assert_int_equal(entry->block.address, 7 * 4096);
    assert_null(take(7, 100));
    nxm_queued_finish(&queued, entry, &complete);
    assert_null(take(7, 100));
}

static void a_stranger_finds_nothing(void **state)
{
    (void)state;
    accepted(7, 100);
    assert_null(take(8, 100));
    assert_null(take(7 + NXM_QUEUED_SHARDS, 100));                            /* the same shard */
    assert_null(take(7 + NXM_QUEUED_SHARDS * NXM_QUEUED_FIRST_BUCKETS, 100)); /* the same bucket */
}

static void a_known_ticket_must_match(void **state)
{
    (void)state;
    accepted(7, 100);
    assert_null(take(7, 101));
    nxm_queued_finish(&queued, take(7, 100), &complete);
}

static void an_unpublished_entry_is_not_found(void **state)
{
    struct nxm_block block = { .id = 7 };
    struct nxm_entry *entry = nxm_queued_reserve(&queued, &block);

    (void)state;
    assert_null(take(7, 0));
    nxm_queued_recycle(&queued, entry);
}

static void a_refused_entry_is_withdrawn(void **state)
{
    struct nxm_entry *entry = entering(7);

    (void)state;
    assert_int_equal(nxm_queued_settle(&queued, entry, false, 0), NXM_SETTLED_WITHDRAWN);
    assert_null(take(7, 0));
    nxm_queued_recycle(&queued, entry);
}

static void a_completion_inside_the_call_wins_over_either_answer(void **state)
{
    (void)state;
    for (int accept = 0; accept <= 1; accept++) {
        struct nxm_entry *entry = entering(7);

        assert_ptr_equal(take(7, 12345), entry); /* no ticket is known yet */
        assert_null(take(7, 12345));
        nxm_queued_finish(&queued, entry, &complete);
        assert_int_equal(nxm_queued_settle(&queued, entry, accept, 1), NXM_SETTLED_COMPLETED);
        assert_int_equal(entry->release.unmapped, 4096);
        nxm_queued_recycle(&queued, entry);
    }
}

static struct nxm_entry *under_way; /* taken, and finished when somebody waits for it */

/* In place of libc's. */
int sched_yield(void)
{
    struct nxm_entry *entry = under_way;

    if (entry != NULL) {
        under_way = NULL;
        nxm_queued_finish(&queued, entry, &complete);
    }
    return (int)syscall(SYS_sched_yield);
}

static void an_enqueuer_waits_for_the_completion_that_took_its_entry(void **state)
{
    (void)state;
    for (int accept = 0; accept <= 1; accept++) {
        struct nxm_entry *entry = entering(7);

        entry->release = (struct nxm_release){ 0 };
        under_way = take(7, 0);
        assert_ptr_equal(under_way, entry);
        assert_int_equal(nxm_queued_settle(&queued, entry, accept, 1), NXM_SETTLED_COMPLETED);
        assert_null(under_way);
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
        struct nxm_entry *entry = take(id, id + 5);

        assert_non_null(entry);
        assert_int_equal(entry->block.id, id);
        nxm_queued_finish(&queued, entry, &complete);
    }
}

/* What is released one after the other never needs memory: a free has no way to report that there is none. */
static void one_entry_of_each_shard_needs_no_memory(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 4 * NXM_QUEUED_SHARDS; id++) {
        nxm_mem_fail_at(1);
        accepted(id, id);
        nxm_queued_finish(&queued, take(id, id), &complete);
    }
    nxm_mem_fail_at(0);
}

static void without_memory_for_a_further_entry_none_is_given(void **state)
{
    struct nxm_block block = { .id = 7 + NXM_QUEUED_SHARDS };

    (void)state;
    nxm_mem_fail_at(1);
    accepted(7, 100); /* has the shard's own */
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
        nxm_queued_finish(&queued, take(1 + i * NXM_QUEUED_SHARDS, i), &complete);
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

/* --- seats ------------------------------------------------------------------------------------------ */

static void a_release_inside_a_release_is_found_as_well(void **state)
{
    struct nxm_entry *outer = entering(7), *inner = entering(8); /* ids of one row meet in one seat */
    bool stayed = true;

    (void)state;
    assert_non_null(outer->seat);
    assert_null(inner->seat);
    assert_ptr_equal(take(7, 0), outer);
    assert_ptr_equal(nxm_queued_take(&queued, 8, 0, &stayed), inner);
    assert_false(stayed); /* in its shard, but its enqueuer is there */
    nxm_queued_finish(&queued, inner, &complete);
    assert_int_equal(nxm_queued_settle(&queued, inner, true, 0), NXM_SETTLED_COMPLETED);
    nxm_queued_recycle(&queued, inner);
    nxm_queued_finish(&queued, outer, &complete);
    assert_int_equal(nxm_queued_settle(&queued, outer, true, 0), NXM_SETTLED_COMPLETED);
    nxm_queued_recycle(&queued, outer);
}

static void what_a_seat_says_of_itself_is_nobodys_id(void **state)
{
    struct nxm_entry *entry = entering(7);

    (void)state;
    assert_null(take(0, 0));
    assert_null(take(NXM_SEAT_BUSY, 0));
    assert_null(take(7 | NXM_SEAT_BUSY, 0));
    assert_ptr_equal(take(7, 0), entry);
    assert_null(take(7 | NXM_SEAT_BUSY, 0));
    nxm_queued_finish(&queued, entry, &complete);
    assert_int_equal(nxm_queued_settle(&queued, entry, true, 0), NXM_SETTLED_COMPLETED);
    nxm_queued_recycle(&queued, entry);
    assert_null(take(0, 0));
}

static void what_stays_leaves_its_seat_to_the_next(void **state)
{
    bool stayed = false;
    struct nxm_entry *earlier, *next;

    (void)state;
    accepted(7, 100);
    next = entering(8);
    assert_non_null(next->seat);
    earlier = nxm_queued_take(&queued, 7, 100, &stayed);
    assert_non_null(earlier);
    assert_ptr_not_equal(earlier, next);
    assert_true(stayed);
    nxm_queued_finish(&queued, earlier, &complete);
    assert_ptr_equal(nxm_queued_take(&queued, 8, 0, &stayed), next);
    assert_false(stayed);
    nxm_queued_finish(&queued, next, &complete);
    nxm_queued_recycle(&queued, next);
}

static void without_memory_for_it_a_seat_is_left(void **state)
{
    (void)state;
    nxm_mem_fail_at(1);
    assert_null(entering(7)->seat);
    nxm_mem_fail_at(0);
    assert_non_null(entering(8)->seat);
}

/* In place of the library's, which a set that grows calls in the middle of a move. */
static const struct nxm_seat *watched;
static uint64_t word_while_growing;

void *__real_nxm_mem_new(size_t bytes);
void *__wrap_nxm_mem_new(size_t bytes);

void *__wrap_nxm_mem_new(size_t bytes)
{
    if (watched != NULL)
        word_while_growing = atomic_load(&watched->word);
    return __real_nxm_mem_new(bytes);
}

static void a_seat_is_not_free_while_its_entry_moves(void **state)
{
    const uint64_t crowd = 4 * NXM_QUEUED_FIRST_BUCKETS;
    struct nxm_entry *entry;

    (void)state;
    for (uint64_t i = 0; i < crowd; i++)
        accepted(1 + i * NXM_QUEUED_SHARDS, i);
    entry = entering(1 + crowd * NXM_QUEUED_SHARDS);
    watched = entry->seat;
    word_while_growing = 0;
    assert_int_equal(nxm_queued_settle(&queued, entry, true, crowd), NXM_SETTLED_STAYS);
    assert_int_equal(word_while_growing, NXM_SEAT_BUSY);
    assert_int_equal(atomic_load(&watched->word), 0);
    watched = NULL;
}

static void one_after_the_other_share_one_entry(void **state)
{
    struct nxm_entry *first = entering(7);

    (void)state;
    assert_int_equal(nxm_queued_settle(&queued, first, false, 0), NXM_SETTLED_WITHDRAWN);
    nxm_queued_recycle(&queued, first);
    for (uint64_t id = 8; id < 20; id++) {
        nxm_mem_fail_at(1); /* would fail: none is asked for */
        assert_ptr_equal(entering(id), first);
        nxm_mem_fail_at(0);
        assert_int_equal(nxm_queued_settle(&queued, first, false, 0), NXM_SETTLED_WITHDRAWN);
        nxm_queued_recycle(&queued, first);
    }
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
        entry = take(id, id);
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

static void *patient_completer(void *argument)
{
    (void)argument;
    for (uint64_t id = 1; id <= ROUNDS; id++) {
        struct nxm_entry *entry;

        while (atomic_load(&open_id) < id) {
        }
        while ((entry = take(id, id)) == NULL)
            sched_yield();
        if (take(id, id) == NULL)
            atomic_fetch_add(&taken, 1);
        nxm_queued_finish(&queued, entry, &(struct nxm_release){ .unmapped = id });
    }
    return NULL;
}

/* Rows so far apart that their ids meet in one seat. */
static void *accept_and_take(void *first)
{
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t id = *(const uint64_t *)first + i % NXM_IDS_ROW + i / NXM_IDS_ROW * NXM_IDS_ROW * NXM_QUEUED_SEATS * 2;
        struct nxm_entry *entry = entering(id);

        if (entry->block.id != id || nxm_queued_settle(&queued, entry, true, id) != NXM_SETTLED_STAYS || take(id, id) != entry)
            return entry;
        nxm_queued_finish(&queued, entry, &complete);
    }
    return NULL;
}

static void who_meet_in_a_seat_never_share_an_entry(void **state)
{
    uint64_t firsts[2] = { NXM_IDS_ROW, NXM_IDS_ROW + NXM_IDS_ROW * NXM_QUEUED_SEATS };
    pthread_t threads[2];
    void *wrong;

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, accept_and_take, &firsts[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

/* In its seat, in its shard, or on its way: there is no moment at which it is in neither, or in both. */
static void a_completion_racing_the_acceptance_finds_it_once(void **state)
{
    pthread_t thread;

    (void)state;
    atomic_store(&open_id, 0);
    atomic_store(&taken, 0);
    assert_int_equal(pthread_create(&thread, NULL, patient_completer, NULL), 0);
    for (uint64_t id = 1; id <= ROUNDS; id++) {
        struct nxm_entry *entry = entering(id);

        atomic_store(&open_id, id);
        if (nxm_queued_settle(&queued, entry, true, id) == NXM_SETTLED_STAYS)
            continue;
        assert_int_equal(entry->release.unmapped, id);
        nxm_queued_recycle(&queued, entry);
    }
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&taken), ROUNDS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, empty, clear)
#define CROWDED(name) { #name ":crowded", name, crowded, clear, NULL }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_accepted_entry_is_taken_once_by_its_id_and_ticket),
        TEST(a_stranger_finds_nothing),
        TEST(a_known_ticket_must_match),
        TEST(an_unpublished_entry_is_not_found),
        TEST(a_refused_entry_is_withdrawn),
        TEST(a_completion_inside_the_call_wins_over_either_answer),
        TEST(an_enqueuer_waits_for_the_completion_that_took_its_entry),
        TEST(many_entries_keep_their_own_tickets),
        TEST(the_enqueuer_sees_the_whole_outcome_of_a_completion_elsewhere),
        TEST(what_is_still_queued_goes_with_the_set),
        TEST(one_entry_of_each_shard_needs_no_memory),
        TEST(without_memory_for_a_further_entry_none_is_given),
        TEST(without_memory_to_grow_the_set_goes_on),
        TEST(a_recycled_entry_serves_again),
        TEST(a_release_inside_a_release_is_found_as_well),
        TEST(what_a_seat_says_of_itself_is_nobodys_id),
        TEST(what_stays_leaves_its_seat_to_the_next),
        TEST(without_memory_for_it_a_seat_is_left),
        TEST(a_seat_is_not_free_while_its_entry_moves),
        TEST(one_after_the_other_share_one_entry),
        TEST(a_completion_racing_the_refusal_is_seen_by_exactly_one),
        TEST(a_completion_racing_the_acceptance_finds_it_once),
        TEST(who_meet_in_a_seat_never_share_an_entry),
        CROWDED(an_accepted_entry_is_taken_once_by_its_id_and_ticket),
        CROWDED(a_known_ticket_must_match),
        CROWDED(an_unpublished_entry_is_not_found),
        CROWDED(a_refused_entry_is_withdrawn),
        CROWDED(a_completion_inside_the_call_wins_over_either_answer),
        CROWDED(an_enqueuer_waits_for_the_completion_that_took_its_entry),
        CROWDED(many_entries_keep_their_own_tickets),
        CROWDED(the_enqueuer_sees_the_whole_outcome_of_a_completion_elsewhere),
        CROWDED(what_is_still_queued_goes_with_the_set),
        CROWDED(one_entry_of_each_shard_needs_no_memory),
        CROWDED(without_memory_to_grow_the_set_goes_on),
        CROWDED(a_recycled_entry_serves_again),
        CROWDED(a_completion_racing_the_refusal_is_seen_by_exactly_one),
        CROWDED(a_completion_racing_the_acceptance_finds_it_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
