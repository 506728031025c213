/* Graphs: nodes, each a list of work templates and what it depends on, and executable graphs, which are the
 * templates in an order that keeps the dependencies. State lock held. */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "object.h"
#include "order.h"
#include "work.h"

struct sim_device;
struct sim_stream;

/* Work to copy from at each launch. */
struct sim_templates {
    struct sim_work **items; /* owned */
    size_t count;
};

struct sim_graph_node {
    struct sim_object object;
    struct sim_graph *graph;          /* NULL once the graph has gone or the node was taken out */
    struct sim_graph_node *next;
    CUgraphNodeType type;
    struct sim_templates works;
    struct sim_graph_node **deps;     /* references are held */
    size_t dep_count;
    bool mark;                        /* for walks */
    uint64_t clone_of;                /* id of the node this one was copied from, 0: none */
};

struct sim_graph {
    struct sim_object object;
    struct sim_graph_node *first, **tail; /* each holds the handle's reference */
    size_t count;
    bool has_memory;                      /* allocation or free nodes: much is forbidden then */
    unsigned instances;                   /* executable graphs made of it */
};

struct sim_exec {
    struct sim_object object;
    struct sim_graph *of;                 /* a reference is held */
    unsigned long long flags;
    struct sim_templates works;
    struct sim_deps launched;             /* its latest launch, which was behind those before */
    struct sim_points launched_known;     /* what is behind whoever follows that one */
};

struct sim_graph *sim_graph_new(void);
void sim_graph_close(struct sim_graph *);
/* Takes `work` (may be NULL: an empty node) over on success. */
struct sim_graph_node *sim_graph_add(struct sim_graph *, CUgraphNodeType, struct sim_work *,
                                     struct sim_graph_node *const *deps, size_t count);
bool sim_node_depend(struct sim_graph_node *, struct sim_graph_node *on);
bool sim_node_depends(const struct sim_graph_node *, const struct sim_graph_node *on);
/* Takes an edge away; false when there is none. */
bool sim_node_independ(struct sim_graph_node *, struct sim_graph_node *on);
void sim_node_remove(struct sim_graph_node *);
/* Marks everything the nodes depend on, themselves included, and nothing else; false when out of memory. */
bool sim_graph_mark(struct sim_graph *, struct sim_graph_node *const *nodes, size_t count);

/* The graph's work in order: CUDA_ERROR_INVALID_VALUE for a cycle. */
CUresult sim_graph_flatten(struct sim_graph *, struct sim_templates *ret_works);
/* Are the uses of its memory ordered by its edges, whichever way its branches run? Findings if not. */
void sim_graph_judge(struct sim_graph *);
CUresult sim_templates_append(struct sim_templates *, const struct sim_templates *more);
void sim_templates_clear(struct sim_templates *);
/* Both come behind every earlier launch of the same executable graph, in whichever stream. */
CUresult sim_exec_launch(struct sim_exec *, struct sim_stream *, enum sim_fn);
CUresult sim_exec_upload(const struct sim_exec *, struct sim_stream *, enum sim_fn);

/* Graph memory. An allocation work and, later, a free work for a block; the block is new for the first. */
CUresult sim_graph_memory_new(struct sim_device *, uint64_t size, enum sim_fn, struct sim_work **ret_work);
struct sim_work *sim_graph_memory_free_work(struct sim_block *, enum sim_fn);
/* May the graph get a free node for the block? Within the graph that allocates it once, and then nowhere else. */
CUresult sim_graph_memory_check_free(const struct sim_graph *, const struct sim_block *);
/* A work that owned the block ends. Without owners and not allocated, its addresses go. */
void sim_graph_memory_disown(struct sim_block *, enum sim_fn);

/* cuMemAllocAsync in a capturing stream: the address is given now, the memory exists while the graph says so. */
CUresult sim_graph_capture_alloc(struct sim_stream *, struct sim_device *, uint64_t size, enum sim_fn, CUdeviceptr *);
/* cuMemFreeAsync of graph memory, captured or not. */
CUresult sim_graph_free_async(struct sim_stream *, struct sim_block *, enum sim_fn);
/* cuMemFree of graph memory. */
CUresult sim_graph_free_now(struct sim_block *, enum sim_fn);

#endif
