/* Phases: who is served when. One order only, for phases do not come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake_driver.h"
#include "interpose/door.h"
#include "interpose/forks.h"
#include "interpose/lifecycle.h"
#include "interpose/process.h"
#include "interpose/thread.h"

static void a_call_that_may_not_begin_begins_nothing(void **state)
{
    (void)state;
    assert_int_equal(nxm_enter(NULL, false), NXM_MODE_NATIVE);
    assert_null(nxm_plugin());
    assert_null(nxm_table(NXM_TABLE_MEMORY));
}

static void *first_call(void *unused)
{
    (void)unused;
    enum nxm_mode mode = nxm_enter(NULL, true);
    nxm_leave(mode);
    return (void *)(uintptr_t)(mode == NXM_MODE_SERVE && nxm_plugin() != NULL);
}

static _Atomic bool has_looked;

/* Says so in a way that orders nothing: a sanitizer sees what changes under those who look. */
static void *look_on(void *unused)
{
    nxm_leave(nxm_enter(NULL, false));
    atomic_store_explicit(&has_looked, true, memory_order_relaxed);
    return unused;
}

static void of_eight_first_callers_all_are_served(void **state)
{
    pthread_t thread[8], onlooker;
    (void)state;
    assert_int_equal(pthread_create(&onlooker, NULL, look_on, NULL), 0);
    while (!atomic_load_explicit(&has_looked, memory_order_relaxed))
        sched_yield();
    setenv("NXMEM_PLUGIN", NXM_TEST_PLUGIN, 1);
    setenv("NXMEM_HOST_AS_DEVICE", "1", 1);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, first_call, NULL), 0);
    for (int i = 0; i < 8; i++) {
        void *served = NULL;
        pthread_join(thread[i], &served);
        assert_non_null(served);
    }
    pthread_join(onlooker, NULL);
}

static _Atomic unsigned naps;

__attribute__((visibility("default"))) long syscall(long number, ...)
{
    long (*real_syscall)(long, ...);
    long a[6];
    va_list arguments;

    *(void **)&real_syscall = dlsym(RTLD_NEXT, "syscall");
    naps += number == SYS_nanosleep;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long); /* as the real one does, however many there are */
    va_end(arguments);
    return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void after_the_first_use_no_fork_is_held_up(void **state)
{
    unsigned before = naps;

    (void)state;
    nxm_forks_before();
    nxm_forks_in_parent();
    assert_int_equal(naps - before, 0);
}

static void a_call_inside_a_foreign_call_is_the_plugins(void **state)
{
    (void)state;
    nxm_foreign_begin();
    enum nxm_mode mode = nxm_enter(NULL, true);
    nxm_leave(mode);
    nxm_foreign_end();
    assert_int_equal(mode, NXM_MODE_NESTED);
}

static void a_call_from_the_plugins_code_is_the_plugins(void **state)
{
    void *code = nxm_module_symbol(nxm_plugin(), NXMEM_SYMBOL_NEGOTIATE);
    (void)state;
    assert_non_null(code);
    assert_int_equal(nxm_enter(code, true), NXM_MODE_NESTED);
    assert_true(nxm_is_plugins_call(code));
    assert_false(nxm_is_plugins_call(NULL));
}

static void the_plugin_is_not_taken_from_under_a_thread_that_is_inside(void **state)
{
    (void)state;
    nxm_door_count_in();
    assert_null(nxm_plugin_take());
    assert_non_null(nxm_plugin()); /* put back */
    nxm_door_count_out();
}

static void a_served_call_is_inside_until_it_leaves(void **state)
{
    (void)state;
    enum nxm_mode mode = nxm_enter(NULL, false);
    assert_int_equal(mode, NXM_MODE_SERVE);
    assert_int_equal(nxm_door_wait(), 1);
    nxm_leave(mode);
    assert_int_equal(nxm_door_wait(), 0);
}

static void *come_in(void *ret_lines)
{
    uint32_t *lines = ret_lines;

    lines[0] = nxm_spread_here();
    enum nxm_mode mode = nxm_enter(NULL, false);
    lines[1] = nxm_spread_here();
    nxm_leave(mode);
    return NULL;
}

static void a_thread_that_comes_in_has_a_line_of_its_own(void **state)
{
    uint32_t lines[2] = { 1, 0 };
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, come_in, lines), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(lines[0], 0);
    assert_int_not_equal(lines[1], 0);
    for (unsigned i = 0; i < NXM_SPREAD_LINES; i++)
        assert_int_equal(nxm_door_inside.lines[i].sums[0], 0);
}

static void behind_a_closed_door_calls_are_late_and_the_plugins_its_own(void **state)
{
    void *code = nxm_module_symbol(nxm_plugin(), NXMEM_SYMBOL_NEGOTIATE);
    (void)state;
    nxm_door_close();
    assert_int_equal(nxm_enter(NULL, true), NXM_MODE_LATE);
    assert_int_equal(nxm_enter(code, true), NXM_MODE_NESTED);
    assert_int_equal(nxm_door_wait(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_may_not_begin_begins_nothing),
        cmocka_unit_test(of_eight_first_callers_all_are_served),
        cmocka_unit_test(after_the_first_use_no_fork_is_held_up),
        cmocka_unit_test(a_call_inside_a_foreign_call_is_the_plugins),
        cmocka_unit_test(a_call_from_the_plugins_code_is_the_plugins),
        cmocka_unit_test(the_plugin_is_not_taken_from_under_a_thread_that_is_inside),
        cmocka_unit_test(a_served_call_is_inside_until_it_leaves),
        cmocka_unit_test(a_thread_that_comes_in_has_a_line_of_its_own),
        cmocka_unit_test(behind_a_closed_door_calls_are_late_and_the_plugins_its_own),
    };
    fake_driver_reset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
