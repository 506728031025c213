/* Faults of virtual backing and of shared mapping. */
#include "plugins/common/status.h"
#include "plugins/faulty/host/faulty_host.h"

static const uint64_t huge = UINT64_C(1) << 60;

/* --- ranges -------------------------------------------------------------------------------------------------------- */

static NxmemStatus commit_range(void *ctx, const NxmemRangeRequest *request)
{
    struct fh_state *state = fh_of_backing(ctx);

    fh_count(FH_COUNT_BackingCalls);
    if (state->fault == FH_SPANS_UNCHECKED)
        return nxp_ok();
    return state->kit_backing.commit_range(ctx, request);
}

static NxmemStatus decommit_range(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_bytes)
{
    struct fh_state *state = fh_of_backing(ctx);
    NxmemStatus status;

    fh_count(FH_COUNT_BackingCalls);
    if (state->fault == FH_SPANS_UNCHECKED) {
        *unmapped_bytes = request->range.bytes;
        return nxp_ok();
    }
    status = state->kit_backing.decommit_range(ctx, request, unmapped_bytes);
    if (status.code == NXMEM_STATUS_OK && state->fault == FH_DECOMMIT_OVERCLAIMS)
        *unmapped_bytes = huge;
    return status;
}

static NxmemStatus mapped_bytes_for_ranges(void *ctx, const NxmemRangeRequest *requests, uint64_t request_count,
                                           uint64_t *mapped_bytes)
{
    struct fh_state *state = fh_of_backing(ctx);

    fh_count(FH_COUNT_BackingCalls);
    if (state->fault == FH_SPANS_UNCHECKED || state->fault == FH_ESTIMATES_LOW) {
        *mapped_bytes = 0;
        return nxp_ok();
    }
    return state->kit_backing.mapped_bytes_for_ranges(ctx, requests, request_count, mapped_bytes);
}

static NxmemStatus mapped_bytes_for_allocation(void *ctx, const NxmemAllocRequest *request, uint64_t *mapped_bytes)
{
    struct fh_state *state = fh_of_backing(ctx);

    if (state->fault == FH_ESTIMATES_LOW) {
        *mapped_bytes = 0;
        return nxp_ok();
    }
    return state->kit_backing.mapped_bytes_for_allocation(ctx, request, mapped_bytes);
}

/* --- prefixes ------------------------------------------------------------------------------------------------------ */

/* Which of the faults was handed out is undone where the handle comes back. */
static NxmemSharedPrefixHandle as_made(const struct fh_state *state, const NxmemSharedPrefixHandle *handle)
{
    NxmemSharedPrefixHandle own = *handle;

    own.mechanism_id = state->lazy.base.vtable.mechanism_id;
    own.device = state->lazy.base.vtable.device;
    return own;
}

static NxmemStatus create_shared_prefix(void *ctx, uint64_t mechanism_id, uint64_t bytes,
                                        NxmemSharedPrefixHandle *handle)
{
    struct fh_state *state = fh_of_mapping(ctx);
    NxmemStatus status;

    if (state->fault == FH_PREFIX_ZERO) { /* nothing is made, so nothing is lost */
        handle->handle = 0;
        handle->mechanism_id = mechanism_id;
        handle->device = state->lazy.base.vtable.device;
        return nxp_ok();
    }
    status = state->kit_mapping.create_shared_prefix(ctx, mechanism_id, bytes, handle);
    if (status.code != NXMEM_STATUS_OK)
        return status;
    handle->mechanism_id += state->fault == FH_PREFIX_FOREIGN;
    handle->device.index += state->fault == FH_PREFIX_ELSEWHERE;
    return status;
}

static NxmemStatus release_shared_prefix(void *ctx, const NxmemSharedPrefixHandle *handle)
{
    struct fh_state *state = fh_of_mapping(ctx);
    NxmemSharedPrefixHandle own = as_made(state, handle);

    fh_count(FH_COUNT_PrefixReleases);
    if (state->fault == FH_PREFIX_FOREIGN || state->fault == FH_PREFIX_ELSEWHERE)
        handle = &own;
    return state->kit_mapping.release_shared_prefix(ctx, handle);
}

static NxmemStatus commit_shared_prefix(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                                        NxmemSharedPrefixCommitInfo *info)
{
    struct fh_state *state = fh_of_mapping(ctx);
    NxmemStatus status = state->kit_mapping.commit_shared_prefix(ctx, request, info);

    if (status.code == NXMEM_STATUS_OK && state->fault == FH_COMMIT_OVERCLAIMS) {
        info->additional_owned_bytes = huge;
        info->newly_mapped_bytes = huge;
    }
    return status;
}

/* --- the tables ------------------------------------------------------------------------------------------------------ */

static void empty_backing(NxmemVirtualBackingVtable *backing)
{
    backing->allocate_committed = NULL;
    backing->commit_range = NULL;
    backing->decommit_range = NULL;
    backing->mapped_bytes_for_ranges = NULL;
    backing->mapped_bytes_for_allocation = NULL;
    backing->committed_bytes = NULL;
}

static void empty_mapping(NxmemSharedMappingVtable *mapping)
{
    mapping->create_shared_prefix = NULL;
    mapping->retain_shared_prefix = NULL;
    mapping->release_shared_prefix = NULL;
    mapping->incremental_owned_bytes = NULL;
    mapping->commit_shared_prefix = NULL;
}

void fh_ranges_install(struct fh_state *state)
{
    NxmemVirtualBackingVtable *backing = &state->lazy.backing;
    NxmemSharedMappingVtable *mapping = &state->lazy.mapping;

    if (state->lazy.base.vtable.virtual_backing != NULL) {
        backing->commit_range = commit_range;
        backing->decommit_range = decommit_range;
        backing->mapped_bytes_for_ranges = mapped_bytes_for_ranges;
        backing->mapped_bytes_for_allocation = mapped_bytes_for_allocation;
    }
    if (state->lazy.base.vtable.shared_mapping != NULL) {
        mapping->create_shared_prefix = create_shared_prefix;
        mapping->release_shared_prefix = release_shared_prefix;
        mapping->commit_shared_prefix = commit_shared_prefix;
    }
    if (state->fault == FH_BACKING_EMPTY)
        empty_backing(backing);
    if (state->fault == FH_MAPPING_EMPTY)
        empty_mapping(mapping);
}
