#include "text.h"

#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

/* One conversion of a format, as parsed. */
struct conversion {
    bool left, zero;
    size_t width;
    bool has_precision;
    int precision;
    enum { SIZE_INT, SIZE_LONG, SIZE_LONG_LONG, SIZE_Z, SIZE_J } size;
    char kind;
};

void nxm_text_init(struct nxm_text *text, char *buffer, size_t capacity)
{
    text->buffer = buffer;
    text->capacity = capacity;
    text->length = 0;
    buffer[0] = '\0';
}

static void append(struct nxm_text *text, const char *bytes, size_t count)
{
    size_t room = text->capacity - 1 - text->length;

    if (count > room)
        count = room;
    memcpy(text->buffer + text->length, bytes, count);
    text->length += count;
    text->buffer[text->length] = '\0';
}

static void append_repeated(struct nxm_text *text, char c, size_t count)
{
    while (count-- > 0)
        append(text, &c, 1);
}

/* Either the whole of it or nothing: an escape cut in half would be another text. */
static bool append_whole(struct nxm_text *text, const char *bytes, size_t count)
{
    if (count > text->capacity - 1 - text->length)
        return false;
    append(text, bytes, count);
    return true;
}

static void append_padded(struct nxm_text *text, const struct conversion *c, const char *bytes, size_t count)
{
    size_t padding = c->width > count ? c->width - count : 0;

    if (!c->left)
        append_repeated(text, ' ', padding);
    append(text, bytes, count);
    if (c->left)
        append_repeated(text, ' ', padding);
}

static void append_number(struct nxm_text *text, const struct conversion *c, const char *prefix, uintmax_t value,
                          unsigned base)
{
    char digits[24];
    size_t at = sizeof digits, used, prefix_length = strlen(prefix);

    do {
        digits[--at] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    used = sizeof digits - at;

    if (c->zero && !c->left) {
        append(text, prefix, prefix_length);
        append_repeated(text, '0', c->width > used + prefix_length ? c->width - used - prefix_length : 0);
        append(text, digits + at, used);
        return;
    }
    at -= prefix_length; /* a prefix has two characters at most, the digits at most twenty */
    memcpy(digits + at, prefix, prefix_length);
    append_padded(text, c, digits + at, used + prefix_length);
}

/* A va_list that functions can share: passing the array type itself by pointer is not portable. */
struct arguments {
    va_list list;
};

static uintmax_t next_unsigned(struct arguments *arguments, const struct conversion *c)
{
    switch (c->size) {
    case SIZE_LONG:
        return va_arg(arguments->list, unsigned long);
    case SIZE_LONG_LONG:
        return va_arg(arguments->list, unsigned long long);
    case SIZE_Z:
        return va_arg(arguments->list, size_t);
    case SIZE_J:
        return va_arg(arguments->list, uintmax_t);
    case SIZE_INT:
        break;
    }
    return va_arg(arguments->list, unsigned);
}

static intmax_t next_signed(struct arguments *arguments, const struct conversion *c)
{
    switch (c->size) {
    case SIZE_LONG:
        return va_arg(arguments->list, long);
    case SIZE_LONG_LONG:
        return va_arg(arguments->list, long long);
    case SIZE_Z:
        return va_arg(arguments->list, ssize_t);
    case SIZE_J:
        return va_arg(arguments->list, intmax_t);
    case SIZE_INT:
        break;
    }
    return va_arg(arguments->list, int);
}

static void append_string(struct nxm_text *text, const struct conversion *c, const char *s)
{
    if (s == NULL)
        s = "(null)";
    append_padded(text, c, s, c->has_precision && c->precision >= 0 ? strnlen(s, (size_t)c->precision) : strlen(s));
}

/* Reads what follows a '%'; returns the character behind the conversion, NULL for one outside the subset. */
static const char *parse(const char *at, struct conversion *c, struct arguments *arguments)
{
    memset(c, 0, sizeof *c);
    for (;; at++) {
        if (*at == '-')
            c->left = true;
        else if (*at == '0')
            c->zero = true;
        else
            break;
    }
    for (; *at >= '0' && *at <= '9' && c->width < 4096; at++)
        c->width = c->width * 10 + (size_t)(*at - '0');
    if (at[0] == '.') {
        if (at[1] != '*' || at[2] != 's')
            return NULL;
        c->has_precision = true;
        c->precision = va_arg(arguments->list, int);
        at += 2;
    }
    if (at[0] == 'l' && at[1] == 'l') {
        c->size = SIZE_LONG_LONG;
        at += 2;
    } else if (at[0] == 'l' || at[0] == 'z' || at[0] == 'j') {
        c->size = *at == 'l' ? SIZE_LONG : *at == 'z' ? SIZE_Z : SIZE_J;
        at++;
    }
    c->kind = *at;
    if (*at == '\0' || strchr(c->size == SIZE_INT ? "scduxp%" : "dux", *at) == NULL)
        return NULL;
    return at + 1;
}

static void convert(struct nxm_text *text, const struct conversion *c, struct arguments *arguments)
{
    switch (c->kind) {
    case 's':
        append_string(text, c, va_arg(arguments->list, const char *));
        break;
    case 'c': {
        char character = (char)va_arg(arguments->list, int);

        append_padded(text, c, &character, 1);
        break;
    }
    case 'd': {
        intmax_t value = next_signed(arguments, c);

        append_number(text, c, value < 0 ? "-" : "", value < 0 ? 0 - (uintmax_t)value : (uintmax_t)value, 10);
        break;
    }
    case 'u':
        append_number(text, c, "", next_unsigned(arguments, c), 10);
        break;
    case 'x':
        append_number(text, c, "", next_unsigned(arguments, c), 16);
        break;
    case 'p':
        append_number(text, c, "0x", (uintptr_t)va_arg(arguments->list, void *), 16);
        break;
    default: /* '%', the only kind left */
        append(text, "%", 1);
        break;
    }
}

void nxm_text_vprintf(struct nxm_text *text, const char *format, va_list list)
{
    struct arguments arguments;
    struct conversion c;

    va_copy(arguments.list, list);
    while (*format != '\0') {
        size_t plain = strcspn(format, "%");
        const char *behind;

        append(text, format, plain);
        format += plain;
        if (*format == '\0')
            break;
        behind = parse(format + 1, &c, &arguments);
        if (behind == NULL) { /* its argument cannot be skipped, so none behind it can be trusted */
            append(text, format, strlen(format));
            break;
        }
        convert(text, &c, &arguments);
        format = behind;
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

void nxm_text_bytes(struct nxm_text *text, uint64_t bytes)
{
    static const char units[][4] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    unsigned unit = bytes == 0 ? 0 : (63u - (unsigned)__builtin_clzll(bytes)) / 10u;
    unsigned shift = unit * 10;
    uint64_t whole = bytes >> shift, rest = bytes - (whole << shift);
    unsigned hundredths;

    if (rest == 0) {
        nxm_text_printf(text, "%ju %s", (uintmax_t)whole, units[unit]);
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
    nxm_text_printf(text, "%ju.%02u %s", (uintmax_t)whole, hundredths, units[unit]);
}

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

void nxm_text_json(struct nxm_text *text, const char *s)
{
    size_t left = s == NULL ? 0 : strlen(s);

    while (left > 0) {
        size_t taken = nxm_text_utf8(s, left);
        char escape[8], letter = short_escape(*s);
        bool fits;

        if (taken == 0) {
            fits = append_whole(text, "\\ufffd", 6);
            taken = 1;
        } else if (letter != '\0') {
            escape[0] = '\\';
            escape[1] = letter;
            fits = append_whole(text, escape, 2);
        } else if ((unsigned char)*s < 0x20) {
            struct nxm_text code;

            nxm_text_init(&code, escape, sizeof escape);
            nxm_text_printf(&code, "\\u%04x", (unsigned)*s);
            fits = append_whole(text, escape, code.length);
        } else {
            fits = append_whole(text, s, taken);
        }
        if (!fits)
            return;
        s += taken;
        left -= taken;
    }
}
