/* Every entry point, given nothing: it answers, and is still there to answer the next one. Integers of 0 and pointers of NULL
 * look alike to a function that takes up to twelve of them, so one call fits all; what is passed by value on the stack (handles
 * of other processes, locations) reads as zeros too. */
#include "driver_fixture.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int (*any_fn)(long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long);

static int with_nothing(any_fn call)
{
    return call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

/* Those that end or replace what the test stands on. */
static int is_left_out(const char *symbol)
{
    return strstr(symbol, "PrimaryCtxReset") || strstr(symbol, "PrimaryCtxRelease");
}

static void ask_all(void)
{
    int simulated;
    for (size_t i = 0; sim_symbol(i, &simulated); i++) {
        const char *symbol = sim_symbol(i, NULL);
        any_fn call = (any_fn)dlsym(RTLD_DEFAULT, symbol);
        if (!simulated || is_left_out(symbol)) continue;
        assert_non_null(call);
        uint64_t before = sim_calls(symbol);
        fprintf(stderr, "%s\n", symbol); /* the last line names a crash */
        int code = with_nothing(call);
        assert_true(code >= 0 && code <= CUDA_ERROR_UNKNOWN);
        assert_int_equal(sim_calls(symbol), before + 1);
    }
}

static void every_entry_point_takes_nothing_with_a_context(void **state)
{
    (void)state;
    ask_all();
    assert_int_equal(sim_violations(), 0);
}

static void every_entry_point_takes_nothing_without_a_context(void **state)
{
    (void)state;
    assert_ok(cuCtxSetCurrent(NULL));
    ask_all();
    assert_int_equal(sim_violations(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(every_entry_point_takes_nothing_with_a_context),
        on_device(every_entry_point_takes_nothing_without_a_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
