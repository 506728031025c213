/* What is wrong with the program's freeing this block, or this address, now. State lock held. */
#ifndef SIM_FREE_CHECK_H
#define SIM_FREE_CHECK_H

#include <stdint.h>

struct sim_block;

void sim_free_check(const struct sim_block *);
/* The address is no live allocation's. */
void sim_free_check_unknown(uint64_t address);

#endif
