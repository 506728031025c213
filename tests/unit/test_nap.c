/* core/nap.c: a pause that is nobody's occasion to end a thread. */
#include "core/nap.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static atomic_int asked, slept;

static void *sleep_with_a_cancellation_pending(void *unused)
{
    while (!atomic_load(&asked))
        ; /* no cancellation point either */
    nxm_nap(1000);
    atomic_store(&slept, 1);
    return unused;
}

static void a_thread_that_is_cancelled_comes_back_from_it(void **state)
{
    pthread_t thread;
    void *left_with;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, sleep_with_a_cancellation_pending, NULL), 0);
    assert_int_equal(pthread_cancel(thread), 0);
    atomic_store(&asked, 1);
    assert_int_equal(pthread_join(thread, &left_with), 0);
    assert_int_equal(atomic_load(&slept), 1);
}

static void errno_is_as_it_was(void **state)
{
    (void)state;
    errno = 1234;
    nxm_nap(1);
    nxm_nap(-1); /* refused by the kernel */
    assert_int_equal(errno, 1234);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_is_cancelled_comes_back_from_it),
        cmocka_unit_test(errno_is_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
