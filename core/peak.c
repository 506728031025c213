#include "peak.h"

static _Atomic uint64_t *credit_of(struct nxm_peak *peak, unsigned class_)
{
    return nxm_peak_credit(peak, nxm_spread_assign(), class_);
}

static void raise_to(_Atomic uint64_t *most, uint64_t to)
{
    uint64_t seen = atomic_load_explicit(most, memory_order_relaxed);

    while (seen < to && !atomic_compare_exchange_weak_explicit(most, &seen, to, memory_order_relaxed, memory_order_relaxed))
        continue;
}

/* The credit first, all of it, and from the sum what is lacking. */
void nxm_peak_take(struct nxm_peak *peak, unsigned class_, uint64_t bytes)
{
    _Atomic uint64_t *credit = credit_of(peak, class_);
    uint64_t there = atomic_load_explicit(credit, memory_order_relaxed), lacking;

    while (!atomic_compare_exchange_weak_explicit(credit, &there, there < bytes ? 0 : there - bytes, memory_order_relaxed,
                                                  memory_order_relaxed))
        continue;
    if (there >= bytes)
        return;
    lacking = bytes - there;
    raise_to(&peak->sums[class_].most,
             atomic_fetch_add_explicit(&peak->sums[class_].taken, lacking, memory_order_relaxed) + lacking);
}

/* Half of what a thread may keep stays with it, so that it is not at once too much again. */
void nxm_peak_give(struct nxm_peak *peak, unsigned class_, uint64_t bytes)
{
    uint64_t allowed = nxm_peak_most(peak, class_) / 64, there, kept;
    _Atomic uint64_t *credit = credit_of(peak, class_);

    if (allowed < NXM_PEAK_CREDIT)
        allowed = NXM_PEAK_CREDIT;
    there = atomic_load_explicit(credit, memory_order_relaxed);
    do {
        kept = bytes > allowed - there || there > allowed ? allowed / 2 : there + bytes;
    } while (!atomic_compare_exchange_weak_explicit(credit, &there, kept, memory_order_relaxed, memory_order_relaxed));
    atomic_fetch_sub_explicit(&peak->sums[class_].taken, there + bytes - kept, memory_order_relaxed);
}
