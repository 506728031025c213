/* The host's end of an opened allocator: the callback table and what came through it. It answers as a careful host
 * does, and notes what no plugin may report. Owns its records until the process ends (a plugin may call late).
 * Any thread; its lock is not held while a hook runs. */
#ifndef NXMEM_CHECK_HOST_H
#define NXMEM_CHECK_HOST_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "nxmem_memory_abi.h"

enum { HOST_RELEASES = 4096 };

/* What a completion can be wrong in; each has a rule of its own. */
enum host_offence {
    OFFENCE_STRANGER,  /* an id that was never queued */
    OFFENCE_TWICE,     /* an id that has been completed */
    OFFENCE_MECHANISM, /* another mechanism's id */
    OFFENCE_ORDER,     /* not in the order of the tickets */
    OFFENCE_TICKET,    /* another ticket than enqueue_release answers */
    OFFENCE_STATE,     /* a state outside the table */
    OFFENCE_BYTES,     /* sizes that cannot be, or a struct without its size */
    OFFENCES
};

struct host_release {
    uint64_t id, bytes, limit; /* the most that it can give back */
    uint64_t told_ticket, given_ticket;
    bool completed, given;
    uint32_t state;
};

struct host {
    NxmemHostCallbacks table;
    pthread_mutex_t lock; /* guards all below */
    struct host_release releases[HOST_RELEASES];
    unsigned count, completed;
    bool in_sequence; /* releases are queued by one thread: completions must come in that order */
    bool offended[OFFENCES];
    char words[OFFENCES][160];
    unsigned refuse_from, refuse_count; /* completions to refuse: the n-th (from 1) and so many */
    unsigned refused;
    uint32_t reclaim_answer; /* a status code */
    unsigned reclaims;
    uint32_t reserved; /* every bit that was set in the reserved field of anything */
    NxmemReclaimRequest last_reclaim;
    pthread_t owner;        /* the thread that uses the allocator */
    bool from_threads;      /* another one reported a completion */
    bool quiet;             /* inside a slot that must not call back */
    unsigned calls_in_quiet;
    void (*hook)(void *hook_argument); /* runs inside both callbacks, once */
    void *hook_argument;
    void (*witness)(void *witness_argument); /* runs inside each completion, before it is judged */
    void *witness_argument;
    uint64_t mechanism_id;
};

/* In allocated memory of its own, never freed. */
struct host *host_new(uint32_t minor);

/* Before enqueue_release is entered: from now on a completion is due. After a refusal it is not. */
void host_expect(struct host *host, uint64_t id, uint64_t bytes, uint64_t limit);
void host_given(struct host *host, uint64_t id, uint64_t ticket);
void host_forget(struct host *host, uint64_t id);

bool host_completed(struct host *host, uint64_t id, uint32_t *ret_state);
unsigned host_outstanding(struct host *host);

#endif
