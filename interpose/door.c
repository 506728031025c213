#include "door.h"

#include <sched.h>
#include <stdatomic.h>

#include "calm.h"
#include "thread.h"

#define WAIT_SPINS 10000

struct nxm_spread nxm_door_inside;
_Atomic bool nxm_door_closed;

unsigned nxm_door_announced(const void *scope)
{
    unsigned count = 0;

    for (unsigned i = 0; i < NXM_SPREAD_LINES; i++) {
        uint64_t word = atomic_load(&nxm_door_inside.lines[i].sums[NXM_DOOR_QUIET]);

        count += scope ? word == (uintptr_t)scope : word != 0;
    }
    return count;
}

void nxm_door_close(void)
{
    if (!atomic_exchange(&nxm_door_closed, true))
        nxm_unrest_begin(); /* which never ends */
}

unsigned nxm_door_wait(void)
{
    unsigned others = 0;

    for (int spin = 0; spin < WAIT_SPINS; spin++) {
        others = (unsigned)nxm_spread_sum(&nxm_door_inside, NXM_DOOR_COUNT) + nxm_door_announced(NULL);
        if (others == 0 || nxm_thread.inside != 0)
            break;
        sched_yield();
    }
    return others;
}
