#include "order.h"

#include <stdatomic.h>
#include <string.h>

#include "capture.h"
#include "context.h"
#include "real.h"
#include "thread.h"

/* Drivers before 12.0 have no cuStreamGetId: a handle plus how often a handle of its slot was destroyed. Two
 * handles may share a slot; a key that changes too often only makes a companion wait longer. */
#define GENERATIONS 1024
static _Atomic uint32_t generations[GENERATIONS];

static size_t generation_slot(CUstream stream)
{
    return (size_t)(((uintptr_t)stream >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 54) % GENERATIONS;
}

void nxm_stream_key_retire(CUstream stream)
{
    atomic_fetch_add_explicit(&generations[generation_slot(stream)], 1, memory_order_relaxed);
}

static uint64_t fallback_key(CUstream stream, bool per_thread)
{
    if (stream == CU_STREAM_PER_THREAD || (per_thread && stream == NULL))
        return (UINT64_C(1) << 63) | nxm_thread_number();
    if (stream == NULL || stream == CU_STREAM_LEGACY) {
        CUcontext context = NULL;
        if (nxm_real.cuCtxGetCurrent)
            nxm_real.cuCtxGetCurrent(&context);
        return (UINT64_C(1) << 62) | (uint64_t)(uintptr_t)context;
    }
    uint32_t generation = atomic_load_explicit(&generations[generation_slot(stream)], memory_order_relaxed);
    return (uint64_t)(uintptr_t)stream ^ ((uint64_t)generation << 48);
}

uint64_t nxm_stream_key(CUstream stream, bool per_thread)
{
    unsigned long long id = 0;
    __typeof__(nxm_real.cuStreamGetId) get = per_thread && nxm_real.cuStreamGetId_ptsz ? nxm_real.cuStreamGetId_ptsz
                                                                                     : nxm_real.cuStreamGetId;

    if (get && get(stream, &id) == CUDA_SUCCESS)
        return id;
    return fallback_key(stream, per_thread);
}

static void ask_capture(CUstream stream, bool per_thread, struct nxm_order *order)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    __typeof__(nxm_real.cuStreamIsCapturing) ask =
        per_thread && nxm_real.cuStreamIsCapturing_ptsz ? nxm_real.cuStreamIsCapturing_ptsz : nxm_real.cuStreamIsCapturing;

    if (!nxm_capture_open() || !ask)
        return;
    CUresult result = ask(stream, &status);
    order->capturing = result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE; /* unknown means capturing */
    order->unsaid = result;
    order->implicit = result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult nxm_order_stream(CUstream stream, bool per_thread, struct nxm_order *ret_order)
{
    CUcontext context = NULL;
    bool special = stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
    CUresult result = CUDA_SUCCESS;

    if (special || !nxm_real.cuStreamGetCtx)
        result = nxm_real.cuCtxGetCurrent ? nxm_real.cuCtxGetCurrent(&context) : CUDA_ERROR_NOT_FOUND;
    else
        result = nxm_real.cuStreamGetCtx(stream, &context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    /* A green context's streams are its own; whose device they are on is the same. */
    nxm_order_init(ret_order, NXMEM_CUDA_ORDER_STREAM, context, nxm_context_place(context, &nxm_thread.place)->device);
    ret_order->cuda.stream = (uint64_t)(uintptr_t)stream;
    ret_order->cuda.flags = per_thread ? NXMEM_CUDA_ORDER_FLAG_PER_THREAD : 0;
    ask_capture(stream, per_thread, ret_order);
    ret_order->cuda.stream_key = ret_order->capturing ? 0 : nxm_stream_key(stream, per_thread);
    return CUDA_SUCCESS;
}
