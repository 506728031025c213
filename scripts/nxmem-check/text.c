#include "text.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {"OK",
                                    "VERSION_MISMATCH",
                                    "SHORT_STRUCT",
                                    "UNSUPPORTED_CAPABILITY",
                                    "INVALID_ARGUMENT",
                                    "INTERNAL_ERROR",
                                    "NOT_IMPLEMENTED",
                                    "DEVICE_ERROR",
                                    "OUT_OF_MEMORY",
                                    "WRONG_DEVICE",
                                    "WRONG_MECHANISM",
                                    "UNKNOWN_ALLOCATION",
                                    "RELEASE_QUARANTINED",
                                    "CALLBACK_FAILED",
                                    "BUSY"};

enum { BUFFERS = 4, BUFFER_BYTES = 320 };

static char *next_buffer(void) {
    static _Thread_local char buffers[BUFFERS][BUFFER_BYTES];
    static _Thread_local unsigned next;
    return buffers[next++ % BUFFERS];
}

const char *code_name(uint32_t code) {
    if (code < sizeof names / sizeof *names) return names[code];
    char *buffer = next_buffer();
    snprintf(buffer, BUFFER_BYTES, "UNKNOWN(%u)", code);
    return buffer;
}

const char *status_words(const NxmemStatus *status) {
    size_t length = status->message_len < NXMEM_STATUS_MESSAGE_CAPACITY ? status->message_len : NXMEM_STATUS_MESSAGE_CAPACITY - 1;
    if (length == 0 || !is_utf8(status->message, length)) return code_name(status->code);
    char *buffer = next_buffer();
    snprintf(buffer, BUFFER_BYTES, "%s: %.*s", code_name(status->code), (int)length, (const char *)status->message);
    return buffer;
}

const char *tier_name(uint32_t tier) {
    switch (tier) {
    case NXMEM_TIER_DEVICE: return "device";
    case NXMEM_TIER_HOST: return "host";
    case NXMEM_TIER_DISK: return "disk";
    default: return "unknown tier";
    }
}

size_t utf8_length(const uint8_t *at, size_t left) {
    uint32_t value;
    size_t length;

    if (at[0] < 0x80) return 1;
    if (at[0] >= 0xC2 && at[0] < 0xE0) {
        value = at[0] & 0x1Fu;
        length = 2;
    } else if (at[0] >= 0xE0 && at[0] < 0xF0) {
        value = at[0] & 0x0Fu;
        length = 3;
    } else if (at[0] >= 0xF0 && at[0] < 0xF5) {
        value = at[0] & 0x07u;
        length = 4;
    } else {
        return 0;
    }
    if (length > left) return 0;
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xC0) != 0x80) return 0;
        value = value << 6 | (at[i] & 0x3Fu);
    }
    bool shortest = length == 2 || (length == 3 ? value >= 0x800 : value >= 0x10000);
    return shortest && value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF) ? length : 0;
}

bool is_utf8(const uint8_t *bytes, size_t length) {
    while (length > 0) {
        size_t step = utf8_length(bytes, length);
        if (step == 0) return false;
        bytes += step;
        length -= step;
    }
    return true;
}

const char *status_text_fault(const NxmemStatus *status) {
    size_t length = status->message_len;
    if (length >= NXMEM_STATUS_MESSAGE_CAPACITY) return "a message longer than 255 bytes";
    if (memchr(status->message, 0, length)) return "a NUL inside the message";
    if (!is_utf8(status->message, length)) return "a message that is not UTF-8";
    if (status->message[length] != 0) return "no NUL behind the message";
    for (size_t i = length; i < sizeof status->message; i++)
        if (status->message[i] != 0) return "bytes that are not zero behind the message (they may be the stack's)";
    return NULL;
}
