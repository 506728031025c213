/* What is ordered behind what, whatever the interleaving: for each stream, how far into every other stream its next piece
 * of work is certain to be behind; for the program, how far it has been told that streams are. A use of memory that
 * nothing orders behind its allocation, or a release that nothing orders behind a use, is a finding even if this
 * time it went well. State lock held. */
#ifndef SIM_ORDER_H
#define SIM_ORDER_H

#include "trace.h"

struct sim_block;
struct sim_flag_wait;
struct sim_stream;
struct sim_work;

/* A stream as others remember it; it may outlive the stream. */
struct sim_track {
    unsigned refs;
    uint64_t done;     /* pieces that have run */
    uint64_t observed; /* pieces that the program knows to have run */
    uint64_t stream;   /* its handle, for findings to print */
    struct sim_flag_wait *wait; /* owned: it is no stream's but that of one wait for a value (flag.h) */
    int device;        /* ordinal */
};

/* A set of places in streams, one for each stream; references to the tracks are held. */
struct sim_point {
    struct sim_track *track;
    uint64_t seq;
    struct sim_trace by; /* of a block's points: who queued that piece */
};

struct sim_points {
    struct sim_point *items;
    unsigned count, room;
};

struct sim_track *sim_track_new(uint64_t stream, int device); /* NULL when out of memory */
void sim_track_unref(struct sim_track *);

void sim_points_add(struct sim_points *, struct sim_track *, uint64_t seq);
void sim_points_join(struct sim_points *, const struct sim_points *more);
void sim_points_clear(struct sim_points *);

/* All that is in the stream so far, and what that is behind, joins the set. */
void sim_order_gather(struct sim_points *, const struct sim_stream *);
/* The stream's next piece will run behind all that is in the other so far. */
void sim_order_follow(struct sim_stream *, const struct sim_stream *other);
/* The program knows that all this has run: it was told, or it is about to wait for it. */
void sim_order_observe(const struct sim_points *);
/* The same of as much of it as has run. */
void sim_order_observe_done(const struct sim_points *);
void sim_order_observe_stream(const struct sim_stream *);
/* A piece has run that the program may see the effects of, a host function or a write to host memory. */
void sim_order_seen(const struct sim_stream *, const struct sim_work *);

/* The work becomes the last of the stream: judges its blocks, and remembers that it uses, makes or releases them. */
void sim_order_queued(struct sim_stream *, const struct sim_work *);
/* The block is released by a call that waits for nobody, or has waited. */
void sim_order_released(struct sim_block *);
/* The same for devices (bit n: ordinal n) that lose access to it. */
void sim_order_revoked(struct sim_block *, unsigned devices);

#endif
