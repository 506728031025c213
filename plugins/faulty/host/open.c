/* Vtables from the future, vtables that end with their page, and openings and closings that take their time. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "plugins/common/status.h"
#include "plugins/faulty/host/faulty_host.h"

enum {
    NEWER_MINOR = 7,
    NEWER_TAIL = 32,
    LONG_NAME = 9999,
    HELD_SECONDS = 60,
};

/* --- places ---------------------------------------------------------------------------------------------------- */

void *fh_guarded_new(struct fh_guarded *guarded, const void *bytes, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (size + page - 1) / page * page;
    char *pages = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED)
        return NULL;
    mprotect(pages + room, page, PROT_NONE);
    memcpy(pages + room - size, bytes, size);
    guarded->pages = pages;
    guarded->bytes = room + page;
    return pages + room - size;
}

void fh_guarded_free(struct fh_guarded *guarded)
{
    if (guarded->pages != NULL)
        munmap(guarded->pages, guarded->bytes);
}

/* --- what is published ------------------------------------------------------------------------------------------- */

/* A copy of a vtable that says another size and minor, and ends where it says. */
static const void *publish_as(struct fh_guarded *guarded, const void *vtable, uint32_t own, uint32_t size, uint32_t minor)
{
    unsigned char copy[sizeof(NxmemAllocatorVtable) + NEWER_TAIL];

    memset(copy, 0xAB, sizeof copy);
    memcpy(copy, vtable, own < size ? own : size);
    memcpy(copy, &size, sizeof size);
    memcpy(copy + sizeof size, &minor, sizeof minor);
    return fh_guarded_new(guarded, copy, size);
}

static const NxmemAllocatorVtable *publish_all(struct fh_state *state, uint32_t tail, uint32_t minor)
{
    NxmemAllocatorVtable *vtable = &state->lazy.base.vtable;

    vtable->virtual_backing = publish_as(&state->guarded[0], &state->lazy.backing, sizeof state->lazy.backing,
                                         (uint32_t)sizeof state->lazy.backing + tail, minor);
    vtable->shared_mapping = publish_as(&state->guarded[1], &state->lazy.mapping, sizeof state->lazy.mapping,
                                        (uint32_t)sizeof state->lazy.mapping + tail, minor);
    return publish_as(&state->guarded[2], vtable, vtable->struct_size, vtable->struct_size + tail, minor);
}

static void name_at_length(struct fh_state *state)
{
    char name[LONG_NAME + 1];

    memset(name, 'n', LONG_NAME);
    name[LONG_NAME] = '\0';
    state->lazy.base.vtable.name = fh_guarded_new(&state->guarded[3], name, sizeof name);
}

static const NxmemAllocatorVtable *publish(struct fh_state *state)
{
    NxmemAllocatorVtable *vtable = &state->lazy.base.vtable;

    switch (state->fault) {
    case FH_NEWER_VTABLES:
        return publish_all(state, NEWER_TAIL, NEWER_MINOR);
    case FH_PAGE_END_VTABLES:
        return publish_all(state, 0, vtable->abi_minor);
    case FH_PAGE_END_MINOR_0:
        return publish_all(state, 0, 0);
    case FH_DRAIN_MISSING:
        vtable->drain_releases = NULL;
        return vtable;
    case FH_LONG_NAME:
        name_at_length(state);
        return vtable;
    default:
        return vtable;
    }
}

/* --- vtables without state ----------------------------------------------------------------------------------------- */

static struct fh_guarded unreadable[2];

__attribute__((destructor)) static void free_unreadable(void)
{
    fh_guarded_free(&unreadable[0]);
    fh_guarded_free(&unreadable[1]);
}

/* Made once; the openings that race for it wait. */
static const NxmemAllocatorVtable *unreadable_vtable(unsigned which, uint32_t size, uint32_t claim)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const NxmemAllocatorVtable *made[2];
    unsigned char bytes[64] = {0};

    pthread_mutex_lock(&lock);
    memcpy(bytes, &claim, sizeof claim);
    if (made[which] == NULL)
        made[which] = fh_guarded_new(&unreadable[which], bytes, size);
    pthread_mutex_unlock(&lock);
    return made[which];
}

/* --- holds-release ---------------------------------------------------------------------------------------------------- */

static pthread_mutex_t let_go_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t let_go_changed = PTHREAD_COND_INITIALIZER;
static bool let_go;

void NxmemFaultyHostLetGo(void)
{
    pthread_mutex_lock(&let_go_lock);
    let_go = true;
    pthread_cond_broadcast(&let_go_changed);
    pthread_mutex_unlock(&let_go_lock);
}

static void hold(void)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += HELD_SECONDS;
    pthread_mutex_lock(&let_go_lock);
    while (!let_go && pthread_cond_timedwait(&let_go_changed, &let_go_lock, &end) == 0)
        ;
    pthread_mutex_unlock(&let_go_lock);
}

static void release_allocator(void *ctx)
{
    struct fh_state *state = ctx;

    fh_count(FH_COUNT_AllocatorReleases);
    if (state->fault == FH_HOLDS_RELEASE)
        hold();
    state->kit.release(ctx);
}

/* --- opening ------------------------------------------------------------------------------------------------------------ */

static void call_back_too_early(struct fh_state *state)
{
    const NxmemReleaseCompletion completion = {
        .struct_size = sizeof completion,
        .mechanism_id = state->lazy.base.vtable.mechanism_id,
        .allocation_id = 1,
        .ticket = 1,
        .outcome = {.struct_size = sizeof completion.outcome},
    };

    nxp_allocator_request_reclaim(&state->lazy.base, 4096);
    fh_complete_bogus(state, &completion);
}

static NxmemStatus open_state(const struct fh_mechanism *mechanism, const NxmemOpenRequest *request,
                              const NxmemAllocatorVtable **vtable)
{
    struct nxp_allocator *allocator;
    struct fh_state *state;
    NxmemStatus status = nxp_allocator_open(&mechanism->backend, mechanism->name,
                                            (NxmemDeviceId){NXMEM_TIER_HOST, 0}, request, &allocator);

    if (status.code != NXMEM_STATUS_OK)
        return status;
    state = (struct fh_state *)allocator;
    state->fault = mechanism->fault;
    nxp_lazy_publish(&state->lazy);
    state->kit = allocator->vtable;
    state->kit_backing = state->lazy.backing;
    state->kit_mapping = state->lazy.mapping;
    allocator->vtable.release = release_allocator;
    fh_memory_install(state);
    fh_queue_install(state);
    fh_ranges_install(state);
    if (state->fault == FH_REENTERS_OPEN)
        call_back_too_early(state);
    *vtable = publish(state);
    return status;
}

NxmemStatus fh_open(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **vtable)
{
    const struct fh_mechanism *mechanism = ctx;
    NxmemOpenRequest own;

    if (mechanism->fault == FH_PAGE_END_SHORT || mechanism->fault == FH_PAGE_END_STUB) {
        *vtable = mechanism->fault == FH_PAGE_END_SHORT ? unreadable_vtable(0, 40, 40) : unreadable_vtable(1, 8, 4);
        return nxp_ok();
    }
    if (mechanism->fault == FH_PAGE_END_MINOR_0) {
        own = *request;
        own.abi_minor = 0;
        request = &own;
    }
    return open_state(mechanism, request, vtable);
}
