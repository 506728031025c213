/* CUDA arrays: rows without gaps in device memory that the program has no address of. State lock held. */
#ifndef SIM_ARRAY_H
#define SIM_ARRAY_H

#include "api.h"
#include "object.h"

struct sim_block;
struct sim_context;

struct sim_array {
    struct sim_object object;
    struct sim_block *block; /* owned */
    size_t pitch, height;    /* bytes a row, rows a slice (1 at least) */
    size_t width, depth;     /* as asked for */
    bool is_level;           /* of a mipmapped array, which destroys it */
    unsigned format, channels, flags, rows;
};

/* Charged to the context's device. */
CUresult sim_array_new(struct sim_context *, const CUDA_ARRAY3D_DESCRIPTOR *, enum sim_fn, struct sim_array **ret_array);
/* Bytes of an element, all channels; 0 for what is no format here. */
size_t sim_array_element(CUarray_format, unsigned channels);
void sim_array_close(struct sim_array *, enum sim_fn);
/* Mipmapped arrays first: they own their levels. */
void sim_mipmap_close_context(struct sim_context *);
void sim_array_close_context(struct sim_context *);

#endif
