/* nxmem_cuda.h: the optional CUDA companion of an nxmem allocator.
 *
 * nxmem 1.1 says how memory is owned; it has no word for a stream, a context or a pool. A mechanism that
 * serves CUDA device memory and wants those words exports one more function from its plugin, looked up by
 * name and free to be absent:
 *
 *     NxmemStatus NxmemQueryCuda(const NxmemAllocatorVtable *allocator, const NxmemCudaVtable **companion);
 *
 * The ABI itself stays byte for byte what it is, so a plugin with a companion works under a host that has
 * never heard of it, through the plain slots, and a host that knows it works with plugins that have none.
 *
 * The query. A host calls it at most once for each allocator, after it has accepted the allocator and before
 * the first request, with no lock held, and passes the very pointer that open_allocator gave (not its copy).
 * OK gives a companion that belongs to the allocator: borrowed, unchanging, valid until the allocator's final
 * `release` has returned. Every other answer, an unreadable companion, or one whose mechanism_id is not
 * the allocator's means "no companion": never an error, for the mechanism is whole without. A plugin
 * answers WRONG_MECHANISM for an allocator that is not its own and UNSUPPORTED_CAPABILITY for one of its
 * mechanisms that has no companion; it leaves *companion alone then.
 *
 * Without a companion the host keeps CUDA's order itself, and the mechanism never sees a block whose work may
 * still run. With one, the mechanism is told the order and may do what the driver would do.
 *
 * Reading it. The ABI's prefix rules: struct_size first, a multiple of 8 as address, unknown tail ignored,
 * missing tail NULL; less than up to and including `ctx` is unreadable. A later companion only appends.
 *
 * One allocator, two doors. Plain slots and companion slots speak of the same blocks by the same ids: a block
 * from either may be released through any. The identity checks, the statuses and the rules on results are
 * those of the plain slot of the same name. A plain slot carries no order: `allocate` is as a SYNCHRONOUS
 * order in the context that is current, and `deallocate`, `release_allocation`, `enqueue_release` are called
 * only when the host knows that the block's work is over (or its context or process is ending). The host
 * pushes blocks back through the terminal slots at teardown whether or not there is a companion.
 *
 * Addresses come back early. From the moment the driver has taken a block, another thread may be given the same
 * address, which is before the release or its completion has reached the host. A host therefore tells
 * blocks apart by id, and takes an address that it still has as being released for a new block.
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

/* Traits (NxmemCudaVtable.traits): promises about every block of the allocator, for its whole life, that a
 * host cannot find out by itself. A clear bit promises nothing; a bit a host does not know is ignored. */

/* cuIpcGetMemHandle works on its blocks as on cuMemAlloc's. Clear: the host refuses the export with the
 * driver's code instead of exporting the segment around the block. */
#define NXMEM_CUDA_TRAIT_LEGACY_IPC (UINT64_C(1) << 0)
/* GPUDirect RDMA works as for cuMemAlloc memory: the attribute that asks for it may be answered yes. */
#define NXMEM_CUDA_TRAIT_RDMA (UINT64_C(1) << 1)
/* cuMemGetHandleForAddressRange gives a dma-buf where the device can at all. */
#define NXMEM_CUDA_TRAIT_DMABUF (UINT64_C(1) << 2)
/* No slot that releases waits for the device. The host may then enter it anywhere; otherwise it enters a
 * release only where the program itself asked for something that may wait. */
#define NXMEM_CUDA_TRAIT_RELEASE_NEVER_WAITS (UINT64_C(1) << 3)
/* A block's address is what the driver returned, and the block is the whole of that driver allocation:
 * range, base and id queries need no correction, and an address that comes back while the host still
 * has it as live was freed by a way the host did not see. */
#define NXMEM_CUDA_TRAIT_BASE_IS_DRIVER_ALLOCATION (UINT64_C(1) << 4)
/* Releasing on a SYNCHRONOUS order waits exactly when cuMemFree would, so the host adds no wait of its own. Both
 * this and NEVER_WAITS set contradict each other: the host believes neither. */
#define NXMEM_CUDA_TRAIT_RELEASE_WAITS_LIKE_DRIVER (UINT64_C(1) << 5)

/* What kind of order a request has (NxmemCudaOrder.kind). A kind the plugin does not know: INVALID_ARGUMENT,
 * nothing done. */
#define NXMEM_CUDA_ORDER_SYNCHRONOUS 0u /* cuMemAlloc, cuMemFree: no stream; context says whose memory */
#define NXMEM_CUDA_ORDER_STREAM 1u      /* cuMemAllocAsync, cuMemFreeAsync: behind and ahead of work on `stream` */
#define NXMEM_CUDA_ORDER_POOL 2u        /* cuMemAllocFromPoolAsync: as STREAM, from `pool`; never for a release */

/* The `_ptsz` form was called: stream 0 is the calling thread's own, not the legacy one. A flag the plugin
 * does not know may change which stream is meant: INVALID_ARGUMENT, nothing done. */
#define NXMEM_CUDA_ORDER_FLAG_PER_THREAD (1u << 0)

/* The order of one request. Borrowed for the call: a plugin that needs it later keeps a copy. */
typedef struct NxmemCudaOrder {
    uint32_t struct_size; /* sizeof(NxmemCudaOrder) of the sender */
    uint32_t kind;        /* NXMEM_CUDA_ORDER_* */
    uint64_t context;     /* CUcontext that was current, 0 if none (a synchronous free needs none) */
    uint64_t stream;      /* CUstream exactly as the program passed it; 0 for SYNCHRONOUS */
    uint64_t pool;        /* CUmemoryPool for POOL; else 0 */
    uint64_t stream_key;  /* names one stream for its whole life; never reused; 0 for SYNCHRONOUS. Handles are
                             reused by CUDA and 0 names two streams, so what must be remembered about a
                             stream is remembered under its key */
    uint32_t flags;       /* NXMEM_CUDA_ORDER_FLAG_* */
    uint32_t reserved;    /* 0 */
} NxmemCudaOrder;

/* All slots: called with no lock of the host held, from any thread, concurrently, on the thread of the program's
 * own call and with the context current that the program has; a slot leaves that context current. The
 * CUDA calls a plugin makes inside go to the driver, and count as the plugin's own, not as the
 * program's. A NULL slot means the plugin leaves the call to the plain slot (the first two) or has
 * no interest (the other five). */
typedef struct NxmemCudaVtable {
    uint32_t struct_size;
    uint32_t companion_minor;
    uint64_t mechanism_id; /* equals the allocator's */
    uint64_t traits;       /* NXMEM_CUDA_TRAIT_* */
    void *ctx;             /* passed to every slot below; never the allocator's own by assumption */

    /* `allocate`, with its order. The plugin may do what the driver would for that call: memory on a STREAM or
     * POOL order may be usable only by work behind it on that stream. A block released on a stream key that
     * has not passed may serve a request on the same key, never on another. */
    NxmemStatus (*allocate_on)(void *ctx, const NxmemCudaOrder *order, const NxmemAllocRequest *request,
                               NxmemAllocResult *result);

    /* `enqueue_release`, with its order (SYNCHRONOUS or STREAM), which need not be the kind it was allocated
     * with. The block's work may still run: the memory must not reach anybody before that work has passed,
     * except work behind it on the same key. It is a queued release like any other: the host has counted it before the
     * call, and release_completed is called for it once, inside the call or later. Completed inside
     * the call says that the plugin, or the driver behind it, has taken the block over with its order; it
     * does not say that the work is over. So an allocator with this slot sets NXMEM_CAPABILITY_DEFERRED_RELEASE
     * and has the plain enqueue_release and drain_releases too; without them a host does not call it.
     *
     * A failure leaves the block live and untouched, and the host may release it again. The exception is
     * CALLBACK_FAILED: the bytes are gone, the host refused the completion, and the id is unknown from then on. */
    NxmemStatus (*enqueue_release_on)(void *ctx, const NxmemCudaOrder *order,
                                      const NxmemAllocation *allocation, uint64_t *ticket);

    /* Everything on this key up to and including this ticket is done: blocks released by those tickets may
     * serve any key. Tickets of other keys are not touched. May come late or, for a ticket that a later
     * call covers, not at all; never early. So tickets of one key grow with their releases. SYNCHRONOUS releases have no key, and
     * none in a stream that is being captured: of those nothing is told. */
    void (*order_passed)(void *ctx, uint64_t stream_key, uint64_t ticket);

    /* The stream is being destroyed: no later request carries this key. Its work may still run, and
     * order_passed for its tickets may still follow. */
    void (*order_gone)(void *ctx, uint64_t stream_key);

    /* The context is about to be destroyed or reset, still usable in this call; its synchronous blocks have been
     * released. What the plugin keeps in this context (segments, events, streams) must go now. The last
     * cuDevicePrimaryCtxRelease is the exception: it is known to be the last only when it has happened, and the
     * context is dead by then. */
    void (*context_gone)(void *ctx, uint64_t context);

    /* Memory of this allocator becomes reachable (enabled 1) or no longer reachable (0) from device `peer`:
     * existing blocks and all later ones, as cuCtxEnablePeerAccess does for cuMemAlloc memory. NULL: the
     * driver does it by itself, or the mechanism does not follow peers. */
    NxmemStatus (*set_peer_access)(void *ctx, uint32_t peer, uint32_t enabled);

    /* Bytes held from the driver but free to hand out: the host counts them as free in memory totals.
     * NULL: none are held. */
    NxmemStatus (*cached_bytes)(void *ctx, uint64_t *bytes);
} NxmemCudaVtable;

typedef NxmemStatus (*NxmemQueryCudaFn)(const NxmemAllocatorVtable *allocator,
                                        const NxmemCudaVtable **companion);

#ifdef __cplusplus
}
#endif

#endif
