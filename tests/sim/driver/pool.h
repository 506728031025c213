/* Stream-ordered memory and its pools. State lock held. */
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include "block.h"
#include "object.h"

struct sim_stream;

struct sim_pool {
    struct sim_object object;
    struct sim_device *device;
    bool is_default;
    uint64_t used, used_high;         /* live and waiting blocks */
    uint64_t reserved, reserved_high; /* charged to the device */
    uint64_t threshold;               /* bytes kept at a synchronisation */
    int reuse_events, reuse_opportunistic, reuse_dependencies;
    struct sim_block *waiting;        /* freed in stream order, the release has not run */
    unsigned access;                  /* bit n: device n may read and write */
};

struct sim_pool *sim_pool_new(struct sim_device *, bool is_default);
/* cuMemFree of stream-ordered memory: at once, without any wait. */
CUresult sim_pool_free_now(struct sim_block *, enum sim_fn);
/* A synchronisation happened: what is cached above the threshold goes back. */
void sim_pool_trim_all(void);
/* The device is short of memory: whatever its pools cache goes back. */
void sim_pool_trim_device(struct sim_device *);

#endif
