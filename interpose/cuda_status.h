/* From our results and a plugin's status to CUresult: the one place. Owns nothing; any thread; no locks. */
#ifndef NXM_CUDA_STATUS_H
#define NXM_CUDA_STATUS_H

#include "core/result.h"
#include "cuda_types.h"

/* The result of an allocation or a free that a plugin refused. Uses this thread's last failing nested driver call. */
CUresult nxm_cuda_refusal(int result, const struct nxm_error *error);
static inline CUresult nxm_cuda_status(int result, const struct nxm_error *error)
{
    return __builtin_expect(result == NXM_OK, 1) ? CUDA_SUCCESS : nxm_cuda_refusal(result, error);
}

#endif
