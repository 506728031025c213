#include "fake.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fake_map.h"

struct fake_block {
    struct fake_block *next;
    uint64_t id, bytes, ticket;
    void *memory; /* NULL: the test's own */
    bool queued;
};

struct fake_state {
    NxmemAllocatorVtable vtable; /* the copy that is published lies in a heap block of its own */
    void *published;
    NxmemVirtualBackingVtable backing; /* published when the flags say so */
    NxmemSharedMappingVtable sharing;
    const NxmemHostCallbacks *callbacks;
    uint64_t references;
    struct fake_block *blocks; /* oldest first */
};

struct fake fake;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_ullong mechanisms, tickets;
static struct fake_block *leftovers;
static NxmemAllocatorFactoryVtable factories[FAKE_FACTORIES_MAX];

NxmemStatus fake_status(uint32_t code)
{
    return (NxmemStatus){ .code = code };
}

void fake_reset(void)
{
    fake_free_leftovers();
    fake_map_reset();
    memset(&fake, 0, sizeof fake);
}

uint64_t fake_last_ticket(void)
{
    return tickets;
}

/* --- negotiation and readiness ------------------------------------------------------------------- */

NxmemStatus fake_negotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response)
{
    uint32_t minor = request->host_range.minor_max < 1 ? request->host_range.minor_max : 1;

    fake.last_negotiate = *request;
    if (fake.agreed_minor != 0)
        minor = fake.agreed_minor - 1;
    *response = (NxmemNegotiateResponse){
        .struct_size = sizeof *response,
        .agreed_major = 1,
        .agreed_minor = minor,
        .plugin_range = { 1, 1, 0, minor > 1 ? minor : 1 },
        .capability_flags = minor >= 1 ? NXMEM_CAPABILITY_KNOWN_MASK
                                       : NXMEM_CAPABILITY_KNOWN_MASK & ~NXMEM_CAPABILITY_STRUCTURED_RELEASE,
    };
    response->capability_flags &= ~fake.not_negotiated;
    return fake_status(fake.negotiate_status);
}

NxmemStatus fake_query(NxmemUnloadReport *report)
{
    fake.queries++;
    if (fake.query_status != 0)
        return fake_status(fake.query_status);
    *report = fake.report;
    report->struct_size = fake.query_size == 0 ? sizeof *report : fake.query_size;
    report->live_allocators += fake.opens - fake.releases;
    report->live_allocations += fake.live;
    report->queued_releases += fake.queued;
    report->live_views += fake_map.views;
    report->live_capabilities += fake_map.handles;
    return fake_status(0);
}

/* --- blocks -------------------------------------------------------------------------------------- */

static struct fake_block **find_block(struct fake_state *state, uint64_t id)
{
    struct fake_block **link = &state->blocks;

    while (*link != NULL && (*link)->id != id)
        link = &(*link)->next;
    return link;
}

static void append(struct fake_state *state, struct fake_block *block)
{
    struct fake_block **link = &state->blocks;

    while (*link != NULL)
        link = &(*link)->next;
    block->next = NULL;
    *link = block;
}

static struct fake_block *take_block(struct fake_state *state, uint64_t id)
{
    struct fake_block **link, *block;

    pthread_mutex_lock(&mutex);
    link = find_block(state, id);
    block = *link;
    if (block != NULL)
        *link = block->next;
    pthread_mutex_unlock(&mutex);
    return block;
}

static void free_block(struct fake_block *block)
{
    free(block->memory);
    free(block);
    fake.live--;
}

static void leave_over(struct fake_block *block)
{
    pthread_mutex_lock(&mutex);
    block->next = leftovers;
    leftovers = block;
    pthread_mutex_unlock(&mutex);
    fake.live--;
}

void fake_free_leftovers(void)
{
    for (struct fake_block *next; leftovers != NULL; leftovers = next) {
        next = leftovers->next;
        free(leftovers->memory);
        free(leftovers);
    }
}

/* --- allocate ------------------------------------------------------------------------------------ */

static void ask_reclaim(struct fake_state *state, uint64_t bytes)
{
    NxmemReclaimRequest request = {
        .struct_size = sizeof request,
        .mechanism_id = state->vtable.mechanism_id,
        .device = state->vtable.device,
        .bytes = bytes,
    };

    fake.last_reclaimed = 77;
    fake.last_reclaim_status =
        state->callbacks->request_reclaim(state->callbacks->host_ctx, &request, &fake.last_reclaimed).code;
}

static void *memory_for(const NxmemAllocRequest *request)
{
    size_t align = request->align < sizeof(void *) ? sizeof(void *) : request->align;

    return aligned_alloc(align, (request->bytes + 2 * align - 1) / align * align);
}

static NxmemStatus allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    struct fake_state *state = ctx;
    struct fake_block *block;

    fake.allocates++;
    if (fake.reclaim_first != 0)
        ask_reclaim(state, fake.reclaim_first);
    if (fake.allocate_status != 0) {
        result->ptr = (uint8_t *)0x1000; /* on failure it means nothing */
        return fake_status(fake.allocate_status);
    }
    block = calloc(1, sizeof *block);
    block->id = request->allocation_id;
    block->bytes = request->bytes;
    pthread_mutex_lock(&mutex);
    fake.last_request = *request;
    fake.last_result_seen = *result;
    if (fake.next_address == NULL)
        block->memory = memory_for(request);
    *result = (NxmemAllocResult){
        .struct_size = fake.result_size == 0 ? sizeof *result : fake.result_size,
        .ptr = (fake.next_address != NULL ? (uint8_t *)fake.next_address : (uint8_t *)block->memory) + fake.misalign,
        .owned_bytes = fake.owned == 0 ? request->bytes : fake.owned,
        .mapped_bytes = fake.mapped == 0 ? request->bytes : fake.mapped,
    };
    fake.next_address = NULL;
    fake.last_handed_out = result->ptr;
    append(state, block);
    pthread_mutex_unlock(&mutex);
    fake.live++;
    if (fake.allocate_returns_null) {
        result->ptr = NULL;
        leave_over(take_block(state, request->allocation_id));
    }
    return fake_status(0);
}

/* --- terminal slots ------------------------------------------------------------------------------ */

static void see_allocation(const NxmemAllocation *allocation)
{
    pthread_mutex_lock(&mutex);
    fake.last_allocation = *allocation;
    pthread_mutex_unlock(&mutex);
}

static NxmemStatus stranger(void)
{
    fake.strangers++;
    return fake_status(NXMEM_STATUS_UNKNOWN_ALLOCATION);
}

static void dispose(struct fake_state *state, struct fake_block *block, const struct fake_answer *answer)
{
    if (!answer->set || !answer->keep) {
        if (answer->set && answer->residual != 0)
            leave_over(block);
        else
            free_block(block);
        return;
    }
    pthread_mutex_lock(&mutex);
    append(state, block);
    pthread_mutex_unlock(&mutex);
}

static NxmemStatus deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped)
{
    struct fake_state *state = ctx;
    struct fake_block *block;

    fake.deallocates++;
    see_allocation(allocation);
    if (fake.release.set && fake.release.status != 0)
        return fake_status(fake.release.status);
    block = take_block(state, allocation->allocation_id);
    if (block == NULL)
        return stranger();
    fake_map_block_left(block->id);
    *unmapped = fake.release.set ? fake.release.unmapped : block->bytes;
    dispose(state, block, &fake.release);
    return fake_status(0);
}

static NxmemReleaseOutcome outcome_of(const struct fake_answer *answer, const struct fake_block *block)
{
    NxmemReleaseOutcome outcome = {
        .struct_size = sizeof outcome,
        .state = NXMEM_RELEASE_COMPLETE,
        .allocation_bytes = block->bytes,
        .unmapped_bytes = block->bytes,
    };

    if (!answer->set)
        return outcome;
    outcome.struct_size = answer->struct_size == 0 ? sizeof outcome : answer->struct_size;
    outcome.state = answer->state;
    outcome.unmapped_bytes = answer->unmapped;
    outcome.residual_owned_bytes = answer->residual;
    outcome.failure.code = answer->state == NXMEM_RELEASE_COMPLETE ? 0 : NXMEM_STATUS_BUSY;
    return outcome;
}

static NxmemStatus release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome)
{
    struct fake_state *state = ctx;
    struct fake_block *block;

    fake.structured++;
    see_allocation(allocation);
    pthread_mutex_lock(&mutex);
    fake.last_outcome_seen = *outcome;
    pthread_mutex_unlock(&mutex);
    if (fake.release.set && fake.release.status != 0)
        return fake_status(fake.release.status);
    block = take_block(state, allocation->allocation_id);
    if (block == NULL)
        return stranger();
    if (!fake.release.set || fake.release.state != NXMEM_RELEASE_FAILED)
        fake_map_block_left(block->id);
    *outcome = outcome_of(&fake.release, block);
    dispose(state, block, &fake.release);
    return fake_status(0);
}

/* --- the queue ----------------------------------------------------------------------------------- */

static NxmemStatus send(const NxmemHostCallbacks *callbacks, const NxmemReleaseCompletion *completion)
{
    /* An exact block: the host may not look one byte further. */
    NxmemReleaseCompletion *exact = malloc(sizeof *exact);
    NxmemStatus status;

    *exact = *completion;
    status = callbacks->release_completed(callbacks->host_ctx, exact);
    free(exact);
    return status;
}

uint32_t fake_send(const NxmemHostCallbacks *callbacks, uint64_t mechanism_id, uint64_t allocation_id, uint64_t ticket,
                   uint32_t state)
{
    NxmemReleaseCompletion completion = {
        .struct_size = sizeof completion,
        .ticket = ticket,
        .mechanism_id = mechanism_id,
        .allocation_id = allocation_id,
        .outcome = { .struct_size = sizeof completion.outcome, .state = state },
    };

    return send(callbacks, &completion).code;
}

static struct fake_block *take_queued(struct fake_state *state)
{
    struct fake_block **link = &state->blocks, *block;

    pthread_mutex_lock(&mutex);
    while (*link != NULL && !(*link)->queued)
        link = &(*link)->next;
    block = *link;
    if (block != NULL)
        *link = block->next;
    pthread_mutex_unlock(&mutex);
    return block;
}

static void drop_reference(struct fake_state *state)
{
    uint64_t left;

    pthread_mutex_lock(&mutex);
    left = --state->references;
    pthread_mutex_unlock(&mutex);
    if (left != 0)
        return;
    while (state->blocks != NULL)
        leave_over(take_block(state, state->blocks->id));
    free(state->published);
    free(state);
}

bool fake_complete_one(struct fake_state *state, uint32_t *ret_status)
{
    const NxmemHostCallbacks *callbacks = state->callbacks;
    struct fake_block *block = take_queued(state);
    NxmemReleaseCompletion completion;

    if (block == NULL)
        return false;
    completion = (NxmemReleaseCompletion){
        .struct_size = sizeof completion,
        .ticket = block->ticket + fake.wrong_ticket,
        .mechanism_id = state->vtable.mechanism_id,
        .allocation_id = block->id,
        .outcome = outcome_of(&fake.completion, block),
    };
    block->queued = false;
    fake.queued--;
    fake.last_completed = block->id;
    dispose(state, block, &fake.completion);
    *ret_status = send(callbacks, &completion).code;
    drop_reference(state);
    return true;
}

static NxmemStatus enqueue_release(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket)
{
    struct fake_state *state = ctx;
    struct fake_block *block;

    fake.enqueues++;
    see_allocation(allocation);
    if (fake.enqueue_status != 0 && !fake.complete_in_enqueue)
        return fake_status(fake.enqueue_status);
    pthread_mutex_lock(&mutex);
    block = *find_block(state, allocation->allocation_id);
    if (block != NULL) {
        state->references++;
        block->ticket = ++tickets;
        *ticket = block->ticket;
        block->queued = true;
        fake.queued++;
    }
    pthread_mutex_unlock(&mutex);
    if (block == NULL)
        return stranger();
    fake_map_block_left(allocation->allocation_id);
    if (fake.complete_in_enqueue)
        fake_complete_one(state, &fake.last_callback_status);
    if (fake.in_enqueue != NULL)
        fake.in_enqueue();
    return fake_status(fake.enqueue_status);
}

static NxmemStatus drain_releases(void *ctx, uint64_t max, uint64_t *retired)
{
    struct fake_state *state = ctx;
    uint32_t answer;

    fake.drains++;
    fake.last_drain_budget = max;
    if (fake.drain_budget != 0 && fake.drain_budget < max)
        max = fake.drain_budget;
    while (!fake.drain_nothing && *retired < max && fake_complete_one(state, &answer)) {
        pthread_mutex_lock(&mutex);
        fake.last_callback_status = answer;
        pthread_mutex_unlock(&mutex);
        ++*retired;
    }
    return fake_status(fake.drain_status);
}

static NxmemStatus pending_release_count(void *ctx, uint64_t *count)
{
    struct fake_state *state = ctx;

    *count = 0;
    pthread_mutex_lock(&mutex);
    for (const struct fake_block *block = state->blocks; block != NULL; block = block->next)
        *count += block->queued;
    pthread_mutex_unlock(&mutex);
    return fake_status(fake.pending_status);
}

/* --- open and factories -------------------------------------------------------------------------- */

static void retain(void *ctx)
{
    struct fake_state *state = ctx;

    pthread_mutex_lock(&mutex);
    state->references++;
    pthread_mutex_unlock(&mutex);
}

static void release(void *ctx)
{
    struct fake_state *state = ctx;

    if (fake.complete_in_release)
        fake_complete_one(state, &fake.last_callback_status);
    if (fake.in_release != NULL)
        fake.in_release();
    fake.releases++;
    drop_reference(state);
}

static uint64_t flags(void)
{
    return (NXMEM_CAPABILITY_ALLOCATOR | NXMEM_CAPABILITY_STRUCTURED_RELEASE | fake.extra_flags) & ~fake.without_flags;
}

static void publish(struct fake_state *state)
{
    uint32_t bytes = fake.vtable_bytes == 0 ? sizeof state->vtable : fake.vtable_bytes;

    /* An exact block: what lies behind the declared size is not the host's to read. */
    state->published = malloc(bytes);
    memcpy(state->published, &state->vtable, bytes);
    fake.last_published = state->published;
}

static NxmemStatus open_allocator(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **vtable)
{
    const NxmemAllocatorFactoryVtable *factory = ctx;
    struct fake_state *state;

    fake.last_open = *request;
    if (fake.open_status != 0) {
        *vtable = (const NxmemAllocatorVtable *)0x1000; /* on failure it means nothing */
        return fake_status(fake.open_status);
    }
    if (fake.open_returns_null)
        return fake_status(0);
    state = calloc(1, sizeof *state);
    state->references = 1;
    state->callbacks = request->callbacks;
    state->vtable = (NxmemAllocatorVtable){
        .struct_size = sizeof state->vtable,
        .abi_minor = 1,
        .mechanism_id = fake.fixed_mechanism_id ? FAKE_FIXED_MECHANISM_ID : ++mechanisms,
        .device = factory->device,
        .capability_flags = flags(),
        .name = factory->name,
        .ctx = state,
        .allocate = allocate,
        .deallocate = deallocate,
        .retain = retain,
        .release = release,
        .enqueue_release = enqueue_release,
        .drain_releases = drain_releases,
        .pending_release_count = pending_release_count,
        .release_allocation = release_allocation,
    };
    fake_map_publish(state->vtable.mechanism_id, state->vtable.device, state, allocate, &state->backing, &state->sharing);
    if (fake.maps && (state->vtable.capability_flags & NXMEM_CAPABILITY_VIRTUAL_BACKING))
        state->vtable.virtual_backing = &state->backing;
    if (fake.maps && (state->vtable.capability_flags & NXMEM_CAPABILITY_SHARED_MAPPING))
        state->vtable.shared_mapping = &state->sharing;
    if (fake.bend != NULL)
        fake.bend(&state->vtable);
    publish(state);
    fake.opens++;
    fake.last_state = state;
    fake.last_callbacks = request->callbacks;
    *vtable = state->published;
    return fake_status(0);
}

static void release_factory(void *ctx)
{
    (void)ctx;
    fake.factory_releases++;
}

NxmemStatus fake_create(const NxmemAllocatorFactoryVtable **slots, uint64_t max_factories, uint64_t *count)
{
    uint64_t wanted = fake.factories == 0 ? 1 : fake.factories;

    if (fake.before_create != NULL)
        fake.before_create();
    for (uint64_t i = 0; i < wanted && i < max_factories && i < FAKE_FACTORIES_MAX; i++) {
        const char *name = fake.factory_names[i];

        factories[i] = (NxmemAllocatorFactoryVtable){
            .struct_size = sizeof factories[i],
            .abi_minor = 1,
            .name = (const uint8_t *)(name == NULL ? "plain" : name),
            .device = fake.factory_devices[i],
            .capability_flags = flags(),
            .ctx = &factories[i],
            .open_allocator = fake.break_second_factory && i == 1 ? NULL : open_allocator,
            .release = release_factory,
        };
        slots[i] = &factories[i];
    }
    *count = wanted;
    return fake_status(fake.create_status);
}
