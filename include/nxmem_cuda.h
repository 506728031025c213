/* nxmem_cuda.h: the optional CUDA companion of an nxmem allocator.
 *
 * nxmem 1.1 says how memory is owned; it has no word for a stream, a context or a pool. A plugin that
 * allocates CUDA device memory and wants those words exports one more function,
 *
 *     NxmemStatus NxmemQueryCuda(const NxmemAllocatorVtable *allocator, const NxmemCudaVtable **companion);
 *
 * which a host looks up by name and may not find. The host calls it once for every allocator it opened
 * and read back; the answer is read by the ABI's prefix rules (struct_size first, unknown tail
 * ignored, missing tail NULL) and belongs to the allocator: it stays valid until the allocator's final
 * `release` returned. `mechanism_id` must equal the allocator's. Any answer but OK with a readable
 * companion means "no companion": the host then keeps CUDA's order itself (release lanes) and the
 * mechanism never sees a block whose work may still run.
 *
 * Needs no CUDA header: native handles travel as integers of their own value.
 */
#ifndef NXMEM_CUDA_H
#define NXMEM_CUDA_H

#include "nxmem_memory_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NXMEM_CUDA_COMPANION_MINOR 0u
#define NXMEM_SYMBOL_QUERY_CUDA "NxmemQueryCuda"

/* Traits (NxmemCudaVtable.traits). A bit that a host does not know is ignored. */
#define NXMEM_CUDA_TRAIT_LEGACY_IPC (UINT64_C(1) << 0)            /* cuIpcGetMemHandle works on its blocks */
#define NXMEM_CUDA_TRAIT_RDMA (UINT64_C(1) << 1)                  /* GPUDirect RDMA capable as cudaMalloc memory is */
#define NXMEM_CUDA_TRAIT_DMABUF (UINT64_C(1) << 2)                /* cuMemGetHandleForAddressRange works */
#define NXMEM_CUDA_TRAIT_RELEASE_NEVER_WAITS (UINT64_C(1) << 3)   /* no slot of a release waits for the device */
#define NXMEM_CUDA_TRAIT_BASE_IS_DRIVER_ALLOCATION (UINT64_C(1) << 4) /* a block's address is what the driver returned */
#define NXMEM_CUDA_TRAIT_RELEASE_WAITS_LIKE_DRIVER (UINT64_C(1) << 5) /* a synchronous release waits as cuMemFree does */

/* What kind of order a request has (NxmemCudaOrder.kind). */
#define NXMEM_CUDA_ORDER_SYNCHRONOUS 0u /* cuMemAlloc, cuMemFree: no stream; context says whose memory */
#define NXMEM_CUDA_ORDER_STREAM 1u      /* cuMemAllocAsync, cuMemFreeAsync: behind and ahead of work on `stream` */
#define NXMEM_CUDA_ORDER_POOL 2u        /* cuMemAllocFromPoolAsync: as STREAM, from `pool` */

#define NXMEM_CUDA_ORDER_FLAG_PER_THREAD (1u << 0) /* the `_ptsz` form was called: stream 0 is the thread's own */

/* The order of one request. Borrowed for the call. */
typedef struct NxmemCudaOrder {
    uint32_t struct_size; /* sizeof(NxmemCudaOrder) of the sender */
    uint32_t kind;        /* NXMEM_CUDA_ORDER_* */
    uint64_t context;     /* CUcontext that was current, 0 if none (a synchronous free needs none) */
    uint64_t stream;      /* CUstream exactly as the program passed it; 0 for SYNCHRONOUS */
    uint64_t pool;        /* CUmemoryPool for POOL; else 0 */
    uint64_t stream_key;  /* names one stream for its whole life; never reused; 0 for SYNCHRONOUS */
    uint32_t flags;       /* NXMEM_CUDA_ORDER_FLAG_* */
    uint32_t reserved;    /* 0 */
} NxmemCudaOrder;

/* All slots: called with no lock of the host held, from any thread, concurrently. A NULL slot means the
 * plugin has no interest (the last five) or leaves the call to the plain slot (the first two). */
typedef struct NxmemCudaVtable {
    uint32_t struct_size;
    uint32_t companion_minor;
    uint64_t mechanism_id; /* equals the allocator's */
    uint64_t traits;       /* NXMEM_CUDA_TRAIT_* */
    void *ctx;             /* passed to every slot below; never the allocator's own by assumption */
    /* Like `allocate`, with its order: may do what the driver would for that call. A block released on
     * a stream key that has not passed may serve a request on the same key, never on another. */
    NxmemStatus (*allocate_on)(void *ctx, const NxmemCudaOrder *order, const NxmemAllocRequest *request,
                               NxmemAllocResult *result);
    /* Like `enqueue_release`, with its order; the block's work may still run. Completion is reported
     * through `release_completed` as for any queued release, inside the call or later. A failure
     * leaves the block live and untouched. */
    NxmemStatus (*enqueue_release_on)(void *ctx, const NxmemCudaOrder *order,
                                      const NxmemAllocation *allocation, uint64_t *ticket);
    /* Everything on this key up to and including this ticket is done. */
    void (*order_passed)(void *ctx, uint64_t stream_key, uint64_t ticket);
    /* The stream is being destroyed: no later request carries this key. */
    void (*order_gone)(void *ctx, uint64_t stream_key);
    /* The context is about to be destroyed or reset; its synchronous blocks have been released. */
    void (*context_gone)(void *ctx, uint64_t context);
    /* Memory of this allocator becomes (un)reachable from device `peer`, existing and future blocks. */
    NxmemStatus (*set_peer_access)(void *ctx, uint32_t peer, uint32_t enabled);
    /* Bytes held from the driver but free to hand out: counted as free memory in totals. */
    NxmemStatus (*cached_bytes)(void *ctx, uint64_t *bytes);
} NxmemCudaVtable;

typedef NxmemStatus (*NxmemQueryCudaFn)(const NxmemAllocatorVtable *allocator,
                                        const NxmemCudaVtable **companion);

#ifdef __cplusplus
}
#endif

#endif
