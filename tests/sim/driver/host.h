/* Pinned host memory, allocated and registered. State lock held. */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include "block.h"

bool sim_host_is_pinned(const struct sim_block *);
void sim_host_release(struct sim_block *, enum sim_fn);

#endif
