/* Reading values out of bytes that may be anything: what would lie beyond the end is 0, and `cut` says that it was so.
 * Owns nothing. */
#ifndef NXM_BYTES_H
#define NXM_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct nxm_bytes {
    const uint8_t *at, *end;
    bool cut;
};

static inline size_t nxm_bytes_left(const struct nxm_bytes *bytes)
{
    return (size_t)(bytes->end - bytes->at);
}

/* Little-endian, as both machines are. */
static inline uint64_t nxm_bytes_unsigned(struct nxm_bytes *bytes, size_t size)
{
    uint64_t value = 0;

    if (size > nxm_bytes_left(bytes)) {
        bytes->at = bytes->end;
        bytes->cut = true;
        return 0;
    }
    memcpy(&value, bytes->at, size);
    bytes->at += size;
    return value;
}

static inline int64_t nxm_bytes_signed(struct nxm_bytes *bytes, size_t size)
{
    unsigned unused = 64 - 8 * (unsigned)size;

    return (int64_t)(nxm_bytes_unsigned(bytes, size) << unused) >> unused;
}

/* Seven bits in each byte, the lowest first; those beyond 64 are lost. *ret_bits is how many there were, *ret_last the last byte. */
static inline uint64_t nxm_bytes_leb(struct nxm_bytes *bytes, unsigned *ret_bits, uint64_t *ret_last)
{
    uint64_t value = 0, byte;
    unsigned shift = 0;

    do {
        byte = nxm_bytes_unsigned(bytes, 1);
        value |= shift < 64 ? (byte & 0x7F) << shift : 0;
        shift += shift < 64 ? 7 : 0;
    } while (byte & 0x80);
    *ret_bits = shift;
    *ret_last = byte;
    return value;
}

static inline uint64_t nxm_bytes_uleb(struct nxm_bytes *bytes)
{
    uint64_t last;
    unsigned bits;

    return nxm_bytes_leb(bytes, &bits, &last);
}

static inline int64_t nxm_bytes_sleb(struct nxm_bytes *bytes)
{
    uint64_t last, value;
    unsigned bits;

    value = nxm_bytes_leb(bytes, &bits, &last);
    if (bits < 64 && (last & 0x40))
        value |= ~UINT64_C(0) << bits;
    return (int64_t)value;
}

/* The next `size` bytes for themselves; all that is left when there are fewer. */
static inline struct nxm_bytes nxm_bytes_take(struct nxm_bytes *bytes, uint64_t size)
{
    struct nxm_bytes taken = { bytes->at, bytes->end, false };

    if (size <= nxm_bytes_left(bytes))
        taken.end = bytes->at + size;
    else
        bytes->cut = taken.cut = true;
    bytes->at = taken.end;
    return taken;
}

#endif
