/* Work: what a stream runs. A piece of work names the blocks it will touch when it is made; when it runs, a block
 * that was freed, or not yet allocated in stream order, is a violation. Functions need the state lock. */
#ifndef SIM_WORK_H
#define SIM_WORK_H

#include "trace.h"

struct sim_block;
struct sim_event;
struct sim_points;
struct sim_stream;
struct sim_track;

/* A place in a stream: passed once the stream has done that many pieces of work. */
struct sim_position {
    struct sim_stream *stream; /* a reference is held */
    uint64_t seq;
};

struct sim_deps {
    struct sim_position *items;
    unsigned count, room;
};

void sim_deps_add(struct sim_deps *, struct sim_stream *, uint64_t seq);
void sim_deps_add_all(struct sim_deps *, const struct sim_deps *more);
bool sim_deps_passed(const struct sim_deps *);
void sim_deps_wait(const struct sim_deps *);
void sim_deps_clear(struct sim_deps *);

/* One box of bytes to copy; rows and slices by pitch. */
struct sim_copy {
    uint64_t dst, src;
    size_t width, height, depth;
    size_t dst_pitch, src_pitch, dst_slice, src_slice;
};

struct sim_fill {
    uint64_t dst;
    size_t width, height, pitch; /* width in elements */
    unsigned value, element;     /* element: 1, 2 or 4 bytes */
};

struct sim_work {
    struct sim_work *next;
    enum sim_fn fn;
    struct sim_trace submitted; /* in a graph: captured or added */
    struct sim_trace launched;  /* from a graph */
    CUgraphNodeType type; /* what it is as a graph node */
    uint64_t node;        /* in an executable graph: the id of the graph's node that it was made of */
    bool disabled;        /* there: launches leave it out */
    uint64_t seq;
    struct sim_deps deps;
    struct sim_block **touches; /* references are held */
    unsigned touch_count, touch_room;
    struct sim_block *owned;    /* graph memory that this work allocates or frees: it is one of the block's owners */
    bool harmed;                /* it met a violation: it does not touch memory */
    enum { SIM_TOUCHES, SIM_ALLOCATES, SIM_RELEASES } effect; /* on u.block */
    bool calls_host;            /* `run` is a host function: it runs on no thread of the program's */
    bool (*ready)(const struct sim_work *); /* may it run, its turn come? NULL: it may; with the lock, again and again */
    bool lingers;               /* `run` waits for the program and then touches nothing any more */
    void (*run)(struct sim_work *);    /* without the lock; may be NULL */
    void (*finish)(struct sim_work *); /* with it, after run; may be NULL */
    void *payload;                     /* freed with the work */
    union {
        struct sim_copy copy;
        struct sim_fill fill;
        struct { CUhostFn call; void *arg; } host;
        struct { CUstreamCallback call; CUstream stream; void *arg; } callback;
        struct { struct sim_event *event; uint64_t record, page_record; } mark; /* page_record: event_share.h, 0: none */
        struct { uint64_t address, bytes; int *go; } kernel;
        struct { CUfunction function; unsigned grid[3], block[3], shared; } launch;
        struct sim_block *block;
        struct {
            CUstreamBatchMemOpParams op;
            struct sim_points *behind; /* of a queued write: what it is behind, and its number (flag.h) */
            uint64_t number;
            struct sim_track *token;   /* of a queued wait: a reference is held */
        } value;
    } u;
};

/* NULL when out of memory. */
struct sim_work *sim_work_new(enum sim_fn fn);
void sim_work_free(struct sim_work *);
/* A copy without its dependencies, for a graph launch; `payload` is not copied. */
struct sim_work *sim_work_clone(const struct sim_work *);
/* Names [address, address + bytes): CUDA_ERROR_INVALID_VALUE when part of it is device address space without a
 * live block, or pinned memory that is gone; if there was a block, that is a finding, and the work is harmed. Memory of
 * the program's own (pageable) is nobody's block. */
CUresult sim_work_touch(struct sim_work *, uint64_t address, uint64_t bytes);
CUresult sim_work_touch_box(struct sim_work *, uint64_t address, size_t width, size_t height, size_t pitch,
                            size_t depth, size_t slice);
void sim_work_touch_block(struct sim_work *, struct sim_block *);
/* Runs it: judges its blocks, leaves the lock for `run`, comes back for `finish`. */
void sim_work_execute(struct sim_work *);

/* Makes it call a host function, in which CUDA calls are refused. */
void sim_work_call_host(struct sim_work *, CUhostFn, void *arg);

/* `run` functions */
void sim_run_copy(struct sim_work *);
void sim_run_fill(struct sim_work *);

#endif
