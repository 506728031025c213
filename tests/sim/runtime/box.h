/* The runtime's description of a three-dimensional copy, turned into the driver's. Takes no lock; any thread. */
#ifndef SIM_RUNTIME_BOX_H
#define SIM_RUNTIME_BOX_H

#include "state.h"

/* A context must be current. Lengths along x count elements of the array where an array takes part, else bytes. */
cudaError_t rt_box_describe(const struct cudaMemcpy3DParms *, CUDA_MEMCPY3D *ret_copy);

#endif
