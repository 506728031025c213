/* Synchronous memory: device, pitched, managed. State lock held. */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include "block.h"

/* Device address space charged to the device: a block owned by `context`, NULL with the driver's code otherwise. */
CUresult sim_memory_new(struct sim_device *, struct sim_context *, enum sim_block_kind, uint64_t size, enum sim_fn,
                        struct sim_block **ret_block);
/* Back to the device, by whichever way it was made; the program may no longer name it. */
void sim_memory_release(struct sim_block *, enum sim_fn);
/* The context has waited for its own work and is about to end: what others do with its memory had better be over. */
void sim_memory_judge_context(struct sim_context *);
/* All synchronous memory of a context, at its end. */
void sim_memory_release_context(struct sim_context *, enum sim_fn);
uint64_t sim_memory_span(uint64_t size);

#endif
