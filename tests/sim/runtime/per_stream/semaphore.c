/* Signals to external semaphores and waits for them, in stream order. */
#include "../state.h"

_Static_assert(sizeof(struct cudaExternalSemaphoreSignalParams) == sizeof(CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS), "one struct, two names");
_Static_assert(sizeof(struct cudaExternalSemaphoreWaitParams) == sizeof(CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS), "one struct, two names");

cudaError_t cudaSignalExternalSemaphoresAsync(const cudaExternalSemaphore_t *extSemArray,
                                              const struct cudaExternalSemaphoreSignalParams *paramsArray,
                                              unsigned int numExtSems, cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuSignalExternalSemaphoresAsync, 10000, 10000), (const CUexternalSemaphore *)(const void *)extSemArray,
                   (const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *)(const void *)paramsArray, numExtSems, stream);
}

cudaError_t cudaWaitExternalSemaphoresAsync(const cudaExternalSemaphore_t *extSemArray,
                                            const struct cudaExternalSemaphoreWaitParams *paramsArray, unsigned int numExtSems,
                                            cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuWaitExternalSemaphoresAsync, 10000, 10000), (const CUexternalSemaphore *)(const void *)extSemArray,
                   (const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *)(const void *)paramsArray, numExtSems, stream);
}
