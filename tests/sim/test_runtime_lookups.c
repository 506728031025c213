/* The runtime asks its driver what the real one asks, in that order, through that door. */
#include "runtime_fixture.h"

#include "recorder/recorder.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct recorder_question *questions;
static int count;

/* The recorder is loaded first: the runtime's dlopen of that SONAME then finds it. */
static int ask_a_recorder(void **state)
{
    const struct recorder_question *(*recorded)(int *);
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    int version;

    (void)state;
    if (!libcuda || cudaDriverGetVersion(&version) != cudaSuccess)
        return -1;
    recorded = (const struct recorder_question *(*)(int *))dlsym(libcuda, "recorder_questions");
    if (!recorded)
        return -1;
    questions = recorded(&count);
    return 0;
}

static void all_440_are_asked_exactly_once(void **state)
{
    (void)state;
    assert_int_equal(count, 440);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            assert_false(strcmp(questions[i].name, questions[j].name) == 0 &&
                         questions[i].version == questions[j].version && questions[i].flags == questions[j].flags);
}

static void the_first_four_go_to_the_exported_function_and_the_rest_to_its_own_answer(void **state)
{
    static const struct {
        const char *name;
        int version;
    } first[] = {{"", 0}, {"cuInit", 2000}, {"cuGetProcAddress", 11030}, {"cuGetProcAddress", 12000}};

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_string_equal(questions[i].name, first[i].name);
        assert_int_equal(questions[i].version, first[i].version);
        assert_int_equal(questions[i].door, DOOR_SYMBOL);
    }
    for (int i = 4; i < count; i++)
        assert_int_equal(questions[i].door, DOOR_RESOLVER);
}

static void no_name_carries_a_suffix_and_flags_choose_the_form(void **state)
{
    int per_thread = 0;

    (void)state;
    for (int i = 0; i < count; i++) {
        assert_null(strstr(questions[i].name, "_"));
        assert_true(questions[i].flags == 0 || questions[i].flags == 2);
        per_thread += questions[i].flags == 2;
    }
    assert_int_equal(per_thread, 74);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_440_are_asked_exactly_once),
        cmocka_unit_test(the_first_four_go_to_the_exported_function_and_the_rest_to_its_own_answer),
        cmocka_unit_test(no_name_carries_a_suffix_and_flags_choose_the_form),
    };

    return cmocka_run_group_tests(tests, ask_a_recorder, NULL);
}
