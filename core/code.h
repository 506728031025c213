/* A stretch of addresses where code lies. Owns nothing. */
#ifndef NXM_CODE_H
#define NXM_CODE_H

#include <stdbool.h>
#include <stdint.h>

struct nxm_code {
    uintptr_t low, high; /* [low, high) */
};

static inline bool nxm_code_contains(struct nxm_code code, const void *address)
{
    return code.low <= (uintptr_t)address && (uintptr_t)address < code.high;
}

#endif
