/* Text in a caller's buffer: no malloc, no stdio, no locale. Any thread; no locks.
 *
 * Every function cuts at the capacity, unless the text's owner makes room there, and keeps the NUL; `length` is what is in the
 * buffer.
 */
#ifndef NXM_TEXT_H
#define NXM_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct nxm_text {
    char *buffer;    /* borrowed */
    size_t capacity; /* bytes, NUL included; at least 1 */
    size_t length;   /* bytes written, NUL not counted */
    void (*make_room)(struct nxm_text *text); /* takes bytes away from the front: at least one, of a full text. NULL: it is cut */
};

void nxm_text_init(struct nxm_text *text, char *buffer, size_t capacity);

void nxm_text_append_in_parts(struct nxm_text *text, const char *bytes, size_t count);

static inline void nxm_text_append(struct nxm_text *text, const char *bytes, size_t count)
{
    char *end = text->buffer + text->length;

    if (__builtin_expect(count >= text->capacity - text->length, 0)) {
        nxm_text_append_in_parts(text, bytes, count);
        return;
    }
    memcpy(end, bytes, count);
    end[count] = '\0';
    text->length += count;
}

static inline void nxm_text_string(struct nxm_text *text, const char *s) /* of a literal the length is known */
{
    nxm_text_append(text, s, strlen(s));
}

void nxm_text_decimal(struct nxm_text *text, uint64_t value);
void nxm_text_hex(struct nxm_text *text, uint64_t value); /* without 0x */

void nxm_text_count(struct nxm_text *text, uint64_t count, const char *noun); /* "1 block", "2 blocks" */

/* A subset of printf: %s %.*s %c %d %u %x %p %% with l, ll, z and j, field width, '0' and '-'; nothing
 * else: an unknown conversion is copied as it stands, and so is all behind it, for its argument cannot be
 * skipped. %s takes NULL as "(null)". */
void nxm_text_printf(struct nxm_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void nxm_text_vprintf(struct nxm_text *text, const char *format, va_list arguments);

/* "512 B", "64 KiB" for whole multiples, else two decimals: "1.50 MiB". */
void nxm_text_bytes(struct nxm_text *text, uint64_t bytes);

/* Appends `s` with JSON escapes, without the quotes; bytes that are not UTF-8 become \ufffd; a cut falls
 * between characters. NULL appends nothing. */
void nxm_text_json(struct nxm_text *text, const char *s);

/* Makes of `s`, in place, one line that a terminal only shows: control characters become blanks, and bytes that are
 * not UTF-8 become question marks. */
void nxm_text_flatten(char *s);

/* Length of the well-formed UTF-8 character at `s`, of which `length` bytes may be read; 0 when there is none. */
size_t nxm_text_utf8(const char *s, size_t length);

#endif
