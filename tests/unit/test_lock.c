/* core/lock, in its checking form: compiled in here under other names, beside the plain one of the library. */
#define NXM_LOCK_CHECKS 1
#define nxm_lock_init checked_lock_init
#define nxm_lock_clear checked_lock_clear
#define nxm_lock_acquire checked_lock_acquire
#define nxm_lock_release checked_lock_release
#define nxm_lock_assert_none checked_lock_assert_none
#define nxm_lock_note checked_lock_note
#define nxm_lock_unnote checked_lock_unnote
#include "core/lock.c"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct nxm_lock outer = NXM_LOCK_INIT(NXM_RANK_MODULE);
static struct nxm_lock inner = NXM_LOCK_INIT(NXM_RANK_ALLOCATOR);
static struct nxm_lock inner_twin = NXM_LOCK_INIT(NXM_RANK_ALLOCATOR);

/* Runs it in a child, which has to die of a trap or leave with 0; nothing else is an answer. */
static bool traps(void (*body)(void))
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGILL, SIG_DFL); /* a sanitizer turns it into an exit */
        signal(SIGTRAP, SIG_DFL);
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        assert_int_equal(WEXITSTATUS(status), 0);
    else
        assert_true(WTERMSIG(status) == SIGILL || WTERMSIG(status) == SIGTRAP);
    return WIFSIGNALED(status);
}

static void take_in_order(void)
{
    checked_lock_acquire(&outer);
    checked_lock_acquire(&inner);
    checked_lock_release(&inner);
    checked_lock_release(&outer);
    checked_lock_assert_none();
}

static void take_in_order_release_crosswise(void)
{
    checked_lock_acquire(&outer);
    checked_lock_acquire(&inner);
    checked_lock_release(&outer);
    checked_lock_release(&inner);
    checked_lock_assert_none();
    checked_lock_acquire(&outer);
    checked_lock_release(&outer);
}

static void take_against_order(void)
{
    checked_lock_acquire(&inner);
    checked_lock_acquire(&outer);
}

static void take_two_of_one_rank(void)
{
    checked_lock_acquire(&inner);
    checked_lock_acquire(&inner_twin);
}

static void take_lower_below_a_released_higher(void)
{
    checked_lock_acquire(&inner);
    checked_lock_release(&inner);
    checked_lock_acquire(&outer);
    checked_lock_release(&outer);
}

static void release_what_is_not_held(void)
{
    checked_lock_release(&outer);
}

static void foreign_call_with_a_lock(void)
{
    checked_lock_acquire(&outer);
    checked_lock_assert_none();
}

static void rising_ranks_are_free_to_go(void **state)
{
    (void)state;
    assert_false(traps(take_in_order));
    assert_false(traps(take_lower_below_a_released_higher));
}

static void release_order_does_not_matter(void **state)
{
    (void)state;
    assert_false(traps(take_in_order_release_crosswise));
}

static void a_lower_rank_traps_before_it_waits(void **state)
{
    (void)state;
    assert_true(traps(take_against_order));
}

static void an_equal_rank_traps(void **state)
{
    (void)state;
    assert_true(traps(take_two_of_one_rank));
}

static void releasing_a_lock_not_held_traps(void **state)
{
    (void)state;
    assert_true(traps(release_what_is_not_held));
}

static void a_foreign_call_under_a_lock_traps(void **state)
{
    (void)state;
    assert_true(traps(foreign_call_with_a_lock));
}

static void *hold_a_high_rank(void *unused)
{
    checked_lock_acquire(&inner_twin);
    checked_lock_release(&inner_twin);
    return unused;
}

static void what_another_thread_holds_is_not_ours(void **state)
{
    pthread_t thread;

    (void)state;
    checked_lock_acquire(&inner);
    assert_int_equal(pthread_create(&thread, NULL, hold_a_high_rank, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    checked_lock_release(&inner);
}

static struct nxm_lock counted = NXM_LOCK_INIT(NXM_RANK_MISUSE);
static int counter;

static void *count_up(void *unused)
{
    for (int i = 0; i < 20000; i++) {
        checked_lock_acquire(&counted);
        counter++;
        checked_lock_release(&counted);
    }
    return unused;
}

static void one_thread_at_a_time_is_inside(void **state)
{
    pthread_t threads[4];

    (void)state;
    counter = 0;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(counter, 4 * 20000);
}

static void init_and_clear_make_a_working_lock_of_that_rank(void **state)
{
    struct nxm_lock lock;

    (void)state;
    checked_lock_init(&lock, NXM_RANK_LANE);
    assert_int_equal(lock.rank, NXM_RANK_LANE);
    checked_lock_acquire(&lock);
    assert_int_not_equal(pthread_mutex_trylock(&lock.mutex), 0);
    checked_lock_release(&lock);
    assert_int_equal(pthread_mutex_trylock(&lock.mutex), 0);
    pthread_mutex_unlock(&lock.mutex);
    checked_lock_clear(&lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rising_ranks_are_free_to_go),
        cmocka_unit_test(release_order_does_not_matter),
        cmocka_unit_test(a_lower_rank_traps_before_it_waits),
        cmocka_unit_test(an_equal_rank_traps),
        cmocka_unit_test(releasing_a_lock_not_held_traps),
        cmocka_unit_test(a_foreign_call_under_a_lock_traps),
        cmocka_unit_test(what_another_thread_holds_is_not_ours),
        cmocka_unit_test(one_thread_at_a_time_is_inside),
        cmocka_unit_test(init_and_clear_make_a_working_lock_of_that_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
