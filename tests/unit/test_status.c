/* core/status.c and core/error.c: statuses read, written, named, classified. */
#include "core/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/error.h"

static __attribute__((noinline)) void leave_marks_on_the_stack(void)
{
    char marks[4096];

    memset(marks, 0xA5, sizeof marks);
    __asm__ volatile("" : : "r"(marks) : "memory");
}

static __attribute__((noinline)) NxmemStatus ok_where_there_were_marks(void)
{
    NxmemStatus status = nxm_status_ok();

    __asm__ volatile("" : : "r"(&status) : "memory");
    return (NxmemStatus){ .code = status.code, .message_len = status.message_len };
}

/* Most of it is not written; what is read is. */
static void ok_writes_all_that_is_read(void **state)
{
    NxmemStatus status;

    (void)state;
    leave_marks_on_the_stack();
    status = ok_where_there_were_marks();
    assert_int_equal(status.code, NXMEM_STATUS_OK);
    assert_int_equal(status.message_len, 0);
}

static void ok_has_no_message(void **state)
{
    NxmemStatus status = nxm_status_ok();
    char text[8] = "before";

    (void)state;
    assert_int_equal(status.code, NXMEM_STATUS_OK);
    assert_int_equal(status.message_len, 0);
    assert_int_equal(status.message[0], 0);
    assert_int_equal(nxm_status_message(&status, text, sizeof text), 0);
    assert_string_equal(text, "");
}

static void every_known_code_has_its_own_name(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= NXMEM_STATUS_BUSY; code++) {
        assert_non_null(nxm_status_name(code));
        for (uint32_t other = 0; other < code; other++)
            assert_string_not_equal(nxm_status_name(code), nxm_status_name(other));
    }
    assert_string_equal(nxm_status_name(NXMEM_STATUS_OUT_OF_MEMORY), "OUT_OF_MEMORY");
    assert_string_equal(nxm_status_name(NXMEM_STATUS_BUSY), "BUSY");
}

static void codes_outside_the_table_have_no_name_and_print_as_unknown(void **state)
{
    NxmemStatus status = nxm_status_make(9999, NULL);
    char text[64];

    (void)state;
    assert_null(nxm_status_name(15));
    assert_null(nxm_status_name(UINT32_MAX));
    nxm_status_text(&status, text, sizeof text);
    assert_string_equal(text, "UNKNOWN(9999)");
}

static void a_long_message_is_cut_on_a_character_boundary(void **state)
{
    char text[4 * 90 + 1] = "";
    NxmemStatus status;

    (void)state;
    for (int i = 0; i < 90; i++)
        strcat(text, "\xE2\x82\xAC"); /* three bytes each: 85 fit exactly */
    status = nxm_status_make(5, text);
    assert_int_equal(status.message_len, 255);
    assert_int_equal(status.message[255], 0);
    memmove(text + 1, text, strlen(text) + 1);
    text[0] = 'x'; /* 1 + 84 * 3 = 253 */
    status = nxm_status_make(5, text);
    assert_int_equal(status.message_len, 253);
    assert_int_equal(status.message[253], 0);
}

static void a_message_of_exactly_255_bytes_is_kept_whole(void **state)
{
    NxmemStatus status;
    char text[256];

    (void)state;
    memset(text, 'a', 255);
    text[255] = '\0';
    status = nxm_status_make(5, text);
    assert_int_equal(status.message_len, 255);
}

static void bytes_behind_the_message_are_zero(void **state)
{
    NxmemStatus status = nxm_status_make(5, "short");

    (void)state;
    for (size_t i = 5; i < sizeof status.message; i++)
        assert_int_equal(status.message[i], 0);
}

static void a_message_is_read_by_its_length_and_never_past_the_buffer(void **state)
{
    NxmemStatus *status = malloc(sizeof *status); /* exact: one byte more is a sanitizer's finding */
    char text[512];

    (void)state;
    status->code = 5;
    memset(status->message, 'm', sizeof status->message); /* no NUL anywhere */
    status->message_len = 3;
    assert_int_equal(nxm_status_message(status, text, sizeof text), 3);
    assert_string_equal(text, "mmm");
    status->message_len = UINT32_MAX;
    assert_int_equal(nxm_status_message(status, text, sizeof text), 255);
    free(status);
}

static void a_message_that_is_not_utf8_is_no_message(void **state)
{
    static const char *const bad[] = { "\xFF",     "\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80",
                                       "\xE2\x82", "a\x80",    "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF" };
    char text[64];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        NxmemStatus status = { .code = 7, .message_len = (uint32_t)strlen(bad[i]) };

        memcpy(status.message, bad[i], strlen(bad[i]));
        assert_int_equal(nxm_status_message(&status, text, sizeof text), 0);
        nxm_status_text(&status, text, sizeof text);
        assert_string_equal(text, "DEVICE_ERROR");
    }
}

static void every_length_of_character_is_utf8(void **state)
{
    static const char good[] = "a\xC3\xA9\xE2\x82\xAC\xED\x9F\xBF\xEE\x80\x80\xF0\x9F\x98\x80\xF4\x8F\xBF\xBF";

    (void)state;
    assert_true(nxm_status_is_utf8((const uint8_t *)good, sizeof good - 1));
    assert_true(nxm_status_is_utf8((const uint8_t *)"", 0));
}

static void a_broken_continuation_is_no_character(void **state)
{
    static const char *const bad[] = { "\xE2\x82\x41", "\xF0\x9F\x98\xC0", "\xF0\x9F\x7F\x80", "\xC3\xC3", "\x80", "\xF5\x80\x80\x80" };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(nxm_status_is_utf8((const uint8_t *)bad[i], strlen(bad[i])));
}

/* Cut before its first byte: a message that is one endless character has nothing left. */
static void a_message_of_continuations_alone_is_cut_to_nothing(void **state)
{
    char message[400];
    NxmemStatus status;

    (void)state;
    memset(message, '\x80', sizeof message - 1);
    message[sizeof message - 1] = '\0';
    status = nxm_status_make(NXMEM_STATUS_BUSY, message);
    assert_int_equal(status.message_len, 0);
}

static void a_tier_has_its_word_and_a_future_one_has_none(void **state)
{
    (void)state;
    assert_string_equal(nxm_tier_word(NXMEM_TIER_DEVICE), "device");
    assert_string_equal(nxm_tier_word(NXMEM_TIER_HOST), "host");
    assert_string_equal(nxm_tier_word(NXMEM_TIER_DISK), "disk");
    assert_string_equal(nxm_tier_word(NXMEM_TIER_DISK + 1), "unknown");
    assert_string_equal(nxm_tier_word(UINT32_MAX), "unknown");
}

static void a_sequence_cut_by_the_length_is_not_read_further(void **state)
{
    uint8_t *exact = malloc(2);

    (void)state;
    memcpy(exact, "\xE2\x82", 2);
    assert_false(nxm_status_is_utf8(exact, 2));
    free(exact);
}

static void text_is_name_and_message(void **state)
{
    NxmemStatus status = nxm_status_make(NXMEM_STATUS_OUT_OF_MEMORY, "pool is full");
    char text[64];

    (void)state;
    nxm_status_text(&status, text, sizeof text);
    assert_string_equal(text, "OUT_OF_MEMORY: pool is full");
    nxm_status_text(&status, text, 8);
    assert_string_equal(text, "OUT_OF_");
}

static void an_unsupported_capability_says_what_to_do(void **state)
{
    NxmemStatus status = nxm_status_make(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, NULL);
    struct nxm_error error;

    (void)state;
    assert_int_equal(nxm_status_error(&status, "allocate", &error), NXM_ECALL);
    assert_non_null(strstr(error.text, "another mechanism"));
}

static void only_out_of_memory_looks_like_capacity(void **state)
{
    struct nxm_error error;

    (void)state;
    for (uint32_t code = 1; code < 20; code++) {
        NxmemStatus status = nxm_status_make(code, NULL);
        int expected = code == NXMEM_STATUS_OUT_OF_MEMORY ? NXM_ENOMEM : NXM_ECALL;

        assert_int_equal(nxm_status_error(&status, "allocate", &error), expected);
        assert_int_equal(error.code, expected);
        assert_int_equal(error.status, code);
        assert_int_equal(nxm_status_refusal(&status, "release", &error), NXM_ECALL);
        assert_int_equal(error.code, NXM_ECALL);
    }
}

static void what_a_code_asks_of_the_caller(void **state)
{
    const uint32_t choice[] = { 3, 6 }, routing[] = { 4, 9, 10, 11 }, other[] = { 0, 1, 2, 5, 7, 12, 13, 14, 15, 9999 };

    (void)state;
    assert_int_equal(nxm_status_bucket(8), NXM_BUCKET_CAPACITY);
    for (size_t i = 0; i < sizeof choice / sizeof choice[0]; i++)
        assert_int_equal(nxm_status_bucket(choice[i]), NXM_BUCKET_CHOICE);
    for (size_t i = 0; i < sizeof routing / sizeof routing[0]; i++)
        assert_int_equal(nxm_status_bucket(routing[i]), NXM_BUCKET_ROUTING);
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        assert_int_equal(nxm_status_bucket(other[i]), NXM_BUCKET_PLUGIN);
}

static void an_error_names_the_operation_that_failed(void **state)
{
    NxmemStatus status = nxm_status_make(NXMEM_STATUS_DEVICE_ERROR, NULL);
    struct nxm_error error;

    (void)state;
    nxm_status_error(&status, "open_allocator", &error);
    assert_string_equal(error.what, "open_allocator");
    nxm_error_set(&error, NXM_EINVAL, 0, "x");
    assert_null(error.what); /* nothing of the last one stays */
}

static void an_error_may_go_nowhere(void **state)
{
    NxmemStatus status = nxm_status_make(NXMEM_STATUS_OUT_OF_MEMORY, "full");

    (void)state;
    assert_int_equal(nxm_status_error(&status, "allocate", NULL), NXM_ENOMEM);
    assert_int_equal(nxm_error_set(NULL, NXM_EOPEN, 0, "%s", "x"), NXM_EOPEN);
}

static void an_error_is_one_line(void **state)
{
    NxmemStatus status = nxm_status_make(5, "first\nsecond\r");
    struct nxm_error error;

    (void)state;
    nxm_status_error(&status, "allocate", &error);
    assert_null(strpbrk(error.text, "\n\r"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ok_writes_all_that_is_read),
        cmocka_unit_test(ok_has_no_message),
        cmocka_unit_test(every_known_code_has_its_own_name),
        cmocka_unit_test(codes_outside_the_table_have_no_name_and_print_as_unknown),
        cmocka_unit_test(a_long_message_is_cut_on_a_character_boundary),
        cmocka_unit_test(a_message_of_exactly_255_bytes_is_kept_whole),
        cmocka_unit_test(bytes_behind_the_message_are_zero),
        cmocka_unit_test(a_message_is_read_by_its_length_and_never_past_the_buffer),
        cmocka_unit_test(a_message_that_is_not_utf8_is_no_message),
        cmocka_unit_test(every_length_of_character_is_utf8),
        cmocka_unit_test(a_broken_continuation_is_no_character),
        cmocka_unit_test(a_message_of_continuations_alone_is_cut_to_nothing),
        cmocka_unit_test(a_tier_has_its_word_and_a_future_one_has_none),
        cmocka_unit_test(a_sequence_cut_by_the_length_is_not_read_further),
        cmocka_unit_test(what_a_code_asks_of_the_caller),
        cmocka_unit_test(an_error_names_the_operation_that_failed),
        cmocka_unit_test(text_is_name_and_message),
        cmocka_unit_test(only_out_of_memory_looks_like_capacity),
        cmocka_unit_test(an_unsupported_capability_says_what_to_do),
        cmocka_unit_test(an_error_may_go_nowhere),
        cmocka_unit_test(an_error_is_one_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
