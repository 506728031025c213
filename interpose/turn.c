#include "turn.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAIT_SECONDS 5

enum nxm_turn_answer nxm_turn_take(struct nxm_turn *turn)
{
    unsigned nobody = 0;

    if (atomic_compare_exchange_strong(&turn->state, &nobody, 1))
        return NXM_TURN_YOURS;

    struct timespec now, limit = { .tv_sec = WAIT_SECONDS, .tv_nsec = 0 };
    clock_gettime(CLOCK_MONOTONIC, &now);
    time_t end = now.tv_sec + WAIT_SECONDS;
    while (!nxm_turn_is_done(turn) && !atomic_load(&turn->given_up) && now.tv_sec < end) {
        syscall(SYS_futex, &turn->state, FUTEX_WAIT_PRIVATE, 1u, &limit, NULL, 0);
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
    if (nxm_turn_is_done(turn))
        return NXM_TURN_DONE;
    atomic_store(&turn->given_up, 1); /* what could not be waited for once is not waited for again */
    return NXM_TURN_GAVE_UP;
}

void nxm_turn_finish(struct nxm_turn *turn)
{
    atomic_store_explicit(&turn->state, 2, memory_order_release);
    syscall(SYS_futex, &turn->state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
