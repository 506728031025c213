/* A lock of one word, zero when it is free and was never taken: for sections of some ten instructions. The word counts what was
 * changed under it, so that a reader may look without taking it and see afterwards whether what it saw was whole: odd, somebody
 * is inside; another number than before, somebody was. Any thread. Owns nothing; all zero needs no initialisation.
 *
 * Who finds it taken tries for a while and then sleeps a moment, for the holder may have been taken off its processor: nobody is
 * ever woken, so that letting go is one plain store.
 */
#ifndef NXM_SPIN_H
#define NXM_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lock.h"
#include "stores.h"

struct nxm_spin {
    _Atomic uint64_t turns; /* odd: taken */
};

void nxm_spin_acquire(struct nxm_spin *spin, enum nxm_lock_rank rank); /* however long that lasts */

/* Takes it if it is free. */
static inline bool nxm_spin_try(struct nxm_spin *spin, enum nxm_lock_rank rank)
{
#if NXM_STORES_IN_ORDER /* the bit that is missing, in one instruction */
    bool taken;

    __asm__ volatile("lock btsq $0, %0" : "+m"(spin->turns), "=@ccc"(taken) : : "memory");
    if (__builtin_expect(taken, 0))
        return false;
#else
    uint64_t turns = atomic_load_explicit(&spin->turns, memory_order_relaxed);

    if (__builtin_expect((turns & 1) != 0 || !atomic_compare_exchange_strong_explicit(&spin->turns, &turns, turns + 1, memory_order_acquire,
                                                                                      memory_order_relaxed), 0))
        return false;
#endif
    nxm_lock_note(spin, rank);
    return true;
}

static inline void nxm_spin_release(struct nxm_spin *spin)
{
    nxm_lock_unnote(spin);
#if NXM_STORES_IN_ORDER /* one instruction */
    __asm__ volatile("addq $1, %0" : "+m"(spin->turns) : : "memory", "cc");
#else
    atomic_store_explicit(&spin->turns, atomic_load_explicit(&spin->turns, memory_order_relaxed) + 1, memory_order_release);
#endif
}

/* Looks without taking it. What is read in between must be read with acquire, and written (inside) with release. */
static inline uint64_t nxm_spin_look(struct nxm_spin *spin)
{
    return atomic_load_explicit(&spin->turns, memory_order_acquire);
}

static inline bool nxm_spin_was_quiet(struct nxm_spin *spin, uint64_t looked)
{
    return (looked & 1) == 0 && atomic_load_explicit(&spin->turns, memory_order_relaxed) == looked;
}

#endif
