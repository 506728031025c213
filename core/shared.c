#include "shared.h"

#include <stdatomic.h>
#include <stddef.h>

#include "accounts.h"
#include "allocator_state.h"
#include "error.h"
#include "lock.h"
#include "mem.h"
#include "prefix.h"
#include "status.h"
#include "terminal.h"
#include "views.h"

struct nxm_shared {
    atomic_uint references;
    struct nxm_allocator *allocator; /* one reference */
    uint64_t bytes;                  /* asked for; what the plugin makes of it is in the handle */
    NxmemSharedPrefixHandle handle;
};

static int no_slot(const struct nxm_allocator *allocator, const char *slot, struct nxm_error *ret_error)
{
    if (allocator->shared_mapping.struct_size == 0)
        return nxm_error_set(ret_error, NXM_EUNSUPPORTED, 0, "mechanism %s has no shared mapping", allocator->name);
    return nxm_error_set(ret_error, NXM_EUNSUPPORTED, 0, "mechanism %s provides no %s", allocator->name, slot);
}

/* --- the handle -------------------------------------------------------------------------------------------- */

static void give_back(const struct nxm_allocator *allocator, const NxmemSharedPrefixHandle *handle)
{
    nxm_lock_assert_none();
    allocator->shared_mapping.release_shared_prefix(allocator->shared_mapping.ctx, handle);
}

static int judge(const struct nxm_allocator *allocator, const NxmemSharedPrefixHandle *handle, struct nxm_error *ret_error)
{
    const char *why = NULL;

    if (handle->handle == 0)
        why = "the handle is zero";
    else if (handle->mechanism_id != allocator->vtable.mechanism_id)
        why = "it belongs to another mechanism";
    else if (handle->device.tier != allocator->device.tier || handle->device.index != allocator->device.index)
        why = "it is on another device";
    if (why == NULL)
        return NXM_OK;
    return nxm_error_set(ret_error, NXM_ECONTRACT, 0, "mechanism %s: shared prefix: %s (report it to the plugin's author)",
                         allocator->name, why);
}

/* On success the caller owes the handle back. */
static int create(struct nxm_allocator *allocator, uint64_t bytes, NxmemSharedPrefixHandle *ret_handle,
                  struct nxm_error *ret_error)
{
    NxmemSharedPrefixHandle handle = { .struct_size = sizeof handle };
    NxmemStatus status;
    int result;

    nxm_lock_assert_none();
    status = allocator->shared_mapping.create_shared_prefix(allocator->shared_mapping.ctx, allocator->vtable.mechanism_id,
                                                            bytes, &handle);
    if (status.code != NXMEM_STATUS_OK)
        return nxm_status_error(&status, "create_shared_prefix", ret_error);
    nxm_prefix_trim(&handle, sizeof handle);
    handle.struct_size = sizeof handle; /* from here on it is we who send it */
    result = judge(allocator, &handle, ret_error);
    if (result == NXM_OK)
        *ret_handle = handle;
    else if (handle.handle != 0)
        give_back(allocator, &handle); /* as it came: the plugin knows whose it is */
    return result;
}

int nxm_shared_new(struct nxm_allocator *allocator, uint64_t bytes, struct nxm_shared **ret_shared,
                   struct nxm_error *ret_error)
{
    struct nxm_shared *shared;
    int result;

    if (allocator->shared_mapping.create_shared_prefix == NULL)
        return no_slot(allocator, "create_shared_prefix", ret_error);
    if (allocator->shared_mapping.release_shared_prefix == NULL)
        return no_slot(allocator, "release_shared_prefix", ret_error); /* it could never be given back */
    shared = nxm_mem_new(sizeof *shared);
    if (shared == NULL)
        return nxm_error_set(ret_error, NXM_ENOMEM, 0, "no memory for a shared prefix's records");
    result = create(allocator, bytes, &shared->handle, ret_error);
    if (result != NXM_OK) {
        nxm_mem_free(shared);
        return result;
    }
    atomic_init(&shared->references, 1);
    nxm_allocator_ref(allocator);
    shared->allocator = allocator;
    shared->bytes = bytes;
    *ret_shared = shared;
    return NXM_OK;
}

void nxm_shared_ref(struct nxm_shared *shared)
{
    atomic_fetch_add_explicit(&shared->references, 1, memory_order_relaxed);
}

void nxm_shared_unref(struct nxm_shared *shared)
{
    struct nxm_allocator *allocator;

    if (shared == NULL || atomic_fetch_sub_explicit(&shared->references, 1, memory_order_acq_rel) != 1)
        return;
    allocator = shared->allocator;
    give_back(allocator, &shared->handle);
    nxm_mem_free(shared);
    nxm_allocator_unref(allocator);
}

void nxm_shared_describe(const struct nxm_shared *shared, struct nxm_shared_facts *ret_facts)
{
    *ret_facts = (struct nxm_shared_facts){
        .bytes = shared->bytes,
        .device_address = shared->handle.device_ptr,
        .committed_bytes = shared->handle.committed_physical_bytes,
        .mapped = shared->handle.mapped_bytes,
    };
}

/* --- using it ---------------------------------------------------------------------------------------------- */

static int check_own(const struct nxm_allocator *allocator, const struct nxm_shared *shared, struct nxm_error *ret_error)
{
    if (shared->allocator == allocator)
        return NXM_OK;
    return nxm_error_set(ret_error, NXM_EINVAL, 0, "mechanism %s: the shared prefix belongs to another allocator",
                         allocator->name);
}

int nxm_shared_cost(struct nxm_allocator *allocator, const struct nxm_shared *shared, uint64_t *ret_owned,
                    struct nxm_error *ret_error)
{
    uint64_t owned = 0;
    NxmemStatus status;
    int result = check_own(allocator, shared, ret_error);

    if (result != NXM_OK)
        return result;
    if (allocator->shared_mapping.incremental_owned_bytes == NULL)
        return no_slot(allocator, "incremental_owned_bytes", ret_error);
    nxm_lock_assert_none();
    status = allocator->shared_mapping.incremental_owned_bytes(allocator->shared_mapping.ctx, &shared->handle, &owned);
    if (status.code != NXMEM_STATUS_OK)
        return nxm_status_refusal(&status, "incremental_owned_bytes", ret_error);
    *ret_owned = owned;
    return NXM_OK;
}

/* Its bytes count, its alignment does not (14.5). */
static int find_room(struct nxm_allocator *allocator, const struct nxm_shared *shared, uint64_t address, uint64_t bytes,
                     uint64_t offset, struct nxm_block *ret_block, struct nxm_error *ret_error)
{
    int result = nxm_accounts_find(allocator, address, NULL, ret_block, ret_error);

    if (result != NXM_OK)
        return result;
    if (ret_block->bytes != bytes)
        return nxm_error_set(ret_error, NXM_EINVAL, 0, "the block at 0x%llx has %llu bytes, not %llu",
                             (unsigned long long)address, (unsigned long long)ret_block->bytes, (unsigned long long)bytes);
    if (offset > bytes || shared->bytes > bytes - offset)
        return nxm_error_set(ret_error, NXM_EINVAL, 0, "a prefix of %llu bytes does not fit into %llu at %llu",
                             (unsigned long long)shared->bytes, (unsigned long long)bytes, (unsigned long long)offset);
    return NXM_OK;
}

static NxmemStatus commit(struct nxm_allocator *allocator, const struct nxm_shared *shared, const struct nxm_block *block,
                          uint64_t offset, NxmemSharedPrefixCommitInfo *ret_info)
{
    NxmemSharedPrefixCommitRequest request = {
        .struct_size = sizeof request,
        .prefix = shared->handle,
        .allocation = nxm_terminal_allocation(&allocator->vtable, block),
        .byte_offset = offset,
    };
    NxmemStatus status;

    *ret_info = (NxmemSharedPrefixCommitInfo){ .struct_size = sizeof *ret_info };
    nxm_lock_assert_none();
    status = allocator->shared_mapping.commit_shared_prefix(allocator->shared_mapping.ctx, &request, ret_info);
    nxm_prefix_trim(ret_info, sizeof *ret_info);
    return status;
}

int nxm_shared_commit(struct nxm_allocator *allocator, const struct nxm_shared *shared, uint64_t address, uint64_t bytes,
                      uint64_t offset, struct nxm_shared_commit *ret_commit, struct nxm_error *ret_error)
{
    NxmemSharedPrefixCommitInfo info;
    struct nxm_block block;
    NxmemStatus status;
    uint64_t view;
    int result = check_own(allocator, shared, ret_error);

    if (result != NXM_OK)
        return result;
    if (allocator->shared_mapping.commit_shared_prefix == NULL)
        return no_slot(allocator, "commit_shared_prefix", ret_error);
    result = find_room(allocator, shared, address, bytes, offset, &block, ret_error);
    if (result != NXM_OK)
        return result;
    view = nxm_views_enter(&allocator->views, block.id);
    if (view == 0)
        return nxm_error_set(ret_error, NXM_ENOMEM, 0, "no memory to record a view");
    status = commit(allocator, shared, &block, offset, &info);
    if (status.code != NXMEM_STATUS_OK) {
        nxm_views_withdraw(&allocator->views, block.id, view);
        return nxm_status_error(&status, "commit_shared_prefix", ret_error);
    }
    *ret_commit = (struct nxm_shared_commit){
        .owned = nxm_accounts_believe(allocator, info.additional_owned_bytes, shared->bytes),
        .mapped = nxm_accounts_believe(allocator, info.newly_mapped_bytes, shared->bytes),
        .granules = info.granules,
    };
    nxm_views_confirm(&allocator->views, block.id, view, ret_commit->owned, ret_commit->mapped);
    return NXM_OK;
}
