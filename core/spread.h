/* Counters that many threads move and few read: each thread adds to a line of its own, and who wants to know sums the lines.
 * Owns a thread-local number; the lines are the caller's. Any thread; no locks.
 *
 * What the sum of such a counter says. It is exact when nobody moves it. While somebody does, lines are read one after the
 * other, so two movements may be seen half: a sum is then an estimate, and may be "below zero" for a moment. Two uses are
 * exact all the same, and every gate rests on one of them:
 *   - it only falls any more (whoever raises it was shut out before it is read): a sum of 0 stays 0;
 *   - each thread lowers what it raised itself ("I am inside"): no line is ever below zero, so a sum of 0 says
 *     that every thread was outside at some moment since the reading began.
 */
#ifndef NXM_SPREAD_H
#define NXM_SPREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "own.h"
#include "stores.h"

#define NXM_SPREAD_LINES 128u
#define NXM_SPREAD_SHARED 32u /* so many of them, the first, may be several threads'; each other is one thread's for good */
#define NXM_SPREAD_SUMS 8u

/* So far apart that wherever the memory begins no two lines meet in one of the processor's. */
struct nxm_spread_line {
    atomic_uint_fast64_t sums[NXM_SPREAD_SUMS];
    uint64_t apart[16 - NXM_SPREAD_SUMS];
};

struct nxm_spread {
    struct nxm_spread_line lines[NXM_SPREAD_LINES];
};

/* Where a thread's line is (own.h, `spread`): its distance from the first in bytes. The first, 0, is that of all who were given none yet, so that
 * nobody need ask. It is given to a thread when it comes in from the program, or begins a row of ids: between raising and lowering
 * what must meet on one line nothing of that happens, or the line is kept in a variable. */
uint32_t nxm_spread_assign(void); /* what it has, or a new one */

/* What a thread is given after so many others. In 64 bits, for 32 a process that goes on beginning threads does use up, and its lines of
 * one thread alone would be given again. */
uint32_t nxm_spread_place_after(uint64_t others);

static inline uint32_t nxm_spread_here(void)
{
    return nxm_own.spread;
}

/* Nobody else moves it. */
static inline bool nxm_spread_is_own(uint32_t here)
{
    return here >= NXM_SPREAD_SHARED * sizeof(struct nxm_spread_line);
}

/* Sequentially consistent: what is looked at afterwards is looked at after others can see it. To lower is to add what wraps. */
static inline void nxm_spread_add_at(struct nxm_spread *spread, uint32_t here, unsigned sum, uint64_t amount)
{
    struct nxm_spread_line *line = (struct nxm_spread_line *)(void *)((char *)spread->lines + here);

    atomic_fetch_add_explicit(&line->sums[sum], amount, memory_order_seq_cst);
}

/* Others see it no earlier than what came before, and no later than what is stored afterwards; but what is looked at afterwards may
 * be looked at before others see it. A thread's own line nobody else moves, so one plain instruction is enough, which no signal
 * handler of the thread can cut in two. */
static inline void nxm_spread_note_at(struct nxm_spread *spread, uint32_t here, unsigned sum, uint64_t amount)
{
    struct nxm_spread_line *line = (struct nxm_spread_line *)(void *)((char *)spread->lines + here);

#if NXM_STORES_IN_ORDER
    if (__builtin_expect(nxm_spread_is_own(here), 1)) {
        __asm__ volatile("addq %1, %0" : "+m"(line->sums[sum]) : "er"(amount) : "memory", "cc");
        return;
    }
#endif
    atomic_fetch_add_explicit(&line->sums[sum], amount, memory_order_release);
}

static inline void nxm_spread_raise(struct nxm_spread *spread, unsigned sum, uint64_t amount)
{
    nxm_spread_add_at(spread, nxm_spread_here(), sum, amount);
}

static inline void nxm_spread_lower(struct nxm_spread *spread, unsigned sum, uint64_t amount)
{
    nxm_spread_add_at(spread, nxm_spread_here(), sum, 0 - amount);
}

uint64_t nxm_spread_sum(const struct nxm_spread *spread, unsigned sum);

/* A sum for people: what is below zero for a moment is 0. */
static inline uint64_t nxm_spread_shown(uint64_t sum)
{
    return sum > UINT64_MAX / 2 ? 0 : sum;
}

static inline uint64_t nxm_spread_count(const struct nxm_spread *spread, unsigned sum)
{
    return nxm_spread_shown(nxm_spread_sum(spread, sum));
}

#endif
