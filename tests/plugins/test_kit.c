/* Parts of the common kit that no plugin shows from outside: messages, bounded answers, the live set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plugins/common/live.h"
#include "plugins/common/status.h"

static void a_long_message_is_cut_on_a_character_boundary(void **state)
{
    char text[400];
    NxmemStatus status;

    (void)state;
    for (unsigned i = 0; i < 100; i++)
        memcpy(text + 3 * i, "\xE2\x82\xAC", 3); /* 85 of them fill 255 bytes exactly */
    text[300] = '\0';
    status = nxp_status(NXMEM_STATUS_INTERNAL_ERROR, text);
    assert_int_equal(status.message_len, 255);
    text[0] = 'x'; /* now the 85th would be cut in two: x and two stray bytes, then 84 whole ones */
    memmove(text + 1, text + 3, 298);
    status = nxp_status(NXMEM_STATUS_INTERNAL_ERROR, text);
    assert_int_equal(status.message_len, 253);
    assert_memory_equal(status.message + 250, "\xE2\x82\xAC", 3);
    assert_int_equal(status.message[253] | status.message[254] | status.message[255], 0);
}

static void a_character_cut_by_the_message_builder_leaves_no_half(void **state)
{
    struct nxp_message message = {.length = 0};
    NxmemStatus status;

    (void)state;
    nxp_message_add(&message, "x");
    for (unsigned i = 0; i < 100; i++)
        nxp_message_add(&message, "\xF0\x9F\x92\xBE");
    status = nxp_status_from(NXMEM_STATUS_INTERNAL_ERROR, &message);
    assert_int_equal(status.message_len, 253);
}

static void numbers_are_written_in_full(void **state)
{
    struct nxp_message message = {.length = 0};

    (void)state;
    nxp_message_add_number(&message, 0);
    nxp_message_add(&message, " ");
    nxp_message_add_number(&message, UINT64_MAX);
    assert_string_equal(message.text, "0 18446744073709551615");
}

static void a_short_message_leaves_the_rest_of_the_buffer_zero(void **state)
{
    static const uint8_t zero[NXMEM_STATUS_MESSAGE_CAPACITY];
    NxmemStatus status = nxp_status(NXMEM_STATUS_BUSY, "busy");

    (void)state;
    assert_int_equal(status.message_len, 4);
    assert_memory_equal(status.message + 4, zero, sizeof zero - 4);
    assert_int_equal(nxp_ok().message_len, 0);
}

static void an_answer_stops_where_the_caller_says(void **state)
{
    NxmemUnloadReport answer = {.struct_size = sizeof answer, .live_allocators = 1, .live_allocations = 2};
    uint32_t *small = malloc(20), zero = 0;

    (void)state;
    assert_non_null(small);
    memset(small, 0x5A, 20);
    small[0] = 18; /* not even a whole field */
    nxp_answer(small, &answer, sizeof answer);
    assert_int_equal(small[0], 18);
    assert_int_equal(small[2], 1);
    assert_int_equal(((uint8_t *)small)[18], 0x5A);
    free(small);
    nxp_answer(&zero, &answer, sizeof answer); /* claims nothing, gets nothing */
    assert_int_equal(zero, 0);
}

enum { MANY = 5000 };

static void the_live_set_finds_every_block_and_never_moves_one(void **state)
{
    static struct nxp_block *blocks[MANY];
    struct nxp_live live;
    int exists;

    (void)state;
    memset(&live, 0, sizeof live);
    assert_null(nxp_live_find(&live, 1));
    for (uint64_t i = 0; i < MANY; i++) {
        blocks[i] = nxp_live_add(&live, i * i + 1, &exists);
        assert_non_null(blocks[i]);
        assert_null(nxp_live_add(&live, i * i + 1, &exists));
        assert_int_equal(exists, 1);
    }
    for (uint64_t i = 0; i < MANY; i += 2)
        nxp_live_remove(&live, blocks[i]);
    assert_int_equal(live.count, MANY / 2);
    for (uint64_t i = 0; i < MANY; i++)
        assert_ptr_equal(nxp_live_find(&live, i * i + 1), i % 2 ? blocks[i] : NULL);
    for (uint64_t i = 0; i < MANY; i += 2)
        assert_int_equal(nxp_live_add(&live, i * i + 1, &exists)->state, NXP_ALLOCATING);
    assert_int_equal(live.count, MANY);
    nxp_live_clear(&live);
    assert_null(nxp_live_find(&live, 2));
}

static void a_message_ends_at_its_first_nul(void **state)
{
    NxmemStatus status = nxp_status(NXMEM_STATUS_BUSY, "seen\0unseen");

    (void)state;
    assert_int_equal(status.message_len, 4);
    assert_string_equal((const char *)status.message, "seen");
    for (size_t i = 4; i < sizeof status.message; i++)
        assert_int_equal(status.message[i], 0);
}

static void what_another_side_said_is_quoted_where_it_can_be_read(void **state)
{
    static const struct {
        const char *bytes;
        uint32_t length;
        const char *expected;
    } rows[] = {
        {"plain", 5, "plain"},
        {"plain", 2, "pl"},
        {"caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", 14, "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"},
        {"", 0, "status 14"},
        {"caf\xE9", 4, "status 14"},         /* Latin-1 */
        {"cut \xE2\x82", 6, "status 14"},    /* half a character */
        {"\xC0\xAF", 2, "status 14"},        /* longer than it need be */
        {"\xED\xA0\x80", 3, "status 14"},    /* half a surrogate pair */
        {"\xF4\x90\x80\x80", 4, "status 14"}, /* beyond the last code point */
        {"a\0b", 3, "status 14"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        NxmemStatus status = {.code = NXMEM_STATUS_BUSY, .message_len = rows[i].length};
        struct nxp_message message = {.length = 0};

        memcpy(status.message, rows[i].bytes, rows[i].length);
        nxp_message_add_status(&message, &status);
        assert_string_equal(message.text, rows[i].expected);
    }
}

static void a_message_length_beyond_the_buffer_is_not_trusted(void **state)
{
    NxmemStatus status = {.code = NXMEM_STATUS_BUSY, .message_len = UINT32_MAX};
    struct nxp_message message = {.length = 0};

    (void)state;
    memset(status.message, 'x', sizeof status.message);
    nxp_message_add_status(&message, &status);
    assert_int_equal(message.length, 255);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_message_is_cut_on_a_character_boundary),
        cmocka_unit_test(a_character_cut_by_the_message_builder_leaves_no_half),
        cmocka_unit_test(numbers_are_written_in_full),
        cmocka_unit_test(a_message_ends_at_its_first_nul),
        cmocka_unit_test(what_another_side_said_is_quoted_where_it_can_be_read),
        cmocka_unit_test(a_message_length_beyond_the_buffer_is_not_trusted),
        cmocka_unit_test(a_short_message_leaves_the_rest_of_the_buffer_zero),
        cmocka_unit_test(an_answer_stops_where_the_caller_says),
        cmocka_unit_test(the_live_set_finds_every_block_and_never_moves_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
