#include "door.h"

#include <sched.h>
#include <stdatomic.h>

#include "thread.h"

#define WAIT_SPINS 10000
#define SHARDS 64

static _Atomic bool closed;

/* Spread, so that threads do not share a line. */
static struct {
    _Alignas(64) _Atomic unsigned threads;
} inside[SHARDS];

static _Atomic unsigned *inside_shard(void)
{
    return &inside[nxm_thread_number() % SHARDS].threads;
}

void nxm_door_count_in(void)
{
    atomic_fetch_add(inside_shard(), 1);
}

void nxm_door_count_out(void)
{
    atomic_fetch_sub(inside_shard(), 1);
}

bool nxm_door_is_closed(void)
{
    return atomic_load(&closed);
}

void nxm_door_close(void)
{
    atomic_store(&closed, true);
}

unsigned nxm_door_wait(void)
{
    unsigned others = 0;

    for (int spin = 0; spin < WAIT_SPINS; spin++) {
        others = 0;
        for (int i = 0; i < SHARDS; i++)
            others += atomic_load(&inside[i].threads);
        if (others == 0 || nxm_thread.inside != 0)
            break;
        sched_yield();
    }
    return others;
}
