#include "quarantine.h"

#include <stddef.h>

#include "mem.h"

static struct nxm_span span_of(uint64_t address, uint64_t bytes)
{
    uint64_t behind = bytes == 0 ? 0 : bytes - 1;

    return (struct nxm_span){ .first = address, .last = behind > UINT64_MAX - address ? UINT64_MAX : address + behind };
}

static bool overlap(const struct nxm_span *a, const struct nxm_span *b)
{
    return a->first <= b->last && b->first <= a->last;
}

void nxm_quarantine_init(struct nxm_quarantine *quarantine)
{
    nxm_lock_init(&quarantine->lock, NXM_RANK_ALLOCATOR);
    quarantine->spans = NULL;
    quarantine->hull = (struct nxm_span){ .first = UINT64_MAX, .last = 0 };
    atomic_init(&quarantine->any, false);
}

void nxm_quarantine_clear(struct nxm_quarantine *quarantine)
{
    for (struct nxm_span *span = quarantine->spans, *next; span != NULL; span = next) {
        next = span->next;
        nxm_mem_free(span);
    }
    nxm_lock_clear(&quarantine->lock);
}

static void widen(struct nxm_span *hull, const struct nxm_span *span)
{
    hull->first = span->first < hull->first ? span->first : hull->first;
    hull->last = span->last > hull->last ? span->last : hull->last;
}

void nxm_quarantine_add(struct nxm_quarantine *quarantine, enum nxm_span_kind kind, uint64_t address, uint64_t bytes)
{
    struct nxm_span span = span_of(address, bytes), *kept = nxm_mem_new(sizeof *kept);

    nxm_lock_acquire(&quarantine->lock);
    if (kept == NULL) {
        widen(&quarantine->hull, &span);
    } else {
        *kept = span;
        kept->kind = kind;
        kept->next = quarantine->spans;
        quarantine->spans = kept;
    }
    atomic_store_explicit(&quarantine->any, true, memory_order_release);
    nxm_lock_release(&quarantine->lock);
}

bool nxm_quarantine_search(struct nxm_quarantine *quarantine, uint64_t address, uint64_t bytes)
{
    struct nxm_span wanted = span_of(address, bytes);
    bool found;

    nxm_lock_acquire(&quarantine->lock);
    found = overlap(&wanted, &quarantine->hull);
    for (const struct nxm_span *span = quarantine->spans; !found && span != NULL; span = span->next)
        found = overlap(&wanted, span);
    nxm_lock_release(&quarantine->lock);
    return found;
}

bool nxm_quarantine_lift(struct nxm_quarantine *quarantine, uint64_t address, uint64_t bytes)
{
    struct nxm_span wanted = span_of(address, bytes), *lifted = NULL;

    nxm_lock_acquire(&quarantine->lock);
    for (struct nxm_span **link = &quarantine->spans, *span; (span = *link) != NULL;) {
        if (span->kind != NXM_SPAN_CONTRADICTED || !overlap(&wanted, span)) {
            link = &span->next;
            continue;
        }
        *link = span->next;
        span->next = lifted;
        lifted = span;
    }
    nxm_lock_release(&quarantine->lock);
    bool any = lifted != NULL;
    for (struct nxm_span *span = lifted, *next; span != NULL; span = next) {
        next = span->next;
        nxm_mem_free(span);
    }
    return any;
}
