/* The switches for what CUDA leaves open: by call, by variable, by the driver's age. What each of them does is seen by
 * test_facts.sh; a variable is read when the driver is loaded, so those cases start this program again. */
#include "driver_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void every_switch_has_a_name_and_is_set_by_it(void **state)
{
    (void)state;
    size_t n = 0;
    for (const char *name; (name = sim_fact_name(n)); n++) {
        int before = sim_fact_get(name);
        assert_true(before >= 0);
        assert_int_equal(sim_fact_set(name, 7), CUDA_SUCCESS);
        assert_int_equal(sim_fact_get(name), 7);
        assert_int_equal(sim_fact_set(name, before), CUDA_SUCCESS);
    }
    assert_true(n > 20);
    assert_int_equal(sim_fact_get("nothing_of_the_kind"), -1);
    assert_int_equal(sim_fact_set("nothing_of_the_kind", 1), CUDA_ERROR_NOT_FOUND);
}

static void a_switch_works_at_once(void **state)
{
    CUcontext c = *state;
    CUevent e;
    CUgraph g;
    assert_ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (int breaks = 0; breaks < 2; breaks++) {
        CUstream s = new_stream();
        sim_fact_set("context_record_breaks", breaks);
        assert_ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        assert_cu(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxRecordEvent(c, e));
        assert_cu(breaks ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS, cuStreamEndCapture(s, &g));
        if (!breaks) assert_ok(cuGraphDestroy(g));
    }
    assert_ok(cuEventDestroy(e));
}

/* What another process of this program answers for a switch. */
static int asked_with(const char *variable, const char *value, const char *name)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        setenv(variable, value, 1);
        execl("/proc/self/exe", "test_driver_facts", name, (char *)NULL);
        _exit(96);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_variable_sets_a_switch(void **state)
{
    (void)state;
    assert_int_equal(asked_with("SIMCUDA_EVENT_QUERY_UNSAFE", "0", "event_query_unsafe"), 0);
    assert_int_equal(asked_with("SIMCUDA_EVENT_QUERY_UNSAFE", "1", "event_query_unsafe"), 1);
    assert_int_equal(asked_with("SIMCUDA_POOL_FREE_WAITS", "1", "pool_free_waits"), 1);
}

static void the_age_of_the_driver_decides_where_no_variable_does(void **state)
{
    (void)state;
    assert_int_equal(asked_with("SIMCUDA_PROFILE", "12.4", "free_host_null"), 1);
    assert_int_equal(asked_with("SIMCUDA_PROFILE", "13.0", "free_host_null"), 0);
}

int main(int argc, char **argv)
{
    if (argc == 2) return sim_fact_get(argv[1]);
    const struct CMUnitTest tests[] = {
        on_device(every_switch_has_a_name_and_is_set_by_it),
        on_device(a_switch_works_at_once),
        on_device(a_variable_sets_a_switch),
        on_device(the_age_of_the_driver_decides_where_no_variable_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
