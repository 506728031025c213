#include "forks.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "thread.h"

#define WAIT_MS 1000

static _Atomic unsigned forking;
static _Atomic uint32_t holder; /* the thread's number; 0: nobody */

static bool nobody_forks(void)
{
    return atomic_load(&forking) == 0;
}

static bool nobody_holds(void)
{
    return atomic_load(&holder) == 0;
}

static void wait_until(bool (*condition)(void))
{
    const struct timespec a_millisecond = { .tv_nsec = 1000 * 1000 };
    int saved = errno;

    for (int i = 0; i < WAIT_MS && !condition(); i++)
        nanosleep(&a_millisecond, NULL);
    errno = saved;
}

void nxm_forks_hold(void)
{
    atomic_store(&holder, nxm_thread_number());
    wait_until(nobody_forks);
}

void nxm_forks_let(void)
{
    atomic_store(&holder, 0);
}

void nxm_forks_before(void)
{
    atomic_fetch_add(&forking, 1);
    if (nobody_holds() || atomic_load(&holder) == nxm_thread_number())
        return;
    atomic_fetch_sub(&forking, 1); /* the one that holds forks up goes first */
    wait_until(nobody_holds);
    atomic_fetch_add(&forking, 1);
}

void nxm_forks_in_parent(void)
{
    atomic_fetch_sub(&forking, 1);
}

void nxm_forks_in_child(void)
{
    atomic_store(&forking, 0);
    atomic_store(&holder, 0);
}
