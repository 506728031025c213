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
