/* Words for statuses and devices, and what a well-formed text is. Owns nothing; any thread. */
#ifndef NXMEM_CHECK_TEXT_H
#define NXMEM_CHECK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nxmem_memory_abi.h"

/* "OUT_OF_MEMORY: what the plugin says", UNKNOWN(n) for a code outside the table. One of a few buffers of the thread. */
const char *status_words(const NxmemStatus *status);
const char *code_name(uint32_t code); /* likewise */
const char *tier_name(uint32_t tier);

/* Length of the character that starts here, at least one byte being left; 0 when none does. */
size_t utf8_length(const uint8_t *at, size_t left);
bool is_utf8(const uint8_t *bytes, size_t length);

/* NULL, or what is wrong with the status's text. */
const char *status_text_fault(const NxmemStatus *status);

#endif
