/* Something done once by whoever comes first, while the others wait without holding a lock. Owns nothing; the caller
 * keeps one `struct nxm_turn` per thing. The wait is bounded: a plugin whose start needs another thread's CUDA call
 * must not hang the program, so a waiter that gives up goes on without the thing.
 */
#ifndef NXM_TURN_H
#define NXM_TURN_H

#include <stdatomic.h>

enum nxm_turn_answer { NXM_TURN_YOURS, NXM_TURN_DONE, NXM_TURN_GAVE_UP };

struct nxm_turn {
    _Atomic unsigned state;    /* 0 nobody yet, 1 being done, 2 done */
    _Atomic unsigned given_up; /* 1: a waiter gave up */
};

/* YOURS obliges the caller to call nxm_turn_finish. */
enum nxm_turn_answer nxm_turn_take(struct nxm_turn *turn);
void nxm_turn_finish(struct nxm_turn *turn);

static inline int nxm_turn_is_done(const struct nxm_turn *turn)
{
    return atomic_load_explicit(&turn->state, memory_order_acquire) == 2;
}

#endif
