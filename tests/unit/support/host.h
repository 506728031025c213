/* What most tests of allocators need: the fake plugin loaded, a block table, one open allocator. */
#ifndef HOST_H
#define HOST_H

#include "core/allocator.h"
#include "core/blocks.h"
#include "core/module.h"

struct host {
    struct nxm_module *module;
    struct nxm_blocks *blocks;
    struct nxm_allocator *allocator;      /* NULL until host_open */
    struct nxm_allocator_options options; /* of the next host_open */
};

extern struct host host;

/* Setup and teardown of cmocka: a fresh fake, the module loaded at 1.0 to 1.1 (or at 1.0), nothing open. The
 * teardown drops the allocator and wants the module to unload and both sides to have come out even. */
int host_setup(void **state);
int host_setup_minor_0(void **state);
int host_teardown(void **state);

/* The same with an allocator open that has every capability; completions are noted in host_told. */
int host_setup_mapping(void **state);

/* The same with deferred release, an allocator open, and every completion noted in host_told. */
int host_setup_deferred(void **state);

#define HOST_TOLD_MAX 64

struct host_told {
    unsigned calls;
    struct nxm_block block; /* of the last call, as are the next two */
    struct nxm_release release;
    struct nxm_tallies tallies; /* while it ran */
    uint64_t ids[HOST_TOLD_MAX];
};

extern struct host_told host_told;

void host_open(void);
int host_try_open(struct nxm_error *ret_error); /* no allocator afterwards when it fails */
void host_close(void);

struct nxm_block host_allocate(uint64_t bytes);
int host_release(const struct nxm_block *block, struct nxm_release *ret_release);
int host_enqueue(const struct nxm_block *block, struct nxm_release *ret_release);
struct nxm_release host_enqueued(const struct nxm_block *block); /* must succeed */

/* The state of the record at this address, 0 when there is none. */
unsigned host_state(uint64_t address);
struct nxm_tallies host_tallies(void);
struct nxm_allocator_totals host_totals(void);
void host_assert_counts(uint64_t allocations, uint64_t queued);

#endif
