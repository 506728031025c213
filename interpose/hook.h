/* What every driver hook begins with. Owns nothing. */
#ifndef NXM_HOOK_H
#define NXM_HOOK_H

#include "hooks.h"
#include "lifecycle.h"
#include "process.h"
#include "real.h"

/* A hook without a real function does nothing and invents nothing. */
#define NXM_NEEDS(symbol) \
    do { \
        if (!nxm_real_ready() || !nxm_real.symbol) \
            return CUDA_ERROR_NOT_FOUND; \
    } while (0)

#define NXM_CALLER __builtin_return_address(0)

#endif
