/* Copies and fills, synchronous and in stream order. */
#include "capture.h"
#include "context.h"
#include "block.h"
#include "device.h"
#include "state.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

enum waits { RETURNS_AT_ONCE, WAITS };

/* Memory the driver knows nothing of: it must be staged, the caller may change it as soon as the call returns. */
static bool pageable(uint64_t address)
{
    return address && !sim_block_containing(address) && !sim_device_of_address(address);
}

/* Takes a snapshot of the source box into the work's payload. */
static CUresult stage(struct sim_work *w)
{
    struct sim_copy *c = &w->u.copy;
    size_t bytes = (c->depth - 1) * c->src_slice + (c->height - 1) * c->src_pitch + c->width;
    w->payload = malloc(bytes);
    if (!w->payload) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(w->payload, (const void *)(uintptr_t)c->src, bytes);
    c->src = (uint64_t)(uintptr_t)w->payload;
    return CUDA_SUCCESS;
}

static CUresult name_memory(struct sim_work *w)
{
    const struct sim_copy *c = &w->u.copy;
    CUresult result = sim_work_touch_box(w, c->src, c->width, c->height, c->src_pitch, c->depth, c->src_slice);
    if (result != CUDA_SUCCESS) return result;
    return sim_work_touch_box(w, c->dst, c->width, c->height, c->dst_pitch, c->depth, c->dst_slice);
}

static CUresult submit(struct sim_stream *s, struct sim_work *w, enum waits waits)
{
    CUresult result = CUDA_SUCCESS;
    if (waits == WAITS) {
        result = sim_capture_check_stream(s);
        if (result == CUDA_SUCCESS) result = sim_capture_check_unsafe();
        if (result != CUDA_SUCCESS) {
            sim_work_free(w);
            return result;
        }
    }
    result = sim_stream_submit(s, w);
    if (result == CUDA_SUCCESS && waits == WAITS) sim_stream_wait(s);
    return result;
}

static CUresult copy_box(const struct sim_copy *c, CUstream h, enum sim_default dflt, enum waits waits, enum sim_fn fn)
{
    struct sim_stream *s;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    struct sim_work *w = result == CUDA_SUCCESS ? sim_work_new(fn) : NULL;
    if (result == CUDA_SUCCESS && !w) result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        w->u.copy = *c;
        w->type = CU_GRAPH_NODE_TYPE_MEMCPY;
        w->run = sim_run_copy;
        result = name_memory(w);
    }
    bool empty = !c->width || !c->height || !c->depth;
    if (result != CUDA_SUCCESS || (empty && !s->capture)) {
        sim_work_free(w);
        sim_unlock();
        return result;
    }
    if (!s->capture && waits == RETURNS_AT_ONCE) {
        if (pageable(c->dst)) waits = WAITS; /* the caller may read it when we return */
        else if (pageable(c->src)) result = stage(w);
    }
    if (result == CUDA_SUCCESS) result = submit(s, w, waits);
    else sim_work_free(w);
    sim_unlock();
    return result;
}

static CUresult copy_line(uint64_t dst, uint64_t src, size_t n, CUstream h, enum sim_default dflt, enum waits waits,
                          enum sim_fn fn)
{
    if (n && (!dst || !src)) return CUDA_ERROR_INVALID_VALUE;
    struct sim_copy c = { .dst = dst, .src = src, .width = n, .height = 1, .depth = 1 };
    return copy_box(&c, h, dflt, waits, fn);
}

#define HOST(p) ((uint64_t)(uintptr_t)(p))
#define SYNC(dst, src, n) copy_line(dst, src, n, NULL, dflt, WAITS, fn)
#define ASYNC(dst, src, n, h) copy_line(dst, src, n, h, dflt, RETURNS_AT_ONCE, fn)

SIM_TWIN(cuMemcpy, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t n), SYNC(dst, src, n))
SIM_TWIN(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr dst, const void *src, size_t n), SYNC(dst, HOST(src), n))
SIM_TWIN(cuMemcpyDtoH_v2, _ptds, (void *dst, CUdeviceptr src, size_t n), SYNC(HOST(dst), src, n))
SIM_TWIN(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t n), SYNC(dst, src, n))
SIM_TWIN(cuMemcpyAsync, _ptsz, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream h), ASYNC(dst, src, n, h))
SIM_TWIN(cuMemcpyHtoDAsync_v2, _ptsz, (CUdeviceptr dst, const void *src, size_t n, CUstream h),
         ASYNC(dst, HOST(src), n, h))
SIM_TWIN(cuMemcpyDtoHAsync_v2, _ptsz, (void *dst, CUdeviceptr src, size_t n, CUstream h),
         ASYNC(HOST(dst), src, n, h))
SIM_TWIN(cuMemcpyDtoDAsync_v2, _ptsz, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream h), ASYNC(dst, src, n, h))

/* --- between devices: one address space, so the contexts are only checked -------------------------------- */

static CUresult copy_peer(uint64_t dst, CUcontext dst_context, uint64_t src, CUcontext src_context, size_t n,
                          CUstream h, enum sim_default dflt, enum waits waits, enum sim_fn fn)
{
    struct sim_context *c;
    sim_lock();
    CUresult result = sim_context_get(dst_context, &c);
    if (result == CUDA_SUCCESS) result = sim_context_get(src_context, &c);
    sim_unlock();
    return result == CUDA_SUCCESS ? copy_line(dst, src, n, h, dflt, waits, fn) : result;
}

SIM_TWIN(cuMemcpyPeer, _ptds, (CUdeviceptr dst, CUcontext dc, CUdeviceptr src, CUcontext sc, size_t n),
         copy_peer(dst, dc, src, sc, n, NULL, dflt, WAITS, fn))
SIM_TWIN(cuMemcpyPeerAsync, _ptsz,
         (CUdeviceptr dst, CUcontext dc, CUdeviceptr src, CUcontext sc, size_t n, CUstream h),
         copy_peer(dst, dc, src, sc, n, h, dflt, RETURNS_AT_ONCE, fn))

/* --- 2D and 3D -------------------------------------------------------------------------------------------- */

static uint64_t base_of(CUmemorytype type, const void *host, CUdeviceptr device)
{
    return type == CU_MEMORYTYPE_HOST ? HOST(host) : device;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *p, CUstream h, enum sim_default dflt, enum waits waits, enum sim_fn fn)
{
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    if (p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY)
        return CUDA_ERROR_NOT_SUPPORTED;
    size_t src_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes;
    size_t dst_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes;
    if (src_pitch < p->WidthInBytes || dst_pitch < p->WidthInBytes) return CUDA_ERROR_INVALID_VALUE;
    struct sim_copy c = {
        .dst = base_of(p->dstMemoryType, p->dstHost, p->dstDevice) + p->dstY * dst_pitch + p->dstXInBytes,
        .src = base_of(p->srcMemoryType, p->srcHost, p->srcDevice) + p->srcY * src_pitch + p->srcXInBytes,
        .width = p->WidthInBytes, .height = p->Height, .depth = 1,
        .dst_pitch = dst_pitch, .src_pitch = src_pitch,
    };
    return copy_box(&c, h, dflt, waits, fn);
}

SIM_TWIN(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *p), copy_2d(p, NULL, dflt, WAITS, fn))
SIM_TWIN(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *p), copy_2d(p, NULL, dflt, WAITS, fn))
SIM_TWIN(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D *p, CUstream h),
         copy_2d(p, h, dflt, RETURNS_AT_ONCE, fn))

/* CUDA_MEMCPY3D and its peer form share the names of what is read here. */
#define BOX_OF(p)                                                                                              \
    {                                                                                                          \
        .dst = base_of((p)->dstMemoryType, (p)->dstHost, (p)->dstDevice) + (p)->dstXInBytes +                  \
               ((p)->dstZ * (p)->dstHeight + (p)->dstY) * (p)->dstPitch,                                       \
        .src = base_of((p)->srcMemoryType, (p)->srcHost, (p)->srcDevice) + (p)->srcXInBytes +                  \
               ((p)->srcZ * (p)->srcHeight + (p)->srcY) * (p)->srcPitch,                                       \
        .width = (p)->WidthInBytes, .height = (p)->Height, .depth = (p)->Depth, .dst_pitch = (p)->dstPitch,    \
        .src_pitch = (p)->srcPitch, .dst_slice = (p)->dstPitch * (p)->dstHeight,                               \
        .src_slice = (p)->srcPitch * (p)->srcHeight                                                            \
    }

static bool uses_array(CUmemorytype a, CUmemorytype b)
{
    return a == CU_MEMORYTYPE_ARRAY || b == CU_MEMORYTYPE_ARRAY;
}

static CUresult copy_3d(const CUDA_MEMCPY3D *p, CUstream h, enum sim_default dflt, enum waits waits, enum sim_fn fn)
{
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    if (uses_array(p->srcMemoryType, p->dstMemoryType)) return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_copy c = BOX_OF(p);
    return copy_box(&c, h, dflt, waits, fn);
}

static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *p, CUstream h, enum sim_default dflt, enum waits waits,
                             enum sim_fn fn)
{
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    if (uses_array(p->srcMemoryType, p->dstMemoryType)) return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_copy c = BOX_OF(p);
    return copy_box(&c, h, dflt, waits, fn);
}

SIM_TWIN(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D *p), copy_3d(p, NULL, dflt, WAITS, fn))
SIM_TWIN(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D *p, CUstream h), copy_3d(p, h, dflt, RETURNS_AT_ONCE, fn))
SIM_TWIN(cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D_PEER *p), copy_3d_peer(p, NULL, dflt, WAITS, fn))
SIM_TWIN(cuMemcpy3DPeerAsync, _ptsz, (const CUDA_MEMCPY3D_PEER *p, CUstream h),
         copy_3d_peer(p, h, dflt, RETURNS_AT_ONCE, fn))

/* --- fills ------------------------------------------------------------------------------------------------ */

static CUresult fill(uint64_t dst, size_t pitch, unsigned value, unsigned element, size_t width, size_t height,
                     CUstream h, enum sim_default dflt, enum waits waits, enum sim_fn fn)
{
    struct sim_stream *s;
    if (dst % element || pitch % element) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    struct sim_work *w = result == CUDA_SUCCESS ? sim_work_new(fn) : NULL;
    if (result == CUDA_SUCCESS && !w) result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS && width && height && !sim_block_containing(dst)) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        w->u.fill = (struct sim_fill){ dst, width, height, pitch, value, element };
        w->type = CU_GRAPH_NODE_TYPE_MEMSET;
        w->run = sim_run_fill;
        result = sim_work_touch_box(w, dst, width * element, height, pitch, 1, 0);
    }
    if (result == CUDA_SUCCESS && width && height) result = submit(s, w, waits);
    else sim_work_free(w);
    sim_unlock();
    return result;
}

/* cuMemset of device memory does not wait for the device either (driver API documentation, synchronisation
 * behaviour of memset); it does here, which no correct program can tell. */
#define FILL(value, element, n) fill(dst, 0, value, element, n, 1, NULL, dflt, WAITS, fn)
#define FILL_ASYNC(value, element, n) fill(dst, 0, value, element, n, 1, h, dflt, RETURNS_AT_ONCE, fn)
#define FILL_2D(element) fill(dst, pitch, value, element, w, n, NULL, dflt, WAITS, fn)
#define FILL_2D_ASYNC(element) fill(dst, pitch, value, element, w, n, h, dflt, RETURNS_AT_ONCE, fn)

SIM_TWIN(cuMemsetD8_v2, _ptds, (CUdeviceptr dst, unsigned char value, size_t n), FILL(value, 1, n))
SIM_TWIN(cuMemsetD16_v2, _ptds, (CUdeviceptr dst, unsigned short value, size_t n), FILL(value, 2, n))
SIM_TWIN(cuMemsetD32_v2, _ptds, (CUdeviceptr dst, unsigned int value, size_t n), FILL(value, 4, n))
SIM_TWIN(cuMemsetD8Async, _ptsz, (CUdeviceptr dst, unsigned char value, size_t n, CUstream h),
         FILL_ASYNC(value, 1, n))
SIM_TWIN(cuMemsetD16Async, _ptsz, (CUdeviceptr dst, unsigned short value, size_t n, CUstream h),
         FILL_ASYNC(value, 2, n))
SIM_TWIN(cuMemsetD32Async, _ptsz, (CUdeviceptr dst, unsigned int value, size_t n, CUstream h),
         FILL_ASYNC(value, 4, n))
SIM_TWIN(cuMemsetD2D8_v2, _ptds, (CUdeviceptr dst, size_t pitch, unsigned char value, size_t w, size_t n), FILL_2D(1))
SIM_TWIN(cuMemsetD2D16_v2, _ptds, (CUdeviceptr dst, size_t pitch, unsigned short value, size_t w, size_t n),
         FILL_2D(2))
SIM_TWIN(cuMemsetD2D32_v2, _ptds, (CUdeviceptr dst, size_t pitch, unsigned int value, size_t w, size_t n), FILL_2D(4))
SIM_TWIN(cuMemsetD2D8Async, _ptsz,
         (CUdeviceptr dst, size_t pitch, unsigned char value, size_t w, size_t n, CUstream h), FILL_2D_ASYNC(1))
SIM_TWIN(cuMemsetD2D16Async, _ptsz,
         (CUdeviceptr dst, size_t pitch, unsigned short value, size_t w, size_t n, CUstream h), FILL_2D_ASYNC(2))
SIM_TWIN(cuMemsetD2D32Async, _ptsz,
         (CUdeviceptr dst, size_t pitch, unsigned int value, size_t w, size_t n, CUstream h), FILL_2D_ASYNC(4))
