/* Hints about managed memory, in the form of CUDA 13; under these names CUDA 12 has other parameters. */
#include "../address.h"
#include "../state.h"

#include <string.h>

#if SIM_CUDART_VERSION >= 13000

_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "one struct, two names");

static CUmemLocation native(struct cudaMemLocation location)
{
    CUmemLocation same;

    memcpy(&same, &location, sizeof same);
    return same;
}

cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count, struct cudaMemLocation location, unsigned int flags,
                                 cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuMemPrefetchAsync, 12020, 12020), rt_address(devPtr), count, native(location), flags,
                   stream);
}

#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM /* takes no stream: one form */
cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location)
{
    return RT_CALL(DRV(cuMemAdvise, 12020), rt_address(devPtr), count, (CUmem_advise)advice, native(location));
}
#endif

#endif
