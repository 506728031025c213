/* core/options: what is read, what is refused, and what is said about it on standard error. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/options.h"

static const char *const names[] = {
#define OPTION(field, type, name, fallback, values, help) name,
#include "core/options.def"
#undef OPTION
};

static int clean_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    return 0;
}

/* Reads the options with standard error in a pipe; returns what was said, in static storage. */
static const char *read_options(struct nxm_options *ret_options)
{
    static char said[4096];
    int ends[2], saved = dup(STDERR_FILENO);
    ssize_t got;

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    nxm_options_read(ret_options);
    dup2(saved, STDERR_FILENO);
    close(saved);
    got = read(ends[0], said, sizeof said - 1);
    close(ends[0]);
    said[got > 0 ? got : 0] = '\0';
    return said;
}

static size_t lines(const char *s)
{
    size_t count = 0;

    for (; *s != '\0'; s++)
        count += *s == '\n';
    return count;
}

static void an_empty_environment_gives_the_defaults_in_silence(void **state)
{
    struct nxm_options options;

    (void)state;
    assert_string_equal(read_options(&options), "");
    assert_string_equal(options.plugin, "direct");
    assert_string_equal(options.mechanism, "");
    assert_int_equal(options.on_error, NXM_ON_ERROR_NATIVE);
    assert_int_equal(options.free, NXM_FREE_SYNC);
    assert_string_equal(options.report, "stderr");
    assert_int_equal(options.report_format, NXM_REPORT_TEXT);
    assert_int_equal(options.leak_exit_code, 0);
    assert_int_equal(options.stacks, 16);
    assert_string_equal(options.suppressions, "");
    assert_int_equal(options.verbose, 0);
    assert_int_equal(options.oom_wait_ms, 100);
    assert_int_equal(options.lane_limit, 0);
}

static void good_values_are_taken_in_silence(void **state)
{
    struct nxm_options options;

    (void)state;
    setenv("NXMEM_PLUGIN", "/opt/p.so", 1);
    setenv("NXMEM_ON_ERROR", "fail", 1);
    setenv("NXMEM_FREE", "deferred", 1);
    setenv("NXMEM_REPORT_FORMAT", "json", 1);
    setenv("NXMEM_LEAK_EXIT_CODE", "23", 1);
    setenv("NXMEM_STACKS", "0", 1);
    assert_string_equal(read_options(&options), "");
    assert_string_equal(options.plugin, "/opt/p.so");
    assert_int_equal(options.on_error, NXM_ON_ERROR_FAIL);
    assert_int_equal(options.free, NXM_FREE_DEFERRED);
    assert_int_equal(options.report_format, NXM_REPORT_JSON);
    assert_int_equal(options.leak_exit_code, 23);
    assert_int_equal(options.stacks, 0);
}

static void both_ends_of_a_range_belong_to_it(void **state)
{
    struct nxm_options options;

    (void)state;
    setenv("NXMEM_STACKS", "64", 1);
    setenv("NXMEM_LEAK_EXIT_CODE", "255", 1);
    setenv("NXMEM_VERBOSE", "2", 1);
    assert_string_equal(read_options(&options), "");
    assert_int_equal(options.stacks, 64);
    assert_int_equal(options.leak_exit_code, 255);
    assert_int_equal(options.verbose, 2);
}

static void a_count_that_is_none_or_out_of_range_keeps_the_default_and_warns_once(void **state)
{
    static const char *const bad[] = { "65", "-1", "+3", " 3", "3 ", "0x10", "1e3", "many", "4294967296", "99999999999999999999" };
    struct nxm_options options;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *said;

        setenv("NXMEM_STACKS", bad[i], 1);
        said = read_options(&options);
        assert_int_equal(options.stacks, 16);
        assert_int_equal(lines(said), 1);
        assert_non_null(strstr(said, "NXMEM_STACKS"));
        assert_non_null(strstr(said, "0..64"));
    }
}

static void a_choice_outside_the_list_names_the_list(void **state)
{
    static const char *const bad[] = { "Fail", "nativ", "natives", "native|fail", "|", "fail " };
    struct nxm_options options;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *said;

        setenv("NXMEM_ON_ERROR", bad[i], 1);
        said = read_options(&options);
        assert_int_equal(options.on_error, NXM_ON_ERROR_NATIVE);
        assert_int_equal(lines(said), 1);
        assert_non_null(strstr(said, "native|fail"));
    }
}

static void an_empty_value_is_the_default(void **state)
{
    struct nxm_options options;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        setenv(names[i], "", 1);
    assert_string_equal(read_options(&options), "");
    assert_string_equal(options.plugin, "direct");
    assert_string_equal(options.report, "stderr");
    assert_int_equal(options.stacks, 16);
}

static void texts_survive_a_program_that_overwrites_its_environment(void **state)
{
    struct nxm_options options;
    char *value;

    (void)state;
    setenv("NXMEM_REPORT", "/var/log/report.%p", 1);
    assert_string_equal(read_options(&options), "");
    value = getenv("NXMEM_REPORT");
    memset(value, 'X', strlen(value));
    assert_string_equal(options.report, "/var/log/report.%p");
}

static void a_text_that_does_not_fit_is_refused_and_never_cut(void **state)
{
    struct nxm_options options;
    char *value = malloc(4097);

    (void)state;
    assert_non_null(value);
    memset(value, 'a', 4096);
    value[4096] = '\0';
    setenv("NXMEM_SUPPRESSIONS", value, 1);
    assert_int_equal(lines(read_options(&options)), 1);
    assert_string_equal(options.suppressions, "");
    value[4095] = '\0';
    setenv("NXMEM_SUPPRESSIONS", value, 1);
    assert_string_equal(read_options(&options), "");
    assert_int_equal(strlen(options.suppressions), 4095);
    free(value);
}

static void assert_said_about(const char *name, const char *option)
{
    struct nxm_options options;
    const char *said;

    setenv(name, "1", 1);
    said = read_options(&options);
    unsetenv(name);
    assert_int_equal(lines(said), option == NULL ? 0 : 1);
    if (option != NULL) {
        char expected[96];

        strcpy(expected, "mean ");
        strcat(expected, option);
        strcat(expected, "?");
        assert_non_null(strstr(said, name));
        assert_non_null(strstr(said, expected));
    }
}

static void a_misspelt_name_is_told_its_nearest_option(void **state)
{
    (void)state;
    assert_said_about("NXMEM_PLUGINS", "NXMEM_PLUGIN");
    assert_said_about("NXMEM_STACK", "NXMEM_STACKS");
    assert_said_about("NXMEM_REPORT_FROMAT", "NXMEM_REPORT_FORMAT");
    assert_said_about("NXMEM_LEAKS_EXITCODE", "NXMEM_LEAK_EXIT_CODE");
    assert_said_about("NXMEM_VERBOSITY", "NXMEM_VERBOSE");
    assert_said_about("NXMEM_FEE", "NXMEM_FREE");
}

static void test_names_plugins_names_and_other_names_are_left_alone(void **state)
{
    (void)state;
    assert_said_about("NXMEM_TEST", NULL);
    assert_said_about("NXMEM_TESTS_PLUGIN", NULL);
    assert_said_about("NXMEM_HOST_AS_DEVICE", NULL);
    assert_said_about("NXMEM_", NULL);
    assert_said_about("NXMEM_A_NAME_LONGER_THAN_ANY_OPTION_COULD_EVER_HOPE_TO_BECOME", NULL);
    assert_said_about("nxmem_plugin", NULL);
    assert_said_about("MY_NXMEM_PLUGINS", NULL);
}

static void a_name_is_compared_as_far_as_it_goes(void **state)
{
    (void)state;
    assert_string_equal(nxm_options_almost("NXMEM_REPOT and more", 11), "NXMEM_REPORT");
    assert_null(nxm_options_almost("NXMEM_REPORT", 12));
    assert_null(nxm_options_almost("NXMEM_A_NAME_LONGER_THAN_ANY_OPTION_COULD_EVER_HOPE_TO_BECOME", 61));
}

#define option_test(test) cmocka_unit_test_setup_teardown(test, clean_environment, clean_environment)

int main(void)
{
    const struct CMUnitTest tests[] = {
        option_test(an_empty_environment_gives_the_defaults_in_silence),
        option_test(good_values_are_taken_in_silence),
        option_test(both_ends_of_a_range_belong_to_it),
        option_test(a_count_that_is_none_or_out_of_range_keeps_the_default_and_warns_once),
        option_test(a_choice_outside_the_list_names_the_list),
        option_test(an_empty_value_is_the_default),
        option_test(texts_survive_a_program_that_overwrites_its_environment),
        option_test(a_text_that_does_not_fit_is_refused_and_never_cut),
        option_test(a_misspelt_name_is_told_its_nearest_option),
        option_test(a_name_is_compared_as_far_as_it_goes),
        option_test(test_names_plugins_names_and_other_names_are_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
