/* Allocating and releasing at once. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crooked.h"

static NxmemAllocResult *kept_result;

volatile uint64_t looked_at;
static void *reissued; /* quarantined, and to be given again */

NxmemStatus identity(const struct allocator *self, uint64_t mechanism, NxmemDeviceId device) {
    bool elsewhere = device.tier != self->slots.device.tier || device.index != self->slots.device.index;
    if (elsewhere && WHEN(DEVICE_FIRST)) return say(NXMEM_STATUS_WRONG_DEVICE, "serves host 0");
    if (mechanism != self->slots.mechanism_id) return say(NXMEM_STATUS_WRONG_MECHANISM, "another mechanism's");
    if (elsewhere) return say(NXMEM_STATUS_WRONG_DEVICE, "serves host 0");
    return say(NXMEM_STATUS_OK, "");
}

struct block *find_block(uint64_t id) {
    struct block *block = blocks;
    while (block && block->id != id) block = block->next;
    return block;
}

struct block *find_for_ranges(uint64_t id) {
    struct block *block = find_block(id);
    if (block || !WHEN(QUEUED_FOUND)) return block;
    for (block = queue; block && block->id != id;) block = block->next;
    return block;
}

static struct block *find_address(const uint8_t *ptr) {
    struct block *block = blocks;
    while (block && block->ptr != ptr) block = block->next;
    return block;
}

static void unlink_block(struct block *block) {
    struct block **link = &blocks;
    while (*link && *link != block) link = &(*link)->next;
    if (*link) *link = block->next;
}

void destroy_block(struct block *block) {
    if (WHEN(RELEASE_RACES)) return; /* there it may be found twice */
    if (!arena_take_back(block->memory)) free(block->memory);
    free(block);
}

NxmemStatus make_block(struct allocator *self, const NxmemAllocRequest *request, NxmemAllocResult *result, struct block **ret_block) {
    static uint8_t one_for_all[GRANULE] __attribute__((aligned(GRANULE)));
    uint64_t align = request->align > 16 ? request->align : 16, wanted = request->bytes ? request->bytes : 1;
    uint64_t rounded = (wanted + align - 1) & ~(align - 1);
    struct block *block;

    if (rounded < wanted && !WHEN(WRAPS)) return say(NXMEM_STATUS_OUT_OF_MEMORY, "that much is not to be had");
    if (rounded > UINT64_C(1) << 40) return say(NXMEM_STATUS_OUT_OF_MEMORY, "that much is not to be had");
    block = calloc(1, sizeof *block);
    if (!reissued && !(block->memory = arena_give(align, rounded)) && !(block->memory = aligned_alloc(align, rounded ? rounded : align))) {
        free(block);
        return say(NXMEM_STATUS_OUT_OF_MEMORY, "libc has none");
    }
    block->id = request->allocation_id;
    block->bytes = request->bytes;
    block->align = request->align;
    block->ptr = request->bytes == 0 && WHEN(ZERO_SHARED) ? one_for_all : reissued ? reissued : block->memory;
    reissued = NULL;
    block->owner = self;
    block->next = blocks;
    blocks = block;
    alive.live_allocations++;
    NxmemAllocResult answer = {.struct_size = sizeof answer, .ptr = block->ptr, .owned_bytes = rounded, .mapped_bytes = rounded};
    if (WHEN(RESERVED_ANSWERED)) answer.reserved = 7;
    if (WHEN(OWNS_MUCH)) answer.owned_bytes = UINT64_C(1) << 60;
    reply(result, &answer, sizeof answer, WHEN(RESULT_OVERRUN));
    if (WHEN(RESULT_UNSIZED)) result->struct_size = 0;
    *ret_block = block;
    return say(NXMEM_STATUS_OK, "");
}

static bool ask_host(struct allocator *self, const NxmemAllocRequest *request) {
    NxmemReclaimRequest ask = {.struct_size = sizeof ask, .mechanism_id = self->slots.mechanism_id, .device = self->slots.device, .bytes = request->bytes};
    uint64_t reclaimed = 0;
    if (!self->callbacks.request_reclaim) return false;
    if (WHEN(RESERVED_FILLED)) ask.reserved = 7;
    if (WHEN(RECLAIM_FOREIGN)) ask.device.index++;
    if (WHEN(RECLAIM_LOCKED)) pthread_mutex_lock(&lock);
    self->callbacks.request_reclaim(self->callbacks.host_ctx, &ask, &reclaimed);
    if (WHEN(RECLAIM_LOCKED)) pthread_mutex_unlock(&lock);
    return true;
}

static void misbehave_when_large(uint64_t bytes) {
    if (bytes != 1 << 20) return;
    if (WHEN(LARGE_CRASHES)) raise(SIGSEGV);
    if (WHEN(LARGE_HANGS) || WHEN(CHILD_APART_HANGS)) for (;;) pause();
    if (WHEN(LARGE_EXITS)) _exit(3);
    if (WHEN(FORKS_THEN_CRASHES)) {
        pid_t pid = fork();
        if (pid == 0) return;
        waitpid(pid, NULL, 0);
        raise(SIGSEGV);
    }
}

static bool enter(void) {
    if (!WHEN(ONE_AT_A_TIME)) return pthread_mutex_lock(&lock) == 0;
    if (pthread_mutex_trylock(&lock) != 0) return false;
    usleep(200);
    return true;
}

static NxmemStatus allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result) {
    struct allocator *self = ctx;
    struct block *block = NULL;
    NxmemStatus status;

    misbehave_when_large(request->bytes);
    if (WHEN(TABLE_KEPT) && last_callbacks) looked_at = (uint64_t)(uintptr_t)last_callbacks->host_ctx;
    if (WHEN(DIES_WITH_FACTORY) && factory_gone) abort();
    if (WHEN(REQUEST_KEPT)) looked_at = self->request->required_capability_flags;
    if (WHEN(EXACT_STRUCTS) && request->struct_size != sizeof *request) return say(NXMEM_STATUS_SHORT_STRUCT, "not my size");
    status = WHEN(IDENTITY_UNCHECKED) ? say(NXMEM_STATUS_OK, "") : identity(self, request->mechanism_id, request->device);
    if (status.code != NXMEM_STATUS_OK) return status;
    if (request->bytes == 1 << 20 && WHEN(SPEAKS_IN_LINES))
        return say(NXMEM_STATUS_OUT_OF_MEMORY, "no\n  pass  11.5    allocates\033[2K\x7f\xC2\x9B""2J");
    if (!enter()) return say(NXMEM_STATUS_BUSY, "one at a time");
    status = make_block(self, request, result, &block);
    if (WHEN(RESULT_KEPT) && !kept_result) kept_result = result;
    pthread_mutex_unlock(&lock);
    if (status.code == NXMEM_STATUS_OUT_OF_MEMORY) {
        bool asked = ask_host(self, request);
        pthread_mutex_lock(&lock);
        alive.live_allocations += asked && WHEN(RECLAIM_HALF) ? 1 : 0;
        pthread_mutex_unlock(&lock);
    }
    return status;
}

/* --- releasing --- */

/* Takes the block out of the live set. */
static NxmemStatus take(struct allocator *self, const NxmemAllocation *name, struct block **ret_block) {
    NxmemStatus status = identity(self, name->mechanism_id, name->device);
    struct block *block;

    if (status.code == NXMEM_STATUS_WRONG_MECHANISM && WHEN(ANY_SIBLING) && name->mechanism_id % 1000 == 0) status.code = NXMEM_STATUS_OK;
    if (status.code != NXMEM_STATUS_OK) return status;
    if (!enter()) return say(NXMEM_STATUS_BUSY, "one at a time");
    block = find_block(name->allocation_id);
    if (!block && WHEN(BY_POINTER)) block = find_address(name->ptr);
    if (block && block->owner != self && !WHEN(ANY_SIBLING)) block = NULL;
    if (WHEN(TAKES_NOT) && !block)
        for (block = queue; block && block->id != name->allocation_id;) block = block->next;
    else if (block && WHEN(RELEASE_RACES)) {
        pthread_mutex_unlock(&lock);
        usleep(500);
        pthread_mutex_lock(&lock);
        unlink_block(block);
    } else if (block)
        unlink_block(block);
    pthread_mutex_unlock(&lock);
    *ret_block = block;
    if (!block) return say(WHEN(TWICE) && name->allocation_id < 1000000 ? NXMEM_STATUS_OK : NXMEM_STATUS_UNKNOWN_ALLOCATION, "not live here");
    return status;
}

static void end(struct block *block) {
    pthread_mutex_lock(&lock);
    drop_views(block);
    alive.live_allocations--;
    pthread_mutex_unlock(&lock);
    if (!WHEN(TAKES_NOT)) destroy_block(block);
}

static NxmemStatus deallocate(void *ctx, const NxmemAllocation *name, uint64_t *unmapped_bytes) {
    struct block *block = NULL;
    NxmemStatus status = take(ctx, name, &block);
    if (WHEN(RESULT_KEPT) && kept_result) looked_at = kept_result->owned_bytes;
    if (status.code != NXMEM_STATUS_OK) return status;
    *unmapped_bytes = WHEN(CREDITS_MUCH) ? UINT64_C(1) << 60 : name->bytes;
    if (block && WHEN(VIEW_OUTLIVES)) block->view_count = 0;
    if (block) end(block);
    return status;
}

/* The first release fails, or all are kept; true when that is the answer. */
static bool ends_otherwise(struct block *block, NxmemReleaseOutcome *outcome) {
    static bool failed;
    if ((WHEN(FAILED_ONCE) || WHEN(FAILED_FORGETS)) && !failed) {
        failed = true;
        outcome->state = NXMEM_RELEASE_FAILED;
        outcome->failure = say(NXMEM_STATUS_BUSY, "not yet");
        if (WHEN(FAILED_FORGETS)) return true;
        pthread_mutex_lock(&lock);
        block->next = blocks;
        blocks = block;
        pthread_mutex_unlock(&lock);
        return true;
    }
    if (!WHEN(QUARANTINES) && !WHEN(QUARANTINE_REISSUED)) return false;
    outcome->state = NXMEM_RELEASE_QUARANTINED;
    outcome->allocation_bytes = block->bytes;
    outcome->residual_owned_bytes = block->bytes;
    outcome->failure = say(NXMEM_STATUS_RELEASE_QUARANTINED, "kept");
    if (WHEN(QUARANTINE_REISSUED)) reissued = block->memory;
    return true; /* counted for ever */
}

static NxmemStatus release_allocation(void *ctx, const NxmemAllocation *name, NxmemReleaseOutcome *outcome) {
    struct block *block = NULL;
    NxmemReleaseOutcome answer = {.struct_size = sizeof answer};
    NxmemStatus status = take(ctx, name, &block);
    if (status.code != NXMEM_STATUS_OK) {
        answer.state = NXMEM_RELEASE_FAILED;
        answer.failure = status;
        if (WHEN(OUTCOME_UNWRITTEN)) return status;
    } else if (!block || !ends_otherwise(block, &answer)) {
        answer.allocation_bytes = answer.unmapped_bytes = name->bytes;
        if (block) end(block);
    }
    reply(outcome, &answer, sizeof answer, WHEN(OUTCOME_OVERRUN));
    return status;
}

void fill_memory(struct allocator *self) {
    self->slots.allocate = allocate;
    self->slots.deallocate = deallocate;
    self->slots.release_allocation = self->slots.abi_minor >= 1 ? release_allocation : NULL;
}
