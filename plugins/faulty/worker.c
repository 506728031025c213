/* The threads of completes-later. Each is remembered until it is joined, for its last instructions are this
 * plugin's code. */
#include <stdatomic.h>
#include <unistd.h>

#include "plugins/common/status.h"
#include "plugins/common/tallies.h"
#include "plugins/faulty/faulty.h"

enum { DELAY_MICROSECONDS = 2000 };

struct worker {
    pthread_t thread;
    struct nxp_allocator *allocator; /* the queued entry's reference */
    struct nxp_block *block;
    atomic_bool through; /* nothing but the return is left */
    struct worker *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list; not held over join or the host */
static struct worker *workers;
static atomic_uint_fast64_t left;

static void *run(void *argument)
{
    struct worker *worker = argument;
    struct nxp_allocator *allocator = worker->allocator;
    struct nxp_block ended = *worker->block;
    uint32_t state = NXMEM_RELEASE_COMPLETE;
    NxmemStatus status;

    usleep(DELAY_MICROSECONDS);
    status = allocator->backend->release(allocator, NULL, worker->block);
    if (status.code == NXMEM_STATUS_OK) {
        nxp_allocator_retire(allocator, worker->block);
    } else {
        state = NXMEM_RELEASE_FAILED;
        nxp_allocator_restore(allocator, worker->block);
    }
    pthread_mutex_lock(&allocator->lock);
    allocator->pending--;
    pthread_mutex_unlock(&allocator->lock);
    nxp_tally_down(NXP_TALLY_QUEUED);
    nxp_allocator_complete(allocator, &ended, state, &status);
    nxp_allocator_unref(allocator);
    atomic_store(&worker->through, true);
    return NULL;
}

bool faulty_worker_start(struct nxp_allocator *allocator, struct nxp_block *block)
{
    struct worker *worker = nxp_pages_map(sizeof *worker);

    if (worker == NULL)
        return false;
    worker->allocator = allocator;
    worker->block = block;
    atomic_fetch_add(&left, 1);
    /* On the list before it can be joined, and joined only from the list: the lock covers both. */
    pthread_mutex_lock(&lock);
    if (pthread_create(&worker->thread, NULL, run, worker) != 0) {
        pthread_mutex_unlock(&lock);
        atomic_fetch_sub(&left, 1);
        nxp_pages_unmap(worker, sizeof *worker);
        return false;
    }
    worker->next = workers;
    workers = worker;
    pthread_mutex_unlock(&lock);
    return true;
}

/* Takes one worker off the list. */
static struct worker *take_one(bool all)
{
    struct worker **link, *worker;

    pthread_mutex_lock(&lock);
    for (link = &workers; *link != NULL; link = &(*link)->next)
        if (all || atomic_load(&(*link)->through))
            break;
    worker = *link;
    if (worker != NULL)
        *link = worker->next;
    pthread_mutex_unlock(&lock);
    return worker;
}

uint64_t faulty_workers_join(bool all)
{
    struct worker *worker;
    uint64_t joined = 0;

    while ((worker = take_one(all)) != NULL) {
        pthread_join(worker->thread, NULL);
        nxp_pages_unmap(worker, sizeof *worker);
        atomic_fetch_sub(&left, 1);
        joined++;
    }
    return joined;
}

uint64_t faulty_workers_left(void)
{
    return atomic_load(&left);
}
