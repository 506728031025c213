/* Stream memory operations: writes of values and waits for them, one at a time and in batches. State lock held. */
#ifndef SIM_MEMOP_H
#define SIM_MEMOP_H

#include "graph.h"

/* The forms differ: what the second one takes, and no longer takes. */
enum sim_memop_api { SIM_MEMOP_V1, SIM_MEMOP_V2 };

/* A piece of work for each operation of a batch. CUDA_ERROR_INVALID_VALUE if one of them is wrong. */
CUresult sim_memop_make(const CUstreamBatchMemOpParams *ops, unsigned count, unsigned flags, enum sim_memop_api,
                        enum sim_fn, struct sim_templates *ret_works);

/* Queues the works, or makes them a node of that type where the stream captures. Takes them over in any case. */
CUresult sim_memop_submit(struct sim_stream *, struct sim_templates *works, CUgraphNodeType);

#endif
