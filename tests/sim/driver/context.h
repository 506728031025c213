/* Contexts and what a thread knows: its stack of contexts, its number, its capture mode. Functions need the state
 * lock, except where they say otherwise. */
#ifndef SIM_CONTEXT_H
#define SIM_CONTEXT_H

#include "api.h"
#include "object.h"
#include "order.h"
#include "work.h"

struct sim_device;
struct sim_stream;

enum { SIM_CONTEXT_DEPTH = 32 };

struct sim_context {
    struct sim_object object;
    struct sim_device *device;
    bool primary;
    bool active;                /* a primary context that was reset or released waits for its next retain */
    struct sim_context *green_of; /* a green context: the primary one that owns what it allocates; it is retained */
    unsigned multiprocessors;     /* of a green context */
    unsigned attached;            /* cuCtxAttach, without the creator */
    unsigned flags;
    unsigned peers;             /* bit n: this context may reach device n */
    struct sim_stream *streams; /* all of them, the default ones included */
    struct sim_stream *legacy;  /* stream 0, made with the context */
    struct sim_deps orphans;    /* the work of streams that were destroyed: it still has to run */
    struct sim_points orphans_known;
    struct sim_deps blocking_orphans; /* those of them that the legacy stream waits for */
    struct sim_points blocking_orphans_known;
    struct sim_deps awaited;    /* what streams still to come are behind */
    struct sim_points awaited_known;
    uint64_t overhead;          /* bytes its device is without while it lives: itself, local memory, module code */
    bool has_local_memory;
    size_t limits[16];
    CUfunc_cache cache;
    CUresult lost;              /* the error that cost it (lost.h) */
};

/* Private to its thread: no lock. */
struct sim_thread_state {
    struct sim_context *stack[SIM_CONTEXT_DEPTH];
    uint64_t ids[SIM_CONTEXT_DEPTH]; /* an address may be used again, an id never */
    unsigned depth;
    unsigned number;                 /* unique for the process's life, 0: not given yet */
    bool in_callback;
    enum sim_fn call;                /* the latest; SIM_FN_COUNT: none yet */
    CUstreamCaptureMode capture_mode;
};

extern _Thread_local struct sim_thread_state sim_thread;

/* This thread's number; no lock needed. Per-thread streams end with their thread. */
unsigned sim_thread_number(void);

/* The current context: CUDA_ERROR_INVALID_CONTEXT without one, CUDA_ERROR_CONTEXT_IS_DESTROYED if it is gone. */
CUresult sim_context_current(struct sim_context **ret_context);
/* A context by handle, NULL meaning the current one. */
CUresult sim_context_get(CUcontext handle, struct sim_context **ret_context);
/* Everything submitted to the context so far, its green contexts' work included: as places to wait for, and with what it is
 * certain to be behind. */
void sim_context_position(struct sim_context *, struct sim_deps *);
void sim_context_gather(struct sim_context *, struct sim_points *);
/* Streams made in it from now on are behind all this. */
void sim_context_await(struct sim_context *, const struct sim_deps *, const struct sim_points *known);
/* The context, and, if it is a primary one, its green contexts, whose activities are its own. */
void sim_context_each(struct sim_context *, void (*visit)(struct sim_context *, void *), void *arg);
/* A context; green when it has a primary one to belong to. NULL when out of memory. */
struct sim_context *sim_context_new(struct sim_device *, struct sim_context *green_of);
/* Whose memory is it that is allocated while this one is current? */
struct sim_context *sim_context_owner(struct sim_context *);
/* Its work ends, then everything that belongs to it goes; stream-ordered memory belongs to a pool and stays. */
void sim_context_empty(struct sim_context *, enum sim_fn);
CUresult sim_context_destroy(CUcontext, enum sim_fn);
CUresult sim_primary_retain(struct sim_device *);
void sim_primary_release(struct sim_device *, enum sim_fn);
/* Everything submitted to the context so far has run. */
void sim_context_wait(struct sim_context *);
/* What nobody allocated and the device is without nevertheless; given back with the context at the latest. */
bool sim_context_charge(struct sim_context *, uint64_t bytes);
void sim_context_refund(struct sim_context *, uint64_t bytes);
/* A launch is about to be queued: the first one brings the context's local memory. */
CUresult sim_context_launches(struct sim_context *);
/* The same for every context of a device. */
void sim_context_wait_device(struct sim_device *);

#endif
