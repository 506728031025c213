#include "status.h"

#include <stdbool.h>
#include <string.h>

#include "error.h"
#include "text.h"

#define MESSAGE_MAX (NXMEM_STATUS_MESSAGE_CAPACITY - 1)

/* By code, append-only like the codes themselves. */
static const char *const names[] = {
    [NXMEM_STATUS_OK] = "OK",
    [NXMEM_STATUS_VERSION_MISMATCH] = "VERSION_MISMATCH",
    [NXMEM_STATUS_SHORT_STRUCT] = "SHORT_STRUCT",
    [NXMEM_STATUS_UNSUPPORTED_CAPABILITY] = "UNSUPPORTED_CAPABILITY",
    [NXMEM_STATUS_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
    [NXMEM_STATUS_INTERNAL_ERROR] = "INTERNAL_ERROR",
    [NXMEM_STATUS_NOT_IMPLEMENTED] = "NOT_IMPLEMENTED",
    [NXMEM_STATUS_DEVICE_ERROR] = "DEVICE_ERROR",
    [NXMEM_STATUS_OUT_OF_MEMORY] = "OUT_OF_MEMORY",
    [NXMEM_STATUS_WRONG_DEVICE] = "WRONG_DEVICE",
    [NXMEM_STATUS_WRONG_MECHANISM] = "WRONG_MECHANISM",
    [NXMEM_STATUS_UNKNOWN_ALLOCATION] = "UNKNOWN_ALLOCATION",
    [NXMEM_STATUS_RELEASE_QUARANTINED] = "RELEASE_QUARANTINED",
    [NXMEM_STATUS_CALLBACK_FAILED] = "CALLBACK_FAILED",
    [NXMEM_STATUS_BUSY] = "BUSY",
};

/* --- UTF-8 ------------------------------------------------------------------------------------------ */

/* Bytes of the well-formed sequence at `s`, 0 when there is none within `left` (Unicode table 3-7). */
static size_t sequence_length(const uint8_t *s, size_t left)
{
    static const struct {
        uint8_t first_low, first_high, second_low, second_high;
        size_t length;
    } forms[] = {
        { 0xC2, 0xDF, 0x80, 0xBF, 2 }, { 0xE0, 0xE0, 0xA0, 0xBF, 3 }, { 0xE1, 0xEC, 0x80, 0xBF, 3 },
        { 0xED, 0xED, 0x80, 0x9F, 3 }, { 0xEE, 0xEF, 0x80, 0xBF, 3 }, { 0xF0, 0xF0, 0x90, 0xBF, 4 },
        { 0xF1, 0xF3, 0x80, 0xBF, 4 }, { 0xF4, 0xF4, 0x80, 0x8F, 4 },
    };

    if (s[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (s[0] < forms[i].first_low || s[0] > forms[i].first_high)
            continue;
        if (left < forms[i].length || s[1] < forms[i].second_low || s[1] > forms[i].second_high)
            return 0;
        for (size_t j = 2; j < forms[i].length; j++) {
            if ((s[j] & 0xC0) != 0x80)
                return 0;
        }
        return forms[i].length;
    }
    return 0;
}

bool nxm_status_is_utf8(const uint8_t *bytes, size_t length)
{
    for (size_t at = 0, step; at < length; at += step) {
        step = sequence_length(bytes + at, length - at);
        if (step == 0)
            return false;
    }
    return true;
}

/* --- writing ---------------------------------------------------------------------------------------- */

/* Length of the longest prefix of at most `limit` bytes that does not cut a character. */
static size_t cut_on_character(const char *message, size_t limit)
{
    size_t length = strnlen(message, limit + 1);

    if (length <= limit)
        return length;
    length = limit;
    while (length > 0 && ((uint8_t)message[length] & 0xC0) == 0x80)
        length--;
    return length;
}

NxmemStatus nxm_status_make(uint32_t code, const char *message)
{
    NxmemStatus status = { .code = code }; /* the rest is zero: no byte of our stack leaves */

    if (message == NULL)
        return status;
    status.message_len = (uint32_t)cut_on_character(message, MESSAGE_MAX);
    memcpy(status.message, message, status.message_len);
    return status;
}

/* --- reading ---------------------------------------------------------------------------------------- */

const char *nxm_status_name(uint32_t code)
{
    return code < sizeof names / sizeof names[0] ? names[code] : NULL;
}

const char *nxm_tier_word(uint32_t tier)
{
    static const char *const words[] = { "device", "host", "disk" };

    return tier <= NXMEM_TIER_DISK ? words[tier] : "unknown";
}

size_t nxm_status_message(const NxmemStatus *status, char *ret_text, size_t capacity)
{
    size_t length = status->message_len > MESSAGE_MAX ? MESSAGE_MAX : status->message_len;
    struct nxm_text text;

    nxm_text_init(&text, ret_text, capacity);
    if (!nxm_status_is_utf8(status->message, length))
        length = 0;
    nxm_text_printf(&text, "%.*s", (int)length, (const char *)status->message);
    return text.length;
}

void nxm_status_text(const NxmemStatus *status, char *ret_text, size_t capacity)
{
    const char *name = nxm_status_name(status->code);
    char message[NXMEM_STATUS_MESSAGE_CAPACITY];
    struct nxm_text text;

    nxm_text_init(&text, ret_text, capacity);
    if (name == NULL)
        nxm_text_printf(&text, "UNKNOWN(%u)", status->code);
    else
        nxm_text_printf(&text, "%s", name);
    if (nxm_status_message(status, message, sizeof message) > 0)
        nxm_text_printf(&text, ": %s", message);
}

enum nxm_bucket nxm_status_bucket(uint32_t code)
{
    switch (code) {
    case NXMEM_STATUS_OUT_OF_MEMORY:
        return NXM_BUCKET_CAPACITY;
    case NXMEM_STATUS_UNSUPPORTED_CAPABILITY:
    case NXMEM_STATUS_NOT_IMPLEMENTED:
        return NXM_BUCKET_CHOICE;
    case NXMEM_STATUS_INVALID_ARGUMENT:
    case NXMEM_STATUS_WRONG_DEVICE:
    case NXMEM_STATUS_WRONG_MECHANISM:
    case NXMEM_STATUS_UNKNOWN_ALLOCATION:
        return NXM_BUCKET_ROUTING;
    default:
        return NXM_BUCKET_PLUGIN;
    }
}

static const char *remedy(uint32_t code)
{
    switch (nxm_status_bucket(code)) {
    case NXM_BUCKET_CHOICE:
        return " (choose another mechanism)";
    case NXM_BUCKET_ROUTING:
        return " (a bug of the plugin, or of this host in what it asked)";
    default:
        return "";
    }
}

static int describe(const NxmemStatus *status, const char *operation, enum nxm_result code, struct nxm_error *ret_error)
{
    char words[NXMEM_STATUS_MESSAGE_CAPACITY + 32];

    if (ret_error == NULL)
        return code;
    nxm_status_text(status, words, sizeof words);
    nxm_error_set(ret_error, code, status->code, "%s: %s%s", operation, words, remedy(status->code));
    ret_error->what = operation;
    return code;
}

int nxm_status_error(const NxmemStatus *status, const char *operation, struct nxm_error *ret_error)
{
    return describe(status, operation, status->code == NXMEM_STATUS_OUT_OF_MEMORY ? NXM_ENOMEM : NXM_ECALL, ret_error);
}

int nxm_status_refusal(const NxmemStatus *status, const char *operation, struct nxm_error *ret_error)
{
    return describe(status, operation, NXM_ECALL, ret_error);
}
