/* Calls that are accepted and have nothing to do here: profiling, flushing, attributes of streams. */
#include "context.h"
#include "device.h"
#include "state.h"
#include "stream.h"

#include <string.h>

CUresult cuProfilerStart(void)
{
    SIM_ENTER(cuProfilerStart);
    return CUDA_SUCCESS;
}

CUresult cuProfilerStop(void)
{
    SIM_ENTER(cuProfilerStop);
    return CUDA_SUCCESS;
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope)
{
    SIM_ENTER(cuFlushGPUDirectRDMAWrites);
    (void)target, (void)scope;
    return CUDA_SUCCESS;
}

static CUresult check_stream(CUstream h, enum sim_default dflt)
{
    struct sim_stream *s;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    sim_unlock();
    return result;
}

static CUresult get_attribute(CUstream h, CUstreamAttrValue *value, enum sim_default dflt)
{
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = check_stream(h, dflt);
    if (result == CUDA_SUCCESS) memset(value, 0, sizeof *value);
    return result;
}

SIM_TWIN(cuStreamGetAttribute, _ptsz, (CUstream h, CUstreamAttrID id, CUstreamAttrValue *value),
         ((void)id, get_attribute(h, value, dflt)))
SIM_TWIN(cuStreamSetAttribute, _ptsz, (CUstream h, CUstreamAttrID id, const CUstreamAttrValue *value),
         ((void)id, value ? check_stream(h, dflt) : CUDA_ERROR_INVALID_VALUE))
SIM_TWIN(cuStreamCopyAttributes, _ptsz, (CUstream to, CUstream from),
         ((void)from, check_stream(to, dflt)))
