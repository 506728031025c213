/* Who reaches whose memory. State lock held. */
#ifndef SIM_PEER_H
#define SIM_PEER_H

#include "block.h"

/* May a kernel of this context touch the block? Copies may, always: the driver sees to it. */
bool sim_peer_reaches(const struct sim_context *, const struct sim_block *);

#endif
