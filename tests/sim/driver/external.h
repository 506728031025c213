/* Buffers mapped from external memory. State lock held. */
#ifndef SIM_EXTERNAL_H
#define SIM_EXTERNAL_H

#include "block.h"

/* The mapping goes; the program may have lost its name before. */
void sim_external_release(struct sim_block *, enum sim_fn);

#endif
