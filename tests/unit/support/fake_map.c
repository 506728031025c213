#include "fake_map.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct fake_backed {
    struct fake_backed *next;
    uint64_t id, bytes, granules; /* a bit for each that is committed */
};

struct fake_prefix {
    struct fake_prefix *next;
    uint64_t handle, mechanism_id, bytes, references, views;
};

struct fake_view {
    struct fake_view *next;
    struct fake_prefix *prefix;
    uint64_t block;
};

/* The context of both vtables: not the allocator's, so that a host that mixes them up is found out. */
struct fake_mapper {
    struct fake_mapper *next;
    uint64_t mechanism_id;
    NxmemDeviceId device;
    void *allocator;
    fake_allocate allocate;
};

struct fake_map fake_map;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct fake_mapper *mappers;
static struct fake_backed *backed;
static struct fake_prefix *prefixes;
static struct fake_view *views;
static uint64_t last_handle;

static NxmemStatus status_of(uint32_t code)
{
    return (NxmemStatus){ .code = code };
}

#define FREE_LIST(type, list)                              \
    for (struct type *next; list != NULL; list = next) {   \
        next = list->next;                                 \
        free(list);                                        \
    }

void fake_map_reset(void)
{
    FREE_LIST(fake_mapper, mappers)
    FREE_LIST(fake_backed, backed)
    FREE_LIST(fake_view, views)
    FREE_LIST(fake_prefix, prefixes)
    memset(&fake_map, 0, sizeof fake_map);
}

/* --- virtual backing ------------------------------------------------------------------------------- */

static uint64_t bits_of(const NxmemByteRange *range)
{
    uint64_t first = range->offset / FAKE_GRANULE, bits = 0;
    uint64_t end = range->bytes == 0 ? first : (range->offset + range->bytes + FAKE_GRANULE - 1) / FAKE_GRANULE;

    for (uint64_t i = first; i < end; i++)
        bits |= UINT64_C(1) << i;
    return bits;
}

static uint64_t bytes_of(uint64_t bits)
{
    return (uint64_t)__builtin_popcountll(bits) * FAKE_GRANULE;
}

/* The mutex is held. */
static struct fake_backed *find_backed(uint64_t id)
{
    struct fake_backed *found = backed;

    while (found != NULL && found->id != id)
        found = found->next;
    return found;
}

static void note_ranges(const NxmemByteRange *ranges, uint64_t count)
{
    fake_map.last_range_count = count;
    for (uint64_t i = 0; i < count && i < FAKE_MAP_RANGES; i++)
        fake_map.last_ranges[i] = ranges[i];
}

static NxmemStatus allocate_committed(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    struct fake_mapper *mapper = ctx;
    NxmemStatus status = mapper->allocate(mapper->allocator, request, result);
    struct fake_backed *made;

    fake_map.last_ctx = ctx;
    fake_map.last_request = *request;
    note_ranges(request->committed_ranges, request->committed_range_count);
    if (status.code != 0)
        return status;
    made = calloc(1, sizeof *made);
    made->id = request->allocation_id;
    made->bytes = request->bytes;
    for (uint64_t i = 0; i < request->committed_range_count; i++)
        made->granules |= bits_of(&request->committed_ranges[i]);
    result->mapped_bytes = result->owned_bytes = bytes_of(made->granules);
    pthread_mutex_lock(&mutex);
    made->next = backed;
    backed = made;
    pthread_mutex_unlock(&mutex);
    return status;
}

static NxmemStatus commit_range(void *ctx, const NxmemRangeRequest *request)
{
    struct fake_backed *block;

    fake_map.commits++;
    fake_map.last_ctx = ctx;
    fake_map.last_range = *request;
    if (fake_map.commit_status != 0)
        return status_of(fake_map.commit_status);
    pthread_mutex_lock(&mutex);
    block = find_backed(request->allocation.allocation_id);
    if (block != NULL)
        block->granules |= bits_of(&request->range);
    pthread_mutex_unlock(&mutex);
    return status_of(block == NULL ? NXMEM_STATUS_UNKNOWN_ALLOCATION : 0);
}

static NxmemStatus decommit_range(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped)
{
    struct fake_backed *block;

    fake_map.decommits++;
    fake_map.last_ctx = ctx;
    fake_map.last_range = *request;
    if (fake_map.decommit_status != 0) {
        *unmapped = 77; /* on failure it means nothing */
        return status_of(fake_map.decommit_status);
    }
    pthread_mutex_lock(&mutex);
    block = find_backed(request->allocation.allocation_id);
    if (block != NULL) {
        *unmapped = bytes_of(block->granules & bits_of(&request->range)) + fake_map.unmapped_more;
        block->granules &= ~bits_of(&request->range);
    }
    pthread_mutex_unlock(&mutex);
    return status_of(block == NULL ? NXMEM_STATUS_UNKNOWN_ALLOCATION : 0);
}

static NxmemStatus mapped_bytes_for_ranges(void *ctx, const NxmemRangeRequest *requests, uint64_t count, uint64_t *mapped)
{
    uint64_t bits = 0;

    fake_map.costs++;
    fake_map.last_ctx = ctx;
    fake_map.last_range_count = count;
    if (fake_map.cost_status != 0)
        return status_of(fake_map.cost_status);
    for (uint64_t i = 0; i < count; i++) {
        fake_map.last_range = requests[i];
        bits |= bits_of(&requests[i].range);
    }
    *mapped = bytes_of(bits);
    return status_of(0);
}

static NxmemStatus mapped_bytes_for_allocation(void *ctx, const NxmemAllocRequest *request, uint64_t *mapped)
{
    uint64_t bits = 0;

    fake_map.costs++;
    fake_map.last_ctx = ctx;
    fake_map.last_request = *request;
    note_ranges(request->committed_ranges, request->committed_range_count);
    if (fake_map.cost_status != 0)
        return status_of(fake_map.cost_status);
    for (uint64_t i = 0; i < request->committed_range_count; i++)
        bits |= bits_of(&request->committed_ranges[i]);
    *mapped = bytes_of(bits);
    return status_of(0);
}

static NxmemStatus committed_bytes(void *ctx, const NxmemAllocation *allocation, uint64_t *committed)
{
    struct fake_backed *block;

    fake_map.committed_calls++;
    fake_map.last_ctx = ctx;
    *committed = 77;
    pthread_mutex_lock(&mutex);
    block = find_backed(allocation->allocation_id);
    if (block != NULL)
        *committed = bytes_of(block->granules);
    pthread_mutex_unlock(&mutex);
    if (fake_map.committed_status != 0)
        return status_of(fake_map.committed_status);
    return status_of(block == NULL ? NXMEM_STATUS_UNKNOWN_ALLOCATION : 0);
}

bool fake_map_backs(uint64_t allocation_id)
{
    bool found;

    pthread_mutex_lock(&mutex);
    found = find_backed(allocation_id) != NULL;
    pthread_mutex_unlock(&mutex);
    return found;
}

/* --- shared mapping -------------------------------------------------------------------------------- */

/* The mutex is held. */
static struct fake_prefix *find_prefix(const NxmemSharedPrefixHandle *handle)
{
    struct fake_prefix *prefix = prefixes;

    while (prefix != NULL && (prefix->handle != handle->handle || prefix->mechanism_id != handle->mechanism_id))
        prefix = prefix->next;
    return prefix;
}

/* The mutex is held. Handle references and views, in either order. */
static void free_if_over(struct fake_prefix *prefix)
{
    struct fake_prefix **link = &prefixes;

    if (prefix->references != 0 || prefix->views != 0)
        return;
    while (*link != prefix)
        link = &(*link)->next;
    *link = prefix->next;
    free(prefix);
    fake_map.prefix_frees++;
}

static NxmemStatus create_shared_prefix(void *ctx, uint64_t mechanism_id, uint64_t bytes, NxmemSharedPrefixHandle *handle)
{
    struct fake_mapper *mapper = ctx;
    struct fake_prefix *prefix;

    fake_map.prefix_creates++;
    fake_map.last_ctx = ctx;
    fake_map.last_made_before = *handle;
    if (fake_map.prefix_status != 0) {
        handle->handle = 99; /* on failure it means nothing */
        return status_of(fake_map.prefix_status);
    }
    if (mechanism_id != mapper->mechanism_id)
        return status_of(NXMEM_STATUS_WRONG_MECHANISM);
    prefix = calloc(1, sizeof *prefix);
    pthread_mutex_lock(&mutex);
    prefix->handle = ++last_handle;
    prefix->mechanism_id = mechanism_id + fake_map.prefix_other_mechanism;
    prefix->bytes = bytes;
    prefix->references = 1;
    prefix->next = prefixes;
    prefixes = prefix;
    pthread_mutex_unlock(&mutex);
    fake_map.handles++;
    *handle = (NxmemSharedPrefixHandle){
        .struct_size = fake_map.prefix_size == 0 ? sizeof *handle : fake_map.prefix_size,
        .mechanism_id = prefix->mechanism_id,
        .handle = fake_map.prefix_handle_zero ? 0 : prefix->handle,
        .device = { mapper->device.tier, mapper->device.index + fake_map.prefix_other_device },
        .device_ptr = 0x5000,
        .committed_physical_bytes = (bytes + FAKE_GRANULE - 1) / FAKE_GRANULE * FAKE_GRANULE,
        .mapped_bytes = 0,
        .requested_bytes = bytes,
    };
    fake_map.last_prefix = *handle;
    return status_of(0);
}

static NxmemStatus release_shared_prefix(void *ctx, const NxmemSharedPrefixHandle *handle)
{
    struct fake_prefix *prefix;

    fake_map.prefix_releases++;
    fake_map.last_ctx = ctx;
    fake_map.last_released = *handle;
    pthread_mutex_lock(&mutex);
    prefix = find_prefix(handle);
    if (prefix != NULL) {
        prefix->references--;
        fake_map.handles--;
        free_if_over(prefix);
    }
    pthread_mutex_unlock(&mutex);
    return status_of(prefix == NULL ? NXMEM_STATUS_UNKNOWN_ALLOCATION : 0);
}

static NxmemStatus incremental_owned_bytes(void *ctx, const NxmemSharedPrefixHandle *handle, uint64_t *bytes)
{
    (void)handle;
    fake_map.prefix_costs++;
    fake_map.last_ctx = ctx;
    *bytes = fake_map.prefix_cost_status == 0 ? fake_map.view_owned : 77;
    return status_of(fake_map.prefix_cost_status);
}

static NxmemStatus commit_shared_prefix(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                                        NxmemSharedPrefixCommitInfo *info)
{
    struct fake_prefix *prefix;
    struct fake_view *view;

    fake_map.prefix_commits++;
    fake_map.last_ctx = ctx;
    fake_map.last_commit = *request;
    fake_map.last_info_before = *info;
    if (fake_map.prefix_commit_status != 0)
        return status_of(fake_map.prefix_commit_status);
    view = calloc(1, sizeof *view);
    pthread_mutex_lock(&mutex);
    prefix = find_prefix(&request->prefix);
    if (prefix != NULL && prefix->references != 0) {
        view->prefix = prefix;
        view->block = request->allocation.allocation_id;
        view->next = views;
        views = view;
        prefix->views++;
        fake_map.views++;
    }
    pthread_mutex_unlock(&mutex);
    if (view->prefix == NULL) {
        free(view);
        return status_of(NXMEM_STATUS_UNKNOWN_ALLOCATION);
    }
    *info = (NxmemSharedPrefixCommitInfo){
        .struct_size = fake_map.info_size == 0 ? sizeof *info : fake_map.info_size,
        .additional_owned_bytes = fake_map.view_owned,
        .newly_mapped_bytes = fake_map.view_mapped,
        .granules = fake_map.view_mapped / FAKE_GRANULE,
    };
    if (fake_map.in_prefix_commit != NULL)
        fake_map.in_prefix_commit();
    return status_of(0);
}

/* --- for the allocator ----------------------------------------------------------------------------- */

void fake_map_publish(uint64_t mechanism_id, NxmemDeviceId device, void *ctx, fake_allocate allocate,
                      NxmemVirtualBackingVtable *ret_backing, NxmemSharedMappingVtable *ret_sharing)
{
    struct fake_mapper *mapper = calloc(1, sizeof *mapper);

    *mapper = (struct fake_mapper){ mappers, mechanism_id, device, ctx, allocate };
    mappers = mapper;
    *ret_backing = (NxmemVirtualBackingVtable){
        .struct_size = sizeof *ret_backing,
        .abi_minor = 1,
        .mechanism_id = mechanism_id,
        .ctx = mapper,
        .allocate_committed = allocate_committed,
        .commit_range = commit_range,
        .decommit_range = decommit_range,
        .mapped_bytes_for_ranges = mapped_bytes_for_ranges,
        .mapped_bytes_for_allocation = mapped_bytes_for_allocation,
        .committed_bytes = committed_bytes,
    };
    *ret_sharing = (NxmemSharedMappingVtable){
        .struct_size = sizeof *ret_sharing,
        .abi_minor = 1,
        .mechanism_id = mechanism_id,
        .ctx = mapper,
        .create_shared_prefix = create_shared_prefix,
        .release_shared_prefix = release_shared_prefix,
        .incremental_owned_bytes = incremental_owned_bytes,
        .commit_shared_prefix = commit_shared_prefix,
    };
    if (fake_map.bend_backing != NULL)
        fake_map.bend_backing(ret_backing);
    if (fake_map.bend_sharing != NULL)
        fake_map.bend_sharing(ret_sharing);
}

void fake_map_block_left(uint64_t allocation_id)
{
    pthread_mutex_lock(&mutex);
    for (struct fake_view **link = &views; *link != NULL;) {
        struct fake_view *view = *link;

        if (view->block != allocation_id) {
            link = &view->next;
            continue;
        }
        *link = view->next;
        view->prefix->views--;
        fake_map.views--;
        free_if_over(view->prefix);
        free(view);
    }
    for (struct fake_backed **link = &backed; *link != NULL;) {
        struct fake_backed *block = *link;

        if (block->id != allocation_id) {
            link = &block->next;
            continue;
        }
        *link = block->next;
        free(block);
    }
    pthread_mutex_unlock(&mutex);
}
