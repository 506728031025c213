/* core/allocator.c, module.c: callbacks that have done what they were for and are about to return. Each yield of a waiting thread runs
 * a step of the test, so no test depends on time. Modules stay behind here: a program of its own. */
#include "core/allocator.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/support/fake.h"
#include "tests/unit/support/host.h"

static sem_t arrived, may_go;
static pthread_t thread;
static unsigned yields;
static bool goes_in_time; /* the first yield lets the callback return, and waits for that */
static struct nxm_allocator *to_close;

static void let_go(void)
{
    sem_post(&may_go);
    pthread_join(thread, NULL);
}

/* In place of libc's. */
int sched_yield(void)
{
    yields++;
    if (goes_in_time) {
        goes_in_time = false;
        let_go();
    }
    return 0;
}

/* The embedder's, inside the plugin's callback: the books are done, the queued release is not over. */
static void completed(void *owner, const struct nxm_block *block, const struct nxm_release *release)
{
    (void)owner;
    (void)block;
    (void)release;
    if (to_close != NULL) {
        nxm_allocator_unref(to_close);
        return;
    }
    sem_post(&arrived);
    sem_wait(&may_go);
}

static void *complete(void *state)
{
    uint32_t status = 99;

    return fake_complete_one(state, &status) && status == 0 ? NULL : state;
}

static int setup(void **state)
{
    int result = host_setup(state);

    alarm(200); /* a wait without end ends */
    sem_init(&arrived, 0, 0);
    sem_init(&may_go, 0, 0);
    yields = 0;
    goes_in_time = false;
    to_close = NULL;
    fake.extra_flags = NXMEM_CAPABILITY_DEFERRED_RELEASE;
    fake.drain_nothing = true;
    host.options.completed = completed;
    if (result == 0)
        host_open();
    return result;
}

static int teardown(void **state)
{
    (void)state;
    nxm_blocks_free(host.blocks);
    sem_destroy(&arrived);
    sem_destroy(&may_go);
    fake_reset();
    return 0;
}

static void queue_one(void)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;

    assert_int_equal(host_enqueue(&block, &release), NXM_OK);
}

/* A thread of the plugin completes the one that is queued, and stays inside the callback. */
static void complete_and_stay(void)
{
    assert_int_equal(pthread_create(&thread, NULL, complete, fake.last_state), 0);
    sem_wait(&arrived);
}

static struct nxm_module_counters counters(void)
{
    struct nxm_module_counters now;

    nxm_module_counters(&now);
    return now;
}

static void a_teardown_lets_the_last_completion_return(void **state)
{
    struct nxm_module_counters before = counters();
    struct nxm_gate gate;

    (void)state;
    queue_one();
    complete_and_stay();
    goes_in_time = true;
    host_close();
    assert_int_equal(yields, 1);
    assert_int_equal(counters().leaked_callback_tables, before.leaked_callback_tables);
    assert_int_equal(nxm_module_unload(host.module, &gate), NXM_OK);
}

static void a_teardown_does_not_wait_for_ever_and_leaks_then(void **state)
{
    struct nxm_module_counters before = counters();

    (void)state;
    queue_one();
    complete_and_stay();
    host_close();
    assert_int_equal(yields, 1000);
    assert_int_equal(counters().leaked_callback_tables, before.leaked_callback_tables + 1);
    let_go();
    assert_int_equal(counters().reclaimed_callback_tables, before.reclaimed_callback_tables + 1);
    nxm_module_drop(host.module);
    assert_int_equal(counters().forced_module_leaks, before.forced_module_leaks);
}

/* From inside a callback, which cannot return before the teardown does: of another allocator, that has nothing queued. */
static void a_teardown_with_nothing_queued_waits_for_no_callback(void **state)
{
    struct fake_state *queued = fake.last_state;
    struct nxm_allocator *first = host.allocator;
    struct nxm_gate gate;
    uint32_t status = 99;

    (void)state;
    queue_one();
    host_open();
    to_close = host.allocator;
    host.allocator = first;
    assert_true(fake_complete_one(queued, &status));
    assert_int_equal(status, 0);
    assert_int_equal(fake.releases, 1);
    assert_int_equal(yields, 0);
    host_close();
    assert_int_equal(nxm_module_unload(host.module, &gate), NXM_OK);
}

/* The callback is all that is left of the module: nothing is live or queued in it. */
static void close_around_the_callback(void)
{
    struct nxm_gate gate;

    queue_one();
    complete_and_stay();
    host_close();
    yields = 0;
    nxm_module_query_gate(host.module, &gate);
    assert_int_equal(gate.reason, NXM_GATE_HOST);
    assert_int_equal(gate.host.inside, 1);
    assert_int_equal(gate.host.allocators + gate.host.allocations + gate.host.queued, 0);
}

static void a_plugin_dropped_around_a_callback_stays_for_good(void **state)
{
    struct nxm_module_counters before = counters();

    (void)state;
    close_around_the_callback();
    nxm_module_drop(host.module);
    assert_int_equal(yields, 1000);
    assert_int_equal(counters().forced_module_leaks, before.forced_module_leaks + 1);
    assert_int_equal(counters().modules_unmapped, before.modules_unmapped);
    assert_int_equal(fake.factory_releases, 1); /* released all the same */
    let_go();
    assert_int_equal(fake.unmapped, 0);
}

static void a_callback_that_returns_in_time_forces_nothing(void **state)
{
    struct nxm_module_counters before = counters();

    (void)state;
    close_around_the_callback();
    goes_in_time = true;
    nxm_module_drop(host.module);
    assert_int_equal(yields, 1);
    assert_int_equal(counters().forced_module_leaks, before.forced_module_leaks); /* the table it leaked keeps the code */
    assert_int_equal(fake.unmapped, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_teardown_lets_the_last_completion_return),
        TEST(a_teardown_does_not_wait_for_ever_and_leaks_then),
        TEST(a_teardown_with_nothing_queued_waits_for_no_callback),
        TEST(a_plugin_dropped_around_a_callback_stays_for_good),
        TEST(a_callback_that_returns_in_time_forces_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
