/* Negotiation, the host's side (nxmem spec section 5). Owns nothing; any thread. */
#ifndef NXM_NEGOTIATE_H
#define NXM_NEGOTIATE_H

#include "nxmem_memory_abi.h"
#include "result.h"

struct nxm_agreement {
    uint32_t major;
    uint32_t minor;        /* the ceiling of every prefix read */
    uint64_t capabilities; /* module's mask */
};

/* range NULL: 1.0 to 1.1. NXM_ENEGOTIATE with the reason. */
int nxm_negotiate(NxmemNegotiateFn negotiate, const NxmemVersionRange *range,
                  struct nxm_agreement *ret_agreement, struct nxm_error *ret_error);

#endif
