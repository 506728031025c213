/* Process-wide state: the one lock, the life of the driver (cuInit, fork, deinitialise), settings from the
 * environment. The lock guards every object, address map and queue of the simulator; it is never held while a
 * host function or a copy runs. */
#ifndef SIM_STATE_H
#define SIM_STATE_H

#include "api.h"

#include <pthread.h>

struct sim_settings {
    int devices;          /* SIMCUDA_DEVICES, 0..16 */
    uint64_t memory[16];  /* SIMCUDA_MEMORY, bytes of each device (suffixes K M G): a list, whose last entry repeats */
    int version;          /* cuDriverGetVersion, by SIMCUDA_PROFILE */
    uint64_t context_overhead; /* SIMCUDA_CONTEXT_OVERHEAD, bytes a device is without while a context lives */
    uint64_t module_memory;    /* SIMCUDA_MODULE_MEMORY, the same for a module's code */
    uint64_t local_memory;     /* SIMCUDA_LOCAL_MEMORY, taken by a context's first launch */
    int looks;            /* SIMCUDA_LOOKS: what ran, the program is taken to know: 0 never of itself, 1 by host functions,
                           * 2 (default) also by what it finds in host memory */
    bool host_memory;     /* is memory that nobody allocated here device memory too (SIMCUDA_HOST_MEMORY, default 0) */
};

extern struct sim_settings sim_settings;

enum sim_life { SIM_FRESH, SIM_READY, SIM_GONE, SIM_FORKED };

enum sim_life sim_life(void);
CUresult sim_start(void); /* cuInit's work, idempotent */
void sim_stop(void);      /* every later call answers CUDA_ERROR_DEINITIALIZED */

void sim_lock(void);
void sim_unlock(void);
pthread_mutex_t *sim_state_mutex(void); /* for a condition variable of one's own */
/* Waits until something has completed; the lock is held before and after. */
void sim_wait_progress(void);
/* The same, but no longer than until then (CLOCK_REALTIME), and never by running work: false when the time is up. */
bool sim_wait_progress_until(const struct timespec *);
/* The same for a moment at most, for who must look at memory that the program writes. */
void sim_wait_a_moment(void);
/* Something completed: every waiter looks again. Lock held. */
void sim_progress(void);

#endif
