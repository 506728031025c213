/* The boxes of 2D and 3D copies. */
#ifndef SIM_COPY_H
#define SIM_COPY_H

#include "work.h"

/* Addresses, pitches and slices of a copy's description; takes the state lock for arrays. */
CUresult sim_copy_describe(const CUDA_MEMCPY3D *, struct sim_copy *ret_copy);
/* Is every byte of both ends memory that a copy may name? Takes the state lock. */
CUresult sim_copy_check(const struct sim_copy *);
/* Queues the copy, as cuMemcpyAsync would. Takes the state lock. */
CUresult sim_copy_submit(const struct sim_copy *, CUstream, enum sim_default, enum sim_fn);
/* One line of bytes, waited for or not. Takes the state lock. */
CUresult sim_copy_line(uint64_t dst, uint64_t src, size_t bytes, CUstream, enum sim_default, bool waits, enum sim_fn);
/* Names both ends of w->u.copy. State lock held. */
CUresult sim_copy_touch(struct sim_work *w);

#endif
