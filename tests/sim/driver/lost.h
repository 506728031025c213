/* Contexts that an error has cost: whatever they are asked for afterwards is answered with that error, until they are
 * destroyed, or reset where they are primary ones. Errors come from sim_fail alone: no work of the simulator's fails. */
#ifndef SIM_LOST_H
#define SIM_LOST_H

#include "api.h"

struct sim_context;

/* The call answers with this code: if it is one of those after which a context is of no use, the current one is lost. Takes
 * the state lock. */
void sim_lost_by(CUresult code);
/* May the call go on? What makes, chooses and ends contexts may, and what asks about devices. Takes the state lock, if
 * any context is lost at all. */
CUresult sim_lost_check(enum sim_fn);
/* The error that cost this context, or what it is a part of; CUDA_SUCCESS: none did. State lock held. */
CUresult sim_lost_of(const struct sim_context *);
/* The context begins again, or ends. State lock held. */
void sim_lost_forget(struct sim_context *);

#endif
