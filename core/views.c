#include "views.h"

#include <stddef.h>

#include "mem.h"

static struct nxm_view **bucket_of(struct nxm_views *views, uint64_t block)
{
    return &views->buckets[block % NXM_VIEW_BUCKETS];
}

static void free_list(struct nxm_view *view)
{
    for (struct nxm_view *next; view != NULL; view = next) {
        next = view->next;
        nxm_mem_free(view);
    }
}

void nxm_views_init(struct nxm_views *views)
{
    *views = (struct nxm_views){ .last_serial = 0 };
    nxm_lock_init(&views->lock, NXM_RANK_ALLOCATOR);
}

void nxm_views_clear(struct nxm_views *views)
{
    for (unsigned i = 0; i < NXM_VIEW_BUCKETS; i++)
        free_list(views->buckets[i]);
    nxm_lock_clear(&views->lock);
}

uint64_t nxm_views_enter(struct nxm_views *views, uint64_t block)
{
    struct nxm_view *view = nxm_mem_new(sizeof *view), **bucket = bucket_of(views, block);
    uint64_t serial;

    if (view == NULL)
        return 0;
    view->block = block;
    nxm_lock_acquire(&views->lock);
    serial = view->serial = ++views->last_serial;
    view->next = *bucket;
    *bucket = view;
    atomic_fetch_add_explicit(&views->count, 1, memory_order_release);
    nxm_lock_release(&views->lock);
    return serial;
}

void nxm_views_confirm(struct nxm_views *views, uint64_t block, uint64_t serial, uint64_t owned, uint64_t mapped)
{
    nxm_lock_acquire(&views->lock);
    for (struct nxm_view *view = *bucket_of(views, block); view != NULL; view = view->next) {
        if (view->serial != serial)
            continue;
        view->owned = owned;
        view->mapped = mapped;
        views->owned += owned;
        views->mapped += mapped;
    }
    nxm_lock_release(&views->lock);
}

/* Those of the block, or of them the one with this serial (0: all), off the books. The lock is held. */
static struct nxm_view *take(struct nxm_views *views, uint64_t block, uint64_t serial)
{
    struct nxm_view **link = bucket_of(views, block), *taken = NULL;

    while (*link != NULL) {
        struct nxm_view *view = *link;

        if (view->block != block || (serial != 0 && view->serial != serial)) {
            link = &view->next;
            continue;
        }
        *link = view->next;
        view->next = taken;
        taken = view;
        views->owned -= view->owned;
        views->mapped -= view->mapped;
        atomic_fetch_sub_explicit(&views->count, 1, memory_order_relaxed);
    }
    return taken;
}

void nxm_views_drop(struct nxm_views *views, uint64_t block, uint64_t serial)
{
    struct nxm_view *taken;

    nxm_lock_acquire(&views->lock);
    taken = take(views, block, serial);
    nxm_lock_release(&views->lock);
    free_list(taken);
}

void nxm_views_totals(struct nxm_views *views, uint64_t *ret_count, uint64_t *ret_owned, uint64_t *ret_mapped)
{
    *ret_count = *ret_owned = *ret_mapped = 0;
    if (atomic_load_explicit(&views->count, memory_order_acquire) == 0)
        return; /* without the lock: the preload library asks where it may have interrupted anything */
    nxm_lock_acquire(&views->lock);
    *ret_count = atomic_load_explicit(&views->count, memory_order_relaxed);
    *ret_owned = views->owned;
    *ret_mapped = views->mapped;
    nxm_lock_release(&views->lock);
}
