/* core/noted: what is read of a table of names, and how a name and a file are shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/noted.h"

static struct {
    struct nxm_noted_table table;
    unsigned behind[4];
} memory;
static struct nxm_noted_table *const table = &memory.table;

static void only_what_is_whole_is_read(void **state)
{
    struct nxm_noted noted = { .text = "untouched" };

    (void)state;
    table->list[0] = (struct nxm_noted){ .text = "cuNew", .version = 12030, .allocates = true, .found = true };
    assert_false(nxm_noted_read(table, 0, &noted));
    table->state[0] = NXM_NOTED_FILLING;
    assert_false(nxm_noted_read(table, 0, &noted));
    assert_string_equal(noted.text, "untouched");
    table->state[0] = NXM_NOTED_FULL;
    assert_true(nxm_noted_read(table, 0, &noted));
    assert_string_equal(noted.text, "cuNew");
    assert_true(noted.version == 12030 && noted.allocates && noted.found);
    assert_false(nxm_noted_read(table, 1, &noted));
}

static void a_full_table_ends(void **state)
{
    struct nxm_noted noted;

    (void)state;
    for (size_t i = 0; i < NXM_NOTED_MAX; i++)
        table->state[i] = NXM_NOTED_FULL;
    for (size_t i = 0; i < sizeof memory.behind / sizeof *memory.behind; i++)
        memory.behind[i] = NXM_NOTED_FULL;
    assert_true(nxm_noted_read(table, NXM_NOTED_MAX - 1, &noted));
    assert_false(nxm_noted_read(table, NXM_NOTED_MAX, &noted));
    assert_false(nxm_noted_read(table, SIZE_MAX, &noted));
}

/* A journal may be damaged: what is read of it ends. */
static void a_name_without_an_end_is_cut(void **state)
{
    struct nxm_noted noted;

    (void)state;
    memset(table->list[2].text, 'x', NXM_NAME_BYTES);
    table->state[2] = NXM_NOTED_FULL;
    assert_true(nxm_noted_read(table, 2, &noted));
    assert_int_equal(strlen(noted.text), NXM_NAME_BYTES - 1);
}

static void a_name_is_shown_with_its_version_and_a_file_with_its_reason(void **state)
{
    struct nxm_noted longest = { .version = -2147483647 };
    char text[NXM_NOTED_TEXT];

    (void)state;
    nxm_noted_name(&(struct nxm_noted){ .text = "cuNew" }, text);
    assert_string_equal(text, "cuNew");
    nxm_noted_name(&(struct nxm_noted){ .text = "cuNew", .version = 12030 }, text);
    assert_string_equal(text, "cuNew (version 12030)");
    nxm_noted_file(&(struct nxm_noted){ .text = "libdeep.so" }, text);
    assert_string_equal(text, "libdeep.so (RTLD_DEEPBIND)");
    nxm_noted_file(&(struct nxm_noted){ .text = "libapart.so", .found = true }, text);
    assert_string_equal(text, "libapart.so (a namespace of its own)");
    memset(longest.text, 'x', NXM_NAME_BYTES - 1);
    nxm_noted_name(&longest, text);
    assert_string_equal(text + NXM_NAME_BYTES - 1, " (version -2147483647)"); /* nothing is lost */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_whole_is_read),
        cmocka_unit_test(a_full_table_ends),
        cmocka_unit_test(a_name_without_an_end_is_cut),
        cmocka_unit_test(a_name_is_shown_with_its_version_and_a_file_with_its_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
