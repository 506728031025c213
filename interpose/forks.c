#include "forks.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "core/nap.h"
#include "thread.h"

#define WAIT_MS 1000

static _Atomic unsigned forking;
static _Atomic uint32_t holder; /* the thread's number; 0: nobody */

static void count(void)
{
    nxm_thread.forks++;
    atomic_fetch_add(&forking, 1);
}

static void count_down(void)
{
    atomic_fetch_sub(&forking, 1);
    nxm_thread.forks--;
}

static bool nobody_else_forks(void)
{
    return atomic_load(&forking) == nxm_thread.forks;
}

static bool nobody_holds(void)
{
    return atomic_load(&holder) == 0;
}

static void wait_until(bool (*condition)(void))
{
    for (int i = 0; i < WAIT_MS && !condition(); i++)
        nxm_nap(1000 * 1000);
}

void nxm_forks_hold(void)
{
    atomic_store(&holder, nxm_thread_number());
    wait_until(nobody_else_forks);
}

void nxm_forks_let(void)
{
    atomic_store(&holder, 0);
}

void nxm_forks_before(void)
{
    count();
    if (nobody_holds() || atomic_load(&holder) == nxm_thread_number())
        return;
    count_down(); /* the one that holds forks up goes first */
    wait_until(nobody_holds);
    count();
}

void nxm_forks_in_parent(void)
{
    count_down();
}

void nxm_forks_in_child(void)
{
    atomic_store(&forking, 0);
    nxm_thread.forks = 0;
    atomic_store(&holder, 0);
}
