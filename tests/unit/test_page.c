/* core/page under the report: large ones, and what happens where memory or the descriptor gives out. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
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

/* The first request after the groups' is the page's: where it has to make do, the text is the same. */
static void a_page_without_memory_writes_the_same_report(void **state)
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
    unsigned places = 0;
    char *json;

    add_many_places(f);
    json = reporting_written(f, NXM_REPORT_JSON, NXM_OK);
    json_assert(json);
    for (const char *at = json; (at = strstr(at, "\n    {\"bytes\": ")) != NULL; at++) {
        assert_int_equal(json_number(at, "{", "bytes"), PLACES - places); /* no two have the same */
        places++;
    }
    assert_int_equal(places, PLACES);
    free(json);
}

/* --- what is written at a time ----------------------------------------------------------------------------------- */

#define PIECE ((size_t)64 << 10)

/* A socket that keeps apart what was written apart. */
static void two_ends(int ret_ends[2])
{
    int room = 4 << 20;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ret_ends), 0);
    setsockopt(ret_ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
}

struct writer {
    struct reporting *f;
    int end;
};

static void *write_report(void *argument)
{
    struct writer *writer = argument;

    nxm_report_write(writer->end, &writer->f->report, NXM_REPORT_TEXT);
    close(writer->end);
    return NULL;
}

/* How many pieces, each of which must end with a line. */
static unsigned pieces_written(struct reporting *f)
{
    char *piece = malloc(PIECE);
    unsigned pieces = 0;
    pthread_t thread;
    ssize_t got;
    int ends[2];

    assert_non_null(piece);
    two_ends(ends);
    assert_int_equal(pthread_create(&thread, NULL, write_report, &(struct writer){ f, ends[0] }), 0);
    while ((got = recv(ends[1], piece, PIECE, 0)) > 0) {
        assert_int_equal(piece[got - 1], '\n');
        pieces++;
    }
    pthread_join(thread, NULL);
    close(ends[1]);
    free(piece);
    return pieces;
}

static void a_short_report_is_one_write_and_a_long_one_is_cut_between_lines(void **state)
{
    struct reporting *f = *state;

    reporting_add(f, NXM_CLASS_DEVICE, 512, 1, 0, stack_through_qsort());
    assert_int_equal(pieces_written(f), 1);
    add_many_places(f);
    assert_true(pieces_written(f) > 10);
}

/* In both formats, with memory and without. */
static void a_line_longer_than_any_buffer_is_there_to_its_end(void **state)
{
    static char note[200001];
    struct reporting *f = *state;

    memset(note, 'n', sizeof note - 1);
    memcpy(note + sizeof note - 5, "last", 4);
    f->report.note = note;
    for (int format = NXM_REPORT_TEXT; format <= NXM_REPORT_JSON; format++) {
        for (unsigned long n = 0; n <= 1; n++) {
            const char *found;
            char *text;

            nxm_mem_fail_at(n);
            text = reporting_written(f, (enum nxm_report_format)format, NXM_OK);
            found = strstr(text, note);
            assert_non_null(found);
            assert_int_equal(found[sizeof note - 1], format == NXM_REPORT_TEXT ? '\n' : '"');
            if (format == NXM_REPORT_JSON)
                json_assert(text);
            free(text);
        }
    }
}

/* Each byte at each place of a word, alone among others. */
static void every_control_character_in_a_name_becomes_a_question_mark(void **state)
{
    struct reporting *f = *state;

    for (size_t shift = 0; shift < 16; shift++) {
        char note[16 * 256 + 32], expected[sizeof note + 20] = "note                ", *end = expected + strlen(expected);
        size_t length = 0;

        for (; length < shift; length++)
            note[length] = 'a';
        for (unsigned c = 1; c < 256; c++) {
            note[length++] = (char)c;
            for (int i = 0; i < 15; i++)
                note[length++] = (char)('a' + i);
        }
        note[length] = '\0';
        for (size_t i = 0; i <= length; i++)
            end[i] = i < length && ((unsigned char)note[i] < 0x20 || note[i] == 0x7f) ? '?' : note[i];
        f->report.note = note;
        reporting_assert_line(f, expected);
    }
    f->report.note = NULL;
}

static void control_characters_at_the_ends_of_names_are_seen(void **state)
{
    struct reporting *f = *state;

    for (size_t length = 1; length <= 40; length++) {
        for (size_t at = 0; at < length; at++) {
            char *exact = malloc(length + 1), expected[64] = "note                "; /* a sanitizer sees a word too many */

            assert_non_null(exact);
            memset(exact, 'x', length);
            exact[length] = '\0';
            exact[at] = '\x1b';
            memcpy(expected + 20, exact, length + 1);
            expected[20 + at] = '?';
            f->report.note = exact;
            reporting_assert_line(f, expected);
            free(exact);
        }
    }
    f->report.note = NULL;
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
        reported(a_page_without_memory_writes_the_same_report),
        reported(many_places_are_all_there_in_order),
        reported(a_short_report_is_one_write_and_a_long_one_is_cut_between_lines),
        reported(a_line_longer_than_any_buffer_is_there_to_its_end),
        reported(every_control_character_in_a_name_becomes_a_question_mark),
        reported(control_characters_at_the_ends_of_names_are_seen),
        reported(a_descriptor_that_takes_nothing_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
