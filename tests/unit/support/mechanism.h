/* The test plugin, or the misbehaving one over host memory, under our host: loaded, with a block table, and one allocator of
 * the mechanism that a test names. */
#ifndef MECHANISM_H
#define MECHANISM_H

#include <pthread.h>

#include "core/allocator.h"
#include "core/blocks.h"
#include "core/module.h"

#define TESTPLUGIN_PATH UNIT_DIR "/../plugins/testplugin.so"
#define FAULTY_HOST_PATH UNIT_DIR "/../plugins/faulty_host.so"

enum { TOLD_MAX = 64 };

/* The one mechanism under test. What happened to queued releases and what the plugin asked for stands behind it. */
struct mechanism {
    struct nxm_module *module;
    struct nxm_blocks *blocks;
    struct nxm_allocator *allocator; /* NULL until mechanism_open */
    struct nxm_allocator_options options;
    pthread_mutex_t lock; /* guards the next three: completions come from any thread */
    unsigned completions; /* as the embedder was told */
    struct nxm_block completed[TOLD_MAX];
    struct nxm_release outcomes[TOLD_MAX];
    int64_t reclaim_answer;
    uint64_t reclaim_asked;
    struct nxm_tallies reclaim_tallies; /* host's, while it was asked */
};

extern struct mechanism mechanism;

/* Setup and teardown of cmocka. The teardown wants the module to unload and to be unmapped. */
int mechanism_setup(void **state);
int mechanism_setup_minor_0(void **state);
int mechanism_setup_faulty(void **state); /* the misbehaving plugin instead */
int mechanism_teardown(void **state);
/* For programs that leave the module mapped: only what is ours is freed. */
int mechanism_teardown_poisoned(void **state);

struct nxm_allocator *mechanism_open_beside(const char *name); /* another one; the caller unrefs it */
void mechanism_open(const char *name);
int mechanism_try_open(const char *name, struct nxm_error *ret_error);
void mechanism_drop(void); /* the allocator */
void mechanism_give_reclaim(int64_t answer); /* before opening: there is a path for reclaim, which answers so */

struct nxm_block mechanism_allocate(uint64_t bytes);
struct nxm_block allocate_from(struct nxm_allocator *allocator, uint64_t bytes);
struct nxm_release mechanism_release(const struct nxm_block *block); /* must not be refused */
struct nxm_release mechanism_enqueue(const struct nxm_block *block);

/* NxmemTestplugin<name>() and NxmemFaultyHost<name>() of the loaded module. */
uint64_t testplugin_ask(const char *name);
uint64_t faulty_host_ask(const char *name);
struct nxm_gate gate_now(void);
struct nxm_module_counters counters_now(void);
void assert_host_tallies(uint64_t allocators, uint64_t allocations, uint64_t queued);

#endif
