/* Shared prefixes: nothing is really mapped, references and views are counted. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crooked.h"

static void reap(struct prefix *prefix) {
    struct prefix **link = &prefixes;
    if (prefix->handles > 0 || prefix->views > 0) return;
    while (*link != prefix) link = &(*link)->next;
    *link = prefix->next;
    free(prefix);
}

/* Under the lock. */
void drop_views(struct block *block) {
    for (unsigned i = 0; i < block->view_count; i++) {
        struct prefix *prefix = block->views[i];
        if (WHEN(VIEW_ENDS_EARLY) && prefix->views == 0) continue;
        alive.live_views--;
        prefix->views--;
        if (WHEN(HANDLE_ENDS_EARLY) && prefix->views == 0) {
            alive.live_capabilities -= prefix->handles;
            prefix->handles = 0;
        }
        if (!WHEN(VIEW_ENDS_EARLY)) reap(prefix);
    }
    block->view_count = 0;
}

static struct prefix *find_prefix(uint64_t id) {
    struct prefix *prefix = prefixes;
    while (prefix && prefix->id != id) prefix = prefix->next;
    return prefix;
}

static NxmemStatus create_shared_prefix(void *ctx, uint64_t mechanism_id, uint64_t bytes, NxmemSharedPrefixHandle *handle) {
    static uint64_t last;
    struct allocator *self = ctx;
    NxmemStatus status = identity(self, mechanism_id, self->slots.device);
    struct prefix *prefix;

    if (status.code != NXMEM_STATUS_OK) return status;
    if (bytes > UINT64_C(1) << 40 && !WHEN(PREFIX_WRAPS)) return say(NXMEM_STATUS_OUT_OF_MEMORY, "that much is not to be had");
    prefix = calloc(1, sizeof *prefix);
    pthread_mutex_lock(&lock);
    prefix->id = WHEN(HANDLE_ZERO) ? 0 : ++last;
    prefix->handles = 1;
    prefix->next = prefixes;
    prefixes = prefix;
    alive.live_capabilities++;
    pthread_mutex_unlock(&lock);
    uint64_t mapped = (bytes + GRANULE - 1) / GRANULE * GRANULE;
    NxmemSharedPrefixHandle answer = {.struct_size = sizeof answer,
                                      .mechanism_id = mechanism_id,
                                      .handle = prefix->id,
                                      .device = self->slots.device,
                                      .committed_physical_bytes = mapped,
                                      .mapped_bytes = mapped,
                                      .requested_bytes = bytes};
    reply(handle, &answer, sizeof answer, WHEN(PREFIX_OVERRUN));
    return status;
}

/* Under the lock. A prefix that has handles. */
static NxmemStatus check(const struct allocator *self, const NxmemSharedPrefixHandle *handle, struct prefix **ret_prefix) {
    NxmemStatus status = identity(self, handle->mechanism_id, WHEN(PREFIX_UNCHECKED) ? self->slots.device : handle->device);
    if (status.code != NXMEM_STATUS_OK) return status;
    *ret_prefix = find_prefix(handle->handle);
    if (!*ret_prefix || ((*ret_prefix)->handles == 0 && !WHEN(DEAD_PREFIX_USED)))
        return say(NXMEM_STATUS_UNKNOWN_ALLOCATION, "no such prefix");
    return status;
}

static NxmemStatus retain_shared_prefix(void *ctx, const NxmemSharedPrefixHandle *handle) {
    struct prefix *prefix;
    pthread_mutex_lock(&lock);
    NxmemStatus status = check(ctx, handle, &prefix);
    if (status.code == NXMEM_STATUS_OK && WHEN(PREFIX_RACES)) {
        uint64_t handles = prefix->handles, counted = alive.live_capabilities;
        pthread_mutex_unlock(&lock);
        usleep(100);
        pthread_mutex_lock(&lock);
        prefix->handles = handles + 1;
        alive.live_capabilities = counted + 1;
    } else if (status.code == NXMEM_STATUS_OK) {
        prefix->handles++;
        alive.live_capabilities += WHEN(RETAIN_UNCOUNTED) ? 0 : 1;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static void ask_for_nothing(struct allocator *self) {
    NxmemReclaimRequest ask = {.struct_size = sizeof ask, .mechanism_id = self->slots.mechanism_id, .device = self->slots.device, .bytes = 1};
    uint64_t reclaimed;
    if (self->callbacks.request_reclaim) self->callbacks.request_reclaim(self->callbacks.host_ctx, &ask, &reclaimed);
}

static NxmemStatus release_shared_prefix(void *ctx, const NxmemSharedPrefixHandle *handle) {
    struct prefix *prefix;
    if (WHEN(PREFIX_ASKS)) ask_for_nothing(ctx);
    if (WHEN(PREFIX_RACES)) usleep(100); /* or all threads would write the same in step */
    pthread_mutex_lock(&lock);
    NxmemStatus status = check(ctx, handle, &prefix);
    if (status.code == NXMEM_STATUS_OK) {
        prefix->handles -= prefix->handles > 0;
        alive.live_capabilities -= alive.live_capabilities > 0 && !(WHEN(RETAIN_UNCOUNTED) && prefix->handles > 0);
        if (WHEN(VIEW_ENDS_EARLY) && prefix->handles == 0) {
            alive.live_views -= prefix->views;
            prefix->views = 0;
        } else {
            reap(prefix);
        }
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static NxmemStatus incremental_owned_bytes(void *ctx, const NxmemSharedPrefixHandle *handle, uint64_t *owned_bytes) {
    struct prefix *prefix;
    pthread_mutex_lock(&lock);
    NxmemStatus status = check(ctx, handle, &prefix);
    pthread_mutex_unlock(&lock);
    *owned_bytes = WHEN(CHARGES_AGAIN) ? GRANULE : 0;
    return status;
}

static NxmemStatus commit_shared_prefix(void *ctx, const NxmemSharedPrefixCommitRequest *request, NxmemSharedPrefixCommitInfo *info) {
    struct allocator *self = ctx;
    struct prefix *prefix;
    struct block *block;
    uint64_t bytes = request->prefix.requested_bytes, offset = request->byte_offset;
    NxmemSharedPrefixCommitInfo answer = {.struct_size = sizeof answer, .newly_mapped_bytes = WHEN(VIEW_MAPS_MUCH) ? UINT64_C(1) << 60 : request->prefix.mapped_bytes, .granules = bytes / GRANULE};

    if (WHEN(COST_UNTOLD) || WHEN(CHARGES_AGAIN)) answer.additional_owned_bytes = GRANULE;
    NxmemStatus status = identity(self, request->allocation.mechanism_id, request->allocation.device);
    if (status.code != NXMEM_STATUS_OK) return status;
    pthread_mutex_lock(&lock);
    status = check(self, &request->prefix, &prefix);
    block = find_for_ranges(request->allocation.allocation_id);
    if (status.code == NXMEM_STATUS_OK && !block)
        status = say(WHEN(VIEW_ANYWHERE) ? NXMEM_STATUS_OK : NXMEM_STATUS_UNKNOWN_ALLOCATION, "not live here");
    else if (status.code == NXMEM_STATUS_OK &&
             (WHEN(VIEW_WRAPS) ? offset + bytes > block->bytes : offset > block->bytes || bytes > block->bytes - offset))
        status = say(NXMEM_STATUS_INVALID_ARGUMENT, "beyond the end");
    if (status.code == NXMEM_STATUS_OK && block) {
        block->views[block->view_count++] = prefix;
        prefix->views++;
        alive.live_views++;
    }
    pthread_mutex_unlock(&lock);
    if (status.code == NXMEM_STATUS_OK) reply(info, &answer, sizeof answer, WHEN(VIEW_OVERRUN));
    return status;
}

void fill_mapping(struct allocator *self) {
    self->mapping = (NxmemSharedMappingVtable){sizeof self->mapping,  1,
                                               self->slots.mechanism_id, self,
                                               create_shared_prefix,  retain_shared_prefix,
                                               release_shared_prefix, incremental_owned_bytes,
                                               commit_shared_prefix};
    self->slots.shared_mapping = &self->mapping;
}
