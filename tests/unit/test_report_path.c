/* core/report_path: NXMEM_REPORT as a pattern. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/report.h"

static void assert_path(const char *pattern, const char *expected)
{
    char path[256];

    nxm_report_path(pattern, path, sizeof path);
    assert_string_equal(path, expected);
}

static void the_path_expands_pid_host_program_and_percent(void **state)
{
    char expected[256], self[256];
    struct utsname names;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    (void)state;
    assert_true(length > 0);
    self[length] = '\0';
    uname(&names);
    snprintf(expected, sizeof expected, "/tmp/%s.%d.%s%%", names.nodename, (int)getpid(), strrchr(self, '/') + 1);
    assert_path("/tmp/%h.%p.%e%%", expected);
    assert_path("/tmp/%x%", "/tmp/%x%");
    assert_path("stderr", "stderr");
}

static void the_rank_is_the_first_number_of_the_four(void **state)
{
    (void)state;
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("PMI_RANK");
    unsetenv("SLURM_PROCID");
    unsetenv("RANK");
    assert_path("r%r", "r0");
    setenv("RANK", "4", 1);
    assert_path("r%r", "r4");
    setenv("SLURM_PROCID", "3", 1);
    assert_path("r%r", "r3");
    setenv("PMI_RANK", "2", 1);
    assert_path("r%r", "r2");
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    assert_path("r%r", "r1");
    setenv("OMPI_COMM_WORLD_RANK", "../../etc/1", 1);
    assert_path("r%r", "r2");
    setenv("PMI_RANK", "", 1);
    assert_path("r%r", "r3");
}

static void a_path_that_does_not_fit_is_empty_not_another(void **state)
{
    char *exact = malloc(8);

    (void)state;
    assert_non_null(exact);
    nxm_report_path("/tmp/ab", exact, 8); /* full to the last byte: it might have been cut */
    assert_string_equal(exact, "");
    nxm_report_path("/tmp/a", exact, 8);
    assert_string_equal(exact, "/tmp/a");
    nxm_report_path("/tmp/%h%h%h%h%h%h%h%h%h", exact, 8);
    assert_string_equal(exact, "");
    free(exact);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_path_expands_pid_host_program_and_percent),
        cmocka_unit_test(the_rank_is_the_first_number_of_the_four),
        cmocka_unit_test(a_path_that_does_not_fit_is_empty_not_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
