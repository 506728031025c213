/* Hints about managed memory. CUDA 13's form takes a location; under these names CUDA 12 takes a device's ordinal, and the
 * form with a location has a suffix. */
#include "../address.h"
#include "../state.h"

#include <string.h>

_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "one struct, two names");

static CUmemLocation native(struct cudaMemLocation location)
{
    CUmemLocation same;

    memcpy(&same, &location, sizeof same);
    return same;
}

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define FORM "_ptsz"
#else
#define FORM ""
#endif

/* CUDA 12's names cannot be declared beside the header of CUDA 13, so the form by ordinal is named for the linker only. */
#if SIM_CUDART_VERSION >= 13000
#define PREFETCH "cudaMemPrefetchAsync" FORM
#define ADVISE "cudaMemAdvise"
#else
#define PREFETCH "cudaMemPrefetchAsync_v2" FORM
#define ADVISE "cudaMemAdvise_v2"

cudaError_t prefetch_by_ordinal(const void *, size_t, int, cudaStream_t) __asm__("cudaMemPrefetchAsync" FORM);

cudaError_t prefetch_by_ordinal(const void *devPtr, size_t count, int device, cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuMemPrefetchAsync, 8000, 8000), rt_address(devPtr), count, device, stream);
}
#endif

cudaError_t prefetch(const void *, size_t, struct cudaMemLocation, unsigned int, cudaStream_t) __asm__(PREFETCH);

cudaError_t prefetch(const void *devPtr, size_t count, struct cudaMemLocation location, unsigned int flags,
                     cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuMemPrefetchAsync, 12020, 12020), rt_address(devPtr), count, native(location), flags,
                   stream);
}

#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM /* takes no stream: one form */

#if SIM_CUDART_VERSION < 13000
cudaError_t advise_by_ordinal(const void *, size_t, enum cudaMemoryAdvise, int) __asm__("cudaMemAdvise");

cudaError_t advise_by_ordinal(const void *devPtr, size_t count, enum cudaMemoryAdvise advice, int device)
{
    return RT_CALL(DRV(cuMemAdvise, 8000), rt_address(devPtr), count, (CUmem_advise)advice, device);
}
#endif

cudaError_t advise(const void *, size_t, enum cudaMemoryAdvise, struct cudaMemLocation) __asm__(ADVISE);

cudaError_t advise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice, struct cudaMemLocation location)
{
    return RT_CALL(DRV(cuMemAdvise, 12020), rt_address(devPtr), count, (CUmem_advise)advice, native(location));
}

#endif
