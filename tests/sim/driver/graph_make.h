/* The work of graph nodes from what a program says about them, and what is said about them from their work. State lock held
 * unless it says otherwise. */
#ifndef SIM_GRAPH_MAKE_H
#define SIM_GRAPH_MAKE_H

#include "graph.h"

/* Each gives work of its kind, or the code why not. */
CUresult sim_make_kernel(const CUDA_KERNEL_NODE_PARAMS *, enum sim_fn, struct sim_work **ret_work);
CUresult sim_make_copy(const struct sim_copy *, enum sim_fn, struct sim_work **ret_work);
CUresult sim_make_fill(const struct sim_fill *, enum sim_fn, struct sim_work **ret_work);
CUresult sim_make_host(CUhostFn, void *arg, enum sim_fn, struct sim_work **ret_work);

/* What a kernel, a copy, a fill was asked to be. Parameters of kernels are not kept: their number and sizes are known to code
 * alone; what stands for them belongs to the node. CUDA_ERROR_OUT_OF_MEMORY for that only. */
CUresult sim_tell_kernel(struct sim_work *, CUDA_KERNEL_NODE_PARAMS *ret_params);
void sim_tell_copy(const struct sim_work *, CUDA_MEMCPY3D *ret_params);
void sim_tell_fill(const struct sim_work *, CUDA_MEMSET_NODE_PARAMS *ret_params);

#endif
