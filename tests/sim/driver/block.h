/* Memory blocks: every live range a program may name, whatever call made it. Owns the address map. All functions:
 * the state lock is held. */
#ifndef SIM_BLOCK_H
#define SIM_BLOCK_H

#include "api.h"
#include "order.h"
#include "range.h"
#include "trace.h"

struct sim_context;
struct sim_device;
struct sim_pool;
struct sim_stream;

enum sim_block_kind {
    SIM_BLOCK_DEVICE, SIM_BLOCK_ASYNC, SIM_BLOCK_MANAGED, SIM_BLOCK_GRAPH, SIM_BLOCK_MODULE, SIM_BLOCK_ARRAY,
    SIM_BLOCK_HOST, SIM_BLOCK_REGISTERED, SIM_BLOCK_MAP, SIM_BLOCK_IPC, SIM_BLOCK_EXTERNAL,
    SIM_BLOCK_KINDS
};

/* A block is UNBORN until its allocation runs in stream order, GONE once its release has. */
enum sim_block_state { SIM_UNBORN, SIM_LIVE, SIM_GONE_BLOCK };

struct sim_block {
    struct sim_range range; /* first; requested size rounded to what the kind occupies */
    enum sim_block_kind kind;
    enum sim_block_state state;
    bool mapped;            /* in the address map: the program may name it */
    unsigned refs;          /* the program is one, each piece of queued work that touches it another */
    unsigned running;       /* pieces of work touching it at this moment */
    unsigned accessing;     /* those of them that read or write its bytes: it cannot go before they end */
    uint64_t size;          /* bytes asked for */
    uint64_t id;            /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
    unsigned flags;         /* of the host and managed calls; PROT_* of a map */
    struct sim_trace made, freed; /* the calls that made and released it */
    struct sim_device *device;
    struct sim_context *context; /* owner of synchronous memory; NULL for pool memory and maps. Borrowed: a context
                                  * releases its blocks before it goes */
    struct sim_pool *pool;       /* stream-ordered memory; a reference is held */
    struct sim_stream *freeing;  /* the stream whose queue holds its release; a reference is held */
    struct sim_block *next_waiting; /* in its pool's list of those */
    bool sync_memops;            /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    bool taken_over;             /* a later allocation of that stream has its address already */
    uint64_t made_in;            /* graph memory: the id of the graph with its allocation */
    bool freed_inside, freed_outside; /* graph memory: by a node of that graph, of another one */
    unsigned owners;             /* graph memory: the nodes and executable graphs that may allocate it again */
    struct sim_point birth;      /* stream-ordered and graph memory: the work that allocates it; else no track */
    struct sim_points uses;      /* the latest of each stream */
    bool exported;               /* another process may have it open */
    bool host_sees;              /* the program may look at it without asking the driver */
    bool accused;                /* nothing orders its uses: already a finding */
    bool promised;               /* graph memory: allocated, as far as what was submitted goes */
    void *backing;               /* kind's own: the physical handle of a map */
    uint64_t backing_offset;
    uint64_t backing_start;      /* of an imported pointer: where it is in the owner's memory */
};

/* A block over [start, start + span), in the address map, one reference owned by the program; NULL when out of
 * memory. */
struct sim_block *sim_block_new(enum sim_block_kind, uint64_t start, uint64_t span, uint64_t size, enum sim_fn born);
/* The mapped block that contains, or starts at, an address; borrowed, NULL if there is none. */
struct sim_block *sim_block_containing(uint64_t address);
struct sim_block *sim_block_at(uint64_t address);
/* The first mapped block at or above an address. */
struct sim_block *sim_block_next(uint64_t address);
/* A mapped block that has part of these addresses; NULL if there is none. */
struct sim_block *sim_block_mapped_in(uint64_t start, uint64_t size);
/* The program may no longer name it; work already queued may. */
void sim_block_unmap(struct sim_block *, enum sim_fn freed);
/* Its memory goes: from now on touching it is a violation. Running work on it is one at once. Drops the program's
 * reference. */
void sim_block_retire(struct sim_block *);
/* No piece of work is in the middle of reading or writing it any more. The lock may be away meanwhile. */
void sim_block_settle(const struct sim_block *);
void sim_block_ref(struct sim_block *);
void sim_block_unref(struct sim_block *);

const char *sim_block_kind_name(enum sim_block_kind);
/* Calls `visit` for each mapped block; it must not map or unmap any. */
void sim_block_each(void (*visit)(const struct sim_block *, void *), void *arg);
/* Live blocks and their requested bytes, by kind. */
uint64_t sim_block_count(enum sim_block_kind);
uint64_t sim_block_bytes(enum sim_block_kind);

#endif
