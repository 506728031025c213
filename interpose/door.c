#include "door.h"

#include <sched.h>
#include <stdatomic.h>

#include "thread.h"

#define WAIT_SPINS 10000

struct nxm_spread nxm_door_inside;
_Atomic bool nxm_door_closed;

void nxm_door_close(void)
{
    atomic_store(&nxm_door_closed, true);
}

unsigned nxm_door_wait(void)
{
    unsigned others = 0;

    for (int spin = 0; spin < WAIT_SPINS; spin++) {
        others = (unsigned)nxm_spread_sum(&nxm_door_inside, 0);
        if (others == 0 || nxm_thread.inside != 0)
            break;
        sched_yield();
    }
    return others;
}
