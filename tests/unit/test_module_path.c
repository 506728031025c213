/* core/module_path.c: where the name of a plugin leads. */
#include "core/module.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/nxm_module_path_XXXXXX";

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL ? -1 : 0;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

static void touch(const char *below)
{
    char path[256];
    int fd;

    snprintf(path, sizeof path, "%s/%s", directory, below);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void erase(const char *below)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", directory, below);
    assert_int_equal(remove(path), 0);
}

static void assert_found(const char *name, const char *below)
{
    char path[256], expected[256];

    snprintf(expected, sizeof expected, "%s/%s", directory, below);
    assert_int_equal(nxm_module_find_path(name, directory, path, sizeof path, NULL), NXM_OK);
    assert_string_equal(path, expected);
}

static void a_short_name_is_looked_up_in_order(void **state)
{
    char made[256];

    (void)state;
    snprintf(made, sizeof made, "%s/nxmem", directory);
    assert_int_equal(mkdir(made, 0700), 0);
    snprintf(made, sizeof made, "%s/plugins", directory);
    assert_int_equal(mkdir(made, 0700), 0);
    touch("plugins/direct.so");
    assert_found("direct", "plugins/direct.so");
    touch("direct.so");
    assert_found("direct", "direct.so");
    touch("nxmem/direct.so");
    assert_found("direct", "nxmem/direct.so");
    erase("nxmem/direct.so");
    erase("direct.so");
    erase("plugins/direct.so");
    erase("nxmem");
    erase("plugins");
}

static void a_value_with_a_slash_is_a_path(void **state)
{
    char path[64];

    (void)state;
    assert_int_equal(nxm_module_find_path("./direct", directory, path, sizeof path, NULL), NXM_OK);
    assert_string_equal(path, "./direct");
}

static void what_is_not_found_says_where_it_was_looked_for(void **state)
{
    struct nxm_error error;
    char path[64] = "untouched";

    (void)state;
    assert_int_equal(nxm_module_find_path("driect", directory, path, sizeof path, &error), NXM_EOPEN);
    assert_non_null(strstr(error.text, "nxmem/driect.so"));
    assert_non_null(strstr(error.text, directory));
    assert_int_equal(nxm_module_find_path("", directory, path, sizeof path, &error), NXM_EOPEN);
    assert_string_equal(path, "untouched");
}

static void a_short_name_with_its_ending_is_told_without(void **state)
{
    struct nxm_error error;
    char path[64] = "untouched", long_name[] = "a-name-that-is-longer-than-what-is-shown.so";

    (void)state;
    touch("direct.so");
    assert_int_equal(nxm_module_find_path("direct.so", directory, path, sizeof path, &error), NXM_EOPEN);
    assert_non_null(strstr(error.text, "write direct for "));
    assert_non_null(strstr(error.text, directory));
    assert_int_equal(nxm_module_find_path("direct.os", directory, path, sizeof path, &error), NXM_EOPEN);
    assert_null(strstr(error.text, "write direct"));
    assert_int_equal(nxm_module_find_path("other.so", directory, path, sizeof path, &error), NXM_EOPEN);
    assert_null(strstr(error.text, "write other"));
    assert_int_equal(nxm_module_find_path(".so", directory, path, sizeof path, &error), NXM_EOPEN);
    assert_null(strstr(error.text, "write"));
    erase("direct.so");
    touch(long_name);
    assert_int_equal(nxm_module_find_path(long_name, directory, path, sizeof path, &error), NXM_EOPEN);
    assert_non_null(strstr(error.text, "give a path"));
    erase(long_name);
    assert_string_equal(path, "untouched");
}

static void a_path_that_does_not_fit_is_refused_not_cut(void **state)
{
    char path[8] = "same";

    (void)state;
    assert_int_equal(nxm_module_find_path("/a/b/c/d/e", directory, path, sizeof path, NULL), NXM_EOPEN);
    touch("direct.so");
    assert_int_equal(nxm_module_find_path("direct", directory, path, sizeof path, NULL), NXM_EOPEN);
    erase("direct.so");
    assert_string_equal(path, "same");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_name_is_looked_up_in_order),
        cmocka_unit_test(a_value_with_a_slash_is_a_path),
        cmocka_unit_test(what_is_not_found_says_where_it_was_looked_for),
        cmocka_unit_test(a_short_name_with_its_ending_is_told_without),
        cmocka_unit_test(a_path_that_does_not_fit_is_refused_not_cut),
    };

    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
