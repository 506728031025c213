/* NxmemStatus: reading, writing, naming, classifying (nxmem spec section 3). Owns nothing; any thread. */
#ifndef NXM_STATUS_H
#define NXM_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nxmem_memory_abi.h"
#include "result.h"

NxmemStatus nxm_status_ok(void);
NxmemStatus nxm_status_make(uint32_t code, const char *message); /* cut at 255 bytes on a character boundary */

/* "device", "host", "disk", or "unknown". */
const char *nxm_tier_word(uint32_t tier);

/* "OUT_OF_MEMORY", or NULL for a code outside the table. */
const char *nxm_status_name(uint32_t code);

/* Well-formed UTF-8, as a plugin's texts must be. */
bool nxm_status_is_utf8(const uint8_t *bytes, size_t length);

/* Length of the message, 0 when there is none or it is not UTF-8; never trusts the NUL. */
size_t nxm_status_message(const NxmemStatus *status, char *ret_text, size_t capacity);

/* "NAME", "NAME: message" or "UNKNOWN(n)". */
void nxm_status_text(const NxmemStatus *status, char *ret_text, size_t capacity);

/* Fills *ret_error (code NXM_ECALL, or NXM_ENOMEM for OUT_OF_MEMORY) from a failing call; returns the code. */
int nxm_status_error(const NxmemStatus *status, const char *operation, struct nxm_error *ret_error);

/* The same for a call that is not about capacity (a release): NXM_ECALL whatever the plugin says. */
int nxm_status_refusal(const NxmemStatus *status, const char *operation, struct nxm_error *ret_error);

#endif
