/* Copies and fills, synchronous and in stream order. */
#include "copy.h"

#include "array.h"
#include "block.h"
#include "capture.h"
#include "context.h"
#include "device.h"
#include "state.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

enum waits { RETURNS_AT_ONCE, WAITS };

/* Memory the driver knows nothing of: it must be staged, the caller may change it as soon as the call returns. */
static bool pageable(uint64_t address)
{
    if (sim_settings.host_memory) return false; /* it may stand for device memory: nobody is waited for */
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

CUresult sim_copy_touch(struct sim_work *w)
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
        result = sim_copy_touch(w);
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

CUresult sim_copy_check(const struct sim_copy *c)
{
    if (!c->dst || !c->src) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_work *w = sim_work_new(SIM_FN_cuMemcpy);
    if (w) w->u.copy = *c;
    CUresult result = w ? sim_copy_touch(w) : CUDA_ERROR_OUT_OF_MEMORY;
    sim_work_free(w);
    sim_unlock();
    return result;
}

CUresult sim_copy_submit(const struct sim_copy *c, CUstream h, enum sim_default dflt, enum sim_fn fn)
{
    return copy_box(c, h, dflt, RETURNS_AT_ONCE, fn);
}

static CUresult copy_line(uint64_t dst, uint64_t src, size_t n, CUstream h, enum sim_default dflt, enum waits waits,
                          enum sim_fn fn)
{
    if (n && (!dst || !src)) return CUDA_ERROR_INVALID_VALUE;
    struct sim_copy c = { .dst = dst, .src = src, .width = n, .height = 1, .depth = 1 };
    return copy_box(&c, h, dflt, waits, fn);
}

CUresult sim_copy_line(uint64_t dst, uint64_t src, size_t bytes, CUstream h, enum sim_default dflt, bool waits, enum sim_fn fn)
{
    return copy_line(dst, src, bytes, h, dflt, waits ? WAITS : RETURNS_AT_ONCE, fn);
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

/* One end of a box copy. */
struct side {
    uint64_t address;
    size_t pitch, slice;
};

struct place {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    CUarray array;
    size_t pitch, height; /* 0: as narrow as the copy, one slice */
    size_t x, y, z;       /* bytes, rows, slices */
};

static CUresult locate(const struct place *p, size_t width, size_t rows, size_t slices, struct side *ret)
{
    uint64_t base = p->type == CU_MEMORYTYPE_HOST ? HOST(p->host) : p->device;
    size_t pitch = p->pitch ? p->pitch : width, height = p->height;
    if (p->type == CU_MEMORYTYPE_ARRAY) {
        sim_lock();
        struct sim_array *a = sim_object_find(p->array, SIM_ARRAY);
        bool inside = a && p->y + rows <= a->height && p->z + slices <= (a->depth ? a->depth : 1);
        if (inside) {
            base = a->block->range.start;
            pitch = a->pitch;
            height = a->height;
        }
        sim_unlock();
        if (!inside) return a ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    }
    if (pitch < p->x + width || !base) return CUDA_ERROR_INVALID_VALUE;
    *ret = (struct side){ base + (p->z * height + p->y) * pitch + p->x, pitch, pitch * height };
    return CUDA_SUCCESS;
}

static CUresult describe(const struct place *dst, const struct place *src, size_t width, size_t height, size_t depth,
                         struct sim_copy *ret)
{
    struct side to, from;
    CUresult result = locate(dst, width, height, depth, &to);
    if (result == CUDA_SUCCESS) result = locate(src, width, height, depth, &from);
    if (result != CUDA_SUCCESS) return result;
    *ret = (struct sim_copy){ .dst = to.address, .src = from.address, .width = width, .height = height,
                              .depth = depth, .dst_pitch = to.pitch, .src_pitch = from.pitch,
                              .dst_slice = to.slice, .src_slice = from.slice };
    return CUDA_SUCCESS;
}

static CUresult copy_between(const struct place *dst, const struct place *src, size_t width, size_t height,
                             size_t depth, CUstream h, enum sim_default dflt, enum waits waits, enum sim_fn fn)
{
    struct sim_copy c;
    CUresult result = describe(dst, src, width, height, depth, &c);
    return result == CUDA_SUCCESS ? copy_box(&c, h, dflt, waits, fn) : result;
}

/* CUDA_MEMCPY2D, CUDA_MEMCPY3D and the latter's peer form share the names of what is read here. */
#define PLACE(p, end, rows, slice)                                                                              \
    &(struct place) {                                                                                           \
        (p)->end##MemoryType, (p)->end##Host, (p)->end##Device, (p)->end##Array, (p)->end##Pitch, rows,         \
            (p)->end##XInBytes, (p)->end##Y, slice                                                              \
    }
CUresult sim_copy_describe(const CUDA_MEMCPY3D *p, struct sim_copy *ret_copy)
{
    return describe(PLACE(p, dst, p->dstHeight, p->dstZ), PLACE(p, src, p->srcHeight, p->srcZ), p->WidthInBytes,
                    p->Height, p->Depth, ret_copy);
}

#define COPY_2D(h, waits)                                                                                       \
    (p ? copy_between(PLACE(p, dst, 0, 0), PLACE(p, src, 0, 0), p->WidthInBytes, p->Height, 1, h, dflt, waits, fn) \
       : CUDA_ERROR_INVALID_VALUE)
#define COPY_3D(h, waits)                                                                                       \
    (p ? copy_between(PLACE(p, dst, p->dstHeight, p->dstZ), PLACE(p, src, p->srcHeight, p->srcZ),               \
                      p->WidthInBytes, p->Height, p->Depth, h, dflt, waits, fn)                                 \
       : CUDA_ERROR_INVALID_VALUE)

SIM_TWIN(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *p), COPY_2D(NULL, WAITS))
SIM_TWIN(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *p), COPY_2D(NULL, WAITS))
SIM_TWIN(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D *p, CUstream h), COPY_2D(h, RETURNS_AT_ONCE))
SIM_TWIN(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D *p), COPY_3D(NULL, WAITS))
SIM_TWIN(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D *p, CUstream h), COPY_3D(h, RETURNS_AT_ONCE))
SIM_TWIN(cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D_PEER *p), COPY_3D(NULL, WAITS))
SIM_TWIN(cuMemcpy3DPeerAsync, _ptsz, (const CUDA_MEMCPY3D_PEER *p, CUstream h), COPY_3D(h, RETURNS_AT_ONCE))

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
    if (result == CUDA_SUCCESS) {
        w->u.fill = (struct sim_fill){ dst, width, height, pitch, value, element };
        w->type = CU_GRAPH_NODE_TYPE_MEMSET;
        w->run = sim_run_fill;
        result = sim_work_touch_box(w, dst, width * element, height, pitch, 1, 0);
        if (result == CUDA_SUCCESS && width && height && !w->touch_count && !sim_settings.host_memory)
            result = CUDA_ERROR_INVALID_VALUE;
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
