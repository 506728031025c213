/* Events: what was in a stream, or in a whole context, when they were recorded. State lock held. */
#ifndef SIM_EVENT_H
#define SIM_EVENT_H

#include "object.h"
#include "order.h"
#include "work.h"

struct sim_capture;
struct sim_context;
struct sim_graph_node;

struct sim_event {
    struct sim_object object;
    struct sim_context *context; /* NULL once its context went */
    unsigned flags;
    struct sim_deps recorded;    /* passed: the event has happened */
    struct sim_points known;     /* what is behind whoever waits for it then */
    uint64_t record;             /* number of its latest record */
    uint64_t time;               /* ns, when that one happened */
    struct sim_capture *capture; /* last recorded inside this capture; a reference is held */
    struct sim_graph_node **nodes; /* what it stands for there */
    size_t node_count;
    struct sim_event_page *page; /* what other processes see of it (event_share.h), NULL: it is this one's alone */
    uint64_t page_record;        /* the number there of this process's latest record */
    bool is_import;
};

/* NULL when out of memory. */
struct sim_event *sim_event_new(struct sim_context *, unsigned flags);

/* Records outside any capture. */
CUresult sim_event_record(struct sim_event *, struct sim_stream *, enum sim_fn);
/* The stream waits for what the event stands for. */
CUresult sim_event_wait(struct sim_event *, struct sim_stream *, enum sim_fn);
/* What a graph node does with an event when it is launched in a stream: a record, or a wait. The node's work only names the
 * event, which must still be there then. NULL when out of memory. */
struct sim_work *sim_event_node_work(const struct sim_event *, CUgraphNodeType, enum sim_fn);
CUresult sim_event_launch(const struct sim_work *, struct sim_stream *, enum sim_fn);
/* A whole context: records all that is in it; makes all that comes wait. */
CUresult sim_event_record_context(struct sim_context *, CUevent);
CUresult sim_event_wait_context(struct sim_context *, CUevent, enum sim_fn);
void sim_event_close_context(struct sim_context *);

#endif
