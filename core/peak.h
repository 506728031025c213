/* The most bytes there were at once, of each class of a block table, without a word that all threads write.
 *
 * What a thread gives back it keeps as a credit, and takes from there next time; only what is beyond its credit is added to
 * the sum that all share, and the peak is the most that this sum was. So the peak is exact as long as one thread allocates and frees,
 * and what lives of a class is less than 2^64 bytes.
 * With several it is never too low, and too high by at most what each other one had given back last and kept: no more than 1 MiB
 * or, if that is more, 1/64 of the peak. Any thread, no locks. Owns nothing; all zero needs no initialisation.
 */
#ifndef NXM_PEAK_H
#define NXM_PEAK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spread.h"
#include "stores.h"

#define NXM_PEAK_CLASSES 16u
#define NXM_PEAK_CREDIT (UINT64_C(1) << 20)

/* As far apart as the lines of spread.h, for a thread's is where its line is there. The first stays empty. */
struct nxm_peak_seat {
    _Atomic uint64_t credit[NXM_PEAK_CLASSES]; /* two cache lines; of the threads that sit here, most often one */
};
_Static_assert(sizeof(struct nxm_peak_seat) == sizeof(struct nxm_spread_line), "a place there is a place here");

struct nxm_peak {
    struct nxm_peak_seat seats[NXM_SPREAD_LINES];
    struct {
        _Atomic uint64_t taken, most;
        uint64_t apart[6];
    } sums[NXM_PEAK_CLASSES];
} __attribute__((aligned(64)));

void nxm_peak_take(struct nxm_peak *peak, unsigned class_, uint64_t bytes);
void nxm_peak_give(struct nxm_peak *peak, unsigned class_, uint64_t bytes);

static inline _Atomic uint64_t *nxm_peak_credit(struct nxm_peak *peak, uint64_t here, unsigned class_)
{
    return &((struct nxm_peak_seat *)(void *)((char *)peak->seats + here))->credit[class_];
}

/* The same when it is the thread's own business. False: it is not, and nothing has changed. */
#if NXM_STORES_IN_ORDER

/* Of the seat of one thread alone: no signal handler of it comes between. */
static inline bool nxm_peak_try_take_own(struct nxm_peak *peak, uint64_t here, unsigned class_, uint64_t bytes)
{
    _Atomic uint64_t *credit = nxm_peak_credit(peak, here, class_);
    bool lacking;

    __asm__ volatile("subq %2, %0" : "+m"(*credit), "=@ccc"(lacking) : "er"(bytes) : "memory");
    if (__builtin_expect(!lacking, 1))
        return true;
    __asm__ volatile("addq %1, %0" : "+m"(*credit) : "er"(bytes) : "memory", "cc");
    return false;
}

static inline bool nxm_peak_try_give_own(struct nxm_peak *peak, uint64_t here, unsigned class_, uint64_t bytes)
{
    _Atomic uint64_t *credit = nxm_peak_credit(peak, here, class_);
    bool wrapped;

    __asm__ volatile("addq %2, %0" : "+m"(*credit), "=@ccc"(wrapped) : "er"(bytes) : "memory");
    if (__builtin_expect(!wrapped && !nxm_load_exceeds(credit, NXM_PEAK_CREDIT), 1))
        return true;
    __asm__ volatile("subq %1, %0" : "+m"(*credit) : "er"(bytes) : "memory", "cc");
    return false;
}

#else

static inline bool nxm_peak_try_take_own(struct nxm_peak *peak, uint64_t here, unsigned class_, uint64_t bytes)
{
    _Atomic uint64_t *credit = nxm_peak_credit(peak, here, class_); /* nobody sits on the first: there is no credit */
    uint64_t there = atomic_load_explicit(credit, memory_order_relaxed);

    return there >= bytes && atomic_compare_exchange_strong_explicit(credit, &there, there - bytes, memory_order_relaxed, memory_order_relaxed);
}

static inline bool nxm_peak_try_give_own(struct nxm_peak *peak, uint64_t here, unsigned class_, uint64_t bytes)
{
    _Atomic uint64_t *credit = nxm_peak_credit(peak, here, class_);
    uint64_t there = atomic_load_explicit(credit, memory_order_relaxed);

    return there + bytes <= NXM_PEAK_CREDIT && bytes <= NXM_PEAK_CREDIT &&
           atomic_compare_exchange_strong_explicit(credit, &there, there + bytes, memory_order_relaxed, memory_order_relaxed);
}

#endif

static inline bool nxm_peak_try_take(struct nxm_peak *peak, unsigned class_, uint64_t bytes)
{
    uint32_t here = nxm_spread_here();

    return nxm_spread_is_own(here) && nxm_peak_try_take_own(peak, here, class_, bytes);
}

static inline bool nxm_peak_try_give(struct nxm_peak *peak, unsigned class_, uint64_t bytes)
{
    uint32_t here = nxm_spread_here();

    return nxm_spread_is_own(here) && nxm_peak_try_give_own(peak, here, class_, bytes);
}

static inline uint64_t nxm_peak_most(const struct nxm_peak *peak, unsigned class_)
{
    return atomic_load_explicit(&peak->sums[class_].most, memory_order_relaxed);
}

#endif
