/* The test plugin: host memory, device HOST:0, and nineteen mechanisms under fixed names: the conforming ones a host must
 * be able to use, and ones with one oddity each that it must survive (nxmem 1.1, section 23). For tests only,
 * never installed. Tests written for such a plugin find it by its names and by its exports.
 *
 * Owns its mechanisms (static), the states opened from them, and the process-wide counters of one loaded module. Any
 * thread.
 */
#ifndef NXP_TESTPLUGIN_H
#define NXP_TESTPLUGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "nxmem_memory_abi.h"
#include "plugins/common/exports.h"
#include "plugins/common/lazy.h"

/* --- exports that are no part of the ABI ----------------------------------------------------------------------- */

NXP_EXPORT uint64_t NxmemTestpluginTerminalReleases(void);   /* entries into deallocate and release_allocation */
NXP_EXPORT uint64_t NxmemTestpluginStructuredReleases(void); /* of these, into release_allocation */
NXP_EXPORT uint64_t NxmemTestpluginDrainCalls(void);
NXP_EXPORT uint64_t NxmemTestpluginFactoryReleases(void);
NXP_EXPORT uint64_t NxmemTestpluginPrefixBackingFrees(void);
/* Whether the vtable opened last publishes a structured slot, 1 or 0; UINT64_MAX once its state is gone. */
NXP_EXPORT uint64_t NxmemTestpluginPublishedStructuredSlot(void);
NXP_EXPORT uint64_t NxmemTestpluginParkedStateIsSet(void); /* of callback-after-drop: 1 or 0 */
/* Completes the oldest queued release of the parked state on a thread of its own, joined inside; how many it was. */
NXP_EXPORT uint64_t NxmemTestpluginReportParkedCompletion(void);
/* From the next enumeration on this slot, counted from 1, holds a factory without open_allocator; 0: none does. */
NXP_EXPORT void NxmemTestpluginSetFactoryValidationFaultSlot(uint64_t slot);
NXP_EXPORT void NxmemTestpluginRefuseUnloadReport(void); /* for good */

/* --- mechanisms ------------------------------------------------------------------------------------------------- */

struct test_state;

/* One row: what is NULL is the conforming way. */
struct test_mechanism {
    const char *name;
    uint64_t capabilities; /* at its own level */
    uint32_t level;        /* the minor it was written for */
    bool any_level;        /* publishes its level whatever the host asked for */
    bool undeclared;       /* publishes the structured slot without its bit */
    bool stateless;        /* publishes something that no state stands behind */
    bool asks_host;        /* every allocation first asks the host to reclaim */
    bool refuses_to_queue;
    bool completes_inside;   /* enqueue ends one queued release and asks the host to reclaim */
    bool completes_at_release; /* each release of the allocator ends one queued release first */
    bool parks;              /* its state can be asked for a completion after the host has dropped it */
    uint64_t drain_limit;    /* most releases that one drain retires */
    uint32_t release_state;  /* how release_allocation ends; not COMPLETE: the block is set aside */
    /* Spoils the vtable about to be published, or takes its place; the state owns what this returns. */
    const NxmemAllocatorVtable *(*publish)(struct test_state *state);
    struct nxp_backend backend; /* filled at the first enumeration */
};

enum { TEST_MECHANISMS = 19 };

extern struct test_mechanism test_mechanisms[TEST_MECHANISMS];

/* A block out of the live set whose memory stays until its state goes. */
struct test_aside {
    struct test_aside *next;
    void *memory;
};

struct test_state {
    struct nxp_lazy lazy; /* first: a slot's ctx is all of these */
    const struct test_mechanism *mechanism;
    NxmemAllocatorVtable kit; /* as the kit filled it */
    void *block;              /* a vtable published elsewhere than in the state */
    struct test_aside *aside; /* under the allocator's lock */
};

/* open_allocator of every factory; ctx is the mechanism. */
NxmemStatus test_open(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **vtable);

/* Our slots over the kit's. */
void test_releases_install(struct test_state *state);
void test_queue_install(struct test_state *state);

/* Frees what was set aside. */
void test_aside_clear(struct test_state *state);

/* The two pointers to live states that exports may ask for. Each is forgotten before its state goes. */
void test_parked_set(struct test_state *state);
void test_parked_forget(const struct test_state *state);
void test_published_set(const struct test_state *state, const NxmemAllocatorVtable *vtable);
void test_published_forget(const struct test_state *state);

/* Vtables with something wrong in them. */
const NxmemAllocatorVtable *test_short_vtable(void); /* NULL: no memory for it */
const NxmemAllocatorVtable *test_publish_poisoned(struct test_state *state);
const NxmemAllocatorVtable *test_publish_without_allocate(struct test_state *state);
const NxmemAllocatorVtable *test_publish_bad_tier(struct test_state *state);
const NxmemAllocatorVtable *test_publish_retained(struct test_state *state);

#endif
