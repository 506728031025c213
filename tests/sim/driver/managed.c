/* Hints about managed memory. One memory serves host and device here, so they are checked and have no effect. */
#include "block.h"
#include "context.h"
#include "device.h"
#include "state.h"
#include "stream.h"

static CUresult check_range(CUdeviceptr ptr, size_t bytes)
{
    struct sim_block *b = sim_block_containing(ptr);
    bool inside = b && b->kind == SIM_BLOCK_MANAGED && bytes && ptr - b->range.start + bytes <= b->range.size;
    return inside ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult advise(CUdeviceptr ptr, size_t bytes)
{
    sim_lock();
    CUresult result = check_range(ptr, bytes);
    sim_unlock();
    return result;
}

CUresult cuMemAdvise(CUdeviceptr ptr, size_t bytes, CUmem_advise advice, CUdevice device)
{
    SIM_ENTER(cuMemAdvise);
    (void)advice, (void)device;
    return advise(ptr, bytes);
}

CUresult cuMemAdvise_v2(CUdeviceptr ptr, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
    SIM_ENTER(cuMemAdvise_v2);
    (void)advice, (void)location;
    return advise(ptr, bytes);
}

/* In stream order, and judged there: the range is named. */
static CUresult in_stream(CUdeviceptr ptr, size_t bytes, bool whole_blocks, CUstream h, enum sim_default dflt,
                          enum sim_fn fn)
{
    struct sim_stream *s;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    if (result == CUDA_SUCCESS) result = check_range(ptr, bytes || !whole_blocks ? bytes : 1);
    struct sim_work *w = result == CUDA_SUCCESS ? sim_work_new(fn) : NULL;
    if (w) {
        sim_work_touch_block(w, sim_block_containing(ptr));
        result = sim_stream_submit(s, w);
    } else if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return result;
}

SIM_TWIN(cuMemPrefetchAsync, _ptsz, (CUdeviceptr ptr, size_t bytes, CUdevice device, CUstream h),
         ((void)device, in_stream(ptr, bytes, false, h, dflt, fn)))
SIM_TWIN(cuMemPrefetchAsync_v2, _ptsz,
         (CUdeviceptr ptr, size_t bytes, CUmemLocation location, unsigned int flags, CUstream h),
         ((void)location, flags ? CUDA_ERROR_INVALID_VALUE : in_stream(ptr, bytes, false, h, dflt, fn)))
/* length 0: the whole block */
SIM_TWIN(cuStreamAttachMemAsync, _ptsz, (CUstream h, CUdeviceptr ptr, size_t bytes, unsigned int flags),
         ((void)flags, in_stream(ptr, bytes, true, h, dflt, fn)))
