/* A host small enough to see through, for tests that drive a plugin's raw ABI. Owns the plugin library it
 * loads and the log of completions; assertions are cmocka's, so use it on the test's own thread only,
 * except where a function says otherwise. */
#ifndef TESTS_PLUGINS_SUPPORT_H
#define TESTS_PLUGINS_SUPPORT_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "nxmem_cuda.h"
#include "nxmem_memory_abi.h"

enum { LOG_CAPACITY = 64 };

/* What the callbacks do and saw. Any thread. */
struct fake_host {
    NxmemHostCallbacks callbacks; /* host_ctx is this struct */
    pthread_mutex_t lock;
    unsigned completions;
    NxmemReleaseCompletion log[LOG_CAPACITY]; /* the first ones */
    unsigned reclaims;
    uint64_t reclaim_bytes;      /* asked for last */
    uint32_t complete_answer;    /* status of release_completed */
    unsigned refuse_from;        /* completions from this number on are refused (0: by complete_answer) */
    uint32_t reclaim_answer;     /* status of request_reclaim */
    void (*on_reclaim)(void *argument);
    void (*on_complete)(void *argument); /* runs inside release_completed */
    void *argument;
};

struct plugin {
    void *library;
    NxmemNegotiateFn negotiate;
    NxmemCreateAllocatorFactoriesFn create;
    NxmemQueryUnloadReadinessFn readiness;
    NxmemQueryCudaFn query_cuda; /* NULL when not exported */
    const NxmemAllocatorFactoryVtable *factories[64];
    uint64_t factory_count;
    struct fake_host host;
};

/* A path inside the build tree this test binary is part of. The result is static, one at a time. */
const char *build_path(const char *relative);

/* Loads, resolves, negotiates 1.<minor> and takes the factories. Asserts that all of it works. */
void plugin_load(struct plugin *plugin, const char *relative, uint32_t minor);
void plugin_unload(struct plugin *plugin);

/* The first factory of that name and device index (any tier); asserts that there is one. */
const NxmemAllocatorFactoryVtable *plugin_factory(const struct plugin *plugin, const char *name, uint32_t index);
NxmemStatus plugin_open(struct plugin *plugin, const NxmemAllocatorFactoryVtable *factory, uint32_t minor,
                        uint64_t required, const NxmemAllocatorVtable **vtable);
NxmemUnloadReport plugin_report(const struct plugin *plugin); /* asserts OK */

/* Shapes. Any thread. */
NxmemNegotiateRequest negotiate_request(uint32_t minor);
NxmemAllocRequest request_for(const NxmemAllocatorVtable *vtable, uint64_t id, uint64_t bytes, uint64_t align);
NxmemAllocation allocation_of(const NxmemAllocRequest *request, const NxmemAllocResult *result);
NxmemCudaOrder order_of(uint32_t kind, uint64_t stream, uint64_t pool, uint32_t flags);

/* The first `size` bytes of a struct in a heap block that ends right there, its struct_size saying so: a
 * sanitizer sees one byte too many. The caller frees it. */
void *exact_prefix(const void *source, uint32_t size);

/* Allocates and asserts OK, non-NULL, aligned. */
NxmemAllocation must_allocate(const NxmemAllocatorVtable *vtable, uint64_t id, uint64_t bytes, uint64_t align);
NxmemAllocation must_allocate_on(const NxmemAllocatorVtable *vtable, const NxmemCudaVtable *companion,
                                 const NxmemCudaOrder *order, uint64_t id, uint64_t bytes);
/* The structured slot's status; *state only when OK. */
uint32_t release_now(const NxmemAllocatorVtable *vtable, const NxmemAllocation *allocation, uint32_t *state);

/* Fails when the file defines a dynamic symbol that is not in `names`, a list with a space around each. */
void assert_exports_only(const char *relative, const char *names);
/* Fails when the file refers to one of `names`, a list with a space around each. */
void assert_calls_none_of(const char *relative, const char *names);
/* Fails when the file needs a library but libc; a sanitizer's runtime is let through. */
void assert_needs_libc_only(const char *relative);

#endif
