#include "plugins/common/status.h"

#include <string.h>

void nxp_message_add_bytes(struct nxp_message *message, const uint8_t *bytes, size_t count)
{
    size_t room = sizeof message->text - 1 - message->length;

    if (count > room)
        count = room;
    memcpy(message->text + message->length, bytes, count);
    message->length += count;
    message->text[message->length] = '\0';
}

void nxp_message_add(struct nxp_message *message, const char *text)
{
    nxp_message_add_bytes(message, (const uint8_t *)text, strlen(text));
}

void nxp_message_add_number(struct nxp_message *message, uint64_t number)
{
    char digits[21];
    size_t at = sizeof digits - 1;

    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    nxp_message_add(message, digits + at);
}

/* A byte that continues a UTF-8 character: no cut may fall before one. */
static int continues_character(char byte)
{
    return ((unsigned char)byte & 0xC0u) == 0x80u;
}

/* Bytes of the UTF-8 character at `text`, of which `left` bytes are there; 0 when it is none. */
static size_t character_length(const uint8_t *text, size_t left)
{
    static const struct {
        uint8_t first_low, first_high, second_low, second_high, length;
    } rows[] = {
        {0x01, 0x7F, 0, 0, 1},          {0xC2, 0xDF, 0x80, 0xBF, 2},    {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3},    {0xED, 0xED, 0x80, 0x9F, 3},    {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4},    {0xF1, 0xF3, 0x80, 0xBF, 4},    {0xF4, 0xF4, 0x80, 0x8F, 4},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (text[0] < rows[i].first_low || text[0] > rows[i].first_high)
            continue;
        if (left < rows[i].length)
            return 0;
        if (rows[i].length > 1 && (text[1] < rows[i].second_low || text[1] > rows[i].second_high))
            return 0;
        for (size_t k = 2; k < rows[i].length; k++)
            if (!continues_character((char)text[k]))
                return 0;
        return rows[i].length;
    }
    return 0;
}

static int is_readable(const uint8_t *text, size_t length)
{
    size_t at = 0, step;

    for (; at < length; at += step) {
        step = character_length(text + at, length - at);
        if (step == 0)
            return 0;
    }
    return length != 0;
}

void nxp_message_add_status(struct nxp_message *message, const NxmemStatus *status)
{
    size_t length = status->message_len;

    if (length > NXMEM_STATUS_MESSAGE_CAPACITY - 1)
        length = NXMEM_STATUS_MESSAGE_CAPACITY - 1;
    if (is_readable(status->message, length)) {
        nxp_message_add_bytes(message, status->message, length);
        return;
    }
    nxp_message_add(message, "status ");
    nxp_message_add_number(message, status->code);
}

NxmemStatus nxp_status(uint32_t code, const char *text)
{
    NxmemStatus status;
    size_t length = strnlen(text, NXMEM_STATUS_MESSAGE_CAPACITY);

    if (length > NXMEM_STATUS_MESSAGE_CAPACITY - 1) {
        length = NXMEM_STATUS_MESSAGE_CAPACITY - 1;
        while (length > 0 && continues_character(text[length]))
            length--;
    }
    memset(&status, 0, sizeof status);
    status.code = code;
    status.message_len = (uint32_t)length;
    memcpy(status.message, text, length);
    return status;
}

NxmemStatus nxp_status_from(uint32_t code, const struct nxp_message *message)
{
    return nxp_status(code, message->text);
}

NxmemStatus nxp_ok(void)
{
    return nxp_status(NXMEM_STATUS_OK, "");
}

void nxp_answer(void *target, const void *answer, uint32_t size)
{
    uint32_t claimed;

    memcpy(&claimed, target, sizeof claimed);
    if (claimed > size)
        claimed = size;
    if (claimed < sizeof claimed)
        return;
    memcpy(target, answer, claimed);
    memcpy(target, &claimed, sizeof claimed);
}
