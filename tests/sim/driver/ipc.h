/* Memory of another process of this user: a handle says where the owner keeps its arena. State lock held. */
#ifndef SIM_IPC_H
#define SIM_IPC_H

#include "block.h"

/* The mapping goes, however often it was opened. */
void sim_ipc_release(struct sim_block *, enum sim_fn);

#endif
