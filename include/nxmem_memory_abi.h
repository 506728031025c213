/* nxmem_memory_abi.h: the nxmem memory plugin ABI, version 1.1.
 *
 * A binary contract between a host (a program that wants memory) and a plugin (a shared library that
 * owns memory). Only the structs in this file cross the boundary. Needs stdint.h and nothing else.
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

#define NXMEM_ABI_MAJOR 1u
#define NXMEM_ABI_MINOR 1u
#define NXMEM_ABI_OLDEST_MINOR 0u

#define NXMEM_STATUS_MESSAGE_CAPACITY 256u

/* Capability bits. */
#define NXMEM_CAPABILITY_ALLOCATOR (UINT64_C(1) << 0)
#define NXMEM_CAPABILITY_VIRTUAL_BACKING (UINT64_C(1) << 1)
#define NXMEM_CAPABILITY_SHARED_MAPPING (UINT64_C(1) << 2)
#define NXMEM_CAPABILITY_DEFERRED_RELEASE (UINT64_C(1) << 3)
#define NXMEM_CAPABILITY_STRUCTURED_RELEASE (UINT64_C(1) << 4) /* since minor 1 */
#define NXMEM_CAPABILITY_KNOWN_MASK UINT64_C(0x1F)

/* Memory tiers (NxmemDeviceId.tier). */
#define NXMEM_TIER_DEVICE 0u
#define NXMEM_TIER_HOST 1u
#define NXMEM_TIER_DISK 2u

/* Release states (NxmemReleaseOutcome.state). */
#define NXMEM_RELEASE_COMPLETE 0u
#define NXMEM_RELEASE_QUARANTINED 1u
#define NXMEM_RELEASE_FAILED 2u

/* Status codes (NxmemStatus.code). */
#define NXMEM_STATUS_OK 0u
#define NXMEM_STATUS_VERSION_MISMATCH 1u
#define NXMEM_STATUS_SHORT_STRUCT 2u
#define NXMEM_STATUS_UNSUPPORTED_CAPABILITY 3u
#define NXMEM_STATUS_INVALID_ARGUMENT 4u
#define NXMEM_STATUS_INTERNAL_ERROR 5u
#define NXMEM_STATUS_NOT_IMPLEMENTED 6u
#define NXMEM_STATUS_DEVICE_ERROR 7u
#define NXMEM_STATUS_OUT_OF_MEMORY 8u
#define NXMEM_STATUS_WRONG_DEVICE 9u
#define NXMEM_STATUS_WRONG_MECHANISM 10u
#define NXMEM_STATUS_UNKNOWN_ALLOCATION 11u
#define NXMEM_STATUS_RELEASE_QUARANTINED 12u
#define NXMEM_STATUS_CALLBACK_FAILED 13u
#define NXMEM_STATUS_BUSY 14u

/* NXMEM_LAYOUT: NxmemStatus size=264 align=4 */
typedef struct NxmemStatus {
    uint32_t code; /* NXMEM_LAYOUT_FIELD: NxmemStatus.code offset=0 size=4 */
    uint32_t message_len; /* NXMEM_LAYOUT_FIELD: NxmemStatus.message_len offset=4 size=4 */
    uint8_t message[NXMEM_STATUS_MESSAGE_CAPACITY]; /* NXMEM_LAYOUT_FIELD: NxmemStatus.message offset=8 size=256 */
} NxmemStatus;

/* NXMEM_LAYOUT: NxmemDeviceId size=8 align=4 */
typedef struct NxmemDeviceId {
    uint32_t tier; /* NXMEM_LAYOUT_FIELD: NxmemDeviceId.tier offset=0 size=4 */
    uint32_t index; /* NXMEM_LAYOUT_FIELD: NxmemDeviceId.index offset=4 size=4 */
} NxmemDeviceId;

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

/* NXMEM_LAYOUT: NxmemByteRange size=16 align=8 */
typedef struct NxmemByteRange {
    uint64_t offset; /* NXMEM_LAYOUT_FIELD: NxmemByteRange.offset offset=0 size=8 */
    uint64_t bytes; /* NXMEM_LAYOUT_FIELD: NxmemByteRange.bytes offset=8 size=8 */
} NxmemByteRange;

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

/* NXMEM_LAYOUT: NxmemAllocResult size=32 align=8 */
typedef struct NxmemAllocResult {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemAllocResult.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemAllocResult.reserved offset=4 size=4 */
    uint8_t *ptr; /* NXMEM_LAYOUT_FIELD: NxmemAllocResult.ptr offset=8 size=8 */
    uint64_t owned_bytes; /* NXMEM_LAYOUT_FIELD: NxmemAllocResult.owned_bytes offset=16 size=8 */
    uint64_t mapped_bytes; /* NXMEM_LAYOUT_FIELD: NxmemAllocResult.mapped_bytes offset=24 size=8 */
} NxmemAllocResult;

/* NXMEM_LAYOUT: NxmemRangeRequest size=80 align=8 */
typedef struct NxmemRangeRequest {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemRangeRequest.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemRangeRequest.reserved offset=4 size=4 */
    NxmemAllocation allocation; /* NXMEM_LAYOUT_FIELD: NxmemRangeRequest.allocation offset=8 size=56 */
    NxmemByteRange range; /* NXMEM_LAYOUT_FIELD: NxmemRangeRequest.range offset=64 size=16 */
} NxmemRangeRequest;

/* NXMEM_LAYOUT: NxmemReleaseOutcome size=296 align=8 */
typedef struct NxmemReleaseOutcome {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemReleaseOutcome.struct_size offset=0 size=4 */
    uint32_t state; /* NXMEM_LAYOUT_FIELD: NxmemReleaseOutcome.state offset=4 size=4 */
    uint64_t allocation_bytes; /* NXMEM_LAYOUT_FIELD: NxmemReleaseOutcome.allocation_bytes offset=8 size=8 */
    uint64_t unmapped_bytes; /* NXMEM_LAYOUT_FIELD: NxmemReleaseOutcome.unmapped_bytes offset=16 size=8 */
    uint64_t residual_owned_bytes; /* NXMEM_LAYOUT_FIELD: NxmemReleaseOutcome.residual_owned_bytes offset=24 size=8 */
    NxmemStatus failure; /* NXMEM_LAYOUT_FIELD: NxmemReleaseOutcome.failure offset=32 size=264 */
} NxmemReleaseOutcome;

/* NXMEM_LAYOUT: NxmemReleaseCompletion size=328 align=8 */
typedef struct NxmemReleaseCompletion {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemReleaseCompletion.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemReleaseCompletion.reserved offset=4 size=4 */
    uint64_t ticket; /* NXMEM_LAYOUT_FIELD: NxmemReleaseCompletion.ticket offset=8 size=8 */
    uint64_t mechanism_id; /* NXMEM_LAYOUT_FIELD: NxmemReleaseCompletion.mechanism_id offset=16 size=8 */
    uint64_t allocation_id; /* NXMEM_LAYOUT_FIELD: NxmemReleaseCompletion.allocation_id offset=24 size=8 */
    NxmemReleaseOutcome outcome; /* NXMEM_LAYOUT_FIELD: NxmemReleaseCompletion.outcome offset=32 size=296 */
} NxmemReleaseCompletion;

/* NXMEM_LAYOUT: NxmemReclaimRequest size=32 align=8 */
typedef struct NxmemReclaimRequest {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemReclaimRequest.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemReclaimRequest.reserved offset=4 size=4 */
    uint64_t mechanism_id; /* NXMEM_LAYOUT_FIELD: NxmemReclaimRequest.mechanism_id offset=8 size=8 */
    NxmemDeviceId device; /* NXMEM_LAYOUT_FIELD: NxmemReclaimRequest.device offset=16 size=8 */
    uint64_t bytes; /* NXMEM_LAYOUT_FIELD: NxmemReclaimRequest.bytes offset=24 size=8 */
} NxmemReclaimRequest;

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

/* NXMEM_LAYOUT: NxmemSharedPrefixCommitRequest size=136 align=8 */
typedef struct NxmemSharedPrefixCommitRequest {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitRequest.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitRequest.reserved offset=4 size=4 */
    NxmemSharedPrefixHandle prefix; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitRequest.prefix offset=8 size=64 */
    NxmemAllocation allocation; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitRequest.allocation offset=72 size=56 */
    uint64_t byte_offset; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitRequest.byte_offset offset=128 size=8 */
} NxmemSharedPrefixCommitRequest;

/* NXMEM_LAYOUT: NxmemSharedPrefixCommitInfo size=32 align=8 */
typedef struct NxmemSharedPrefixCommitInfo {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitInfo.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitInfo.reserved offset=4 size=4 */
    uint64_t additional_owned_bytes; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitInfo.additional_owned_bytes offset=8 size=8 */
    uint64_t newly_mapped_bytes; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitInfo.newly_mapped_bytes offset=16 size=8 */
    uint64_t granules; /* NXMEM_LAYOUT_FIELD: NxmemSharedPrefixCommitInfo.granules offset=24 size=8 */
} NxmemSharedPrefixCommitInfo;

/* NXMEM_LAYOUT: NxmemHostCallbacks size=32 align=8 */
typedef struct NxmemHostCallbacks {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemHostCallbacks.struct_size offset=0 size=4 */
    uint32_t abi_minor; /* NXMEM_LAYOUT_FIELD: NxmemHostCallbacks.abi_minor offset=4 size=4 */
    void *host_ctx; /* NXMEM_LAYOUT_FIELD: NxmemHostCallbacks.host_ctx offset=8 size=8 */
    NxmemStatus (*request_reclaim)(void *host_ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_bytes); /* NXMEM_LAYOUT_FIELD: NxmemHostCallbacks.request_reclaim offset=16 size=8 */
    NxmemStatus (*release_completed)(void *host_ctx, const NxmemReleaseCompletion *completion); /* NXMEM_LAYOUT_FIELD: NxmemHostCallbacks.release_completed offset=24 size=8 */
} NxmemHostCallbacks;

/* NXMEM_LAYOUT: NxmemOpenRequest size=32 align=8 */
typedef struct NxmemOpenRequest {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemOpenRequest.struct_size offset=0 size=4 */
    uint32_t abi_minor; /* NXMEM_LAYOUT_FIELD: NxmemOpenRequest.abi_minor offset=4 size=4 */
    NxmemDeviceId device; /* NXMEM_LAYOUT_FIELD: NxmemOpenRequest.device offset=8 size=8 */
    uint64_t required_capability_flags; /* NXMEM_LAYOUT_FIELD: NxmemOpenRequest.required_capability_flags offset=16 size=8 */
    const NxmemHostCallbacks *callbacks; /* NXMEM_LAYOUT_FIELD: NxmemOpenRequest.callbacks offset=24 size=8 */
} NxmemOpenRequest;

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

/* NXMEM_LAYOUT: NxmemVersionRange size=16 align=4 */
typedef struct NxmemVersionRange {
    uint32_t major_min; /* NXMEM_LAYOUT_FIELD: NxmemVersionRange.major_min offset=0 size=4 */
    uint32_t major_max; /* NXMEM_LAYOUT_FIELD: NxmemVersionRange.major_max offset=4 size=4 */
    uint32_t minor_min; /* NXMEM_LAYOUT_FIELD: NxmemVersionRange.minor_min offset=8 size=4 */
    uint32_t minor_max; /* NXMEM_LAYOUT_FIELD: NxmemVersionRange.minor_max offset=12 size=4 */
} NxmemVersionRange;

/* NXMEM_LAYOUT: NxmemNegotiateRequest size=32 align=8 */
typedef struct NxmemNegotiateRequest {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateRequest.struct_size offset=0 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateRequest.reserved offset=4 size=4 */
    NxmemVersionRange host_range; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateRequest.host_range offset=8 size=16 */
    uint64_t host_capability_flags; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateRequest.host_capability_flags offset=24 size=8 */
} NxmemNegotiateRequest;

/* NXMEM_LAYOUT: NxmemNegotiateResponse size=40 align=8 */
typedef struct NxmemNegotiateResponse {
    uint32_t struct_size; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateResponse.struct_size offset=0 size=4 */
    uint32_t agreed_major; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateResponse.agreed_major offset=4 size=4 */
    uint32_t agreed_minor; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateResponse.agreed_minor offset=8 size=4 */
    uint32_t reserved; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateResponse.reserved offset=12 size=4 */
    NxmemVersionRange plugin_range; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateResponse.plugin_range offset=16 size=16 */
    uint64_t capability_flags; /* NXMEM_LAYOUT_FIELD: NxmemNegotiateResponse.capability_flags offset=32 size=8 */
} NxmemNegotiateResponse;

/* The three exports every plugin has. */
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
