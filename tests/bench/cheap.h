/* Addresses that cost next to nothing to have: each thread has a row of places of one size, the one given back last goes out
 * first. Nothing lies behind them. Owns one thread-local record in whoever includes it; no locks, nothing shared. */
#ifndef CHEAP_H
#define CHEAP_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define CHEAP_PLACE (UINT64_C(64) << 10) /* bytes */

struct cheap {
    uint64_t *back; /* places that were given back */
    uint64_t count, capacity, next;
};

static __thread struct cheap cheap;

static inline uint64_t cheap_begin(void)
{
    static _Atomic uint64_t threads;

    return CHEAP_BASE + (atomic_fetch_add(&threads, 1) << 38);
}

static inline uint64_t cheap_take(uint64_t bytes)
{
    if (cheap.count != 0 && bytes <= CHEAP_PLACE)
        return cheap.back[--cheap.count];
    if (cheap.next == 0)
        cheap.next = cheap_begin();
    uint64_t place = cheap.next;
    cheap.next += (bytes + CHEAP_PLACE - 1) / CHEAP_PLACE * CHEAP_PLACE;
    return place;
}

/* By whichever thread: it keeps the place. */
static inline void cheap_give(uint64_t place)
{
    if (cheap.count == cheap.capacity) {
        cheap.capacity = cheap.capacity ? cheap.capacity * 2 : 4096;
        cheap.back = realloc(cheap.back, cheap.capacity * sizeof *cheap.back);
        if (!cheap.back)
            abort();
    }
    cheap.back[cheap.count++] = place;
}

#endif
