/* Pinned host memory, allocated and registered. State lock held. */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include "block.h"

void sim_host_release(struct sim_block *, enum sim_fn);

#endif
