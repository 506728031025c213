#include "cuda_status.h"

#include "nxmem_memory_abi.h"
#include "thread.h"

CUresult nxm_cuda_status(int result, const struct nxm_error *error)
{
    if (result == NXM_OK)
        return CUDA_SUCCESS;
    if (error->status == NXMEM_STATUS_DEVICE_ERROR && nxm_thread.nested_error != CUDA_SUCCESS)
        return nxm_thread.nested_error;
    if (result == NXM_ENOENT || result == NXM_EBUSY)
        return CUDA_ERROR_INVALID_VALUE; /* the driver's answer to a pointer that is not, or no longer, allocated */
    return CUDA_ERROR_OUT_OF_MEMORY;
}
