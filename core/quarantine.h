/* The address spans that a plugin kept back: never refunded, never accepted from it again (nxmem spec 20.2).
 * Owns its list, for as long as the allocator lives. Any thread; takes NXM_RANK_ALLOCATOR inside.
 */
#ifndef NXM_QUARANTINE_H
#define NXM_QUARANTINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lock.h"

enum nxm_span_kind {
    NXM_SPAN_KEPT,         /* the plugin said so, or left it in doubt */
    NXM_SPAN_CONTRADICTED, /* it said that nothing had happened to a block, and had given its address away already */
};

struct nxm_span {
    uint64_t first, last; /* inclusive */
    enum nxm_span_kind kind;
    struct nxm_span *next;
};

struct nxm_quarantine {
    struct nxm_lock lock;
    struct nxm_span *spans;
    struct nxm_span hull; /* covers every span for which there was no memory; empty while first > last */
    atomic_bool any;      /* spares the usual case the lock */
};

void nxm_quarantine_init(struct nxm_quarantine *quarantine);
void nxm_quarantine_clear(struct nxm_quarantine *quarantine);

/* Never fails: without memory it refuses more than it must. Zero bytes still name their address. */
void nxm_quarantine_add(struct nxm_quarantine *quarantine, enum nxm_span_kind kind, uint64_t address, uint64_t bytes);
bool nxm_quarantine_search(struct nxm_quarantine *quarantine, uint64_t address, uint64_t bytes);

/* Forgets what was contradicted there. Whether anything was. */
bool nxm_quarantine_lift(struct nxm_quarantine *quarantine, uint64_t address, uint64_t bytes);

static inline bool nxm_quarantine_overlaps(struct nxm_quarantine *quarantine, uint64_t address, uint64_t bytes)
{
    return atomic_load_explicit(&quarantine->any, memory_order_acquire) && nxm_quarantine_search(quarantine, address, bytes);
}

#endif
