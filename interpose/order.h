/* The order of a call: context, device, stream, key, capture. Owns the generations of stream handles; any
 * thread; no locks. Asks the driver only what the call needs.
 */
#ifndef NXM_ORDER_H
#define NXM_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "calm.h"
#include "context.h"
#include "cuda_types.h"
#include "nxmem_cuda.h"
#include "real.h"
#include "thread.h"

struct nxm_order {
    NxmemCudaOrder cuda; /* what a companion is told */
    CUcontext context;   /* current, or the stream's; NULL none */
    int device;          /* ordinal, -1 unknown */
    bool capturing;      /* the stream is being captured, or it cannot be said */
    CUresult unsaid;     /* why not, or success */
    bool implicit;       /* it is the legacy stream, which a capture of another forbids to use */
};

static inline void nxm_order_init(struct nxm_order *order, uint32_t kind, CUcontext context, int device)
{
    /* Each for itself: so the compiler knows what it is when it is asked for right afterwards. */
    order->cuda.struct_size = sizeof order->cuda;
    order->cuda.kind = kind;
    order->cuda.context = (uint64_t)(uintptr_t)context;
    order->cuda.stream = order->cuda.pool = order->cuda.stream_key = 0;
    order->cuda.flags = order->cuda.reserved = 0;
    order->context = context;
    order->device = device;
    order->capturing = order->implicit = false;
    order->unsaid = CUDA_SUCCESS;
}

static inline void nxm_place_asked(struct nxm_place *place, uint32_t calm)
{
    if (__builtin_expect(place->asked != calm, 0)) {
        place->asked = calm;
        place->calm = NXM_NEVER_CALM; /* until somebody has been in its scope */
    }
}

/* The calling thread's context and device. CUDA_ERROR_INVALID_CONTEXT when there is none. */
static inline CUresult nxm_order_synchronous(struct nxm_order *ret_order)
{
    CUcontext context = NULL;
    uint32_t calm = nxm_calm_now(); /* before anything is looked at that holds for it */
    CUresult result = nxm_real.cuCtxGetCurrent ? nxm_real.cuCtxGetCurrent(&context) : CUDA_ERROR_NOT_FOUND;

    if (result != CUDA_SUCCESS)
        return result;
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    const struct nxm_place *place = nxm_context_place(context, &nxm_thread.place);
    nxm_place_asked(&nxm_thread.place, calm);
    nxm_order_init(ret_order, NXMEM_CUDA_ORDER_SYNCHRONOUS, place->owner, place->device);
    return CUDA_SUCCESS;
}

/* A stream as the program passed it; `per_thread`: the _ptsz form. */
CUresult nxm_order_stream(CUstream stream, bool per_thread, struct nxm_order *ret_order);

/* The key of a stream that is about to be destroyed, and the end of that key. */
uint64_t nxm_stream_key(CUstream stream, bool per_thread);
void nxm_stream_key_retire(CUstream stream);

#endif
