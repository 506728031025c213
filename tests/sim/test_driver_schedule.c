/* Seeded schedules: the same seed is the same interleaving, other seeds are others, and nothing runs behind the
 * program's back. */
#include "driver_fixture.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { STREAMS = 3, PIECES = 8, ORDER = STREAMS * PIECES };

static char order[ORDER + 1];
static atomic_int order_length;

static void note(void *name)
{
    order[atomic_fetch_add(&order_length, 1) % ORDER] = *(const char *)name;
}

/* Runs one program under a seed; its host functions write down who runs when, its queries how far the device was. */
static void run(uint64_t seed, char *ret_order, uint64_t *ret_progress)
{
    static const char names[STREAMS] = { 'a', 'b', 'c' };
    CUstream s[STREAMS];
    memset(order, 0, sizeof order);
    atomic_store(&order_length, 0);
    *ret_progress = 0;
    sim_seed(seed);
    for (int i = 0; i < STREAMS; i++) s[i] = new_stream();
    for (int n = 0; n < PIECES; n++)
        for (int i = 0; i < STREAMS; i++) {
            assert_ok(cuLaunchHostFunc(s[i], note, (void *)&names[i]));
            *ret_progress = *ret_progress * 31 + sim_pending(s[0]);
        }
    assert_ok(cuCtxSynchronize());
    for (int i = 0; i < STREAMS; i++) assert_ok(cuStreamDestroy(s[i]));
    sim_seed(0);
    assert_int_equal(atomic_load(&order_length), ORDER);
    memcpy(ret_order, order, sizeof order);
}

static void the_same_seed_is_the_same_interleaving(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        char first[ORDER + 1], second[ORDER + 1];
        uint64_t a, b;
        run(seed, first, &a);
        run(seed, second, &b);
        assert_string_equal(first, second);
        assert_int_equal(a, b);
    }
}

static void other_seeds_are_other_interleavings(void **state)
{
    (void)state;
    static char seen[20][ORDER + 1];
    int distinct = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t progress;
        int known = 0;
        run(seed, seen[seed - 1], &progress);
        for (uint64_t i = 0; i + 1 < seed; i++) known |= strcmp(seen[i], seen[seed - 1]) == 0;
        distinct += !known;
    }
    assert_true(distinct >= 18); /* two of the seeds may agree; all of them would mean that nothing is explored */
}

static void with_a_seed_nothing_runs_between_calls(void **state)
{
    (void)state;
    sim_seed(1);
    CUstream s = new_stream();
    for (int i = 0; i < 100; i++) assert_ok(cuLaunchHostFunc(s, note, "x"));
    uint64_t pending = sim_pending(s), clock = sim_clock();
    usleep(20000);
    assert_int_equal(sim_pending(s), pending);
    assert_int_equal(sim_clock(), clock);
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_pending(s), 0);
    assert_int_equal(sim_clock(), clock + pending);
    sim_seed(0);
}

static void a_held_stream_stays_held_under_a_seed(void **state)
{
    (void)state;
    sim_seed(7);
    CUstream held = new_stream(), other = new_stream();
    assert_ok(sim_hold(held));
    for (int i = 0; i < 4; i++) assert_ok(cuLaunchHostFunc(held, note, "x"));
    assert_ok(cuLaunchHostFunc(other, note, "y"));
    assert_ok(cuStreamSynchronize(other));
    assert_int_equal(sim_pending(held), 4);
    assert_ok(sim_step(held, 1));
    assert_int_equal(sim_pending(held), 3); /* at once: the stream is its own master */
    for (int i = 0; i < 200; i++) assert_ok(cuStreamQuery(other));
    assert_int_equal(sim_pending(held), 3);
    assert_ok(sim_release(held));
    assert_ok(cuStreamSynchronize(held));
    sim_seed(0);
}

static void queued_work_survives_the_change_of_schedule(void **state)
{
    (void)state;
    CUstream s = new_stream();
    assert_ok(sim_hold(s));
    for (int i = 0; i < 10; i++) assert_ok(cuLaunchHostFunc(s, note, "x"));
    sim_seed(3);
    assert_ok(sim_release(s));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(sim_hold(s));
    for (int i = 0; i < 10; i++) assert_ok(cuLaunchHostFunc(s, note, "x"));
    sim_seed(0);
    assert_ok(sim_release(s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(sim_pending(s), 0);
}

static atomic_int gate, byte_written;

static void wait_for_the_program(void *arg)
{
    (void)arg;
    while (!atomic_load(&gate)) usleep(1000);
}

static void write_byte(void *arg)
{
    (void)arg;
    atomic_store(&byte_written, 1);
}

static void a_host_function_that_waits_for_the_program_does_not_stop_it(void **state)
{
    (void)state;
    sim_seed(5);
    CUstream s = new_stream();
    atomic_store(&gate, 0);
    assert_ok(cuLaunchHostFunc(s, wait_for_the_program, NULL));
    for (int i = 0; i < 100; i++) assert_cu(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    atomic_store(&gate, 1);
    assert_ok(cuStreamSynchronize(s));
    sim_seed(0);
}

static void a_program_that_watches_memory_instead_of_calling_is_served(void **state)
{
    (void)state;
    sim_seed(2);
    CUstream s = new_stream();
    atomic_store(&byte_written, 0);
    assert_ok(cuLaunchHostFunc(s, write_byte, NULL));
    while (!atomic_load(&byte_written)) usleep(1000);
    assert_ok(cuStreamSynchronize(s));
    sim_seed(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(the_same_seed_is_the_same_interleaving),
        on_device(other_seeds_are_other_interleavings),
        on_device(with_a_seed_nothing_runs_between_calls),
        on_device(a_held_stream_stays_held_under_a_seed),
        on_device(queued_work_survives_the_change_of_schedule),
        on_device(a_host_function_that_waits_for_the_program_does_not_stop_it),
        on_device(a_program_that_watches_memory_instead_of_calling_is_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
