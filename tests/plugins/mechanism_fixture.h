/* One allocator of a plugin over host memory, the test plugin or the misbehaving one, by the name of its mechanism. */
#ifndef TESTS_PLUGINS_MECHANISM_FIXTURE_H
#define TESTS_PLUGINS_MECHANISM_FIXTURE_H

#include "tests/plugins/support.h"

#define TESTPLUGIN "tests/plugins/testplugin.so"
#define FAULTY_HOST "tests/plugins/faulty_host.so"

struct mechanism {
    struct plugin plugin;
    const NxmemAllocatorVtable *vtable; /* NULL once the test has released it */
    void *ctx;
};

/* Loads the test plugin and opens the mechanism at this minor. */
void mechanism_open(struct mechanism *m, const char *name, uint32_t minor);
/* The same of the misbehaving one, at minor 1. */
void faulty_host_open(struct mechanism *m, const char *name);
/* Releases what is open, asserts that the plugin reports nothing alive, and unloads it. */
void mechanism_close(struct mechanism *m);
void mechanism_release(struct mechanism *m);

/* NxmemTestplugin<name>() and NxmemFaultyHost<name>(); assert that it is exported. */
uint64_t testplugin_ask(const struct plugin *plugin, const char *name);
uint64_t faulty_host_ask(const struct plugin *plugin, const char *name);

/* Releases at once, by the slot a host would take: the bytes unmapped. Asserts that it completed. */
uint64_t released(const struct mechanism *m, const NxmemAllocation *block);
NxmemRangeRequest range_of(const NxmemAllocation *block, uint64_t offset, uint64_t bytes);
uint32_t enqueue(const struct mechanism *m, const NxmemAllocation *block, uint64_t *ret_ticket);
uint64_t drained(const struct mechanism *m, uint64_t max); /* asserts OK */
uint64_t queued(const struct mechanism *m);

/* Asserts the five axes: allocators, allocations, views, capabilities, queued. */
void assert_report(const struct mechanism *m, uint64_t allocators, uint64_t allocations, uint64_t views,
                   uint64_t capabilities, uint64_t queued);

#endif
