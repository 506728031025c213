/* The fake plugin's behaviour: a small conforming nxmem plugin whose every answer a test can bend.
 *
 * One global, exported by the test program to the fake plugin's library. Knobs are zero for "conforming";
 * fake_reset puts them and the counters back. Slots take one mutex, never across a callback.
 */
#ifndef FAKE_H
#define FAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nxmem_memory_abi.h"

#define FAKE_EXPORT __attribute__((visibility("default")))
#define FAKE_FACTORIES_MAX 4
#define FAKE_FIXED_MECHANISM_ID (UINT64_C(1) << 60) /* no counter comes there */

struct fake_state; /* one open allocator */

/* How a terminal slot or a completion answers instead of COMPLETE. */
struct fake_answer {
    bool set;
    uint32_t status;      /* of the slot; not 0: nothing is freed and the outcome stays as the host made it */
    uint32_t struct_size; /* 0: the real size */
    uint32_t state;
    uint64_t unmapped, residual;
    bool keep; /* the block stays alive in the plugin */
};

struct fake {
    /* negotiation */
    uint32_t negotiate_status, agreed_minor; /* agreed_minor + 1; 0: what is common */
    uint64_t not_negotiated;                 /* capability bits that it does not offer */
    /* factories */
    uint64_t factories; /* how many, 0: one */
    const char *factory_names[FAKE_FACTORIES_MAX];
    NxmemDeviceId factory_devices[FAKE_FACTORIES_MAX];
    uint64_t extra_flags, without_flags; /* of factories and allocators, beside ALLOCATOR and STRUCTURED */
    uint32_t create_status;
    bool break_second_factory;
    void (*before_create)(void);
    /* open */
    uint32_t open_status;
    bool open_returns_null, fixed_mechanism_id;
    bool maps; /* the capability vtables of fake_map.h stand behind their flags */
    void (*bend)(NxmemAllocatorVtable *vtable); /* before it is published */
    uint32_t vtable_bytes;                      /* of the heap block it is published in; 0: all of it */
    /* slots */
    uint32_t allocate_status, enqueue_status, drain_status, pending_status;
    bool allocate_returns_null;
    uint64_t misalign;      /* added to the address handed out */
    void *next_address;     /* handed out once instead of fresh memory (the caller's, never freed) */
    uint32_t result_size;   /* returned in NxmemAllocResult; 0: the real size */
    uint64_t owned, mapped; /* stated; 0: the bytes asked for */
    uint64_t reclaim_first; /* asked of the host inside every allocate */
    struct fake_answer release, completion;
    uint64_t drain_budget; /* most it retires per call; 0: what it is asked */
    bool drain_nothing, complete_in_enqueue, complete_in_release;
    void (*in_enqueue)(void); /* runs inside the slot, after any completion */
    void (*in_release)(void); /* runs inside the allocator's final release */
    uint64_t wrong_ticket;    /* added to the ticket of completions */
    /* readiness */
    uint32_t query_status, query_size;
    NxmemUnloadReport report; /* added to the truth */

    /* what happened */
    atomic_ullong opens, releases, factory_releases, allocates, deallocates, structured, enqueues, drains, queries,
        unmapped;
    atomic_ullong live, queued; /* blocks */
    atomic_ullong strangers;      /* releases asked for of blocks that it does not hold */
    atomic_ullong last_completed; /* allocation id, noted before the host is told */
    atomic_ullong last_drain_budget;
    NxmemNegotiateRequest last_negotiate;
    NxmemOpenRequest last_open;
    NxmemAllocRequest last_request;
    NxmemAllocResult last_result_seen; /* as the host prepared it */
    void *last_handed_out;
    NxmemAllocation last_allocation;   /* of any release slot */
    NxmemReleaseOutcome last_outcome_seen;
    uint32_t last_callback_status, last_reclaim_status;
    uint64_t last_reclaimed;
    struct fake_state *last_state;
    const NxmemHostCallbacks *last_callbacks;
    const NxmemAllocatorVtable *last_published;
};

extern FAKE_EXPORT struct fake fake;

FAKE_EXPORT NxmemStatus fake_negotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response);
FAKE_EXPORT NxmemStatus fake_create(const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories,
                                    uint64_t *count);
FAKE_EXPORT NxmemStatus fake_query(NxmemUnloadReport *report);

void fake_reset(void);

/* Completes the oldest queued release of this state; false when there is none. *ret_status: the host's answer. */
bool fake_complete_one(struct fake_state *state, uint32_t *ret_status);
/* Sends a completion of the test's own making. */
uint32_t fake_send(const NxmemHostCallbacks *callbacks, uint64_t mechanism_id, uint64_t allocation_id, uint64_t ticket,
                   uint32_t state);
uint64_t fake_last_ticket(void);

/* Frees what quarantines and failed releases left in states that are gone. */
void fake_free_leftovers(void);

NxmemStatus fake_status(uint32_t code);

#endif
