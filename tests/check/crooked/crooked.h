/* A small plugin with every capability, in host memory, that can do wrong what crooked.def says. For the tests of
 * nxmem-check only. One lock guards all of it; it is held while the host is called where that is the fault. */
#ifndef CROOKED_H
#define CROOKED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "nxmem_memory_abi.h"

enum crook {
#define CROOK(identifier, word, rules, help) CROOK_##identifier,
#include "crooked.def"
#undef CROOK
};

enum { GRANULE = 4096, GRANULES = 4096, CAPABILITIES = 0x1F };

/* Whether the chosen fault is this one. */
#define WHEN(identifier) (crook == CROOK_##identifier)

struct allocator;

struct prefix {
    uint64_t id, handles, views;
    struct prefix *next;
};

struct block {
    uint64_t id, bytes, align;
    uint8_t *ptr;
    void *memory;
    struct allocator *owner;
    struct prefix *views[8]; /* committed into it */
    unsigned view_count;
    bool queued;
    uint64_t ticket;
    const NxmemAllocation *name; /* kept, where that is the fault */
    unsigned char committed[GRANULES]; /* how often, for those that count */
    struct block *next;
};

struct allocator {
    NxmemAllocatorVtable slots;
    NxmemVirtualBackingVtable backing;
    NxmemSharedMappingVtable mapping;
    NxmemHostCallbacks callbacks;
    const NxmemOpenRequest *request; /* kept, where that is the fault */
    uint64_t references;
};

extern enum crook crook;
extern pthread_mutex_t lock;
extern struct block *blocks, *queue; /* live; queued, oldest first */
extern struct prefix *prefixes;
extern NxmemUnloadReport alive;
extern bool factory_gone;
extern const NxmemHostCallbacks *last_callbacks; /* of whatever open */
extern volatile uint64_t looked_at; /* reads go here, where the compiler cannot drop them */

NxmemStatus say(uint32_t code, const char *words);
/* Writes no more than the target's struct_size, which both have first. */
void reply(void *target, const void *answer, uint32_t size, bool overrun);
NxmemStatus identity(const struct allocator *self, uint64_t mechanism, NxmemDeviceId device);
struct block *find_block(uint64_t id);
struct block *find_for_ranges(uint64_t id);
void drop_views(struct block *block);
void destroy_block(struct block *block);
void unref(struct allocator *self);
/* On behalf of allocate and allocate_committed; under the lock. */
NxmemStatus make_block(struct allocator *self, const NxmemAllocRequest *request, NxmemAllocResult *result, struct block **ret_block);

/* The faults of a free list: places in an arena of their own. NULL where none of them is chosen, or for large alignments. */
void *arena_give(uint64_t align, uint64_t bytes);
bool arena_take_back(void *memory); /* false: it is not of the arena */

void fill_memory(struct allocator *self);
void fill_queue(struct allocator *self);
void fill_backing(struct allocator *self);
void fill_mapping(struct allocator *self);
/* Completes what is queued, at most so many; how many. */
NxmemStatus retire(struct allocator *self, uint64_t max, uint64_t *ret_retired);

extern const NxmemAllocatorFactoryVtable factory;
extern NxmemStatus open_allocator(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **vtable);

#endif
