#include "lane.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "capture.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/mem.h"
#include "cuda_status.h"
#include "event.h"
#include "lifecycle.h"
#include "real.h"
#include "summary.h"
#include "thread.h"

#define POLLED_LANES 4    /* no poll walks more */
#define POLLED_ENTRIES 64 /* nor gives back more: a thread must not be kept at what others go on freeing */

struct entry {
    struct entry *next;
    struct nxm_scope *scope;
    uint64_t address, id, bytes;
    CUcontext context;   /* of the event */
    CUevent event;       /* NULL: parked during a capture, not recorded yet */
    bool recording;      /* parked, and a thread is recording its event: nobody else touches the entry */
    _Atomic bool orphan; /* its context is gone, the event with it; the work has passed */
};

struct lane {
    struct lane *next;
    uint64_t key;
    struct entry *head, *tail;
    bool polled; /* one thread is looking at its head; appending stays allowed */
};

static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_LANE);
static struct lane *lanes; /* kept when empty, used again for another key */
static struct lane *next_polled;
static _Atomic uint64_t waiting_blocks, waiting_bytes;
static _Atomic bool drain_owed; /* something was queued in a plugin since the last drain */

static uint64_t context_key(CUcontext context)
{
    return (UINT64_C(3) << 62) | (uint64_t)(uintptr_t)context;
}

/* --- entries ------------------------------------------------------------------------------------------------ */

static struct lane *find_lane(uint64_t key)
{
    struct lane *empty = NULL;

    for (struct lane *lane = lanes; lane; lane = lane->next) {
        if (lane->key == key)
            return lane;
        if (!lane->head && !lane->polled)
            empty = lane;
    }
    if (empty)
        empty->key = key;
    return empty;
}

/* Takes the entry over. false: no memory for a lane, the entry stays the caller's. */
static bool append(uint64_t key, struct entry *entry)
{
    nxm_lock_acquire(&lock);
    struct lane *lane = find_lane(key);
    if (!lane && (lane = nxm_mem_new(sizeof *lane)) != NULL) {
        lane->key = key;
        lane->next = lanes;
        lanes = lane;
    }
    if (lane) {
        if (lane->tail)
            lane->tail->next = entry;
        else
            lane->head = entry;
        lane->tail = entry;
        atomic_fetch_add(&waiting_blocks, 1);
        atomic_fetch_add(&waiting_bytes, entry->bytes);
    }
    nxm_lock_release(&lock);
    return lane != NULL;
}

static void pop(struct lane *lane, struct entry *entry)
{
    nxm_lock_acquire(&lock);
    lane->head = entry->next;
    if (!lane->head)
        lane->tail = NULL;
    nxm_lock_release(&lock);
    atomic_fetch_sub(&waiting_blocks, 1);
    atomic_fetch_sub(&waiting_bytes, entry->bytes);
}

static struct entry *new_entry(const struct nxm_block *block)
{
    struct entry *entry = nxm_mem_new(sizeof *entry);

    if (entry) {
        entry->scope = (struct nxm_scope *)(uintptr_t)block->tag;
        entry->address = block->address;
        entry->id = block->id;
        entry->bytes = block->bytes;
    }
    return entry;
}

static void free_entry(struct entry *entry)
{
    if (entry && entry->event && !atomic_load(&entry->orphan))
        nxm_event_give(entry->context, entry->event);
    nxm_mem_free(entry);
}

/* --- releasing ---------------------------------------------------------------------------------------------- */

static int enqueue(const struct entry *entry, struct nxm_error *ret_error)
{
    struct nxm_release outcome;
    int result = nxm_allocator_enqueue(entry->scope->allocator, entry->address, entry->id, NXM_BLOCK_WAITING, NULL, NULL,
                                       &outcome, ret_error);

    if (result == NXM_OK)
        atomic_store(&drain_owed, true);
    else /* a refusal made it live again, but the program has freed it: it goes on waiting */
        nxm_blocks_claim(nxm_table(NXM_TABLE_MEMORY), entry->address, entry->id, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL);
    return result;
}

/* A mechanism with a companion says itself whether its releases wait; one without queues them, which does not. */
static bool may_wait(const struct nxm_scope *scope)
{
    const NxmemCudaVtable *companion = &scope->companion.vtable;

    return companion->struct_size != 0 && !(companion->traits & NXMEM_CUDA_TRAIT_RELEASE_NEVER_WAITS);
}

/* The block's work has passed. NXM_EUNSUPPORTED: not now (its release might wait, and this call must not). */
static int release(const struct entry *entry, bool waiting_call, struct nxm_error *ret_error)
{
    struct nxm_scope *scope = entry->scope;
    struct nxm_release outcome;
    int result = NXM_EUNSUPPORTED;

    if (!nxm_scope_enter(scope))
        return NXM_OK; /* its context is gone, and the block with it */
    CUstreamCaptureMode mode = nxm_capture_relax();
    nxm_foreign_begin();
    if ((nxm_allocator_capabilities(scope->allocator) & NXMEM_CAPABILITY_DEFERRED_RELEASE) &&
        (waiting_call || !may_wait(scope)))
        result = enqueue(entry, ret_error);
    if (result != NXM_OK && waiting_call)
        result = nxm_allocator_release(scope->allocator, entry->address, entry->id, NXM_BLOCK_WAITING, &outcome, ret_error);
    else if (result != NXM_OK)
        result = NXM_EUNSUPPORTED;
    nxm_foreign_end();
    nxm_capture_restore(mode);
    if (result != NXM_OK && result != NXM_EUNSUPPORTED)
        nxm_log(NXM_LOG_WARNING, "the plugin refused to release 0x%llx: %s; the block stays in the report",
                (unsigned long long)entry->address, ret_error->text);
    nxm_scope_leave(scope);
    return result;
}

static void drain_scope(struct nxm_scope *scope, void *except)
{
    if (scope == except)
        return;
    nxm_foreign_begin();
    nxm_allocator_drain(scope->allocator, UINT64_MAX);
    nxm_foreign_end();
}

static void drain(struct nxm_scope *except)
{
    if (!atomic_exchange(&drain_owed, except != NULL))
        return;
    CUstreamCaptureMode mode = nxm_capture_relax();
    nxm_scope_each(drain_scope, except);
    nxm_capture_restore(mode);
}

/* --- polling ------------------------------------------------------------------------------------------------ */

struct poll {
    bool waiting_call;
    const struct nxm_scope *except; /* its allocator must not be entered; NULL none */
    uint64_t budget;                /* entries it may still look at */
    uint64_t bytes;                 /* given back so far */
};

static struct entry *head_of(struct lane *lane, CUevent *ret_event)
{
    nxm_lock_acquire(&lock);
    struct entry *head = lane->head;
    *ret_event = head ? head->event : NULL;
    nxm_lock_release(&lock);
    return head;
}

static bool has_passed(const struct entry *entry, CUevent event)
{
    return atomic_load(&entry->orphan) || (event && nxm_event_passed(event));
}

/* Whether the head of this lane is done with, one way or the other. */
static bool retire_head(struct entry *entry, CUevent event, struct poll *poll)
{
    struct nxm_error error = { 0 };

    if (!event && !atomic_load(&entry->orphan))
        return false; /* parked: whoever records it has hold of it */
    if (atomic_load(&entry->scope->closed))
        return true; /* its context is gone, and the block with it */
    if (entry->scope == poll->except || !has_passed(entry, event))
        return false;
    if (release(entry, poll->waiting_call, &error) == NXM_EUNSUPPORTED)
        return false;
    poll->bytes += entry->bytes;
    return true;
}

/* The caller has set lane->polled: until it is cleared here, nobody else pops. */
static void poll_lane(struct lane *lane, struct poll *poll)
{
    struct entry *entry;
    CUevent event;

    while (poll->budget > 0 && (entry = head_of(lane, &event)) != NULL && retire_head(entry, event, poll)) {
        poll->budget--;
        pop(lane, entry);
        free_entry(entry);
    }
    nxm_lock_acquire(&lock);
    lane->polled = false;
    nxm_lock_release(&lock);
}

static struct lane *claim_next_lane(void)
{
    struct lane *lane = NULL;

    nxm_lock_acquire(&lock);
    struct lane *start = next_polled ? next_polled : lanes;
    for (struct lane *l = start; l && !lane; l = l->next) {
        if (l->head && !l->polled)
            lane = l;
    }
    for (struct lane *l = lanes; l && l != start && !lane; l = l->next) {
        if (l->head && !l->polled)
            lane = l;
    }
    if (lane) {
        lane->polled = true;
        next_polled = lane->next;
    }
    nxm_lock_release(&lock);
    return lane;
}

static void poll_lanes(unsigned count, struct poll *poll)
{
    CUstreamCaptureMode mode = nxm_capture_relax();

    for (unsigned i = 0; i < count; i++) {
        struct lane *lane = claim_next_lane();
        if (!lane)
            break;
        poll_lane(lane, poll);
    }
    nxm_capture_restore(mode);
}

void nxm_lane_poll(bool waiting_call)
{
    struct poll poll = { .waiting_call = waiting_call, .budget = POLLED_ENTRIES };

    if (atomic_load_explicit(&waiting_blocks, memory_order_relaxed) != 0)
        poll_lanes(POLLED_LANES, &poll);
    if (waiting_call)
        drain(NULL);
}

static unsigned lane_count(void)
{
    unsigned count = 0;

    nxm_lock_acquire(&lock);
    for (struct lane *lane = lanes; lane; lane = lane->next)
        count += lane->head != NULL;
    nxm_lock_release(&lock);
    return count;
}

void nxm_lane_flush(void)
{
    struct poll poll = { .waiting_call = true, .budget = atomic_load(&waiting_blocks) };

    if (poll.budget != 0)
        poll_lanes(lane_count(), &poll);
    drain(NULL);
}

static bool lane_is_empty(uint64_t key)
{
    bool empty = true;

    nxm_lock_acquire(&lock);
    for (struct lane *lane = lanes; lane; lane = lane->next) {
        if (lane->key == key && lane->head)
            empty = false;
    }
    nxm_lock_release(&lock);
    return empty;
}

void nxm_lane_wait(uint64_t stream_key, unsigned milliseconds)
{
    struct timespec pause = { .tv_sec = 0, .tv_nsec = 1000000 };

    for (unsigned waited = 0; waited < milliseconds && !lane_is_empty(stream_key) && !nxm_capture_open(); waited++) {
        nxm_lane_flush();
        if (!lane_is_empty(stream_key))
            nanosleep(&pause, NULL);
    }
    nxm_lane_flush();
}

int64_t nxm_lane_reclaim(void *owner, struct nxm_allocator *allocator, NxmemDeviceId device, uint64_t bytes)
{
    struct poll poll = { .waiting_call = true, .except = owner, .budget = atomic_load(&waiting_blocks) };

    (void)allocator, (void)device, (void)bytes; /* all that has passed is given back, whatever was asked */
    if (poll.budget != 0)
        poll_lanes(lane_count(), &poll);
    drain(owner);
    return (int64_t)poll.bytes;
}

void nxm_lane_amount(uint64_t *ret_blocks, uint64_t *ret_bytes)
{
    *ret_blocks = atomic_load(&waiting_blocks);
    *ret_bytes = atomic_load(&waiting_bytes);
}

/* --- freeing ------------------------------------------------------------------------------------------------ */

static void back_to_live(const struct nxm_block *block)
{
    nxm_blocks_claim(nxm_table(NXM_TABLE_MEMORY), block->address, block->id, NXM_BLOCK_WAITING, NXM_BLOCK_LIVE, NULL);
}

/* The event is recorded and the block WAITING: hand it to the lane, or, without memory for that, wait here. */
static void wait_on_lane(uint64_t key, struct entry *entry)
{
    struct nxm_error error = { 0 };

    if (append(key, entry))
        return;
    nxm_event_wait(entry->event);
    release(entry, true, &error);
    free_entry(entry);
}

CUresult nxm_lane_free_on_stream(const struct nxm_block *block, const struct nxm_order *order)
{
    struct nxm_blocks *memory = nxm_table(NXM_TABLE_MEMORY);
    bool per_thread = order->cuda.flags & NXMEM_CUDA_ORDER_FLAG_PER_THREAD;
    struct entry *entry = new_entry(block);

    if (!entry)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (nxm_blocks_claim(memory, block->address, block->id, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL) != NXM_OK) {
        free_entry(entry);
        return nxm_summary_misuse("freed twice", block->address);
    }
    entry->context = order->context;
    CUresult result = nxm_event_record_on_stream(order->context, (CUstream)(uintptr_t)order->cuda.stream, per_thread,
                                                 &entry->event);
    if (result != CUDA_SUCCESS) {
        back_to_live(block);
        free_entry(entry);
        return result;
    }
    wait_on_lane(order->cuda.stream_key, entry);
    return CUDA_SUCCESS;
}

/* The driver's own prohibition, asked with the smallest call of the same class. */
static CUresult capture_forbids(CUcontext context)
{
    CUcontext current = NULL;
    CUdeviceptr probe = 0;
    bool pushed = (nxm_real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != context) &&
                  nxm_real.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
    CUresult result = nxm_real.cuMemAlloc_v2(&probe, 1);

    if (result == CUDA_SUCCESS)
        nxm_real.cuMemFree_v2(probe);
    if (pushed)
        nxm_real.cuCtxPopCurrent_v2(&current);
    return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result;
}

static CUresult park(const struct nxm_block *block, struct entry *entry)
{
    CUresult result = capture_forbids(entry->context);

    if (result == CUDA_SUCCESS && append(context_key(entry->context), entry))
        return CUDA_SUCCESS;
    back_to_live(block);
    free_entry(entry);
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The program waits for this free: what the plugin says of it is the free's result. */
static CUresult release_now(struct entry *entry)
{
    struct nxm_error error = { 0 };
    int result = release(entry, true, &error);

    if (result != NXM_OK)
        return nxm_cuda_status(result, &error);
    drain(NULL);
    return CUDA_SUCCESS;
}

CUresult nxm_lane_free_on_context(const struct nxm_block *block, bool wait)
{
    struct nxm_blocks *memory = nxm_table(NXM_TABLE_MEMORY);
    struct entry *entry = new_entry(block);

    if (!entry)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (nxm_blocks_claim(memory, block->address, block->id, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL) != NXM_OK) {
        free_entry(entry);
        return nxm_summary_misuse("freed twice", block->address);
    }
    entry->context = (CUcontext)(uintptr_t)block->context;
    CUresult result = nxm_event_record_on_context(entry->context, &entry->event);
    if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) /* a capture is open: ours to say, nothing was asked */
        return park(block, entry);
    if (result != CUDA_SUCCESS) {
        back_to_live(block);
        free_entry(entry);
        return result;
    }
    if (!wait) {
        wait_on_lane(context_key(entry->context), entry);
        return CUDA_SUCCESS;
    }
    result = nxm_event_wait(entry->event);
    if (result != CUDA_SUCCESS)
        back_to_live(block);
    else
        result = release_now(entry);
    free_entry(entry);
    return result;
}

CUresult nxm_lane_free_ordered(const struct nxm_block *block, CUcontext current)
{
    struct nxm_blocks *memory = nxm_table(NXM_TABLE_MEMORY);
    struct entry *entry = new_entry(block);
    CUresult result = CUDA_ERROR_INVALID_CONTEXT;

    if (!entry)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (nxm_blocks_claim(memory, block->address, block->id, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL) != NXM_OK) {
        free_entry(entry);
        return nxm_summary_misuse("freed twice", block->address);
    }
    entry->context = current;
    if (current)
        result = nxm_event_record_on_context(current, &entry->event);
    if (result == CUDA_SUCCESS) {
        wait_on_lane(context_key(current), entry);
        return CUDA_SUCCESS;
    }
    result = release_now(entry);
    free_entry(entry);
    return result;
}

/* --- parked blocks, contexts that go ------------------------------------------------------------------------ */

static struct entry *claim_parked(void)
{
    struct entry *parked = NULL;

    nxm_lock_acquire(&lock);
    for (struct lane *lane = lanes; lane && !parked; lane = lane->next) {
        for (struct entry *e = lane->head; e && !parked; e = e->next)
            parked = e->event || e->recording || atomic_load(&e->orphan) ? NULL : e;
    }
    if (parked)
        parked->recording = true;
    nxm_lock_release(&lock);
    return parked;
}

void nxm_lane_captures_closed(void)
{
    struct entry *parked;
    bool recorded = true;

    while (recorded && (parked = claim_parked()) != NULL) {
        CUevent event = NULL;
        recorded = nxm_event_record_on_context(parked->context, &event) == CUDA_SUCCESS;
        nxm_lock_acquire(&lock);
        parked->event = event;
        parked->recording = false;
        nxm_lock_release(&lock);
    }
}

/* Takes out of the lanes what hangs on the context's events. An entry that another thread has in hand only learns of it. */
static struct entry *take_orphans(CUcontext context)
{
    struct entry *orphans = NULL;

    nxm_lock_acquire(&lock);
    for (struct lane *lane = lanes; lane; lane = lane->next) {
        struct entry **link = &lane->head;
        lane->tail = NULL;
        while (*link) {
            struct entry *entry = *link;
            bool in_hand = entry->recording || (lane->polled && entry == lane->head);
            if (entry->context == context)
                atomic_store(&entry->orphan, true);
            if (entry->context != context || in_hand) {
                lane->tail = entry;
                link = &entry->next;
                continue;
            }
            *link = entry->next;
            entry->next = orphans;
            orphans = entry;
            atomic_fetch_sub(&waiting_blocks, 1);
            atomic_fetch_sub(&waiting_bytes, entry->bytes);
        }
    }
    nxm_lock_release(&lock);
    return orphans;
}

void nxm_lane_context_gone(CUcontext context)
{
    struct entry *orphan = take_orphans(context);

    while (orphan) {
        struct entry *next = orphan->next;
        struct nxm_error error = { 0 };
        if (orphan->scope->context != context) /* else closing the scope gives the block back */
            release(orphan, true, &error);
        free_entry(orphan);
        orphan = next;
    }
    drain(NULL);
    nxm_event_context_gone(context);
}
