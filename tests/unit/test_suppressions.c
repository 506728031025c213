/* core/suppressions: LeakSanitizer's syntax, read from real files. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/mem.h"
#include "core/result.h"
#include "core/suppressions.h"

static char path[] = "/tmp/nxm-suppressions-XXXXXX";

/* Loads `text` from a file; *ret_said has what was said on standard error. */
static int load(const char *text, size_t length, struct nxm_suppressions **ret_suppressions, char ret_said[2048])
{
    int file, ends[2], saved = dup(STDERR_FILENO), result;
    ssize_t got;

    strcpy(path + strlen(path) - 6, "XXXXXX");
    file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, length), (ssize_t)length);
    close(file);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    result = nxm_suppressions_load(path, ret_suppressions);
    dup2(saved, STDERR_FILENO);
    close(saved);
    got = read(ends[0], ret_said, 2047);
    ret_said[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    unlink(path);
    return result;
}

static struct nxm_suppressions *rules(const char *text)
{
    struct nxm_suppressions *suppressions = NULL;
    char said[2048];

    assert_int_equal(load(text, strlen(text), &suppressions, said), NXM_OK);
    assert_string_equal(said, "");
    return suppressions;
}

static void assert_match(const char *rule, const char *module, const char *symbol, bool expected)
{
    struct nxm_frame frame = { .module = module, .symbol = symbol };
    struct nxm_suppressions *suppressions = rules(rule);

    if (nxm_suppressions_match(suppressions, &frame, 1) != expected)
        fail_msg("%s on %s %s: not %d", rule, module, symbol == NULL ? "-" : symbol, expected);
    nxm_suppressions_free(suppressions);
}

static void a_pattern_is_found_anywhere_in_module_or_symbol(void **state)
{
    (void)state;
    assert_match("leak:libfoo", "/usr/lib/libfoo.so.1", NULL, true);
    assert_match("leak:workspace", "/usr/lib/libfoo.so.1", "create_workspace_v2", true);
    assert_match("leak:libfoo", "/usr/lib/libbar.so.1", "foo", false);
    assert_match("leak:foo", "", NULL, false);
}

static void anchors_bind_the_ends(void **state)
{
    (void)state;
    assert_match("leak:^create", "m", "create_it", true);
    assert_match("leak:^create", "m", "re_create_it", false);
    assert_match("leak:it$", "m", "create_it", true);
    assert_match("leak:it$", "m", "create_it_now", false);
    assert_match("leak:^create_it$", "m", "create_it", true);
    assert_match("leak:^create_it$", "m", "create_it2", false);
    assert_match("leak:^create_it$", "m", "2create_it", false);
    assert_match("leak:so$", "a.so.so", NULL, true); /* the first one found is not the end */
}

static void stars_stand_for_any_characters(void **state)
{
    (void)state;
    assert_match("leak:a*c", "m", "xxabbbcyy", true);
    assert_match("leak:a*c", "m", "ac", true);
    assert_match("leak:a*c", "m", "ab", false);
    assert_match("leak:^a*b*c$", "m", "aXbYbZc", true);
    assert_match("leak:^a*b*c$", "m", "aXcYb", false);
    assert_match("leak:^a*c$", "m", "acxc", true);
    assert_match("leak:**a**", "m", "bab", true);
    assert_match("leak:*", "anything", NULL, true);
    assert_match("leak:^*$", "anything", NULL, true);
}

static void dollar_and_caret_inside_are_characters(void **state)
{
    (void)state;
    assert_match("leak:a$b", "m", "xa$bx", true);
    assert_match("leak:a^b", "m", "xa^bx", true);
    assert_match("leak:a$b", "m", "ab", false);
}

static void any_frame_of_the_stack_will_do(void **state)
{
    struct nxm_frame frames[3] = { { .module = "a", .symbol = "one" }, { .module = "b", .symbol = NULL }, { .module = "c", .symbol = "three" } };
    struct nxm_suppressions *suppressions = rules("leak:nowhere\nleak:^three$\n");

    (void)state;
    assert_true(nxm_suppressions_match(suppressions, frames, 3));
    assert_false(nxm_suppressions_match(suppressions, frames, 2));
    assert_false(nxm_suppressions_match(suppressions, frames, 0));
    nxm_suppressions_free(suppressions);
    assert_false(nxm_suppressions_match(NULL, frames, 3));
    nxm_suppressions_free(NULL);
}

static void comments_blanks_and_dos_line_ends_are_understood_in_silence(void **state)
{
    (void)state;
    assert_match("# leak:foo\n\n   \t\n", "foo", NULL, false);
    assert_match("\t leak:foo \t\r\n", "foo", NULL, true);
    assert_match("leak:foo$\r\n", "foo", NULL, true);
    assert_match("  # leak:foo", "foo", NULL, false);
    assert_match("", "foo", NULL, false);
}

static size_t count_lines(const char *s)
{
    size_t lines = 0;

    for (; *s != '\0'; s++)
        lines += *s == '\n';
    return lines;
}

static void a_bad_line_warns_with_its_number_and_the_others_hold(void **state)
{
    static const char text[] = "leak:one\nrace:two\n\nleak:\nleak:^$\nnonsense\nleak:three";
    struct nxm_frame one = { .module = "one" }, two = { .module = "two" }, three = { .module = "three" };
    struct nxm_suppressions *suppressions = NULL;
    char said[2048];

    (void)state;
    assert_int_equal(load(text, strlen(text), &suppressions, said), NXM_OK);
    assert_int_equal(count_lines(said), 4);
    assert_non_null(strstr(said, ":2: "));
    assert_non_null(strstr(said, ":4: "));
    assert_non_null(strstr(said, ":5: "));
    assert_non_null(strstr(said, ":6: "));
    assert_true(nxm_suppressions_match(suppressions, &one, 1));
    assert_false(nxm_suppressions_match(suppressions, &two, 1));
    assert_true(nxm_suppressions_match(suppressions, &three, 1));
    nxm_suppressions_free(suppressions);
}

static void a_file_of_the_wrong_kind_is_a_few_lines_and_not_thousands(void **state)
{
    enum { LINES = 1000 };
    struct nxm_suppressions *suppressions = NULL;
    char text[2 * LINES], said[2048];

    (void)state;
    for (size_t i = 0; i < LINES; i++)
        memcpy(text + 2 * i, "?\n", 2);
    assert_int_equal(load(text, sizeof text, &suppressions, said), NXM_OK);
    assert_int_equal(count_lines(said), 6);
    assert_non_null(strstr(said, " 995 "));
    nxm_suppressions_free(suppressions);
}

static void a_zero_byte_ends_neither_the_file_nor_a_pattern(void **state)
{
    static const char text[] = "leak:a\0b\nleak:three";
    struct nxm_frame a = { .module = "a" }, three = { .module = "three" };
    struct nxm_suppressions *suppressions = NULL;
    char said[2048];

    (void)state;
    assert_int_equal(load(text, sizeof text - 1, &suppressions, said), NXM_OK);
    assert_int_equal(count_lines(said), 1);
    assert_false(nxm_suppressions_match(suppressions, &a, 1));
    assert_true(nxm_suppressions_match(suppressions, &three, 1));
    nxm_suppressions_free(suppressions);
}

/* Opening a FIFO without a writer waits for one; the alarm turns that into a failure. */
static void a_pipe_is_refused_and_not_waited_for(void **state)
{
    char folder[] = "/tmp/nxm-suppressions-XXXXXX", fifo[64];
    struct nxm_suppressions *suppressions = NULL;
    int saved = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    dup2(null, STDERR_FILENO);
    alarm(200);
    assert_int_equal(nxm_suppressions_load(fifo, &suppressions), NXM_EINVAL);
    alarm(0);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(null);
    unlink(fifo);
    rmdir(folder);
}

static void a_file_that_cannot_be_read_is_said_and_refused(void **state)
{
    struct nxm_suppressions *suppressions = NULL;
    int saved = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);

    (void)state;
    dup2(null, STDERR_FILENO);
    assert_int_equal(nxm_suppressions_load("/nonexistent/file", &suppressions), NXM_EINVAL);
    assert_int_equal(nxm_suppressions_load("/tmp", &suppressions), NXM_EINVAL);
    assert_int_equal(nxm_suppressions_load("/dev/zero", &suppressions), NXM_EINVAL); /* endless */
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(null);
    assert_null(suppressions);
}

static void without_memory_it_is_enomem(void **state)
{
    struct nxm_suppressions *suppressions = NULL;
    char said[2048];

    (void)state;
    for (unsigned long n = 1; n <= 2; n++) {
        nxm_mem_fail_at(n);
        assert_int_equal(load("leak:a", 6, &suppressions, said), NXM_ENOMEM);
        assert_null(suppressions);
    }
    nxm_mem_fail_at(0);
}

static void a_pattern_full_of_stars_ends_in_reasonable_time(void **state)
{
    char module[4001];

    (void)state;
    memset(module, 'a', sizeof module - 1);
    module[sizeof module - 1] = '\0';
    assert_match("leak:a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", module, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_is_found_anywhere_in_module_or_symbol),
        cmocka_unit_test(anchors_bind_the_ends),
        cmocka_unit_test(stars_stand_for_any_characters),
        cmocka_unit_test(dollar_and_caret_inside_are_characters),
        cmocka_unit_test(any_frame_of_the_stack_will_do),
        cmocka_unit_test(comments_blanks_and_dos_line_ends_are_understood_in_silence),
        cmocka_unit_test(a_bad_line_warns_with_its_number_and_the_others_hold),
        cmocka_unit_test(a_file_of_the_wrong_kind_is_a_few_lines_and_not_thousands),
        cmocka_unit_test(a_zero_byte_ends_neither_the_file_nor_a_pattern),
        cmocka_unit_test(a_pipe_is_refused_and_not_waited_for),
        cmocka_unit_test(a_file_that_cannot_be_read_is_said_and_refused),
        cmocka_unit_test(without_memory_it_is_enomem),
        cmocka_unit_test(a_pattern_full_of_stars_ends_in_reasonable_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
