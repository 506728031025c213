/* Streams and events as objects; what takes a stream and so has two forms is in per_stream/. */
#include "state.h"

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
    return RT_CALL(DRV(cuStreamCreate, 2000), pStream, flags);
}

cudaError_t cudaStreamCreate(cudaStream_t *pStream)
{
    return cudaStreamCreateWithFlags(pStream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority)
{
    return RT_CALL(DRV(cuStreamCreateWithPriority, 5050), pStream, flags, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return RT_CALL(DRV(cuStreamDestroy, 4000), stream);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    return RT_CALL(DRV(cuThreadExchangeStreamCaptureMode, 10010), (CUstreamCaptureMode *)(void *)mode);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    return RT_CALL(DRV(cuEventCreate, 2000), event, flags);
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return RT_CALL(DRV(cuEventDestroy, 4000), event);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return RT_CALL(DRV(cuEventQuery, 2000), event);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return RT_CALL(DRV(cuEventSynchronize, 2000), event);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    return RT_CALL(DRV(cuEventElapsedTime, 2000), ms, start, end);
}
