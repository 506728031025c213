/* Streams: a queue and a worker each. Work runs in order within its stream, and between streams as events and the
 * legacy stream's rules demand: every such rule is a set of positions (work.h) that must have been passed.
 * Functions need the state lock. */
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "object.h"
#include "order.h"
#include "work.h"

#include <pthread.h>

struct sim_context;
struct sim_capture;
struct sim_graph_node;

enum sim_stream_role { SIM_STREAM_CREATED, SIM_STREAM_LEGACY, SIM_STREAM_PER_THREAD };

struct sim_stream {
    struct sim_object object;
    struct sim_context *context; /* borrowed: a context closes its streams before it goes, then this is NULL */
    struct sim_stream *next;     /* in its context's list */
    enum sim_stream_role role;
    unsigned flags;
    int priority;
    unsigned thread;             /* owner of a per-thread stream */

    struct sim_work *head, **tail;
    uint64_t submitted, done;
    struct sim_track *track;     /* how others remember it */
    struct sim_points known;     /* what its next piece is behind, beside its own */
    bool started;                /* the worker exists; it holds a reference */
    bool busy;                   /* its first piece is running */
    bool scheduled;              /* it is among those of schedule.c */
    struct sim_stream *schedule_next;
    bool held;                   /* the test stopped it */
    uint64_t steps;              /* pieces it may run although held */
    pthread_cond_t wake;

    struct sim_capture *capture; /* set while the stream captures; a reference is held */
    struct sim_graph_node **capture_tail; /* what the next captured node depends on */
    size_t capture_tail_count;
    struct sim_stream *capture_next; /* in its capture's list */
};

/* A stream of the context, in its list; NULL when out of memory. */
struct sim_stream *sim_stream_new(struct sim_context *, enum sim_stream_role, unsigned flags, int priority);
/* The handle ends; queued work still runs. Takes the stream out of its context. */
void sim_stream_close(struct sim_stream *);
/* The stream behind a handle in a form's meaning of 0; the errors of the driver. */
CUresult sim_stream_get(CUstream handle, enum sim_default dflt, struct sim_stream **ret_stream);
/* Takes the work over: captures it, or queues it behind what it must wait for. */
CUresult sim_stream_submit(struct sim_stream *, struct sim_work *);
/* Queues without looking at capture. */
void sim_stream_queue(struct sim_stream *, struct sim_work *);
/* What must be passed for everything in the stream so far (and what stream rules put before it) to be done. */
void sim_stream_position(struct sim_stream *, struct sim_deps *);
void sim_stream_wait(struct sim_stream *);
/* The program is told that all this is done, or is about to wait for it. */
void sim_stream_observe(struct sim_stream *);
bool sim_stream_idle(const struct sim_stream *);
/* May its first piece run now? Runs it: the lock is away meanwhile. */
bool sim_stream_may_run(const struct sim_stream *);
void sim_stream_run_head(struct sim_stream *);
/* A worker thread sees to what is queued. */
void sim_stream_employ(struct sim_stream *);
/* The test's hand on it. */
void sim_stream_hold(struct sim_stream *, bool held);
void sim_stream_step(struct sim_stream *, uint64_t pieces);

/* New streams start held (sim_hold_new_streams). */
extern bool sim_stream_new_held;

#endif
