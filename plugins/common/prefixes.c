/* Shared prefixes (nxmem 1.1, section 14). */
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "plugins/common/lazy.h"
#include "plugins/common/status.h"
#include "plugins/common/tallies.h"

struct nxp_prefix {
    struct nxp_prefix *next; /* in its allocator's list, or in a list of dead ones */
    uint64_t handle;
    uint64_t bytes;      /* as asked for */
    uint64_t references; /* handles */
    uint64_t mappings;   /* views, in live blocks */
    void *memory;
};

/* One mapping of a prefix into a block; hangs on the block. */
struct nxp_view {
    struct nxp_view *next;
    struct nxp_prefix *prefix;
};

static atomic_uint_fast64_t handles, freed;

uint64_t nxp_prefixes_freed(void)
{
    return atomic_load(&freed);
}

static struct nxp_lazy *lazy_of(void *ctx)
{
    return (struct nxp_lazy *)((char *)ctx - offsetof(struct nxp_lazy, mapping));
}

/* --- the end of a prefix -------------------------------------------------------------------------------------- */

/* Under the lock: off the list when nothing holds it any more. The caller frees what this returns. */
static struct nxp_prefix *unlink_if_dead(struct nxp_lazy *lazy, struct nxp_prefix *prefix)
{
    struct nxp_prefix **link = &lazy->prefixes;

    if (prefix->references != 0 || prefix->mappings != 0)
        return NULL;
    while (*link != prefix)
        link = &(*link)->next;
    *link = prefix->next;
    prefix->next = NULL;
    return prefix;
}

/* No lock held; the caller holds a reference to the allocator of its own. */
static void free_dead(struct nxp_lazy *lazy, struct nxp_prefix *dead)
{
    while (dead != NULL) {
        struct nxp_prefix *following = dead->next;

        free(dead->memory);
        free(dead);
        atomic_fetch_add(&freed, 1);
        nxp_allocator_unref(&lazy->base);
        dead = following;
    }
}

void nxp_prefixes_unmap(struct nxp_lazy *lazy, struct nxp_block *block)
{
    struct nxp_lazy_block *own = block->backing;
    struct nxp_prefix *dead = NULL, *gone;
    struct nxp_view *view, *views;

    pthread_mutex_lock(&lazy->base.lock);
    views = own->views;
    own->views = NULL;
    for (view = views; view != NULL; view = view->next) {
        view->prefix->mappings--;
        gone = unlink_if_dead(lazy, view->prefix);
        if (gone != NULL) {
            gone->next = dead;
            dead = gone;
        }
    }
    pthread_mutex_unlock(&lazy->base.lock);
    while ((view = views) != NULL) {
        views = view->next;
        free(view);
        nxp_tally_down(NXP_TALLY_VIEWS);
    }
    free_dead(lazy, dead);
}

/* --- looking one up ------------------------------------------------------------------------------------------- */

static NxmemStatus check_handle(const struct nxp_lazy *lazy, const NxmemSharedPrefixHandle *handle)
{
    if (handle == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no prefix named");
    if (handle->struct_size < sizeof *handle)
        return nxp_status(NXMEM_STATUS_SHORT_STRUCT, "the prefix handle is shorter than at minor 0");
    return nxp_allocator_check_identity(&lazy->base, handle->mechanism_id, handle->device);
}

/* The caller holds the lock. A prefix whose handles are all gone is as good as none (14.7). */
static NxmemStatus find_prefix(struct nxp_lazy *lazy, uint64_t handle, struct nxp_prefix **ret_prefix)
{
    struct nxp_prefix *prefix = lazy->prefixes;

    while (prefix != NULL && prefix->handle != handle)
        prefix = prefix->next;
    if (prefix == NULL || prefix->references == 0)
        return nxp_status(NXMEM_STATUS_UNKNOWN_ALLOCATION, "no handle holds this prefix");
    *ret_prefix = prefix;
    return nxp_ok();
}

/* --- the slots ------------------------------------------------------------------------------------------------- */

static NxmemStatus check_create(const struct nxp_lazy *lazy, uint64_t mechanism_id, uint64_t bytes,
                                const NxmemSharedPrefixHandle *handle)
{
    if (handle == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no place for the handle");
    if (handle->struct_size < sizeof *handle)
        return nxp_status(NXMEM_STATUS_SHORT_STRUCT, "the prefix handle is shorter than at minor 0");
    if (mechanism_id != lazy->base.vtable.mechanism_id)
        return nxp_status(NXMEM_STATUS_WRONG_MECHANISM, "the request names another opened mechanism");
    if (bytes == 0)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "a prefix of no bytes");
    return nxp_ok();
}

static struct nxp_prefix *prefix_new(uint64_t bytes)
{
    struct nxp_prefix *prefix = calloc(1, sizeof *prefix);

    if (prefix == NULL)
        return NULL;
    prefix->memory = nxp_memory_get(nxp_granules_around(0, bytes), NXP_PREFIX_ALIGN);
    if (prefix->memory == NULL) {
        free(prefix);
        return NULL;
    }
    prefix->bytes = bytes;
    prefix->references = 1;
    prefix->handle = atomic_fetch_add(&handles, 1) + 1;
    return prefix;
}

static NxmemStatus create_shared_prefix(void *ctx, uint64_t mechanism_id, uint64_t bytes,
                                        NxmemSharedPrefixHandle *handle)
{
    struct nxp_lazy *lazy = lazy_of(ctx);
    NxmemStatus status = check_create(lazy, mechanism_id, bytes, handle);
    NxmemSharedPrefixHandle answer = {.struct_size = sizeof answer};
    struct nxp_prefix *prefix;

    if (status.code != NXMEM_STATUS_OK)
        return status;
    prefix = prefix_new(bytes);
    if (prefix == NULL)
        return nxp_status(NXMEM_STATUS_OUT_OF_MEMORY, "the system has no memory of this size");
    answer.mechanism_id = mechanism_id;
    answer.handle = prefix->handle;
    answer.device = lazy->base.vtable.device;
    answer.device_ptr = (uintptr_t)prefix->memory;
    answer.committed_physical_bytes = nxp_granules_around(0, bytes);
    answer.mapped_bytes = answer.committed_physical_bytes;
    answer.requested_bytes = bytes;
    nxp_tally_up(NXP_TALLY_CAPABILITIES);
    nxp_allocator_ref(&lazy->base);
    pthread_mutex_lock(&lazy->base.lock);
    prefix->next = lazy->prefixes;
    lazy->prefixes = prefix;
    pthread_mutex_unlock(&lazy->base.lock);
    nxp_answer(handle, &answer, sizeof answer);
    return status;
}

static NxmemStatus retain_shared_prefix(void *ctx, const NxmemSharedPrefixHandle *handle)
{
    struct nxp_lazy *lazy = lazy_of(ctx);
    NxmemStatus status = check_handle(lazy, handle);
    struct nxp_prefix *prefix;

    if (status.code != NXMEM_STATUS_OK)
        return status;
    pthread_mutex_lock(&lazy->base.lock);
    status = find_prefix(lazy, handle->handle, &prefix);
    if (status.code == NXMEM_STATUS_OK) {
        nxp_tally_up(NXP_TALLY_CAPABILITIES);
        prefix->references++;
    }
    pthread_mutex_unlock(&lazy->base.lock);
    return status;
}

static NxmemStatus release_shared_prefix(void *ctx, const NxmemSharedPrefixHandle *handle)
{
    struct nxp_lazy *lazy = lazy_of(ctx);
    NxmemStatus status = check_handle(lazy, handle);
    struct nxp_prefix *prefix, *dead = NULL;

    if (status.code != NXMEM_STATUS_OK)
        return status;
    /* The prefix may hold the last reference to the allocator whose lock this is. */
    nxp_allocator_ref(&lazy->base);
    pthread_mutex_lock(&lazy->base.lock);
    status = find_prefix(lazy, handle->handle, &prefix);
    if (status.code == NXMEM_STATUS_OK) {
        prefix->references--;
        dead = unlink_if_dead(lazy, prefix);
    }
    pthread_mutex_unlock(&lazy->base.lock);
    free_dead(lazy, dead);
    if (status.code == NXMEM_STATUS_OK)
        nxp_tally_down(NXP_TALLY_CAPABILITIES);
    nxp_allocator_unref(&lazy->base);
    return status;
}

/* Charged in full at creation: one more mapping costs nothing. */
static NxmemStatus incremental_owned_bytes(void *ctx, const NxmemSharedPrefixHandle *handle, uint64_t *owned_bytes)
{
    struct nxp_lazy *lazy = lazy_of(ctx);
    struct nxp_prefix *prefix;
    NxmemStatus status;

    if (owned_bytes == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no place for the cost");
    *owned_bytes = 0;
    status = check_handle(lazy, handle);
    if (status.code != NXMEM_STATUS_OK)
        return status;
    pthread_mutex_lock(&lazy->base.lock);
    status = find_prefix(lazy, handle->handle, &prefix);
    pthread_mutex_unlock(&lazy->base.lock);
    return status;
}

static NxmemStatus check_commit(const struct nxp_lazy *lazy, const NxmemSharedPrefixCommitRequest *request,
                                const NxmemSharedPrefixCommitInfo *info)
{
    NxmemStatus status;

    if (request == NULL || info == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "a commit needs a request and a place for the answer");
    if (request->struct_size < sizeof *request || info->struct_size < sizeof *info)
        return nxp_status(NXMEM_STATUS_SHORT_STRUCT, "a commit struct is shorter than at minor 0");
    status = nxp_allocator_check_allocation(&lazy->base, &request->allocation);
    return status.code == NXMEM_STATUS_OK ? check_handle(lazy, &request->prefix) : status;
}

/* The caller holds the lock and gives the view. */
static NxmemStatus map_view(struct nxp_lazy *lazy, const NxmemSharedPrefixCommitRequest *request,
                            struct nxp_view *view)
{
    struct nxp_lazy_block *own;
    struct nxp_block *block;
    NxmemStatus status = find_prefix(lazy, request->prefix.handle, &view->prefix);

    if (status.code == NXMEM_STATUS_OK)
        status = nxp_allocator_find(&lazy->base, &request->allocation, &block);
    if (status.code != NXMEM_STATUS_OK)
        return status;
    if (request->byte_offset > block->bytes || view->prefix->bytes > block->bytes - request->byte_offset)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "the prefix ends beyond the allocation");
    nxp_tally_up(NXP_TALLY_VIEWS);
    view->prefix->mappings++;
    own = block->backing;
    view->next = own->views;
    own->views = view;
    return status;
}

static NxmemStatus commit_shared_prefix(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                                        NxmemSharedPrefixCommitInfo *info)
{
    struct nxp_lazy *lazy = lazy_of(ctx);
    NxmemStatus status = check_commit(lazy, request, info);
    NxmemSharedPrefixCommitInfo answer = {.struct_size = sizeof answer};
    struct nxp_view *view;

    if (status.code != NXMEM_STATUS_OK)
        return status;
    view = calloc(1, sizeof *view);
    if (view == NULL)
        return nxp_status(NXMEM_STATUS_OUT_OF_MEMORY, "no memory for the mapping's own record");
    pthread_mutex_lock(&lazy->base.lock);
    status = map_view(lazy, request, view);
    if (status.code == NXMEM_STATUS_OK)
        answer.newly_mapped_bytes = nxp_granules_around(0, view->prefix->bytes);
    pthread_mutex_unlock(&lazy->base.lock);
    if (status.code != NXMEM_STATUS_OK) {
        free(view);
        return status;
    }
    answer.granules = answer.newly_mapped_bytes / NXP_GRANULE;
    nxp_answer(info, &answer, sizeof answer);
    return status;
}

void nxp_prefixes_publish(struct nxp_lazy *lazy)
{
    NxmemAllocatorVtable *vtable = &lazy->base.vtable;

    lazy->mapping = (NxmemSharedMappingVtable){
        .struct_size = sizeof lazy->mapping,
        .abi_minor = vtable->abi_minor,
        .mechanism_id = vtable->mechanism_id,
        .ctx = &lazy->mapping,
        .create_shared_prefix = create_shared_prefix,
        .retain_shared_prefix = retain_shared_prefix,
        .release_shared_prefix = release_shared_prefix,
        .incremental_owned_bytes = incremental_owned_bytes,
        .commit_shared_prefix = commit_shared_prefix,
    };
    vtable->shared_mapping = &lazy->mapping;
}
