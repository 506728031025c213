/* Release lanes: blocks of mechanisms without a CUDA companion that the program freed while their work may still run.
 * Each waits behind an event recorded by the very call that freed it. Owns the waiting entries; any
 * thread; NXM_RANK_LANE inside, never across a driver or plugin call. One thread at a time polls a lane.
 *
 * Readiness is found by polling inside later calls of the program: no callback, no device-wide wait. A release that might
 * itself wait is entered only inside the program's own waiting calls.
 */
#ifndef NXM_LANE_H
#define NXM_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/allocator.h"
#include "core/here.h"
#include "giveback.h"
#include "mark.h"
#include "process.h"
#include "waiting.h"

/* Takes the entry over: it waits behind what this key's stream freed before. */
void nxm_lane_append(uint64_t key, struct nxm_waiting *entry);

/* Looks at a few lanes, and enters the releases that this moment allows. Costs one load when nothing waits. */
void nxm_lane_poll_all(enum nxm_moment moment);
extern NXM_HERE _Atomic uint64_t nxm_lane_blocks; /* that wait */

/* Free of charge when nothing waits and the moment is no special one. */
static inline void nxm_lane_poll(enum nxm_moment moment)
{
    if (__builtin_expect(moment != NXM_MOMENT_ANY || atomic_load_explicit(&nxm_lane_blocks, memory_order_relaxed) != 0 || nxm_mark_any(), 0))
        nxm_lane_poll_all(moment);
}

/* The same where the program has waited for all of this context (NULL: the current one): whatever waits behind its work. */
void nxm_lane_poll_context(CUcontext context);

/* Looks whether anything is left (owes.h), for a call that has asked or waited. */
void nxm_lane_look_round(void);

/* Looks at every lane once and drains every allocator: before memory totals, before "out of memory". Where this context (NULL:
 * the current one) has nothing in flight, or within so many milliseconds has not, releases that wait for all of it are
 * entered too, and those of other contexts that have nothing in flight. */
void nxm_lane_flush(CUcontext context, unsigned milliseconds);

/* How often something has been given back so far, by whichever thread. */
static inline uint64_t nxm_lane_given(void)
{
    return atomic_load(&nxm_given);
}

/* Of a call that failed for want of memory, and began at `given`: whether memory has come back since, or a flush, or another thread, may
 * still give some back. */
bool nxm_lane_room_since(uint64_t given);

/* Waits, at most so long, for what this stream key has freed, then flushes. Not while a capture is open. */
void nxm_lane_wait(uint64_t stream_key, unsigned milliseconds);

/* For the program's own synchronous calls, before one is served or after: while more than NXMEM_LANE_LIMIT waits, waits for some of
 * it, at most NXMEM_OOM_WAIT_MS, so that work which never ends holds nobody up. Not while a capture is open. One load when nothing
 * is limited. */
void nxm_lane_keep_to(uint64_t limit);
static inline void nxm_lane_keep_limit(void)
{
    uint64_t mib = nxm_options()->lane_limit;

    if (__builtin_expect(mib != 0, 0))
        nxm_lane_keep_to(mib << 20);
}

/* Records the events of parked blocks. One that cannot be recorded keeps no other from it: it stays parked until the next wait
 * of the program, the end of another capture, or that of its context. The driver's first failure, else CUDA_SUCCESS. */
CUresult nxm_lane_captures_closed(void);
/* The context's work has passed and its events go: blocks that outlive it are given back, its own are the caller's. */
void nxm_lane_context_gone(CUcontext context, bool alive);
void nxm_lane_amount(uint64_t *ret_blocks, uint64_t *ret_bytes); /* waiting now; no locks, callable at exit */

uint64_t nxm_lane_peak(void); /* most bytes that waited at one time */

/* core's reclaim path: gives back what has passed in other allocators of that device. */
int64_t nxm_lane_reclaim(void *owner, struct nxm_allocator *allocator, NxmemDeviceId device, uint64_t bytes);

#endif
