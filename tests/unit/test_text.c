/* core/text: formatting without libc's. What printf also knows is compared with snprintf. */
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/text.h"

#define same_as_printf(...) \
    do { \
        char ours[256], theirs[256]; \
        struct nxm_text text; \
        nxm_text_init(&text, ours, sizeof ours); \
        nxm_text_printf(&text, __VA_ARGS__); \
        assert_int_equal(snprintf(theirs, sizeof theirs, __VA_ARGS__), (int)text.length); \
        assert_string_equal(ours, theirs); \
    } while (0)

static void numbers_come_out_as_printf_writes_them(void **state)
{
    (void)state;
    same_as_printf("%d %d %d %d", 0, 1, INT_MAX, INT_MIN);
    same_as_printf("%u %u", 0u, UINT_MAX);
    same_as_printf("%x %x", 0u, 0xdeadBEEFu);
    same_as_printf("%ld %lld %lu %llu", LONG_MIN, LLONG_MIN, ULONG_MAX, ULLONG_MAX);
    same_as_printf("%zu %zd %zx", SIZE_MAX, (ssize_t)-5, (size_t)255);
    same_as_printf("%ju %jd %jx", UINTMAX_MAX, INTMAX_MIN, UINTMAX_MAX);
    same_as_printf("%p", (void *)0x1234abcd);
}

static void widths_and_flags_come_out_as_printf_writes_them(void **state)
{
    (void)state;
    same_as_printf("[%8d][%-8d][%08d][%8u][%-8u][%016llx]", -42, -42, -42, 42u, 42u, 0xabcull);
    same_as_printf("[%1d][%01d][%2x]", 12345, -12345, 0xfffu);
    same_as_printf("[%10s][%-10s][%3s]", "right", "left", "longer than three");
    same_as_printf("[%4c][%-4c]", 'a', 'b');
    same_as_printf("[%40llu][%-40llu][%040llu]", ULLONG_MAX, ULLONG_MAX, ULLONG_MAX);
    same_as_printf("[%20p][%-20p]", (void *)0x10, (void *)0x20);
}

static void strings_and_precision_come_out_as_printf_writes_them(void **state)
{
    const char exact[3] = { 'a', 'b', 'c' }; /* no NUL: reading a fourth byte would be a fault */

    (void)state;
    same_as_printf("%s|%s|", "", "text");
    same_as_printf("%.*s|%.*s|%.*s", 3, exact, 0, "gone", -1, "whole");
    same_as_printf("[%5.*s]", 2, "abc");
    same_as_printf("100%% of %c", 'x');
}

static void a_null_string_is_named(void **state)
{
    char buffer[32];
    struct nxm_text text;
    const char *volatile nothing = NULL;

    (void)state;
    nxm_text_init(&text, buffer, sizeof buffer);
    nxm_text_printf(&text, "%s", nothing);
    assert_string_equal(buffer, "(null)");
}

static void an_unknown_conversion_and_all_behind_it_is_copied(void **state)
{
    char buffer[64];
    struct nxm_text text;
    const char *volatile format = "%d %f %s %";

    (void)state;
    nxm_text_init(&text, buffer, sizeof buffer);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
    nxm_text_printf(&text, format, 7, 1.5, "never read");
#pragma GCC diagnostic pop
    assert_string_equal(buffer, "7 %f %s %");
}

static void a_lone_percent_at_the_end_is_copied(void **state)
{
    static const char *const endings[] = { "%", "%5", "%-", "%l", "%ll", "%z", "%.*", "%." };

    (void)state;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t length = strlen(endings[i]);
        char buffer[16], *format = malloc(length + 1); /* exact: one byte too many is seen */
        struct nxm_text text;
        const char *volatile hidden = format;

        assert_non_null(format);
        memcpy(format, endings[i], length + 1);
        nxm_text_init(&text, buffer, sizeof buffer);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
        nxm_text_printf(&text, hidden, 1, 2);
#pragma GCC diagnostic pop
        assert_string_equal(buffer, endings[i]);
        free(format);
    }
}

static void every_capacity_is_respected_and_keeps_the_nul(void **state)
{
    char whole[128];
    struct nxm_text text;

    (void)state;
    nxm_text_init(&text, whole, sizeof whole);
    nxm_text_printf(&text, "%s %08d %-9u| %p %llx", "abcdef", -77, 5u, (void *)0x7f001234, 0xffffffffffull);
    for (size_t capacity = 1; capacity <= text.length + 1; capacity++) {
        char *exact = malloc(capacity); /* a sanitizer sees one byte too many */
        struct nxm_text cut;

        assert_non_null(exact);
        nxm_text_init(&cut, exact, capacity);
        nxm_text_printf(&cut, "%s %08d %-9u| %p %llx", "abcdef", -77, 5u, (void *)0x7f001234, 0xffffffffffull);
        assert_int_equal(cut.length, capacity - 1);
        assert_int_equal(strlen(exact), capacity - 1);
        assert_memory_equal(exact, whole, capacity - 1);
        free(exact);
    }
}

static void appending_continues_where_the_last_call_ended(void **state)
{
    char buffer[16];
    struct nxm_text text;

    (void)state;
    nxm_text_init(&text, buffer, sizeof buffer);
    nxm_text_printf(&text, "%d,", 1);
    nxm_text_printf(&text, "%d", 2);
    assert_string_equal(buffer, "1,2");
    assert_int_equal(text.length, 3);
}

/* --- the writers, against snprintf ---------------------------------------------------------------------------- */

static uint64_t seed = 1;

static uint64_t some_bits(void) /* as often short as long */
{
    uint64_t x = seed += UINT64_C(0x9E3779B97F4A7C15);

    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    x ^= x >> 31;
    return x >> (seed >> 40) % 64;
}

/* Buffers end exactly where they say, so that a sanitizer sees one byte too many. */
static void assert_cut_anywhere(void (*write)(struct nxm_text *text, uint64_t value), uint64_t value, const char *expected)
{
    size_t length = strlen(expected);

    for (size_t capacity = 1; capacity <= length + 2; capacity++) {
        size_t kept = length < capacity - 1 ? length : capacity - 1;
        char *exact = malloc(capacity);
        struct nxm_text text;

        assert_non_null(exact);
        memset(exact, '#', capacity);
        nxm_text_init(&text, exact, capacity);
        write(&text, value);
        assert_int_equal(text.length, kept);
        assert_memory_equal(exact, expected, kept);
        assert_int_equal(exact[kept], '\0');
        if (capacity == length + 2)
            assert_int_equal(exact[length + 1], '#'); /* nothing behind the NUL */
        free(exact);
    }
}

static void assert_number(uint64_t value)
{
    char expected[32];

    snprintf(expected, sizeof expected, "%" PRIu64, value);
    assert_cut_anywhere(nxm_text_decimal, value, expected);
    snprintf(expected, sizeof expected, "%" PRIx64, value);
    assert_cut_anywhere(nxm_text_hex, value, expected);
}

static void numbers_of_every_length_are_those_of_printf(void **state)
{
    (void)state;
    for (uint64_t power = 1, last = 0; power > last; last = power, power *= 10) {
        assert_number(power - 1);
        assert_number(power);
        assert_number(power + 1);
    }
    for (unsigned bit = 0; bit < 64; bit++) {
        assert_number((UINT64_C(1) << bit) - 1);
        assert_number(UINT64_C(1) << bit);
    }
    for (uint64_t value = 0; value < 10100; value++)
        assert_number(value);
    for (int i = 0; i < 20000; i++)
        assert_number(some_bits());
}

/* What nxm_text_bytes says, worked out by printf from hundredths rounded to the nearest. */
static void expected_bytes(uint64_t bytes, char expected[32])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    unsigned unit = 0;
    unsigned __int128 hundredths = (unsigned __int128)bytes * 100;

    while (unit < 6 && bytes >> 10 * (unit + 1) != 0)
        unit++;
    if (bytes == bytes >> 10 * unit << 10 * unit) {
        snprintf(expected, 32, "%" PRIu64 " %s", bytes >> 10 * unit, units[unit]);
        return;
    }
    hundredths = (hundredths + ((unsigned __int128)1 << 10 * unit >> 1)) >> 10 * unit;
    if (hundredths == 102400)
        hundredths = 100, unit++;
    snprintf(expected, 32, "%u.%02u %s", (unsigned)(hundredths / 100), (unsigned)(hundredths % 100), units[unit]);
}

static void amounts_of_every_size_are_rounded_alike(void **state)
{
    char expected[32];

    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t bytes = some_bits();

        if (i % 4 == 0)
            bytes = UINT64_MAX - bytes;
        expected_bytes(bytes, expected);
        assert_cut_anywhere(nxm_text_bytes, bytes, expected);
    }
}

/* One conversion of any kind, with its argument: what it comes to in a buffer of that size, by both. */
static void convert_by_both(char *ours, char *theirs, size_t capacity)
{
    static const char *const flags[] = { "", "", "", "0", "-", "-0", "0-" }, *const lengths[] = { "", "l", "ll", "z", "j" };
    static const char *const words[] = { "", "a", "module.so", "a text that is somewhat longer" };
    uint64_t value = some_bits(), kind = some_bits() % 8;
    char format[48], width[8] = "";
    const char *flag = flags[some_bits() % 7], *length = lengths[some_bits() % 5], *word = words[some_bits() % 4];
    struct nxm_text text;

    nxm_text_init(&text, ours, capacity);
    if (some_bits() % 2)
        snprintf(width, sizeof width, "%u", (unsigned)(1 + some_bits() % 30));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat"
#define BOTH(...) (nxm_text_printf(&text, __VA_ARGS__), snprintf(theirs, capacity, __VA_ARGS__))
    if (kind < 5) {
        snprintf(format, sizeof format, "<%%%s%s%s%c>", flag, width, length, "duxux"[kind]);
        if (*length == '\0')
            BOTH(format, (int)value);
        else
            BOTH(format, value);
    } else if (kind == 5) {
        snprintf(format, sizeof format, "<%%%s%sp>", strchr(flag, '-') ? "-" : "", width);
        BOTH(format, (void *)(uintptr_t)(value | 1));
    } else if (kind == 6) {
        snprintf(format, sizeof format, "<%%%s%s.*s>%%%%", strchr(flag, '-') ? "-" : "", width);
        BOTH(format, (int)(value % 20) - 2, word);
    } else {
        snprintf(format, sizeof format, "<%%%s%sc|%%s>", strchr(flag, '-') ? "-" : "", width);
        BOTH(format, (int)('a' + value % 26), word);
    }
#undef BOTH
#pragma GCC diagnostic pop
    assert_int_equal(text.length, strlen(ours));
}

static void any_conversion_is_that_of_printf(void **state)
{
    (void)state;
    for (int i = 0; i < 100000; i++) {
        size_t capacity = 1 + some_bits() % 80;
        char *ours = malloc(capacity), *theirs = malloc(capacity);

        assert_non_null(ours);
        assert_non_null(theirs);
        convert_by_both(ours, theirs, capacity);
        assert_string_equal(ours, theirs);
        free(ours);
        free(theirs);
    }
}

/* --- a text whose owner makes room ------------------------------------------------------------------------------ */

static char taken[512];
static size_t taken_length;

/* All but some of it. */
static void take(struct nxm_text *text)
{
    size_t some = text->length / 3, count = text->length - some;

    assert_true(text->length > 0);
    memcpy(taken + taken_length, text->buffer, count);
    taken_length += count;
    memmove(text->buffer, text->buffer + count, some + 1);
    text->length = some;
}

static void write_of_everything(struct nxm_text *text)
{
    nxm_text_printf(text, "%s|%30d|%-30x|%030ju|%p", "a text that is longer than many a buffer", -1, 0xabcu, UINTMAX_MAX, (void *)0x7f00);
    nxm_text_json(text, "quoted \"text\" \x01\xff\xe2\x82\xac of many kinds\n");
    nxm_text_decimal(text, UINT64_MAX);
    nxm_text_hex(text, UINT64_MAX);
    nxm_text_bytes(text, UINT64_MAX);
    nxm_text_string(text, "");
    nxm_text_string(text, "end");
}

static void nothing_is_cut_where_room_is_made(void **state)
{
    struct nxm_text text;
    char whole[512];

    (void)state;
    nxm_text_init(&text, whole, sizeof whole);
    write_of_everything(&text);
    for (size_t capacity = 2; capacity <= text.length + 2; capacity++) {
        char *exact = malloc(capacity);
        struct nxm_text part;

        assert_non_null(exact);
        taken_length = 0;
        nxm_text_init(&part, exact, capacity);
        part.make_room = take;
        write_of_everything(&part);
        assert_int_equal(exact[part.length], '\0');
        memcpy(taken + taken_length, exact, part.length + 1);
        assert_string_equal(taken, whole);
        free(exact);
    }
}

static void assert_bytes(uint64_t bytes, const char *expected)
{
    char buffer[32];
    struct nxm_text text;

    nxm_text_init(&text, buffer, sizeof buffer);
    nxm_text_bytes(&text, bytes);
    assert_string_equal(buffer, expected);
}

static void bytes_are_exact_for_whole_units_and_have_two_decimals_else(void **state)
{
    (void)state;
    assert_bytes(0, "0 B");
    assert_bytes(512, "512 B");
    assert_bytes(1023, "1023 B");
    assert_bytes(1024, "1 KiB");
    assert_bytes(1025, "1.00 KiB");
    assert_bytes(1536, "1.50 KiB");
    assert_bytes(64 << 10, "64 KiB");
    assert_bytes((1 << 20) + (1 << 19), "1.50 MiB");
    assert_bytes(UINT64_C(5) << 30, "5 GiB");
    assert_bytes(UINT64_C(1) << 60, "1 EiB");
    assert_bytes(UINT64_C(3) << 59, "1.50 EiB");
}

static void bytes_that_round_up_to_1024_take_the_next_unit(void **state)
{
    (void)state;
    assert_bytes((1 << 20) - 1, "1.00 MiB");
    assert_bytes((UINT64_C(1) << 40) - 1, "1.00 TiB");
    assert_bytes(UINT64_MAX, "16.00 EiB");
    assert_bytes(2047, "2.00 KiB");
    assert_bytes(1029, "1.00 KiB");
    assert_bytes(1030, "1.01 KiB");
}

static void assert_json(const char *s, const char *expected)
{
    char buffer[128];
    struct nxm_text text;

    nxm_text_init(&text, buffer, sizeof buffer);
    nxm_text_json(&text, s);
    assert_string_equal(buffer, expected);
}

static void json_escapes_what_json_must_not_contain(void **state)
{
    (void)state;
    assert_json("plain /path", "plain /path");
    assert_json("\"quoted\\\"", "\\\"quoted\\\\\\\"");
    assert_json("\b\f\n\r\t", "\\b\\f\\n\\r\\t");
    assert_json("\x01\x1f", "\\u0001\\u001f");
    assert_json(NULL, "");
}

static void json_keeps_utf8_and_replaces_what_is_not(void **state)
{
    (void)state;
    assert_json("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    assert_json("a\xff" "b", "a\\ufffdb");
    assert_json("\xc3", "\\ufffd");
    assert_json("\xe2\x82", "\\ufffd\\ufffd");
    assert_json("\xc0\x80", "\\ufffd\\ufffd");
    assert_json("\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd");
}

static void json_is_cut_between_characters_only(void **state)
{
    char buffer[5];
    struct nxm_text text;

    (void)state;
    nxm_text_init(&text, buffer, sizeof buffer);
    nxm_text_json(&text, "abc\n");
    assert_string_equal(buffer, "abc");
    nxm_text_init(&text, buffer, sizeof buffer);
    nxm_text_json(&text, "ab\xe2\x82\xac");
    assert_string_equal(buffer, "ab");
    nxm_text_init(&text, buffer, sizeof buffer);
    nxm_text_json(&text, "ab\x01z");
    assert_string_equal(buffer, "ab");
}

static void utf8_accepts_the_well_formed_and_nothing_else(void **state)
{
    (void)state;
    assert_int_equal(nxm_text_utf8("a", 1), 1);
    assert_int_equal(nxm_text_utf8("\xc2\x80", 2), 2);
    assert_int_equal(nxm_text_utf8("\xe0\xa0\x80", 3), 3);
    assert_int_equal(nxm_text_utf8("\xed\x9f\xbf", 3), 3);
    assert_int_equal(nxm_text_utf8("\xf0\x90\x80\x80", 4), 4);
    assert_int_equal(nxm_text_utf8("\xf4\x8f\xbf\xbf", 4), 4);
    assert_int_equal(nxm_text_utf8("", 0), 0);
    assert_int_equal(nxm_text_utf8("\x80", 1), 0);
    assert_int_equal(nxm_text_utf8("\xc1\xbf", 2), 0);
    assert_int_equal(nxm_text_utf8("\xe0\x9f\xbf", 3), 0);
    assert_int_equal(nxm_text_utf8("\xed\xa0\x80", 3), 0);
    assert_int_equal(nxm_text_utf8("\xf0\x8f\xbf\xbf", 4), 0);
    assert_int_equal(nxm_text_utf8("\xf4\x90\x80\x80", 4), 0);
    assert_int_equal(nxm_text_utf8("\xf5\x80\x80\x80", 4), 0);
    assert_int_equal(nxm_text_utf8("\xe2\x82\x28", 3), 0);
    assert_int_equal(nxm_text_utf8("\xe2\x82\xc0", 3), 0);
}

static void utf8_never_reads_beyond_the_length(void **state)
{
    (void)state;
    for (size_t length = 1; length < 4; length++) {
        char *exact = malloc(length);

        assert_non_null(exact);
        memcpy(exact, "\xf0\x9f\x98\x80", length);
        assert_int_equal(nxm_text_utf8(exact, length), 0);
        assert_int_equal(nxm_text_utf8("\xf0\x9f\x98\x80", length), 0); /* what follows would fit */
        free(exact);
    }
}

static void assert_flat(const char *given, const char *expected)
{
    char text[64];

    strcpy(text, given);
    nxm_text_flatten(text);
    assert_string_equal(text, expected);
}

static void a_flat_line_holds_nothing_that_a_terminal_obeys(void **state)
{
    (void)state;
    assert_flat("", "");
    assert_flat("a\nb\x1b[2J\x7f", "a b [2J ");
    assert_flat("\xff" "b\xc3", "?b?");
    assert_flat("\x9b" "2J", "?2J");
    assert_flat("\xc2\x9b" "2J", "  2J");
    assert_flat("Gr\xc3\xb6\xc3\x9f" "e \xe2\x82\xac", "Gr\xc3\xb6\xc3\x9f" "e \xe2\x82\xac");
}

static void one_of_them_has_no_s(void **state)
{
    char buffer[64];
    struct nxm_text text;

    (void)state;
    nxm_text_init(&text, buffer, sizeof buffer);
    nxm_text_count(&text, 0, "block");
    nxm_text_count(&text, 1, "block");
    nxm_text_count(&text, 11, "block");
    assert_string_equal(buffer, "0 blocks1 block11 blocks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_come_out_as_printf_writes_them),
        cmocka_unit_test(widths_and_flags_come_out_as_printf_writes_them),
        cmocka_unit_test(strings_and_precision_come_out_as_printf_writes_them),
        cmocka_unit_test(a_null_string_is_named),
        cmocka_unit_test(an_unknown_conversion_and_all_behind_it_is_copied),
        cmocka_unit_test(a_lone_percent_at_the_end_is_copied),
        cmocka_unit_test(every_capacity_is_respected_and_keeps_the_nul),
        cmocka_unit_test(appending_continues_where_the_last_call_ended),
        cmocka_unit_test(numbers_of_every_length_are_those_of_printf),
        cmocka_unit_test(amounts_of_every_size_are_rounded_alike),
        cmocka_unit_test(any_conversion_is_that_of_printf),
        cmocka_unit_test(nothing_is_cut_where_room_is_made),
        cmocka_unit_test(one_of_them_has_no_s),
        cmocka_unit_test(bytes_are_exact_for_whole_units_and_have_two_decimals_else),
        cmocka_unit_test(bytes_that_round_up_to_1024_take_the_next_unit),
        cmocka_unit_test(json_escapes_what_json_must_not_contain),
        cmocka_unit_test(json_keeps_utf8_and_replaces_what_is_not),
        cmocka_unit_test(json_is_cut_between_characters_only),
        cmocka_unit_test(utf8_accepts_the_well_formed_and_nothing_else),
        cmocka_unit_test(utf8_never_reads_beyond_the_length),
        cmocka_unit_test(a_flat_line_holds_nothing_that_a_terminal_obeys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
