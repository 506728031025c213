/* A small model of one host and its plugin, for random sequences of calls: what is open, what is live, what is queued, what
 * the plugin holds, and what every counter must therefore say. It knows nothing of how core works.
 *
 * One global, of the sequence that runs. Written by the thread that runs it, and by the callback for completions, which
 * one other thread may run while the first is inside the host or waits for it.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "choices.h"
#include "core/allocator.h"
#include "core/blocks.h"
#include "core/module.h"
#include "tests/unit/support/fake.h"
#include "tests/unit/support/fake_map.h"

#define MODEL_MODULES 8
#define MODEL_ALLOCATORS 24
#define MODEL_BLOCKS 256
#define MODEL_PREFIXES 8
#define MODEL_FAULT 256

struct model_module {
    struct nxm_module *module; /* NULL: the slot is free; stays when pinned, for its tallies can still be read */
    bool handle;               /* we hold it */
    bool pinned;               /* mapped for ever */
    bool minor_0;
    uint64_t leaked_tables; /* each keeps a reference, reclaimed or not */
    unsigned factory_references[FAKE_FACTORIES_MAX];
};

struct model_allocator {
    struct nxm_allocator *allocator; /* NULL: the slot is free */
    unsigned module, factory, references, own_references; /* with and without those of prefixes */
    bool open;       /* the host has not released it */
    bool going;      /* its final release has begun: nothing can be live in it again */
    bool table;      /* its callback table exists */
    unsigned ended;  /* the embedder was told that nothing of it is left */
    bool deferred, structured, sharing, backing, reclaims;
    struct fake_state *state;
    const NxmemHostCallbacks *callbacks;
    atomic_ullong pins; /* taken on the context that it is bound to, and not given back */
    uint64_t mechanism_id;
    uint64_t quarantined_blocks, quarantined_bytes, reclaim_calls, reclaim_failures;
    uint64_t hull_first, hull_last; /* spans that may have found no memory; empty while first > last */
};

enum model_where { MODEL_NOWHERE, MODEL_LIVE, MODEL_QUEUED, MODEL_GONE };

struct model_block {
    struct nxm_block block;
    unsigned allocator;
    enum model_where where; /* as the host must have it */
    uint64_t ticket;        /* QUEUED, once the plugin has named it */
    bool replaced;          /* its address was handed out again while it was on its way out */
    bool barred;            /* its span is quarantined */
    bool held, queued;      /* as the plugin has it */
    uint64_t views, view_owned, view_mapped; /* while LIVE */
    uint64_t granules;      /* a bit for each that is committed, where it is backed */
    unsigned ended;         /* completions that the embedder was told of, since it was queued */
};

struct model_prefix {
    struct nxm_shared *shared; /* NULL: none */
    unsigned allocator;        /* it holds a reference on it */
    uint64_t bytes;
};

struct model {
    struct choices *choices;
    struct nxm_blocks *table;
    struct model_module modules[MODEL_MODULES];
    struct model_allocator allocators[MODEL_ALLOCATORS];
    struct model_block blocks[MODEL_BLOCKS];
    struct model_prefix prefixes[MODEL_PREFIXES];
    uint64_t prefixes_released; /* handles given back, refused ones included */
    unsigned module_count, allocator_count, block_count; /* slots used so far; none is used twice */
    unsigned factories;
    uint64_t opened, released;                   /* allocators of the plugin, refused ones included */
    uint64_t factory_releases, unmapped;         /* since the sequence began */
    struct nxm_module_counters counters;         /* as they must be now */
    bool refuses_pins;                           /* the contexts accept no more work */
    bool starved;                                /* a request of our own for memory may fail in this step */
    uint64_t ended;                              /* completions told in this step */
    uint64_t entered_in_reclaim;                 /* the terminal slot, by the host's own reclaiming in this step */
    int64_t reclaim_answer;                      /* the last one */
    struct model_block *last_ended;
    struct nxm_release last_release;
    char fault[MODEL_FAULT]; /* the first thing that was not as it must be; empty so far */
    unsigned step;
    const char *operation;
};

extern struct model model;

/* Notes the first fault; the sequence ends after the step. */
#define EXPECT(condition) ((condition) ? (void)0 : model_fault(__FILE__, __LINE__, #condition))
void model_fault(const char *file, int line, const char *condition);
bool model_is_sound(void);

void model_begin(struct choices *choices); /* the process-wide counters are read as they are */

/* --- counts --------------------------------------------------------------------------------------------------------- */

struct nxm_tallies model_tallies(unsigned module);
uint64_t model_plugin_total(void);                   /* of its readiness report; views and handles as it has them */
uint64_t model_outstanding(unsigned allocator);      /* QUEUED */
uint64_t model_plugin_queued(unsigned allocator);
unsigned model_handles(void);
unsigned model_mapped(void); /* modules */

/* --- blocks --------------------------------------------------------------------------------------------------------- */

struct model_block *model_block_by_id(uint64_t id);
/* Whether the host must refuse this span from this allocator, and whether it may. */
bool model_must_refuse(unsigned allocator, uint64_t address, uint64_t bytes);
bool model_may_refuse(unsigned allocator, uint64_t address, uint64_t bytes);

/* The plugin handed out a block and the host keeps it (LIVE) or not (GONE). */
struct model_block *model_add_block(unsigned allocator, const struct nxm_block *block, enum model_where where);

/* --- answers -------------------------------------------------------------------------------------------------------- */

/* What the terminal slot's answer, as the fake is set, means for this block; and whether the plugin holds it then. */
struct nxm_release model_terminal_answer(const struct model_block *block);
void model_terminal_effect(struct model_block *block);

/* The same for a completion. */
struct nxm_release model_completion_answer(const struct model_block *block);
void model_completion_effect(struct model_block *block);

void model_retire_views(struct model_block *block);

/* The host's side: GONE, or LIVE again, or kept back. */
void model_settle(struct model_block *block, const struct nxm_release *release);

/* The plugin's state goes once the host has released it and its queue is empty, and what it held with it. */
void model_forget_dead_state(unsigned allocator);

#endif
