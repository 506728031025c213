/* Rules found once (unwind_rule.h), by image and address. Owns a fixed number of slots; what comes later takes the slot over. Any
 * thread, no lock: the two words of a slot check each other, so a half-written one is a miss. */
#ifndef NXM_RULE_CACHE_H
#define NXM_RULE_CACHE_H

#include <stdatomic.h>
#include <stdint.h>

#define NXM_RULE_SLOTS_LOG2 14
#define NXM_RULE_MIX UINT64_C(0x9E3779B97F4A7C15)

struct nxm_rule_slot {
    _Atomic uint64_t check; /* the key, mixed with the rule */
    _Atomic uint64_t rule;
};

extern struct nxm_rule_slot nxm_rule_slots[1u << NXM_RULE_SLOTS_LOG2];

/* One address of one image: what another image mapped at the same place is told from. */
static inline uint64_t nxm_rule_key(uint64_t address, uint64_t image_number)
{
    return address ^ image_number << 48;
}

static inline struct nxm_rule_slot *nxm_rule_slot(uint64_t key)
{
    return &nxm_rule_slots[key * NXM_RULE_MIX >> (64 - NXM_RULE_SLOTS_LOG2)];
}

/* Where a rule goes that another one has taken the slot of: beside it, in the same cache line. */
static inline struct nxm_rule_slot *nxm_rule_neighbour(uint64_t key)
{
    return &nxm_rule_slots[(uint64_t)(nxm_rule_slot(key) - nxm_rule_slots) ^ 1];
}

static inline uint64_t nxm_rule_in(const struct nxm_rule_slot *slot, uint64_t key)
{
    uint64_t rule = atomic_load_explicit(&slot->rule, memory_order_relaxed);
    uint64_t check = atomic_load_explicit(&slot->check, memory_order_relaxed);

    return check == (key ^ rule * NXM_RULE_MIX) ? rule : 0;
}

/* 0: not in its slot; it may be beside. */
static inline uint64_t nxm_rule_cached(uint64_t key)
{
    return nxm_rule_in(nxm_rule_slot(key), key);
}

/* 0: not known. */
static inline uint64_t nxm_rule_known(uint64_t key)
{
    uint64_t rule = nxm_rule_cached(key);

    return rule != 0 ? rule : nxm_rule_in(nxm_rule_neighbour(key), key);
}

static inline void nxm_rule_keep(uint64_t key, uint64_t rule)
{
    struct nxm_rule_slot *slot = nxm_rule_slot(key), *beside = nxm_rule_neighbour(key);

    if (nxm_rule_cached(key) == 0) { /* two that are used in turn must not drive each other out */
        uint64_t old = atomic_load_explicit(&slot->rule, memory_order_relaxed);
        uint64_t check = atomic_load_explicit(&slot->check, memory_order_relaxed);

        atomic_store_explicit(&beside->rule, old, memory_order_relaxed);
        atomic_store_explicit(&beside->check, check, memory_order_relaxed);
    }
    atomic_store_explicit(&slot->rule, rule, memory_order_relaxed);
    atomic_store_explicit(&slot->check, key ^ rule * NXM_RULE_MIX, memory_order_relaxed);
}

#endif
