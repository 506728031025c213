/* A capture sequence: the streams in it and the graph they build. State lock held. */
#ifndef SIM_CAPTURE_STATE_H
#define SIM_CAPTURE_STATE_H

#include "api.h"

struct sim_graph;
struct sim_graph_node;
struct sim_stream;

struct sim_capture {
    struct sim_capture *next;   /* among those that are open */
    unsigned refs;              /* the list, each stream in it, each event recorded in it */
    uint64_t id;
    CUstreamCaptureMode mode;
    unsigned thread;            /* that began it */
    bool invalid;               /* ends with CUDA_ERROR_STREAM_CAPTURE_INVALIDATED */
    bool closed;
    bool given_graph;           /* the program's graph, not ours to destroy */
    struct sim_graph *graph;
    struct sim_stream *origin;  /* borrowed: a stream that goes abandons the capture first */
    struct sim_stream *streams; /* by capture_next */
};

CUresult sim_capture_begin(struct sim_stream *, CUstreamCaptureMode, struct sim_graph *into,
                           struct sim_graph_node *const *deps, size_t count);
CUresult sim_capture_end(struct sim_stream *, CUgraph *ret_graph);
/* The stream's next node depends on these nodes, instead of (`set`) or beside what it would depend on. */
CUresult sim_capture_depend(struct sim_stream *, struct sim_graph_node *const *nodes, size_t count, bool set);
/* Would work in this legacy stream make a capturing stream wait? */
bool sim_capture_blocks_legacy(const struct sim_stream *, bool invalidating);
size_t sim_capture_count(void);

#endif
