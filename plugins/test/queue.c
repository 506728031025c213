/* Queued releases: refused, ended inside the call, retired one by one, never, or long after the host has gone. */
#include <pthread.h>
#include <stdatomic.h>

#include "plugins/common/status.h"
#include "plugins/test/testplugin.h"

static atomic_uint_fast64_t drain_calls;

uint64_t NxmemTestpluginDrainCalls(void)
{
    return atomic_load(&drain_calls);
}

static NxmemStatus refuse(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket)
{
    struct test_state *state = ctx;
    NxmemStatus status = nxp_allocator_check_allocation(&state->lazy.base, allocation);

    (void)ticket;
    if (status.code != NXMEM_STATUS_OK)
        return status;
    return nxp_status(NXMEM_STATUS_BUSY, "this mechanism refuses to queue a release");
}

/* The bytes are gone by then: whatever the host says to the completion or to the request, the release is queued and
 * over, and to answer a failure would have it undone. */
static NxmemStatus complete_inside(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket)
{
    struct test_state *state = ctx;
    NxmemStatus status;
    uint64_t retired, reclaimed;

    nxp_allocator_ref(&state->lazy.base); /* the completion may drop the host's */
    status = state->kit.enqueue_release(ctx, allocation, ticket);
    if (status.code == NXMEM_STATUS_OK) {
        nxp_allocator_drain(&state->lazy.base, 1, &retired);
        nxp_allocator_ask_host(&state->lazy.base, allocation->bytes, &reclaimed);
    }
    nxp_allocator_unref(&state->lazy.base);
    return status;
}

static NxmemStatus drain(void *ctx, uint64_t max_releases, uint64_t *retired)
{
    const struct test_state *state = ctx;
    uint64_t limit = state->mechanism->drain_limit;

    atomic_fetch_add(&drain_calls, 1);
    return state->kit.drain_releases(ctx, max_releases < limit ? max_releases : limit, retired);
}

static void release_after_completing(void *ctx)
{
    struct test_state *state = ctx;
    uint64_t retired;

    nxp_allocator_drain(&state->lazy.base, 1, &retired);
    state->kit.release(ctx);
}

void test_queue_install(struct test_state *state)
{
    NxmemAllocatorVtable *vtable = &state->lazy.base.vtable;
    const struct test_mechanism *mechanism = state->mechanism;

    if (mechanism->completes_at_release)
        vtable->release = release_after_completing;
    if (vtable->enqueue_release == NULL)
        return;
    vtable->drain_releases = drain;
    if (mechanism->refuses_to_queue)
        vtable->enqueue_release = refuse;
    if (mechanism->completes_inside)
        vtable->enqueue_release = complete_inside;
}

/* --- callback-after-drop ------------------------------------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the pointer; nothing is called under it */
static struct test_state *parked; /* borrowed: a state takes itself out before it goes */

void test_parked_set(struct test_state *state)
{
    pthread_mutex_lock(&lock);
    parked = state;
    pthread_mutex_unlock(&lock);
}

void test_parked_forget(const struct test_state *state)
{
    pthread_mutex_lock(&lock);
    if (parked == state)
        parked = NULL;
    pthread_mutex_unlock(&lock);
}

uint64_t NxmemTestpluginParkedStateIsSet(void)
{
    uint64_t set;

    pthread_mutex_lock(&lock);
    set = parked != NULL;
    pthread_mutex_unlock(&lock);
    return set;
}

static void *complete_one(void *argument)
{
    uint64_t *retired = argument;
    struct test_state *state;

    pthread_mutex_lock(&lock);
    state = parked;
    if (state != NULL && !nxp_allocator_ref_if_alive(&state->lazy.base))
        state = NULL;
    pthread_mutex_unlock(&lock);
    if (state == NULL)
        return NULL;
    nxp_allocator_drain(&state->lazy.base, 1, retired);
    nxp_allocator_unref(&state->lazy.base);
    return NULL;
}

uint64_t NxmemTestpluginReportParkedCompletion(void)
{
    uint64_t retired = 0;
    pthread_t thread;

    if (pthread_create(&thread, NULL, complete_one, &retired) != 0)
        return 0;
    pthread_join(thread, NULL);
    return retired;
}
