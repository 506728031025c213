/* Modules, libraries, functions, kernels: no code is read; every name is found and every launch computes nothing.
 * State lock held. */
#ifndef SIM_MODULE_H
#define SIM_MODULE_H

struct sim_context;

/* Before a context's memory goes: the variables in it are forgotten. */
void sim_module_forget_context(struct sim_context *);
void sim_module_close_context(struct sim_context *);

#endif
