/* Stream capture: which calls it takes, refuses, or is ended by. State lock held. */
#ifndef SIM_CAPTURE_H
#define SIM_CAPTURE_H

#include "api.h"

struct sim_context;
struct sim_event;
struct sim_graph;
struct sim_graph_node;
struct sim_stream;
struct sim_work;

/* The stream captures: the work becomes a node. Takes the work over. */
CUresult sim_capture_add(struct sim_stream *, struct sim_work *);
/* A node after what the stream captured so far; takes the work (may be NULL) over on success. NULL: the capture is
 * invalid, or out of memory. */
struct sim_graph_node *sim_capture_node(struct sim_stream *, CUgraphNodeType, struct sim_work *);

/* The graph that a capturing stream builds. */
struct sim_graph *sim_capture_graph(const struct sim_stream *);

/* Work is about to enter the legacy stream: that would make every capturing blocking stream of the context wait for
 * it (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and those captures are invalid). */
CUresult sim_capture_check_implicit(struct sim_stream *);
/* A potentially unsafe call (cuThreadExchangeStreamCaptureMode): refused while a capture forbids it, which it
 * invalidates. */
CUresult sim_capture_check_unsafe(void);
/* A call that waits for, or asks about, this stream: it must not capture. */
CUresult sim_capture_check_stream(struct sim_stream *);
/* A call about a whole context: refused while one of its streams captures, and that capture may be invalid for it. */
CUresult sim_capture_check_context(struct sim_context *, bool invalidating);
/* cuMemFreeAsync, in a capturing stream, of memory that no graph owns. */
CUresult sim_capture_refuse_free(struct sim_stream *);

/* cuEventRecord in a capturing stream; `external` asks for a node that records. */
CUresult sim_capture_record(struct sim_stream *, struct sim_event *, bool external);
/* cuStreamWaitEvent where stream or event is captured: the stream joins, or is refused. */
CUresult sim_capture_wait(struct sim_stream *, struct sim_event *, bool external);
/* Asking a captured event: CUDA_ERROR_CAPTURED_EVENT, and the capture is invalid. */
CUresult sim_capture_touch_event(struct sim_event *);
void sim_capture_event_forget(struct sim_event *);
/* Does an open capture build this graph? */
bool sim_capture_builds(const struct sim_graph *);
/* The stream goes away while it captures. */
void sim_capture_abandon(struct sim_stream *);

#endif
