/* Locks and their ranks. A lock may be taken only while every lock already held by the thread has a
 * smaller rank; none is held across a foreign call (driver, plugin, dlopen, host callback).
 *
 * NXM_LOCK_CHECKS builds count what a thread holds and trap on a violation; others pay nothing.
 */
#ifndef NXM_LOCK_H
#define NXM_LOCK_H

#include <pthread.h>

#include "held.h"

enum nxm_lock_rank {
    NXM_RANK_SCOPE = 20,     /* interpose: contexts and their allocators */
    NXM_RANK_LANE = 30,      /* interpose: release lanes, event pools */
    NXM_RANK_CAPTURE = 35,   /* interpose: list of open captures */
    NXM_RANK_OBJECTS = 40,   /* interpose: loaded objects, real entry points */
    NXM_RANK_MODULE = 50,    /* core: a module's list of allocators, process counters */
    NXM_RANK_ALLOCATOR = 60, /* core: an allocator's queued set and quarantine list */
    NXM_RANK_BLOCKS = 70,    /* core: one shard of a block table */
    NXM_RANK_STARTS = 72,    /* core: where blocks of 4 GiB of addresses start */
    NXM_RANK_SUPPLY = 74,    /* core: memory for block tables */
    NXM_RANK_MISUSE = 90,    /* core: refused frees */
    NXM_RANK_CALM = 95,      /* interpose: reasons not to be calm */
};

struct nxm_lock {
    pthread_mutex_t mutex;
    enum nxm_lock_rank rank;
};

#define NXM_LOCK_INIT(r) { PTHREAD_MUTEX_INITIALIZER, (r) }

void nxm_lock_init(struct nxm_lock *lock, enum nxm_lock_rank rank);
void nxm_lock_clear(struct nxm_lock *lock);
void nxm_lock_acquire(struct nxm_lock *lock);
void nxm_lock_release(struct nxm_lock *lock);

/* For locks of another kind (spin.h): that this thread takes it, before it waits, and lets it go. */
#ifdef NXM_LOCK_CHECKS
void nxm_lock_note(const void *lock, enum nxm_lock_rank rank);
void nxm_lock_unnote(const void *lock);
#else
static inline void nxm_lock_note(const void *lock, enum nxm_lock_rank rank)
{
    (void)lock;
    (void)rank;
}
static inline void nxm_lock_unnote(const void *lock)
{
    (void)lock;
}
#endif

#endif
