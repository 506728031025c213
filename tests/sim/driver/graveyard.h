/* Blocks that are gone, for a while: who made and freed what was at an address, so that a second free can be told
 * from a free of nothing. State lock held. */
#ifndef SIM_GRAVEYARD_H
#define SIM_GRAVEYARD_H

struct sim_block;

#include "trace.h"

void sim_graveyard_bury(const struct sim_block *);
/* The program freed an address that is no live allocation's: says what it was. */
void sim_graveyard_accuse(uint64_t address);
/* The program names, for work, an address in no live block: if it was in one that is gone, says so. False: no grave is
 * there. */
bool sim_graveyard_accuse_use(uint64_t address);

#endif
