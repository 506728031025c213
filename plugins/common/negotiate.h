/* Negotiation, the plugin's side (nxmem 1.1, section 5.2). Owns nothing; any thread. */
#ifndef NXP_NEGOTIATE_H
#define NXP_NEGOTIATE_H

#include <stdint.h>

#include "nxmem_memory_abi.h"

/* The body of NxmemNegotiate for a plugin that speaks 1.0 to 1.1 and has `capabilities`. */
NxmemStatus nxp_negotiate(uint64_t capabilities, const NxmemNegotiateRequest *request,
                          NxmemNegotiateResponse *response);

/* The bits that exist at this minor: what a vtable of that level may claim. */
uint64_t nxp_capabilities_at(uint64_t capabilities, uint32_t minor);

#endif
