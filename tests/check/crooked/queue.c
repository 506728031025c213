/* Queued releases. */
#include <stdlib.h>
#include <string.h>

#include "crooked.h"

static void append(struct block *block) {
    struct block **link = &queue;
    block->next = NULL;
    while (*link) link = &(*link)->next;
    *link = block;
}

static NxmemStatus enqueue_release(void *ctx, const NxmemAllocation *name, uint64_t *ticket) {
    static uint64_t last;
    struct allocator *self = ctx;
    NxmemStatus status = identity(self, name->mechanism_id, name->device);
    struct block *block, **link = &blocks;

    if (status.code != NXMEM_STATUS_OK) return status;
    if (WHEN(QUEUE_REFUSES)) return say(NXMEM_STATUS_BUSY, "queues nothing");
    pthread_mutex_lock(&lock);
    block = find_block(name->allocation_id);
    if (!block || block->owner != self) {
        pthread_mutex_unlock(&lock);
        return say(NXMEM_STATUS_UNKNOWN_ALLOCATION, "not live here");
    }
    while (*link != block) link = &(*link)->next;
    *link = block->next;
    if (WHEN(REFUSAL_TAKES)) {
        pthread_mutex_unlock(&lock);
        return say(NXMEM_STATUS_BUSY, "queues nothing");
    }
    if (!WHEN(VIEW_STAYS_QUEUED)) drop_views(block);
    if (WHEN(QUEUED_REUSED)) arena_take_back(block->memory);
    self->references++;
    alive.queued_releases++;
    block->queued = true;
    block->name = name;
    block->ticket = ++last;
    *ticket = WHEN(SAME_TICKET) ? 1 : block->ticket;
    if (WHEN(SAME_TICKET)) block->ticket = 1;
    append(block);
    pthread_mutex_unlock(&lock);
    return status;
}

/* Takes up to max of this allocator's entries off the queue. */
static struct block *detach(struct allocator *self, uint64_t max) {
    struct block *batch = NULL, **tail = &batch, **link = &queue;
    while (*link && max > 0) {
        struct block *block = *link;
        if (block->owner != self) {
            link = &block->next;
            continue;
        }
        *link = block->next;
        block->next = NULL;
        if (WHEN(BACKWARDS)) {
            block->next = batch;
            batch = block;
        } else {
            *tail = block;
            tail = &block->next;
        }
        max--;
    }
    return batch;
}

static uint64_t completing;

static uint64_t uncounted; /* told, and counted until the last of the batch */

static void uncount(uint64_t releases) {
    alive.live_allocations -= WHEN(UNCOUNTS_AFTER) && alive.live_allocations < releases ? alive.live_allocations : releases;
    alive.queued_releases -= releases;
}

/* Under the lock, before the host is told. */
static void count_down(const struct block *block) {
    completing += WHEN(PENDING_LATE) ? 1 : 0;
    if (WHEN(COUNTS_LATE)) return;
    uncounted++;
    if (WHEN(COUNTS_BY_BATCH) && block->next) return;
    uncount(uncounted);
    uncounted = 0;
}

/* Under the lock, when it was told. */
static void count_down_late(void) {
    if (WHEN(COUNTS_LATE)) uncount(1);
    if (WHEN(UNCOUNTS_AFTER)) alive.live_allocations -= alive.live_allocations > 0;
    completing -= WHEN(PENDING_LATE) ? 1 : 0;
}

static void revive(struct block *block) {
    memset(block->ptr, 0xEE, block->bytes);
    alive.live_allocations++;
    block->next = blocks;
    blocks = block;
}

static NxmemStatus complete(struct allocator *self, struct block *block) {
    NxmemReleaseCompletion completion = {.struct_size = sizeof completion,
                                         .ticket = block->ticket + (WHEN(STRANGE_TICKET) ? 7 : 0),
                                         .mechanism_id = self->slots.mechanism_id,
                                         .allocation_id = block->id,
                                         .outcome = {.struct_size = sizeof completion.outcome,
                                                     .allocation_bytes = WHEN(COMPLETION_SMALL) ? block->bytes / 2 : block->bytes,
                                                     .unmapped_bytes = WHEN(COMPLETION_LARGE) ? UINT64_C(1) << 60 : block->bytes}};
    NxmemStatus status = say(NXMEM_STATUS_OK, "");
    if (WHEN(RESERVED_TOLD)) completion.reserved = 7;
    if (WHEN(QUEUED_NAME_KEPT)) looked_at = block->name->bytes;
    if (WHEN(FAILED_GONE) || WHEN(FAILED_SCRIBBLES)) {
        completion.outcome.state = NXMEM_RELEASE_FAILED;
        completion.outcome.unmapped_bytes = completion.outcome.allocation_bytes = 0;
        completion.outcome.failure = say(NXMEM_STATUS_BUSY, "not yet");
    }
    pthread_mutex_lock(&lock);
    drop_views(block);
    count_down(block);
    if (WHEN(FAILED_SCRIBBLES)) revive(block);
    if (!WHEN(COMPLETION_LOCKED)) pthread_mutex_unlock(&lock);
    if (self->callbacks.release_completed && WHEN(COMPLETION_NULL)) self->callbacks.release_completed(self->callbacks.host_ctx, NULL);
    if (self->callbacks.release_completed) status = self->callbacks.release_completed(self->callbacks.host_ctx, &completion);
    if (!WHEN(COMPLETION_LOCKED)) pthread_mutex_lock(&lock);
    count_down_late();
    unref(self);
    pthread_mutex_unlock(&lock);
    if (!WHEN(TAKES_NOT) && !WHEN(FAILED_SCRIBBLES)) destroy_block(block);
    return status;
}

static pthread_mutex_t draining = PTHREAD_MUTEX_INITIALIZER; /* completions of two drains would get out of order */

NxmemStatus retire(struct allocator *self, uint64_t max, uint64_t *ret_retired) {
    NxmemStatus status = say(NXMEM_STATUS_OK, "");
    *ret_retired = 0;
    if (WHEN(DRAIN_LIES)) *ret_retired = 5;
    if (WHEN(DRAIN_OVERSTATES) && max <= 2) *ret_retired = max;
    if (WHEN(DRAIN_LIES) || (WHEN(DRAIN_OVERSTATES) && max <= 2)) return status;
    if (WHEN(BUDGET_IGNORED)) max = UINT64_MAX;
    if (WHEN(DRIPS) && max > 1) max = 1;
    if (WHEN(SILENT_KEEPS) && !self->callbacks.release_completed) return status;
    if (pthread_mutex_trylock(&draining) != 0) return status;
    pthread_mutex_lock(&lock);
    struct block *batch = detach(self, max);
    if (!batch && WHEN(EMPTY_DRAIN_SAYS)) *ret_retired = max > 0;
    if (!batch && WHEN(EMPTY_DRAIN_UNCOUNTS)) alive.live_allocations -= alive.live_allocations > 0 && max > 0;
    pthread_mutex_unlock(&lock);
    while (batch && (status.code == NXMEM_STATUS_OK || WHEN(REFUSAL_IGNORED))) {
        struct block *next = batch->next;
        status = complete(self, batch);
        batch = next;
        ++*ret_retired;
    }
    pthread_mutex_lock(&lock);
    if (batch && !WHEN(REFUSAL_LOSES)) { /* back in front */
        struct block *last = batch;
        while (last->next) last = last->next;
        last->next = queue;
        queue = batch;
    }
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&draining);
    return status.code == NXMEM_STATUS_OK ? status : say(NXMEM_STATUS_CALLBACK_FAILED, "the host refuses");
}

static NxmemStatus drain_releases(void *ctx, uint64_t max_releases, uint64_t *retired) {
    return retire(ctx, max_releases, retired);
}

static NxmemStatus pending_release_count(void *ctx, uint64_t *count) {
    pthread_mutex_lock(&lock);
    *count = completing;
    for (const struct block *block = queue; block; block = block->next) *count += block->owner == ctx;
    pthread_mutex_unlock(&lock);
    if (WHEN(QUEUE_UNCOUNTED)) *count = 0;
    return say(NXMEM_STATUS_OK, "");
}

void fill_queue(struct allocator *self) {
    self->slots.enqueue_release = enqueue_release;
    self->slots.drain_releases = drain_releases;
    self->slots.pending_release_count = pending_release_count;
}
