#include "text.h"

#include <stdbool.h>

void nxm_text_init(struct nxm_text *text, char *buffer, size_t capacity)
{
    text->buffer = buffer;
    text->capacity = capacity;
    text->length = 0;
    text->make_room = NULL;
    buffer[0] = '\0';
}

/* --- what does not fit as it is: in as many parts as it takes, or cut ------------------------------------------------ */

static size_t room_in(const struct nxm_text *text)
{
    return text->capacity - 1 - text->length;
}

/* So many of the bytes fit now; 0: none, and none will. */
static size_t room_for(struct nxm_text *text, size_t wanted)
{
    if (wanted > 0 && room_in(text) == 0 && text->make_room != NULL)
        text->make_room(text);
    return wanted < room_in(text) ? wanted : room_in(text);
}

static void advance(struct nxm_text *text, size_t count)
{
    text->length += count;
    text->buffer[text->length] = '\0';
}

void nxm_text_append_in_parts(struct nxm_text *text, const char *bytes, size_t count)
{
    size_t part;

    for (; (part = room_for(text, count)) > 0; bytes += part, count -= part) {
        memcpy(text->buffer + text->length, bytes, part);
        advance(text, part);
    }
}

static void append_repeated(struct nxm_text *text, char c, size_t count)
{
    size_t part;

    for (; (part = room_for(text, count)) > 0; count -= part) {
        memset(text->buffer + text->length, c, part);
        advance(text, part);
    }
}

/* Either the whole of it or nothing: an escape cut in half would be another text. */
static bool append_whole(struct nxm_text *text, const char *bytes, size_t count)
{
    if (count > room_in(text) && text->make_room == NULL)
        return false;
    nxm_text_append(text, bytes, count);
    return true;
}

/* --- numbers: from the last digit to the first, in the text itself or, where they do not fit, aside ------------------ */

#define DIGITS_MOST 20 /* of 64 bits */

static const char pairs[] = "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
                            "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

static unsigned decimal_digits(uint64_t value)
{
    unsigned digits = 1;

    for (; value >= 100; value /= 100)
        digits += 2;
    return digits + (value >= 10);
}

static unsigned hex_digits(uint64_t value)
{
    return (67u - (unsigned)__builtin_clzll(value | 1)) / 4;
}

static void write_decimal(char *end, uint64_t value)
{
    for (; value >= 100; value /= 100)
        memcpy(end -= 2, &pairs[value % 100 * 2], 2);
    if (value >= 10)
        memcpy(end - 2, &pairs[value * 2], 2);
    else
        end[-1] = (char)('0' + value);
}

static void write_hex(char *end, uint64_t value)
{
    do {
        *--end = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value != 0);
}

static char *place_for(struct nxm_text *text, unsigned digits, char *aside)
{
    return digits <= room_in(text) ? text->buffer + text->length : aside;
}

static void take_from(struct nxm_text *text, const char *place, unsigned digits, const char *aside)
{
    if (place == aside)
        nxm_text_append_in_parts(text, aside, digits);
    else
        advance(text, digits);
}

void nxm_text_decimal(struct nxm_text *text, uint64_t value)
{
    unsigned digits = decimal_digits(value);
    char aside[DIGITS_MOST], *place = place_for(text, digits, aside);

    write_decimal(place + digits, value);
    take_from(text, place, digits, aside);
}

void nxm_text_hex(struct nxm_text *text, uint64_t value)
{
    unsigned digits = hex_digits(value);
    char aside[DIGITS_MOST], *place = place_for(text, digits, aside);

    write_hex(place + digits, value);
    take_from(text, place, digits, aside);
}

/* --- printf ------------------------------------------------------------------------------------------------------- */

/* One conversion of a format, as parsed. */
struct conversion {
    bool left, zero;
    bool is_long; /* l, ll, z and j: passed alike */
    size_t width;
    int precision; /* negative: none */
};

_Static_assert(sizeof(long) == sizeof(uint64_t) && sizeof(size_t) == sizeof(uint64_t) && sizeof(intmax_t) == sizeof(uint64_t),
               "one size for all that is longer than an int");

/* A va_list that functions can share: passing the array type itself by pointer is not portable. */
struct arguments {
    va_list list;
};

static uint64_t next_unsigned(struct arguments *arguments, const struct conversion *c)
{
    return c->is_long ? va_arg(arguments->list, unsigned long) : va_arg(arguments->list, unsigned);
}

static int64_t next_signed(struct arguments *arguments, const struct conversion *c)
{
    return c->is_long ? va_arg(arguments->list, long) : va_arg(arguments->list, int);
}

static size_t padding_of(const struct conversion *c, size_t length)
{
    return c->width > length ? c->width - length : 0;
}

static void append_padded(struct nxm_text *text, const struct conversion *c, const char *bytes, size_t count)
{
    if (!c->left)
        append_repeated(text, ' ', padding_of(c, count));
    nxm_text_append(text, bytes, count);
    if (c->left)
        append_repeated(text, ' ', padding_of(c, count));
}

static void append_string(struct nxm_text *text, const struct conversion *c, const char *s)
{
    if (s == NULL)
        s = "(null)";
    append_padded(text, c, s, c->precision >= 0 ? strnlen(s, (size_t)c->precision) : strlen(s));
}

static void append_number(struct nxm_text *text, const struct conversion *c, const char *prefix, uint64_t value, bool is_hex)
{
    size_t padding = padding_of(c, strlen(prefix) + (is_hex ? hex_digits(value) : decimal_digits(value)));

    if (!c->left && !c->zero)
        append_repeated(text, ' ', padding);
    nxm_text_string(text, prefix);
    if (!c->left && c->zero)
        append_repeated(text, '0', padding);
    if (is_hex)
        nxm_text_hex(text, value);
    else
        nxm_text_decimal(text, value);
    if (c->left)
        append_repeated(text, ' ', padding);
}

/* Reads what stands between a '%' and the letter of its conversion, which is returned; NULL for what is outside the subset. */
static const char *parse(const char *at, struct conversion *c, struct arguments *arguments)
{
    *c = (struct conversion){ .precision = -1 };
    for (; *at == '-' || *at == '0'; at++) {
        c->left |= *at == '-';
        c->zero |= *at == '0';
    }
    for (; *at >= '0' && *at <= '9' && c->width < 4096; at++)
        c->width = c->width * 10 + (size_t)(*at - '0');
    if (at[0] == '.') {
        if (at[1] != '*' || at[2] != 's')
            return NULL;
        c->precision = va_arg(arguments->list, int);
        return at + 2;
    }
    c->is_long = *at == 'l' || *at == 'z' || *at == 'j';
    return at + (at[0] == 'l' && at[1] == 'l') + c->is_long;
}

static bool convert_number(struct nxm_text *text, char letter, const struct conversion *c, struct arguments *arguments)
{
    int64_t value;

    switch (letter) {
    case 'd':
        value = next_signed(arguments, c);
        append_number(text, c, value < 0 ? "-" : "", value < 0 ? 0 - (uint64_t)value : (uint64_t)value, false);
        return true;
    case 'u':
        append_number(text, c, "", next_unsigned(arguments, c), false);
        return true;
    case 'x':
        append_number(text, c, "", next_unsigned(arguments, c), true);
        return true;
    default:
        return false;
    }
}

/* False for a letter outside the subset. */
static bool convert(struct nxm_text *text, char letter, const struct conversion *c, struct arguments *arguments)
{
    char character;

    if (c->is_long)
        return convert_number(text, letter, c, arguments);
    switch (letter) {
    case 's':
        append_string(text, c, va_arg(arguments->list, const char *));
        return true;
    case 'c':
        character = (char)va_arg(arguments->list, int);
        append_padded(text, c, &character, 1);
        return true;
    case 'p':
        append_number(text, c, "0x", (uintptr_t)va_arg(arguments->list, void *), true);
        return true;
    case '%':
        nxm_text_append(text, "%", 1);
        return true;
    default:
        return convert_number(text, letter, c, arguments);
    }
}

void nxm_text_vprintf(struct nxm_text *text, const char *format, va_list list)
{
    struct arguments arguments;
    struct conversion c;

    va_copy(arguments.list, list);
    for (;;) {
        const char *percent = strchrnul(format, '%'), *letter;

        nxm_text_append(text, format, (size_t)(percent - format));
        if (*percent == '\0')
            break;
        letter = parse(percent + 1, &c, &arguments);
        if (letter == NULL || !convert(text, *letter, &c, &arguments)) {
            nxm_text_string(text, percent); /* its argument cannot be skipped, so none behind it can be trusted */
            break;
        }
        format = letter + 1;
    }
    va_end(arguments.list);
}

void nxm_text_printf(struct nxm_text *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    nxm_text_vprintf(text, format, arguments);
    va_end(arguments);
}

/* --- amounts -------------------------------------------------------------------------------------------------------- */

void nxm_text_count(struct nxm_text *text, uint64_t count, const char *noun)
{
    nxm_text_decimal(text, count);
    nxm_text_string(text, " ");
    nxm_text_string(text, noun);
    nxm_text_string(text, count == 1 ? "" : "s");
}

void nxm_text_bytes(struct nxm_text *text, uint64_t bytes)
{
    static const char units[][5] = { " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB" };
    unsigned unit = bytes == 0 ? 0 : (63u - (unsigned)__builtin_clzll(bytes)) / 10u;
    unsigned shift = unit * 10;
    uint64_t whole = bytes >> shift, rest = bytes - (whole << shift);
    unsigned hundredths;

    if (rest == 0) {
        nxm_text_decimal(text, whole);
        nxm_text_string(text, units[unit]);
        return;
    }
    hundredths = (unsigned)(((unsigned __int128)rest * 100 + (UINT64_C(1) << (shift - 1))) >> shift);
    if (hundredths == 100) {
        whole++;
        hundredths = 0;
    }
    if (whole == 1024) { /* 1023.999 KiB rounds into the next unit */
        whole = 1;
        unit++;
    }
    nxm_text_decimal(text, whole);
    nxm_text_string(text, ".");
    nxm_text_append(text, &pairs[hundredths * 2], 2);
    nxm_text_string(text, units[unit]);
}

/* --- UTF-8 and JSON ------------------------------------------------------------------------------------------------- */

size_t nxm_text_utf8(const char *s, size_t length)
{
    const unsigned char *b = (const unsigned char *)s;
    unsigned char low = 0x80, high = 0xBF; /* bounds of the second byte (Unicode, table 3-7) */
    size_t count;

    if (length == 0)
        return 0;
    if (b[0] < 0x80)
        return 1;
    if (b[0] >= 0xC2 && b[0] <= 0xDF)
        count = 2;
    else if (b[0] >= 0xE0 && b[0] <= 0xEF)
        count = 3;
    else if (b[0] >= 0xF0 && b[0] <= 0xF4)
        count = 4;
    else
        return 0;
    if (b[0] == 0xE0)
        low = 0xA0; /* no overlong form */
    else if (b[0] == 0xED)
        high = 0x9F; /* no surrogate */
    else if (b[0] == 0xF0)
        low = 0x90;
    else if (b[0] == 0xF4)
        high = 0x8F; /* not beyond U+10FFFF */
    if (length < count || b[1] < low || b[1] > high)
        return 0;
    for (size_t i = 2; i < count; i++) {
        if (b[i] < 0x80 || b[i] > 0xBF)
            return 0;
    }
    return count;
}

void nxm_text_flatten(char *s)
{
    size_t left = strlen(s), taken;

    for (; left > 0; s += taken, left -= taken) {
        taken = nxm_text_utf8(s, left);
        if (taken == 0) {
            *s = '?';
            taken = 1;
        } else if (taken == 1 && ((unsigned char)*s < 0x20 || *s == 0x7f)) {
            *s = ' ';
        } else if (taken == 2 && (unsigned char)s[0] == 0xC2 && (unsigned char)s[1] < 0xA0) {
            memset(s, ' ', taken); /* a control character of ISO 6429's upper half */
        }
    }
}

/* The short escape of a character, 0 when it has none. */
static char short_escape(char c)
{
    static const char characters[] = "\"\\\b\f\n\r\t", escapes[] = "\"\\bfnrt";
    const char *found = c == '\0' ? NULL : strchr(characters, c);

    return found == NULL ? '\0' : escapes[found - characters];
}

/* So many characters from there on stand for themselves, one byte each. */
static size_t plain_length(const char *s, size_t length)
{
    size_t at = 0;

    while (at < length && (unsigned char)s[at] >= 0x20 && (unsigned char)s[at] < 0x80 && s[at] != '"' && s[at] != '\\')
        at++;
    return at;
}

/* Takes one character, which does not stand for itself or has several bytes; 0: there is no room for what stands for it. */
static size_t append_escaped(struct nxm_text *text, const char *s, size_t length)
{
    size_t taken = nxm_text_utf8(s, length);
    char escape[8] = "\\", letter = short_escape(*s);
    struct nxm_text code;

    if (taken == 0)
        return append_whole(text, "\\ufffd", 6) ? 1 : 0;
    if (letter != '\0') {
        escape[1] = letter;
        return append_whole(text, escape, 2) ? 1 : 0;
    }
    if ((unsigned char)*s >= 0x20)
        return append_whole(text, s, taken) ? taken : 0;
    nxm_text_init(&code, escape, sizeof escape);
    nxm_text_printf(&code, "\\u%04x", (unsigned)*s);
    return append_whole(text, escape, code.length) ? 1 : 0;
}

void nxm_text_json(struct nxm_text *text, const char *s)
{
    size_t left = s == NULL ? 0 : strlen(s), taken;

    for (; left > 0; s += taken, left -= taken) {
        taken = plain_length(s, left);
        if (taken > 0)
            nxm_text_append(text, s, taken);
        else
            taken = append_escaped(text, s, left);
        if (taken == 0)
            return;
    }
}
