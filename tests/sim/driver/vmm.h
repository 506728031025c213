/* Virtual memory: reservations, physical handles, maps. State lock held. */
#ifndef SIM_VMM_H
#define SIM_VMM_H

#include "api.h"

/* Is the address inside a reservation of the program's? */
bool sim_vmm_reserved(uint64_t address);

#endif
