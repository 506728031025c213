/* The order of a call: context, device, stream, key, capture. Owns the generations of stream handles; any
 * thread; no locks. Asks the driver only what the call needs.
 */
#ifndef NXM_ORDER_H
#define NXM_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_types.h"
#include "nxmem_cuda.h"

struct nxm_order {
    NxmemCudaOrder cuda; /* what a companion is told */
    CUcontext context;   /* current, or the stream's; NULL none */
    int device;          /* ordinal, -1 unknown */
    bool capturing;      /* the stream is being captured, or it cannot be said */
    bool implicit;       /* it is the legacy stream, which a capture of another forbids to use */
};

/* The calling thread's context and device. CUDA_ERROR_INVALID_CONTEXT when there is none. */
CUresult nxm_order_synchronous(struct nxm_order *ret_order);

/* A stream as the program passed it; `per_thread`: the _ptsz form. */
CUresult nxm_order_stream(CUstream stream, bool per_thread, struct nxm_order *ret_order);

/* The key of a stream that is about to be destroyed, and the end of that key. */
uint64_t nxm_stream_key(CUstream stream, bool per_thread);
void nxm_stream_key_retire(CUstream stream);

#endif
