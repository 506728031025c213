/* What the shim knows of a thread. Owns one small thread-local record; no locks.
 *
 * `foreign` counts how often this thread is inside a plugin or inside the loader on our behalf: a CUDA call that
 * arrives meanwhile is the plugin's, not the program's. `inside` counts hooks on the stack (a signal handler
 * that calls _exit must not wait for what its own thread holds).
 */
#ifndef NXM_THREAD_H
#define NXM_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "context.h"
#include "core/lock.h"
#include "core/quiet.h"
#include "cuda_types.h"

struct nxm_scope;

struct nxm_label { /* label.h */
    uint16_t api;   /* enum nxm_api; 0 none */
    bool fired;     /* a driver hook took or saw it */
    uint64_t bytes; /* what the runtime function was asked for; 0: any size is its own */
};

struct nxm_thread {
    union {
        struct {
            uint16_t foreign;
            uint16_t inside;
        };
        _Atomic uint32_t busy; /* both at once, for quiet.h */
        _Atomic uint64_t begun; /* all three at once: busy, and no error yet */
        struct {
            uint32_t unused;
            CUresult nested_error; /* of the last failing driver call of the plugin, since the last foreign call began */
        };
    };
    bool block_is_range;   /* the mechanism being called hands out what the driver returned: the block itself is the record */
    struct nxm_label label;
    struct nxm_place place; /* where it last was */
    /* For quiet calls: its own line of counters (spread.h), and the word in which it announces itself (door.h); NULL before the first. */
    uint64_t here;
    _Atomic uint64_t *announcement;
    struct nxm_quiet_words words; /* for place.scope */
    struct nxm_scope *scopes[2]; /* that it last entered, for synchronous and for stream-ordered memory; only a hint */
    unsigned forks;        /* of its own that have begun: another library's handler may call us in one */
    uint32_t number;       /* from 1, never reused: names a thread's own per-thread default stream; 0 not given yet */
};

#define NXM_QUIETLY 0x00010001u            /* `busy` of one that is in both, and does so quietly */
#define NXM_QUIETLY_ALLOCATES 0x40000001u /* the same: no other thread is that often inside */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && CUDA_SUCCESS == 0, "a number for `begun` is one for `busy`");

/* Initial-exec: no allocation on a thread's first touch; small enough for the surplus kept for a late dlopen. */
extern __thread struct nxm_thread nxm_thread __attribute__((tls_model("initial-exec")));

uint32_t nxm_thread_number(void);

/* Bracket every call into a plugin or the loader. No lock of ours may be held (checked). */
static inline void nxm_foreign_begin(void)
{
    nxm_lock_assert_none();
    if (nxm_thread.foreign++ == 0)
        nxm_thread.nested_error = CUDA_SUCCESS;
}

static inline void nxm_foreign_end(void)
{
    nxm_thread.foreign--;
}

#endif
