/* Planted faults: for each thing that the oracle claims to see, a small program that does it and its correct twin. Both run
 * once for each seed, with the primary context of device 0 current and nothing allocated, and clean up after
 * themselves. */
#ifndef SIM_PLANT_H
#define SIM_PLANT_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include "../simcuda.h"

struct plant {
    const char *name;
    const char *code;        /* the finding that the fault must have */
    void (*run)(bool fault); /* the fault, or its twin */
};

extern const struct plant order_plants[], flag_plants[], memory_plants[], misuse_plants[], random_plants[]; /* end with an empty row */

/* A call that must succeed, in the fault as in the twin; ends the runner if it does not. */
#define must(call) plant_must((int)(call), #call, __FILE__, __LINE__)
void plant_must(int result, const char *call, const char *file, int line);

/* The program varies with the seed as the schedule does. */
unsigned plant_random(unsigned below);

CUstream plant_stream(void); /* non-blocking */
CUevent plant_event(void);
/* Work that has nothing to do with anything, in a stream, and now and then some more of it. */
void plant_noise(CUstream);

enum { PLANT_BYTES = 4096, PLANT_VA = 2 << 20 };

#endif
