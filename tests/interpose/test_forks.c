/* Who waits for whom between forks and what must not be cut in two by one. A nap is counted and takes no time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "interpose/forks.h"

static _Atomic unsigned naps;

__attribute__((visibility("default"))) long syscall(long number, ...)
{
    if (number == SYS_nanosleep)
        naps++;
    errno = EINTR;
    return -1;
}

static unsigned naps_of(void (*call)(void))
{
    unsigned before = naps;

    call();
    return naps - before;
}

static void *hold(void *unused)
{
    nxm_forks_hold();
    return unused;
}

static void *begin_to_fork(void *unused)
{
    nxm_forks_before();
    return unused;
}

static void by_another(void *(*call)(void *))
{
    pthread_t thread;
    void *left_with;

    assert_int_equal(pthread_create(&thread, NULL, call, NULL), 0);
    assert_int_equal(pthread_join(thread, &left_with), 0);
    assert_null(left_with); /* or it was cancelled */
}

static void who_holds_forks_up_may_fork(void **state)
{
    (void)state;
    assert_int_equal(naps_of(nxm_forks_hold), 0);
    assert_int_equal(naps_of(nxm_forks_before), 0);
    nxm_forks_in_parent();
    nxm_forks_let();
}

static void another_thread_waits_and_not_for_ever(void **state)
{
    (void)state;
    by_another(hold);
    errno = 0;
    assert_int_equal(naps_of(nxm_forks_before), 1000);
    assert_int_equal(errno, 0);
    nxm_forks_in_parent();
    nxm_forks_let();
    assert_int_equal(naps_of(nxm_forks_before), 0);
    nxm_forks_in_parent();
}

static void who_holds_waits_for_forks_that_have_begun_and_not_for_ever(void **state)
{
    (void)state;
    by_another(begin_to_fork);
    assert_int_equal(naps_of(nxm_forks_hold), 1000);
    nxm_forks_let();
    nxm_forks_in_child(); /* where that thread is not */
    assert_int_equal(naps_of(nxm_forks_hold), 0);
    nxm_forks_let();
}

/* Another library's handler, which allocates, runs behind ours. */
static void who_allocates_in_a_fork_of_its_own_does_not_wait_for_it(void **state)
{
    (void)state;
    nxm_forks_before();
    assert_int_equal(naps_of(nxm_forks_hold), 0);
    nxm_forks_let();
    by_another(begin_to_fork);
    assert_int_equal(naps_of(nxm_forks_hold), 1000);
    nxm_forks_in_child();
    assert_int_equal(naps_of(nxm_forks_hold), 0);
    nxm_forks_let();
}

static void *fork_with_a_cancellation_pending(void *unused)
{
    pthread_cancel(pthread_self());
    nxm_forks_before();
    nxm_forks_in_parent();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return unused;
}

static void *hold_with_a_cancellation_pending(void *unused)
{
    pthread_cancel(pthread_self());
    nxm_forks_hold();
    nxm_forks_let();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return unused;
}

static void no_thread_ends_while_it_waits(void **state)
{
    (void)state;
    by_another(hold);
    by_another(fork_with_a_cancellation_pending);
    nxm_forks_let();
    by_another(begin_to_fork);
    by_another(hold_with_a_cancellation_pending);
    nxm_forks_in_child();
}

static void a_child_waits_for_nobody(void **state)
{
    (void)state;
    by_another(hold);
    nxm_forks_before();
    nxm_forks_in_child();
    assert_int_equal(naps_of(nxm_forks_before), 0);
    nxm_forks_in_parent();
    assert_int_equal(naps_of(nxm_forks_hold), 0);
    nxm_forks_let();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_holds_forks_up_may_fork),
        cmocka_unit_test(another_thread_waits_and_not_for_ever),
        cmocka_unit_test(who_holds_waits_for_forks_that_have_begun_and_not_for_ever),
        cmocka_unit_test(who_allocates_in_a_fork_of_its_own_does_not_wait_for_it),
        cmocka_unit_test(no_thread_ends_while_it_waits),
        cmocka_unit_test(a_child_waits_for_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
