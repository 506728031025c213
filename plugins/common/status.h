/* Answers a plugin gives: NxmemStatus with a message (nxmem 1.1, section 3), and out-structs written no
 * further than their caller claims (4.4). Owns nothing; any thread; no lock, no stdio, no malloc: all of
 * this runs inside somebody's allocation. */
#ifndef NXP_STATUS_H
#define NXP_STATUS_H

#include <stddef.h>
#include <stdint.h>

#include "nxmem_memory_abi.h"

/* A message under construction. What does not fit is dropped, never overrun. */
struct nxp_message {
    char text[NXMEM_STATUS_MESSAGE_CAPACITY + 4]; /* room to see that a character was cut */
    size_t length;
};

void nxp_message_add(struct nxp_message *message, const char *text);
void nxp_message_add_bytes(struct nxp_message *message, const uint8_t *bytes, size_t count);
void nxp_message_add_number(struct nxp_message *message, uint64_t number);
/* What another side said: its message, or "status <n>" when it has none that can be read (3.3). */
void nxp_message_add_status(struct nxp_message *message, const NxmemStatus *status);

NxmemStatus nxp_ok(void);
/* `text` is cut at 255 bytes, on a character boundary; the rest of the buffer is zero. */
NxmemStatus nxp_status(uint32_t code, const char *text);
NxmemStatus nxp_status_from(uint32_t code, const struct nxp_message *message);

/* Copies an answer of `size` bytes over the caller's struct, at most as many as the struct_size found
 * there says, and leaves in struct_size how many were written. Both begin with u32 struct_size. */
void nxp_answer(void *target, const void *answer, uint32_t size);

#endif
