/* Random sequences of host calls against a plugin that answers at random, held against a model after every call
 * (stateful/). A seed that found something is kept below as a test of its own. NXMEM_TEST_SEQUENCES: how many are tried
 * at random; NXMEM_TEST_SEED: run that one only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/stateful/machine.h"

#define STEPS 160

static void run(uint64_t seed)
{
    struct choices choices;
    const char *fault;

    choices_of_seed(&choices, seed);
    fault = machine_run(&choices, STEPS);
    if (fault != NULL)
        fail_msg("seed %llu, %s", (unsigned long long)seed, fault);
}

static uint64_t wanted(const char *name, uint64_t otherwise)
{
    const char *value = getenv(name);

    return value == NULL || value[0] == '\0' ? otherwise : strtoull(value, NULL, 10);
}

static void random_sequences_leave_host_plugin_and_model_of_one_mind(void **state)
{
    uint64_t sequences = wanted("NXMEM_TEST_SEQUENCES", 300), only = wanted("NXMEM_TEST_SEED", 0);

    (void)state;
    if (only != 0)
        run(only);
    for (uint64_t seed = 1; only == 0 && seed <= sequences; seed++)
        run(seed);
}

/* Seeds that found something once. The rules have tests of their own in test_completion, test_teardown and
 * test_deferred_leak, for a seed means another sequence once an operation is added. */
static void seed_209_a_failed_completion_meets_a_newcomer_at_its_address(void **state)
{
    (void)state;
    run(209);
}

static void seed_163_a_failed_completion_comes_after_its_allocator(void **state)
{
    (void)state;
    run(163);
}

static void seed_851_a_failed_completion_comes_inside_the_final_release(void **state)
{
    (void)state;
    run(851);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seed_209_a_failed_completion_meets_a_newcomer_at_its_address),
        cmocka_unit_test(seed_163_a_failed_completion_comes_after_its_allocator),
        cmocka_unit_test(seed_851_a_failed_completion_comes_inside_the_final_release),
        cmocka_unit_test(random_sequences_leave_host_plugin_and_model_of_one_mind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
