/* Graphs: nodes in the order they were added, which is an order they may run in. State lock held. */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "object.h"
#include "work.h"

struct sim_device;

/* cuMemAllocAsync in a capturing stream: the address is given now, the memory exists while the graph says so. */
CUresult sim_graph_capture_alloc(struct sim_stream *, struct sim_device *, uint64_t size, enum sim_fn, CUdeviceptr *);
/* cuMemFreeAsync in a capturing stream, or of graph memory in any stream. */
CUresult sim_graph_free_async(struct sim_stream *, struct sim_block *, enum sim_fn);
/* cuMemFree of graph memory. */
CUresult sim_graph_free_now(struct sim_block *, enum sim_fn);

#endif
