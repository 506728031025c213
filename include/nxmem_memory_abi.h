/* nxmem_memory_abi.h: the nxmem memory plugin ABI, version 1.1.
 *
 * A binary contract between a host (a program that wants memory) and a plugin (a shared library that
 * owns memory). Only the structs in this file cross the boundary, by pointer or value. Needs stdint.h and
 * nothing else; valid C99 to C23 and C++11 on. The numbers in brackets, as in [11.3], name the rules of the
 * nxmem behavioural specification.
 *
 * The life of a plugin, as a host sees it:
 *
 *     dlopen
 *       -> NxmemNegotiate, once, before any other export             versions and capabilities [5]
 *       -> NxmemCreateAllocatorFactories                             what it can serve, and where [8]
 *       -> factory.open_allocator                                    from here a `release` is owed [9.5]
 *            -> allocate ... deallocate or release_allocation        memory released at once [11, 12]
 *            -> enqueue_release, drain_releases, release_completed   memory released later [15]
 *       -> allocator.release, then factory.release                   each exactly once [17, 8.11]
 *       -> NxmemQueryUnloadReadiness: zero on every axis             only then dlclose [18]
 *
 * Rules that hold for every struct and every slot:
 *
 * Sizes. A sender sets `struct_size` to its own sizeof and `reserved` to 0 [4.3]. A published vtable is read
 *   by prefix: the first four bytes say how much there is; a reader copies at most its own sizeof, takes what
 *   is missing as zero and ignores what is beyond [6]. New members are only ever appended, marked "since
 *   minor N". Structs without `struct_size` never change.
 * Out-structs. The caller zero-fills them and stores its own sizeof; the callee writes no more than the
 *   smaller of the two sizes, and only on success unless said otherwise [4.4].
 * Pointers are borrowed for the call, with two exceptions: NxmemOpenRequest.callbacks, and published
 *   vtables and names, which stay valid until their owner's final `release` returned [4.2]. Neither side frees
 *   memory that the other allocated [4.1].
 * Identity. Every request names `mechanism_id` and `device`; both sides check, the mechanism first: a request
 *   wrong in both is WRONG_MECHANISM [4.5].
 * Threads. Any slot may be called at any time from any thread; a plugin locks for itself [19.1]. Neither
 *   side holds a lock of its own while it is inside the other, nor blocks there without end [19.2-19.4].
 * Errors. A slot that fails has changed nothing, except where a status or a release state says otherwise
 *   [12.5, 12.6]. No exception, panic or longjmp crosses in either direction: it becomes INTERNAL_ERROR, and
 *   in a slot that returns void it is swallowed [3.7].
 * Units. All sizes, offsets and alignments are bytes.
 *
 * The NXMEM_LAYOUT comments are read by machines: they state each struct's size and alignment, and each field's
 * offset and size, on a target with 64-bit pointers.
 */
#ifndef NXMEM_MEMORY_ABI_H
#define NXMEM_MEMORY_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if UINTPTR_MAX != UINT64_MAX
#error "the nxmem plugin ABI is defined for targets with 64-bit pointers only"
#endif

/* Hosts and plugins of one major version talk at the lower of their two minors [5.2]. */
#define NXMEM_ABI_MAJOR 1u
#define NXMEM_ABI_MINOR 1u
#define NXMEM_ABI_OLDEST_MINOR 0u

/* At most 255 bytes of UTF-8 and a NUL [2.5]. */
#define NXMEM_STATUS_MESSAGE_CAPACITY 256u

/* Capability bits [2.2]. An absent capability has one legal spelling, UNSUPPORTED_CAPABILITY; a plugin must
 * not offer a bit outside the known mask, nor one newer than the agreed minor [5.3]. */
#define NXMEM_CAPABILITY_ALLOCATOR (UINT64_C(1) << 0)          /* allocate and deallocate; always there */
#define NXMEM_CAPABILITY_VIRTUAL_BACKING (UINT64_C(1) << 1)    /* address ranges committed on demand [13] */
#define NXMEM_CAPABILITY_SHARED_MAPPING (UINT64_C(1) << 2)     /* one prefix mapped into many allocations [14] */
#define NXMEM_CAPABILITY_DEFERRED_RELEASE (UINT64_C(1) << 3)   /* enqueue_release and drain_releases [15] */
#define NXMEM_CAPABILITY_STRUCTURED_RELEASE (UINT64_C(1) << 4) /* release_allocation; since minor 1 [10.3] */
#define NXMEM_CAPABILITY_KNOWN_MASK UINT64_C(0x1F)

/* Memory tiers (NxmemDeviceId.tier). Any other value is refused, never mapped to a guess [2.3]. */
#define NXMEM_TIER_DEVICE 0u
#define NXMEM_TIER_HOST 1u
#define NXMEM_TIER_DISK 2u

/* Release states (NxmemReleaseOutcome.state). Any other value counts as a quarantine of everything: it is
 * never taken for COMPLETE or FAILED [12.6]. */
#define NXMEM_RELEASE_COMPLETE 0u    /* the bytes are back; the allocation is gone */
#define NXMEM_RELEASE_QUARANTINED 1u /* gone for the host; the plugin keeps the residue and never reissues it [20] */
#define NXMEM_RELEASE_FAILED 2u      /* nothing happened: still live, may be released again */

/* Status codes (NxmemStatus.code): append-only, never reused. A code outside the table is a failure, and a
 * fatal one; render it as UNKNOWN(n) [3.1, 3.2]. */
#define NXMEM_STATUS_OK 0u                      /* success */
#define NXMEM_STATUS_VERSION_MISMATCH 1u        /* no common version */
#define NXMEM_STATUS_SHORT_STRUCT 2u            /* struct_size too small for its level, or a required slot is null */
#define NXMEM_STATUS_UNSUPPORTED_CAPABILITY 3u  /* that capability is absent */
#define NXMEM_STATUS_INVALID_ARGUMENT 4u        /* null or misaligned pointer, zero identity, field out of range */
#define NXMEM_STATUS_INTERNAL_ERROR 5u          /* unexpected, including an exception caught at the boundary */
#define NXMEM_STATUS_NOT_IMPLEMENTED 6u         /* the slot is there, its body is not */
#define NXMEM_STATUS_DEVICE_ERROR 7u            /* driver or device failure */
#define NXMEM_STATUS_OUT_OF_MEMORY 8u           /* could not satisfy the size */
#define NXMEM_STATUS_WRONG_DEVICE 9u            /* the object lives on another device */
#define NXMEM_STATUS_WRONG_MECHANISM 10u        /* the object belongs to another opened mechanism */
#define NXMEM_STATUS_UNKNOWN_ALLOCATION 11u     /* id not held now: never was, or retired */
#define NXMEM_STATUS_RELEASE_QUARANTINED 12u    /* begun and not finished: the plugin keeps the residue */
#define NXMEM_STATUS_CALLBACK_FAILED 13u        /* a host callback refused and the plugin could not go on */
#define NXMEM_STATUS_BUSY 14u                   /* not now: something is still live */

/* What a slot answers, returned by value: on System V x86-64 through a hidden pointer, so every slot is declared
 * exactly so [1.1]. Has no struct_size and never changes. Reader: the message is the first
 * min(message_len, 255) bytes, none if they are not UTF-8; the NUL is not to be relied on [3.3]. Writer: cut
 * at a character boundary, terminate, zero the rest, so that no stack bytes leave the process [3.4]. */
/* NXMEM_LAYOUT: NxmemStatus size=264 align=4 */
typedef struct NxmemStatus {
    uint32_t code; /* NXMEM_LAYOUT_FIELD: NxmemStatus.code offset=0 size=4 */
    uint32_t message_len; /* NXMEM_LAYOUT_FIELD: NxmemStatus.message_len offset=4 size=4 */
    uint8_t message[NXMEM_STATUS_MESSAGE_CAPACITY]; /* NXMEM_LAYOUT_FIELD: NxmemStatus.message offset=8 size=256 */
} NxmemStatus;

/* Where memory lives: a tier and an index in it. Compared exactly, both fields [4.5]. Never changes. */
/* NXMEM_LAYOUT: NxmemDeviceId size=8 align=4 */
typedef struct NxmemDeviceId {
    uint32_t tier; /* NXMEM_LAYOUT_FIELD: NxmemDeviceId.tier offset=0 size=4 */
    uint32_t index; /* NXMEM_LAYOUT_FIELD: NxmemDeviceId.index offset=4 size=4 */
} NxmemDeviceId;

/* Names one live allocation: what allocate was asked (identity, bytes, align) and what it answered (ptr).
 * Borrowed. A plugin identifies by `allocation_id`, never by address: addresses come back [4.6]. */
/* NXMEM_LAYOUT: NxmemAllocation size=56 align=8 */
typedef struct NxmemAllocation {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemAllocation.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemAllocation.reserved offset=4 size=4 */
    uint64_t mechanism_id; /* NXMEM_LAYOUT_FIELD: NxmemAllocation.mechanism_id offset=8 size=8 */
    uint64_t allocation_id; /* NXMEM_LAYOUT_FIELD: NxmemAllocation.allocation_id offset=16 size=8 */
    NxmemDeviceId device; /* NXMEM_LAYOUT_FIELD: NxmemAllocation.device offset=24 size=8 */
    uint8_t *ptr; /* NXMEM_LAYOUT_FIELD: NxmemAllocation.ptr offset=32 size=8 */
    uint64_t bytes; /* NXMEM_LAYOUT_FIELD: NxmemAllocation.bytes offset=40 size=8 */
    uint64_t align; /* NXMEM_LAYOUT_FIELD: NxmemAllocation.align offset=48 size=8 */
} NxmemAllocation;

/* A span of an allocation, relative to its start. offset + bytes must be computed without overflow and must not
 * pass the allocation's end [13.2]. Never changes. */
/* NXMEM_LAYOUT: NxmemByteRange size=16 align=8 */
typedef struct NxmemByteRange {
    uint64_t offset; /* NXMEM_LAYOUT_FIELD: NxmemByteRange.offset offset=0 size=8 */
    uint64_t bytes; /* NXMEM_LAYOUT_FIELD: NxmemByteRange.bytes offset=8 size=8 */
} NxmemByteRange;

/* What is wanted. `allocation_id` is the host's choice, non-zero, never reused and never derived from an
 * address; 0 only in sizing queries [4.6, 13.9]. `align` is a power of two. Zero bytes is legal: the answer
 * is a unique, aligned address that is not NULL [11.6]. `committed_ranges` (borrowed) is for
 * allocate_committed only: look at the count first, with count 0 the pointer may be anything [13.1]. */
/* NXMEM_LAYOUT: NxmemAllocRequest size=64 align=8 */
typedef struct NxmemAllocRequest {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemAllocRequest.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemAllocRequest.reserved offset=4 size=4 */
    uint64_t mechanism_id; /* NXMEM_LAYOUT_FIELD: NxmemAllocRequest.mechanism_id offset=8 size=8 */
    uint64_t allocation_id; /* NXMEM_LAYOUT_FIELD: NxmemAllocRequest.allocation_id offset=16 size=8 */
    NxmemDeviceId device; /* NXMEM_LAYOUT_FIELD: NxmemAllocRequest.device offset=24 size=8 */
    uint64_t bytes; /* NXMEM_LAYOUT_FIELD: NxmemAllocRequest.bytes offset=32 size=8 */
    uint64_t align; /* NXMEM_LAYOUT_FIELD: NxmemAllocRequest.align offset=40 size=8 */
    const NxmemByteRange *committed_ranges; /* NXMEM_LAYOUT_FIELD: NxmemAllocRequest.committed_ranges offset=48 size=8 */
    uint64_t committed_range_count; /* NXMEM_LAYOUT_FIELD: NxmemAllocRequest.committed_range_count offset=56 size=8 */
} NxmemAllocRequest;

/* What was given, valid only with OK. `ptr` is the plugin's memory until it is released. NULL breaks the
 * contract; so does an address that is no multiple of `align`, which the host hands back at once [11.3, 11.4].
 * `owned_bytes`: physical bytes newly charged; `mapped_bytes`: bytes newly mapped. Two axes that must not be
 * added or exchanged [11.7, 13.11]. */
/* NXMEM_LAYOUT: NxmemAllocResult size=32 align=8 */
typedef struct NxmemAllocResult {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemAllocResult.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemAllocResult.reserved offset=4 size=4 */
    uint8_t *ptr; /* NXMEM_LAYOUT_FIELD: NxmemAllocResult.ptr offset=8 size=8 */
    uint64_t owned_bytes; /* NXMEM_LAYOUT_FIELD: NxmemAllocResult.owned_bytes offset=16 size=8 */
    uint64_t mapped_bytes; /* NXMEM_LAYOUT_FIELD: NxmemAllocResult.mapped_bytes offset=24 size=8 */
} NxmemAllocResult;

/* A span of one live allocation, for the virtual-backing slots. */
/* NXMEM_LAYOUT: NxmemRangeRequest size=80 align=8 */
typedef struct NxmemRangeRequest {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemRangeRequest.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemRangeRequest.reserved offset=4 size=4 */
    NxmemAllocation allocation; /* NXMEM_LAYOUT_FIELD: NxmemRangeRequest.allocation offset=8 size=56 */
    NxmemByteRange range; /* NXMEM_LAYOUT_FIELD: NxmemRangeRequest.range offset=64 size=16 */
} NxmemRangeRequest;

/* How a release ended. `allocation_bytes`: size of the allocation; `unmapped_bytes`: given back to the system
 * now, zero is a good answer; `residual_owned_bytes`: kept by the plugin for good, QUARANTINED only;
 * `failure`: why, when not COMPLETE [12.6]. Note that all zeros reads as COMPLETE. */
/* NXMEM_LAYOUT: NxmemReleaseOutcome size=296 align=8 */
typedef struct NxmemReleaseOutcome {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemReleaseOutcome.struct_size offset=0 size=4 */
    uint32_t state; /* NXMEM_LAYOUT_FIELD: NxmemReleaseOutcome.state offset=4 size=4 */
    uint64_t allocation_bytes; /* NXMEM_LAYOUT_FIELD: NxmemReleaseOutcome.allocation_bytes offset=8 size=8 */
    uint64_t unmapped_bytes; /* NXMEM_LAYOUT_FIELD: NxmemReleaseOutcome.unmapped_bytes offset=16 size=8 */
    uint64_t residual_owned_bytes; /* NXMEM_LAYOUT_FIELD: NxmemReleaseOutcome.residual_owned_bytes offset=24 size=8 */
    NxmemStatus failure; /* NXMEM_LAYOUT_FIELD: NxmemReleaseOutcome.failure offset=32 size=264 */
} NxmemReleaseOutcome;

/* One queued release has ended: passed to release_completed once per ticket, in the order of the tickets. A host
 * matches it by `allocation_id`, since it may come from inside enqueue_release, before the host knows the
 * ticket [15.3]. */
/* NXMEM_LAYOUT: NxmemReleaseCompletion size=328 align=8 */
typedef struct NxmemReleaseCompletion {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemReleaseCompletion.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemReleaseCompletion.reserved offset=4 size=4 */
    uint64_t ticket; /* NXMEM_LAYOUT_FIELD: NxmemReleaseCompletion.ticket offset=8 size=8 */
    uint64_t mechanism_id; /* NXMEM_LAYOUT_FIELD: NxmemReleaseCompletion.mechanism_id offset=16 size=8 */
    uint64_t allocation_id; /* NXMEM_LAYOUT_FIELD: NxmemReleaseCompletion.allocation_id offset=24 size=8 */
    NxmemReleaseOutcome outcome; /* NXMEM_LAYOUT_FIELD: NxmemReleaseCompletion.outcome offset=32 size=296 */
} NxmemReleaseCompletion;

/* A plugin asks its host to let go of `bytes` on `device`, which must be the allocator's own [16.3]. */
/* NXMEM_LAYOUT: NxmemReclaimRequest size=32 align=8 */
typedef struct NxmemReclaimRequest {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemReclaimRequest.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemReclaimRequest.reserved offset=4 size=4 */
    uint64_t mechanism_id; /* NXMEM_LAYOUT_FIELD: NxmemReclaimRequest.mechanism_id offset=8 size=8 */
    NxmemDeviceId device; /* NXMEM_LAYOUT_FIELD: NxmemReclaimRequest.device offset=16 size=8 */
    uint64_t bytes; /* NXMEM_LAYOUT_FIELD: NxmemReclaimRequest.bytes offset=24 size=8 */
} NxmemReclaimRequest;

/* What is still alive in a plugin, over all its allocators. The library may be unmapped only when every axis is
 * zero, so the report is conservative: what is reachable counts, and so does a thread that may still run code
 * of the plugin [18.10]. `live_allocations` includes queued releases; `live_views`: shared prefixes
 * committed into live allocations; `live_capabilities`: references to shared prefixes [14.8]. */
/* NXMEM_LAYOUT: NxmemUnloadReport size=48 align=8 */
typedef struct NxmemUnloadReport {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemUnloadReport.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemUnloadReport.reserved offset=4 size=4 */
    uint64_t live_allocators; /* NXMEM_LAYOUT_FIELD: NxmemUnloadReport.live_allocators offset=8 size=8 */
    uint64_t live_allocations; /* NXMEM_LAYOUT_FIELD: NxmemUnloadReport.live_allocations offset=16 size=8 */
    uint64_t live_views; /* NXMEM_LAYOUT_FIELD: NxmemUnloadReport.live_views offset=24 size=8 */
    uint64_t live_capabilities; /* NXMEM_LAYOUT_FIELD: NxmemUnloadReport.live_capabilities offset=32 size=8 */
    uint64_t queued_releases; /* NXMEM_LAYOUT_FIELD: NxmemUnloadReport.queued_releases offset=40 size=8 */
} NxmemUnloadReport;

/* Names one shared prefix. `handle` is not 0. `device_ptr`: where the prefix itself is mapped, 0 if nowhere.
 * `committed_physical_bytes` are charged once, at creation or at the first mapping; `requested_bytes` is what
 * the caller asked for, `mapped_bytes` that rounded to granules. Each handle got by create or retain needs
 * its own release_shared_prefix [14.2]. */
/* NXMEM_LAYOUT: NxmemSharedPrefixHandle size=64 align=8 */
typedef struct NxmemSharedPrefixHandle {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixHandle.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixHandle.reserved offset=4 size=4 */
    uint64_t mechanism_id; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixHandle.mechanism_id offset=8 size=8 */
    uint64_t handle; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixHandle.handle offset=16 size=8 */
    NxmemDeviceId device; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixHandle.device offset=24 size=8 */
    uint64_t device_ptr; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixHandle.device_ptr offset=32 size=8 */
    uint64_t committed_physical_bytes; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixHandle.committed_physical_bytes offset=40 size=8 */
    uint64_t mapped_bytes; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixHandle.mapped_bytes offset=48 size=8 */
    uint64_t requested_bytes; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixHandle.requested_bytes offset=56 size=8 */
} NxmemSharedPrefixHandle;

/* Map the whole prefix into a live allocation at `byte_offset` [14.5, 14.6]. */
/* NXMEM_LAYOUT: NxmemSharedPrefixCommitRequest size=136 align=8 */
typedef struct NxmemSharedPrefixCommitRequest {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitRequest.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitRequest.reserved offset=4 size=4 */
    NxmemSharedPrefixHandle prefix; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitRequest.prefix offset=8 size=64 */
    NxmemAllocation allocation; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitRequest.allocation offset=72 size=56 */
    uint64_t byte_offset; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitRequest.byte_offset offset=128 size=8 */
} NxmemSharedPrefixCommitRequest;

/* What the commit cost: physical bytes newly charged (0 if the prefix was charged before), bytes newly
 * mapped, and how many granules [14.5]. */
/* NXMEM_LAYOUT: NxmemSharedPrefixCommitInfo size=32 align=8 */
typedef struct NxmemSharedPrefixCommitInfo {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitInfo.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitInfo.reserved offset=4 size=4 */
    uint64_t additional_owned_bytes; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitInfo.additional_owned_bytes offset=8 size=8 */
    uint64_t newly_mapped_bytes; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitInfo.newly_mapped_bytes offset=16 size=8 */
    uint64_t granules; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitInfo.granules offset=24 size=8 */
} NxmemSharedPrefixCommitInfo;

/* What a plugin may call. Host's memory: it and what `host_ctx` points to stay valid until the allocator's
 * final `release` returned and every queued release naming it has completed; one table per allocator [16.1].
 * Either slot may be NULL, and a plugin copes: without the first it goes on without help, without the second
 * releases still retire [16.2]. Callbacks may come inside a call, on a thread of the plugin, or inside `release`;
 * plugins avoid the last [16.5]. The host's handlers do not re-enter the same allocator [16.6].
 *
 * request_reclaim: *reclaimed_bytes is what was really given back, 0 is a valid answer, and is written 0 on a
 *   refusal. UNSUPPORTED_CAPABILITY: this host reclaims nothing. A refusal is normal: the plugin fails its
 *   operation with nothing half made, or goes on without [16.3, 16.4].
 * release_completed: the bytes are free and the plugin's own counts are right before the call [15.3]. Refusals
 *   change nothing: UNKNOWN_ALLOCATION for a duplicate or a stranger, WRONG_MECHANISM, INVALID_ARGUMENT. */
/* NXMEM_LAYOUT: NxmemHostCallbacks size=32 align=8 */
typedef struct NxmemHostCallbacks {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemHostCallbacks.struct_size offset=0 size=4 */
    uint32_t abi_minor; /* NXMEM_LAYOUT_FIELD: NxmemHostCallbacks.abi_minor offset=4 size=4 */
    void *host_ctx; /* NXMEM_LAYOUT_FIELD: NxmemHostCallbacks.host_ctx offset=8 size=8 */
    NxmemStatus (*request_reclaim)(void *host_ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_bytes); /* NXMEM_LAYOUT_FIELD: NxmemHostCallbacks.request_reclaim offset=16 size=8 */
    NxmemStatus (*release_completed)(void *host_ctx, const NxmemReleaseCompletion *completion); /* NXMEM_LAYOUT_FIELD: NxmemHostCallbacks.release_completed offset=24 size=8 */
} NxmemHostCallbacks;

/* How an allocator is to be opened. `abi_minor`: the negotiated one. A plugin refuses what it cannot do, with
 * UNSUPPORTED_CAPABILITY for a required bit that it lacks and WRONG_DEVICE, rather than hand back less [9.4].
 * `callbacks` may be NULL; otherwise it outlives this call (see there), but only if the open succeeded. */
/* NXMEM_LAYOUT: NxmemOpenRequest size=32 align=8 */
typedef struct NxmemOpenRequest {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemOpenRequest.struct_size offset=0 size=4 */
    uint32_t abi_minor; /* NXMEM_LAYOUT_FIELD: NxmemOpenRequest.abi_minor offset=4 size=4 */
    NxmemDeviceId device; /* NXMEM_LAYOUT_FIELD: NxmemOpenRequest.device offset=8 size=8 */
    uint64_t required_capability_flags; /* NXMEM_LAYOUT_FIELD: NxmemOpenRequest.required_capability_flags offset=16 size=8 */
    const NxmemHostCallbacks *callbacks; /* NXMEM_LAYOUT_FIELD: NxmemOpenRequest.callbacks offset=24 size=8 */
} NxmemOpenRequest;

/* Addresses that get their memory piece by piece. Published by an allocator with VIRTUAL_BACKING; has a `ctx` of
 * its own, which is what its slots get, never the allocator's [1.17, 13]. A NULL slot fails at call time, it is
 * never a silent success [10.2]. Only the mechanism knows its granules: the host rounds nothing [13.7].
 *
 * allocate_committed: like allocate, and commits the given ranges at once; none means reserve only [13.1].
 * commit_range: makes the span usable; doing it again changes nothing [13.3].
 * decommit_range: *unmapped_bytes really became free, 0 is fine; the addresses stay reserved [13.4].
 * mapped_bytes_for_ranges: in whole granules, never less than a commit of `requests` would map; count 0 is 0
 *   and then the pointer may be anything [13.6].
 * mapped_bytes_for_allocation: the same for an allocation not made yet; its id is 0 on purpose [13.9].
 * committed_bytes: of one live allocation, now [13.5].
 * Errors: UNKNOWN_ALLOCATION, INVALID_ARGUMENT for a span beyond the end (nothing changed), OUT_OF_MEMORY. */
/* NXMEM_LAYOUT: NxmemVirtualBackingVtable size=72 align=8 */
typedef struct NxmemVirtualBackingVtable {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemVirtualBackingVtable.struct_size offset=0 size=4 */
    uint32_t abi_minor; /* NXMEM_LAYOUT_FIELD: NxmemVirtualBackingVtable.abi_minor offset=4 size=4 */
    uint64_t mechanism_id; /* NXMEM_LAYOUT_FIELD: NxmemVirtualBackingVtable.mechanism_id offset=8 size=8 */
    void *ctx; /* NXMEM_LAYOUT_FIELD: NxmemVirtualBackingVtable.ctx offset=16 size=8 */
    NxmemStatus (*allocate_committed)(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result); /* NXMEM_LAYOUT_FIELD: NxmemVirtualBackingVtable.allocate_committed offset=24 size=8 */
    NxmemStatus (*commit_range)(void *ctx, const NxmemRangeRequest *request); /* NXMEM_LAYOUT_FIELD: NxmemVirtualBackingVtable.commit_range offset=32 size=8 */
    NxmemStatus (*decommit_range)(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_bytes); /* NXMEM_LAYOUT_FIELD: NxmemVirtualBackingVtable.decommit_range offset=40 size=8 */
    NxmemStatus (*mapped_bytes_for_ranges)(void *ctx, const NxmemRangeRequest *requests, uint64_t request_count, uint64_t *mapped_bytes); /* NXMEM_LAYOUT_FIELD: NxmemVirtualBackingVtable.mapped_bytes_for_ranges offset=48 size=8 */
    NxmemStatus (*mapped_bytes_for_allocation)(void *ctx, const NxmemAllocRequest *request, uint64_t *mapped_bytes); /* NXMEM_LAYOUT_FIELD: NxmemVirtualBackingVtable.mapped_bytes_for_allocation offset=56 size=8 */
    NxmemStatus (*committed_bytes)(void *ctx, const NxmemAllocation *allocation, uint64_t *committed_bytes); /* NXMEM_LAYOUT_FIELD: NxmemVirtualBackingVtable.committed_bytes offset=64 size=8 */
} NxmemVirtualBackingVtable;

/* One piece of physical memory seen at many addresses. Published by an allocator with SHARED_MAPPING; has a
 * `ctx` of its own [1.18, 14]. The memory lives until the last handle reference *and* the last mapping are gone,
 * in either order, and is freed once [14.7]. A mapping (a view) belongs to the allocation it went into and
 * retires with it: when that is released, or queued for release [14.8].
 *
 * create_shared_prefix: OK gives one handle reference, which the caller owes back.
 * retain_shared_prefix, release_shared_prefix: one reference more, one less. A prefix without references
 *   can be neither committed nor retained, though its mappings stay valid.
 * incremental_owned_bytes: what one more mapping would be charged [14.4].
 * commit_shared_prefix: all or nothing; on an error no mapping remains [14.5]. */
/* NXMEM_LAYOUT: NxmemSharedMappingVtable size=64 align=8 */
typedef struct NxmemSharedMappingVtable {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemSharedMappingVtable.struct_size offset=0 size=4 */
    uint32_t abi_minor; /* NXMEM_LAYOUT_FIELD: NxmemSharedMappingVtable.abi_minor offset=4 size=4 */
    uint64_t mechanism_id; /* NXMEM_LAYOUT_FIELD: NxmemSharedMappingVtable.mechanism_id offset=8 size=8 */
    void *ctx; /* NXMEM_LAYOUT_FIELD: NxmemSharedMappingVtable.ctx offset=16 size=8 */
    NxmemStatus (*create_shared_prefix)(void *ctx, uint64_t mechanism_id, uint64_t bytes, NxmemSharedPrefixHandle *handle); /* NXMEM_LAYOUT_FIELD: NxmemSharedMappingVtable.create_shared_prefix offset=24 size=8 */
    NxmemStatus (*retain_shared_prefix)(void *ctx, const NxmemSharedPrefixHandle *handle); /* NXMEM_LAYOUT_FIELD: NxmemSharedMappingVtable.retain_shared_prefix offset=32 size=8 */
    NxmemStatus (*release_shared_prefix)(void *ctx, const NxmemSharedPrefixHandle *handle); /* NXMEM_LAYOUT_FIELD: NxmemSharedMappingVtable.release_shared_prefix offset=40 size=8 */
    NxmemStatus (*incremental_owned_bytes)(void *ctx, const NxmemSharedPrefixHandle *handle, uint64_t *owned_bytes); /* NXMEM_LAYOUT_FIELD: NxmemSharedMappingVtable.incremental_owned_bytes offset=48 size=8 */
    NxmemStatus (*commit_shared_prefix)(void *ctx, const NxmemSharedPrefixCommitRequest *request, NxmemSharedPrefixCommitInfo *info); /* NXMEM_LAYOUT_FIELD: NxmemSharedMappingVtable.commit_shared_prefix offset=56 size=8 */
} NxmemSharedMappingVtable;

/* One opened mechanism. Plugin's memory, valid until the final `release` returned. `mechanism_id` is not 0 and
 * names this opened instance: two opens have different ones [4.6]. `name` is UTF-8, may be NULL. 120 bytes are
 * minor 0, 128 are minor 1; a claimed level must be carried in full [6].
 *
 * allocate: see NxmemAllocRequest and NxmemAllocResult. OUT_OF_MEMORY is the only status for "no room" [3.6].
 * deallocate: releases at once; *unmapped_bytes went back to the system. On a failure the allocation is
 *   live and untouched [12.8].
 * retain, release: references to the allocator. OK from open_allocator gives the first, and from then on the
 *   host owes one `release`, whatever it thinks of the vtable [9.5]. `release` takes the plugin's state down
 *   when the last reference goes; queued releases hold references of their own [15.2].
 * virtual_backing, shared_mapping: NULL exactly when their capability bit is clear [10.1].
 * enqueue_release: takes the allocation over now and frees it later; *ticket names the entry, unique per
 *   allocator. Completion may come from inside the call. A failure leaves the allocation live and untouched,
 *   BUSY is the natural one [15.1, 15.2].
 * drain_releases: retires at most `max_releases` of the queue, in order; fewer, or none, is legal. *retired is
 *   written on the error path too: CALLBACK_FAILED when the host refused one, and then none is lost [15.4].
 * pending_release_count: entries still queued. NULL slots of these three read as 0 [10.4].
 * release_allocation: releases at once and says exactly how it ended (NxmemReleaseOutcome). Since minor 1; entered
 *   only with STRUCTURED_RELEASE set and minor 1 agreed, else deallocate is [10.3]. Its failing statuses mean
 *   "nothing happened", except 12, 5 and unknown codes: those lose the allocation [12.5]. */
/* NXMEM_LAYOUT: NxmemAllocatorVtable size=128 align=8 */
typedef struct NxmemAllocatorVtable {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemAllocatorVtable.struct_size offset=0 size=4 */
    uint32_t abi_minor; /* NXMEM_LAYOUT_FIELD: NxmemAllocatorVtable.abi_minor offset=4 size=4 */
    uint64_t mechanism_id; /* NXMEM_LAYOUT_FIELD: NxmemAllocatorVtable.mechanism_id offset=8 size=8 */
    NxmemDeviceId device; /* NXMEM_LAYOUT_FIELD: NxmemAllocatorVtable.device offset=16 size=8 */
    uint64_t capability_flags; /* NXMEM_LAYOUT_FIELD: NxmemAllocatorVtable.capability_flags offset=24 size=8 */
    const uint8_t *name; /* NXMEM_LAYOUT_FIELD: NxmemAllocatorVtable.name offset=32 size=8 */
    void *ctx; /* NXMEM_LAYOUT_FIELD: NxmemAllocatorVtable.ctx offset=40 size=8 */
    NxmemStatus (*allocate)(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result); /* NXMEM_LAYOUT_FIELD: NxmemAllocatorVtable.allocate offset=48 size=8 */
    NxmemStatus (*deallocate)(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_bytes); /* NXMEM_LAYOUT_FIELD: NxmemAllocatorVtable.deallocate offset=56 size=8 */
    void (*retain)(void *ctx); /* NXMEM_LAYOUT_FIELD: NxmemAllocatorVtable.retain offset=64 size=8 */
    void (*release)(void *ctx); /* NXMEM_LAYOUT_FIELD: NxmemAllocatorVtable.release offset=72 size=8 */
    const NxmemVirtualBackingVtable *virtual_backing; /* NXMEM_LAYOUT_FIELD: NxmemAllocatorVtable.virtual_backing offset=80 size=8 */
    const NxmemSharedMappingVtable *shared_mapping; /* NXMEM_LAYOUT_FIELD: NxmemAllocatorVtable.shared_mapping offset=88 size=8 */
    NxmemStatus (*enqueue_release)(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket); /* NXMEM_LAYOUT_FIELD: NxmemAllocatorVtable.enqueue_release offset=96 size=8 */
    NxmemStatus (*drain_releases)(void *ctx, uint64_t max_releases, uint64_t *retired); /* NXMEM_LAYOUT_FIELD: NxmemAllocatorVtable.drain_releases offset=104 size=8 */
    NxmemStatus (*pending_release_count)(void *ctx, uint64_t *count); /* NXMEM_LAYOUT_FIELD: NxmemAllocatorVtable.pending_release_count offset=112 size=8 */
    NxmemStatus (*release_allocation)(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome); /* NXMEM_LAYOUT_FIELD: NxmemAllocatorVtable.release_allocation offset=120 size=8 */
} NxmemAllocatorVtable;

/* A mechanism on offer: a name (UTF-8, not NULL; repeats across devices) for one device. Plugin's memory, valid
 * until its `release`, which the host calls exactly once and after the last allocator opened from it is
 * gone; allocators survive the other order too [8.11]. `capability_flags` are information only [8.10].
 *
 * open_allocator: *vtable is written with OK only. A failed open transfers nothing, owes nothing and keeps no
 *   pointer to the callbacks [9.3]. */
/* NXMEM_LAYOUT: NxmemAllocatorFactoryVtable size=56 align=8 */
typedef struct NxmemAllocatorFactoryVtable {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemAllocatorFactoryVtable.struct_size offset=0 size=4 */
    uint32_t abi_minor; /* NXMEM_LAYOUT_FIELD: NxmemAllocatorFactoryVtable.abi_minor offset=4 size=4 */
    const uint8_t *name; /* NXMEM_LAYOUT_FIELD: NxmemAllocatorFactoryVtable.name offset=8 size=8 */
    NxmemDeviceId device; /* NXMEM_LAYOUT_FIELD: NxmemAllocatorFactoryVtable.device offset=16 size=8 */
    uint64_t capability_flags; /* NXMEM_LAYOUT_FIELD: NxmemAllocatorFactoryVtable.capability_flags offset=24 size=8 */
    void *ctx; /* NXMEM_LAYOUT_FIELD: NxmemAllocatorFactoryVtable.ctx offset=32 size=8 */
    NxmemStatus (*open_allocator)(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **vtable); /* NXMEM_LAYOUT_FIELD: NxmemAllocatorFactoryVtable.open_allocator offset=40 size=8 */
    void (*release)(void *ctx); /* NXMEM_LAYOUT_FIELD: NxmemAllocatorFactoryVtable.release offset=48 size=8 */
} NxmemAllocatorFactoryVtable;

/* Versions a side can speak, all four bounds inclusive. Never changes. */
/* NXMEM_LAYOUT: NxmemVersionRange size=16 align=4 */
typedef struct NxmemVersionRange {
    uint32_t major_min; /* NXMEM_LAYOUT_FIELD: NxmemVersionRange.major_min offset=0 size=4 */
    uint32_t major_max; /* NXMEM_LAYOUT_FIELD: NxmemVersionRange.major_max offset=4 size=4 */
    uint32_t minor_min; /* NXMEM_LAYOUT_FIELD: NxmemVersionRange.minor_min offset=8 size=4 */
    uint32_t minor_max; /* NXMEM_LAYOUT_FIELD: NxmemVersionRange.minor_max offset=12 size=4 */
} NxmemVersionRange;

/* What the host speaks and the capabilities it would use. */
/* NXMEM_LAYOUT: NxmemNegotiateRequest size=32 align=8 */
typedef struct NxmemNegotiateRequest {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateRequest.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateRequest.reserved offset=4 size=4 */
    NxmemVersionRange host_range; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateRequest.host_range offset=8 size=16 */
    uint64_t host_capability_flags; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateRequest.host_capability_flags offset=24 size=8 */
} NxmemNegotiateRequest;

/* What was agreed; meaningful with OK only, but `plugin_range` is filled whenever the response could be, so
 * that a refused host can say what it met [5.2]. The capabilities are a subset of those offered. */
/* NXMEM_LAYOUT: NxmemNegotiateResponse size=40 align=8 */
typedef struct NxmemNegotiateResponse {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateResponse.struct_size offset=0 size=4 */
    uint32_t agreed_major; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateResponse.agreed_major offset=4 size=4 */
    uint32_t agreed_minor; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateResponse.agreed_minor offset=8 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateResponse.reserved offset=12 size=4 */
    NxmemVersionRange plugin_range; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateResponse.plugin_range offset=16 size=16 */
    uint64_t capability_flags; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateResponse.capability_flags offset=32 size=8 */
} NxmemNegotiateResponse;

/* The three exports that every plugin has; a library that lacks one is refused by name [7.2].
 *
 * NxmemNegotiate: once, before anything else; keeps neither pointer. The plugin fills `plugin_range`, then refuses
 *   with SHORT_STRUCT, VERSION_MISMATCH or UNSUPPORTED_CAPABILITY, or agrees [5.2].
 * NxmemCreateAllocatorFactories: writes at most `max_factories` pointers and says how many in *count. With OK each
 *   pointer is the host's to `release`; on failure nothing was transferred and *count is 0 [8].
 * NxmemQueryUnloadReadiness: see NxmemUnloadReport. Failing to answer is an error status, not zeros: the host takes
 *   a failed query for "still live" [18.5]. */
#define NXMEM_SYMBOL_NEGOTIATE "NxmemNegotiate"
#define NXMEM_SYMBOL_CREATE_ALLOCATOR_FACTORIES "NxmemCreateAllocatorFactories"
#define NXMEM_SYMBOL_QUERY_UNLOAD_READINESS "NxmemQueryUnloadReadiness"

typedef NxmemStatus (*NxmemNegotiateFn)(const NxmemNegotiateRequest *request,
                                        NxmemNegotiateResponse *response);
typedef NxmemStatus (*NxmemCreateAllocatorFactoriesFn)(const NxmemAllocatorFactoryVtable **factories,
                                                       uint64_t max_factories, uint64_t *count);
typedef NxmemStatus (*NxmemQueryUnloadReadinessFn)(NxmemUnloadReport *report);

#ifdef __cplusplus
}
#endif

#endif
