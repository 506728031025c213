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
    bool host;                        /* in host memory: no device pays for it */
    bool imported;                    /* another process's: pointers are imported, nothing is allocated */
    int fd;                           /* what is exported, or the memory of an imported pool; -1: none */
    uint64_t owner_id;                /* of an imported pool: its id there */
    unsigned handle_types;            /* CUmemAllocationHandleType */
    uint64_t limit;                   /* maxSize, 0: none */
    uint64_t used, used_high;         /* live and waiting blocks */
    uint64_t reserved, reserved_high; /* charged to the device */
    uint64_t threshold;               /* bytes kept at a synchronisation */
    int reuse_events, reuse_opportunistic, reuse_dependencies;
    struct sim_block *waiting;        /* freed in stream order, the release has not run */
    unsigned access;                  /* bit n: device n may read and write */
};

/* One of a device, or of the host (`host`; the device only lends its addresses). */
struct sim_pool *sim_pool_new(struct sim_device *, bool is_default, bool host);
/* Memory that came through sim_pool_import_pointer goes. */
void sim_pool_import_end(struct sim_block *);
/* Bytes that a device's pools keep and nobody uses. */
uint64_t sim_pool_cached(struct sim_device *);
/* The block of that address whose release is queued and has not run, or NULL. */
struct sim_block *sim_pool_freed_block(uint64_t address);
/* Releases what is left of a device's stream-ordered memory. */
void sim_pool_release_device(struct sim_device *, enum sim_fn);
/* cuMemFree of stream-ordered memory: at once, without any wait. */
CUresult sim_pool_free_now(struct sim_block *, enum sim_fn);
/* A synchronisation happened: what is cached above the threshold goes back. */
void sim_pool_trim_all(void);
/* The device is short of memory: whatever its pools cache goes back. */
void sim_pool_trim_device(struct sim_device *);

#endif
