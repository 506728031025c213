#include "../state.h"

#include <stdlib.h>

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuStreamSynchronize, 2000, 7000), stream);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuStreamQuery, 2000, 7000), stream);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    return RT_CALL(DRV_STREAM(cuStreamWaitEvent, 3020, 7000), stream, event, flags);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return RT_CALL(DRV_STREAM(cuEventRecord, 2000, 7000), event, stream);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    return RT_CALL(DRV_STREAM(cuEventRecordWithFlags, 11010, 11010), event, stream, flags);
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags)
{
    return RT_CALL(DRV_STREAM(cuStreamGetFlags, 5050, 7000), hStream, flags);
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int *priority)
{
    return RT_CALL(DRV_STREAM(cuStreamGetPriority, 5050, 7000), hStream, priority);
}

cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId)
{
    return RT_CALL(DRV_STREAM(cuStreamGetId, 12000, 12000), hStream, streamId);
}

cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int *device)
{
    return RT_CALL(DRV_STREAM(cuStreamGetDevice, 12080, 12080), hStream, device);
}

_Static_assert(sizeof(cudaStreamAttrValue) == sizeof(CUstreamAttrValue), "one union, two names");

cudaError_t cudaStreamGetAttribute(cudaStream_t hStream, cudaStreamAttrID attr, cudaStreamAttrValue *value_out)
{
    return RT_CALL(DRV_STREAM(cuStreamGetAttribute, 11000, 11000), hStream, (CUstreamAttrID)attr,
                   (CUstreamAttrValue *)(void *)value_out);
}

cudaError_t cudaStreamSetAttribute(cudaStream_t hStream, cudaStreamAttrID attr, const cudaStreamAttrValue *value)
{
    return RT_CALL(DRV_STREAM(cuStreamSetAttribute, 11000, 11000), hStream, (CUstreamAttrID)attr,
                   (const CUstreamAttrValue *)(const void *)value);
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src)
{
    return RT_CALL(DRV_STREAM(cuStreamCopyAttributes, 11000, 11000), dst, src);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData)
{
    return RT_CALL(DRV_STREAM(cuLaunchHostFunc, 10000, 10000), stream, fn, userData);
}

/* Owned by the stream from the moment the driver accepts it; freed after the call. */
struct callback {
    cudaStreamCallback_t function;
    void *data;
};

static void CUDART_CB run_callback(CUstream stream, CUresult status, void *data)
{
    struct callback *callback = data;

    callback->function(stream, rt_error(status), callback->data);
    free(callback);
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *userData,
                                  unsigned int flags)
{
    struct callback *queued;
    cudaError_t error = rt_enter();

    if (!error && !callback)
        error = cudaErrorInvalidValue;
    if (error)
        return rt_record(error);
    queued = malloc(sizeof *queued);
    if (!queued)
        return rt_record(cudaErrorMemoryAllocation);
    *queued = (struct callback){callback, userData};
    error = rt_error(DRV_STREAM(cuStreamAddCallback, 5000, 7000)(stream, run_callback, queued, flags));
    if (error)
        free(queued);
    return rt_record(error);
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *devPtr, size_t length, unsigned int flags)
{
    return RT_CALL(DRV_STREAM(cuStreamAttachMemAsync, 6000, 7000), stream, (CUdeviceptr)(uintptr_t)devPtr, length,
                   flags);
}
