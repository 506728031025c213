#include "locks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

enum { ROOM = 64 };

struct registered {
    _Atomic(void *) lock; /* NULL: free */
    int (*_Atomic is_held_by_me)(void *);
};

static pthread_mutex_t writers = PTHREAD_MUTEX_INITIALIZER;
static struct registered table[ROOM];
static atomic_int used; /* entries that have ever been used */

bool sim_locks_add(void *lock, int (*is_held_by_me)(void *))
{
    int i = 0;
    pthread_mutex_lock(&writers);
    while (i < ROOM && atomic_load(&table[i].lock)) i++;
    if (i < ROOM) {
        atomic_store(&table[i].is_held_by_me, is_held_by_me);
        atomic_store(&table[i].lock, lock);
        if (i >= atomic_load(&used)) atomic_store(&used, i + 1);
    }
    pthread_mutex_unlock(&writers);
    return i < ROOM;
}

void sim_locks_remove(void *lock)
{
    pthread_mutex_lock(&writers);
    for (int i = 0; i < ROOM; i++)
        if (atomic_load(&table[i].lock) == lock) atomic_store(&table[i].lock, NULL);
    pthread_mutex_unlock(&writers);
}

bool sim_locks_held(void)
{
    int n = atomic_load_explicit(&used, memory_order_relaxed);
    for (int i = 0; i < n; i++) {
        void *lock = atomic_load(&table[i].lock);
        if (lock && atomic_load(&table[i].is_held_by_me)(lock)) return true;
    }
    return false;
}
