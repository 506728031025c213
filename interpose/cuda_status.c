#include "cuda_status.h"

#include "nxmem_memory_abi.h"
#include "thread.h"

CUresult nxm_cuda_refusal(int result, const struct nxm_error *error)
{
    if (error->status == NXMEM_STATUS_DEVICE_ERROR && nxm_thread.nested_error != CUDA_SUCCESS)
        return nxm_thread.nested_error;
    if (result == NXM_ERETIRED)
        return CUDA_ERROR_INVALID_VALUE; /* its context is being destroyed under this call */
    if (result == NXM_ENOENT || result == NXM_EBUSY)
        return CUDA_ERROR_INVALID_VALUE; /* the driver's answer to a pointer that is not, or no longer, allocated */
    return CUDA_ERROR_OUT_OF_MEMORY;
}
