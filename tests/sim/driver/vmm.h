/* Virtual memory: reservations, physical handles, maps. State lock held. */
#ifndef SIM_VMM_H
#define SIM_VMM_H

#include "api.h"

/* Is the address inside a reservation of the program's? */
bool sim_vmm_reserved(uint64_t address);

struct sim_block;
struct sim_device;
/* Of a map: is its memory the host's, what handle types it may be exported as, is it made for RDMA, what may a device
 * do with it (CUmemAccess_flags). */
bool sim_vmm_is_host(const struct sim_block *);
unsigned long long sim_vmm_handle_types(const struct sim_block *);
bool sim_vmm_is_rdma_capable(const struct sim_block *);
unsigned sim_vmm_access(const struct sim_block *, const struct sim_device *);

#endif
