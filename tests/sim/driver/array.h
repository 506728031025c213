/* CUDA arrays: rows without gaps in device memory that the program has no address of. State lock held. */
#ifndef SIM_ARRAY_H
#define SIM_ARRAY_H

#include "object.h"

struct sim_block;
struct sim_context;

struct sim_array {
    struct sim_object object;
    struct sim_block *block; /* owned */
    size_t pitch, height;    /* bytes a row, rows a slice (1 at least) */
    size_t width, depth;     /* as asked for */
    unsigned format, channels, flags, rows;
};

void sim_array_close_context(struct sim_context *);

#endif
