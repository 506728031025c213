#include "lock.h"

#ifdef NXM_LOCK_CHECKS

#define HELD_MAX 16

static __thread struct {
    unsigned count;
    const void *locks[HELD_MAX];
    enum nxm_lock_rank ranks[HELD_MAX];
} held;

/* Before the lock is waited for: a violation traps even when it would not have deadlocked this time. */
void nxm_lock_note(const void *lock, enum nxm_lock_rank rank)
{
    for (unsigned i = 0; i < held.count; i++) {
        if (held.ranks[i] >= rank)
            __builtin_trap();
    }
    if (held.count == HELD_MAX)
        __builtin_trap();
    held.locks[held.count] = lock;
    held.ranks[held.count++] = rank;
}

void nxm_lock_unnote(const void *lock)
{
    for (unsigned i = held.count; i-- > 0;) {
        if (held.locks[i] == lock) {
            held.locks[i] = held.locks[--held.count];
            held.ranks[i] = held.ranks[held.count];
            return;
        }
    }
    __builtin_trap();
}

void nxm_lock_assert_none(void)
{
    if (held.count != 0)
        __builtin_trap();
}

#endif

void nxm_lock_init(struct nxm_lock *lock, enum nxm_lock_rank rank)
{
    pthread_mutex_init(&lock->mutex, NULL);
    lock->rank = rank;
}

void nxm_lock_clear(struct nxm_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

void nxm_lock_acquire(struct nxm_lock *lock)
{
    nxm_lock_note(lock, lock->rank);
    pthread_mutex_lock(&lock->mutex);
}

void nxm_lock_release(struct nxm_lock *lock)
{
    nxm_lock_unnote(lock);
    pthread_mutex_unlock(&lock->mutex);
}
