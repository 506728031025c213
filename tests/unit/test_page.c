/* core/page under the report: large ones, and what happens where memory or the descriptor gives out. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/mem.h"
#include "core/report.h"
#include "core/result.h"
#include "support/json.h"
#include "support/reporting.h"

static void without_memory_for_grouping_the_sums_are_still_right(void **state)
{
    struct reporting *f = *state;
    char *text;

    reporting_add(f, NXM_CLASS_DEVICE, 512, 1, 0, 0);
    reporting_add(f, NXM_CLASS_DEVICE, 512, 2, 0, 0);
    nxm_mem_fail_at(1);
    text = reporting_written(f, NXM_REPORT_TEXT, NXM_ENOMEM);
    assert_true(reporting_has_line(text, "LEAK: 2 blocks, 1 KiB (no memory left to tell the places apart)"));
    assert_true(reporting_has_line(text, "device              live 2 blocks, 1 KiB; peak 1 KiB; in all 2 blocks, 1 KiB"));
    free(text);
    nxm_mem_fail_at(1);
    text = reporting_written(f, NXM_REPORT_JSON, NXM_ENOMEM);
    json_assert(text);
    assert_int_equal(json_number(text, "\"leaked\"", "blocks"), 2);
    free(text);
}

#define PLACES 1500

static void add_many_places(struct reporting *f)
{
    uint32_t stack = stack_through_qsort();

    for (int i = 0; i < PLACES; i++)
        reporting_add(f, NXM_CLASS_DEVICE, 1 + (uint64_t)i * 7919 % PLACES, 1, i, stack);
}

/* The first requests after the groups' are the page's: wherever it has to make do, the text is the same. */
static void a_page_that_cannot_grow_writes_the_same_report(void **state)
{
    struct reporting *f = *state;
    char *whole;
    unsigned same = 0;

    add_many_places(f);
    for (int format = NXM_REPORT_TEXT; format <= NXM_REPORT_JSON; format++) {
        whole = reporting_written(f, (enum nxm_report_format)format, NXM_OK);
        assert_true(strlen(whole) > 3 * 65536);
        for (unsigned long n = 1; n <= 6; n++) {
            int file = memfd_create("report", 0), result;
            char *text = calloc(1, strlen(whole) + 1);

            assert_non_null(text);
            nxm_mem_fail_at(n);
            result = nxm_report_write(file, &f->report, (enum nxm_report_format)format);
            nxm_mem_fail_at(0);
            if (result == NXM_OK) {
                assert_int_equal(lseek(file, 0, SEEK_END), strlen(whole));
                assert_int_equal(pread(file, text, strlen(whole), 0), strlen(whole));
                assert_string_equal(text, whole);
                same++;
            }
            close(file);
            free(text);
        }
        free(whole);
    }
    assert_int_equal(same, 8); /* two of six requests were the groups' own */
}

static void many_places_are_all_there_in_order(void **state)
{
    struct reporting *f = *state;
    uint64_t last = UINT64_MAX;
    unsigned places = 0;
    char *json;

    add_many_places(f);
    json = reporting_written(f, NXM_REPORT_JSON, NXM_OK);
    json_assert(json);
    for (const char *at = json; (at = strstr(at, "\n    {\"bytes\": ")) != NULL; at++) {
        uint64_t bytes = json_number(at, "{", "bytes");

        assert_true(bytes <= last);
        last = bytes;
        places++;
    }
    assert_int_equal(places, PLACES);
    free(json);
}

static void a_descriptor_that_takes_nothing_is_an_error(void **state)
{
    struct reporting *f = *state;
    int full = open("/dev/full", O_WRONLY), closed = dup(full);

    assert_true(full >= 0);
    close(closed);
    assert_int_equal(nxm_report_write(full, &f->report, NXM_REPORT_TEXT), NXM_EINVAL);
    assert_int_equal(nxm_report_write(closed, &f->report, NXM_REPORT_TEXT), NXM_EINVAL);
    close(full);
}

#define reported(test) cmocka_unit_test_setup_teardown(test, reporting_setup, reporting_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        reported(without_memory_for_grouping_the_sums_are_still_right),
        reported(a_page_that_cannot_grow_writes_the_same_report),
        reported(many_places_are_all_there_in_order),
        reported(a_descriptor_that_takes_nothing_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
