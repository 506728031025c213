/* Memory of another process of this user: a handle says where the owner keeps its arena. State lock held. */
#ifndef SIM_IPC_H
#define SIM_IPC_H

#include "block.h"

/* The mapping goes, however often it was opened. */
void sim_ipc_release(struct sim_block *, enum sim_fn);

/* A lock on the owner's file says that somebody has part of its memory open; it goes with the process that has. */
void sim_ipc_claim(int fd, uint64_t offset, uint64_t span);
void sim_ipc_disclaim(int fd, uint64_t offset, uint64_t span);
/* Memory of this process goes: a finding if another has it open. */
void sim_ipc_check_free(const struct sim_block *);

#endif
