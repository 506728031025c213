/* Text in a caller's buffer: no malloc, no stdio, no locale. Any thread; no locks.
 *
 * Every function cuts at the capacity and keeps the NUL; `length` is what is in the buffer.
 */
#ifndef NXM_TEXT_H
#define NXM_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct nxm_text {
    char *buffer;    /* borrowed */
    size_t capacity; /* bytes, NUL included; at least 1 */
    size_t length;   /* bytes written, NUL not counted */
};

void nxm_text_init(struct nxm_text *text, char *buffer, size_t capacity);

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
