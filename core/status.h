/* NxmemStatus: reading, writing, naming, classifying (nxmem spec section 3). Owns nothing; any thread. */
#ifndef NXM_STATUS_H
#define NXM_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nxmem_memory_abi.h"
#include "result.h"

static inline NxmemStatus nxm_status_ok(void)
{
    NxmemStatus status;

    status.code = NXMEM_STATUS_OK;
    status.message_len = 0;
    status.message[0] = 0; /* the other 255 bytes are nobody's to read, and writing them would cost more than most calls */
    return status;
}
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

/* What a failing status means for whoever asked (3.6). */
enum nxm_bucket {
    NXM_BUCKET_PLUGIN,   /* a failure of the plugin */
    NXM_BUCKET_CAPACITY, /* the only one that may look like "out of memory" */
    NXM_BUCKET_CHOICE,   /* this mechanism cannot: choose another */
    NXM_BUCKET_ROUTING,  /* what was asked went to the wrong place: a bug of the host or of the plugin */
};
enum nxm_bucket nxm_status_bucket(uint32_t code);

/* Fills *ret_error (code NXM_ECALL, or NXM_ENOMEM for OUT_OF_MEMORY) from a failing call; returns the code. `operation`
 * is a literal. */
int nxm_status_error(const NxmemStatus *status, const char *operation, struct nxm_error *ret_error);

/* The same for a call that is not about capacity (a release): NXM_ECALL whatever the plugin says. */
int nxm_status_refusal(const NxmemStatus *status, const char *operation, struct nxm_error *ret_error);

#endif
