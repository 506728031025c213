#include "lane.h"

#include <stdatomic.h>
#include <time.h>

#include "capture.h"
#include "core/lock.h"
#include "core/mem.h"
#include "giveback.h"
#include "real.h"

/* No poll walks more lanes, nor gives back more, inside a call that waits for nothing. One that waits may give back all that
 * waited when it began, but is not kept at what other threads go on freeing. */
#define POLLED_LANES 4
#define POLLED_ENTRIES 64

#define ORPHANS (UINT64_C(7) << 61) /* the lane of blocks whose context is gone and whose release had to wait for another moment */

struct lane {
    struct lane *next;
    uint64_t key;
    struct nxm_waiting *head, *tail;
    bool polled; /* one thread is looking at its head; appending stays allowed */
};

static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_LANE);
static struct lane *lanes; /* kept when empty, used again for another key */
static struct lane *next_polled;
static _Atomic uint64_t waiting_blocks, waiting_bytes;

/* --- what waits ------------------------------------------------------------------------------------------------ */

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

bool nxm_lane_append(uint64_t key, struct nxm_waiting *entry)
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

static void pop(struct lane *lane, struct nxm_waiting *entry)
{
    nxm_lock_acquire(&lock);
    lane->head = entry->next;
    if (!lane->head)
        lane->tail = NULL;
    nxm_lock_release(&lock);
    atomic_fetch_sub(&waiting_blocks, 1);
    atomic_fetch_sub(&waiting_bytes, entry->bytes);
}

/* --- polling ------------------------------------------------------------------------------------------------ */

struct poll {
    enum nxm_moment moment;
    CUcontext context;              /* of NXM_MOMENT_CONTEXT; what waits on another one's work is not let wait for that */
    const struct nxm_scope *except; /* its allocator must not be entered; NULL none */
    uint64_t budget;                /* entries it may still look at */
    uint64_t bytes;                 /* given back so far */
};

/* The head of a lane as it stood at one moment. Once recorded or orphaned it is never taken in hand by a recorder again. */
struct head {
    struct nxm_waiting *entry; /* NULL: the lane is empty */
    CUevent event;             /* NULL: parked */
    bool recording, orphan;
};

static struct head head_of(struct lane *lane)
{
    struct head head = { 0 };

    nxm_lock_acquire(&lock);
    head.entry = lane->head;
    if (head.entry) {
        head.event = head.entry->event;
        head.recording = head.entry->recording;
        head.orphan = atomic_load(&head.entry->orphan);
    }
    nxm_lock_release(&lock);
    return head;
}

static bool has_passed(const struct head *head)
{
    return atomic_load(&head->entry->orphan) || nxm_event_passed(head->event);
}

/* Whether the head of this lane is done with, one way or the other. */
static bool retire_head(const struct head *head, struct poll *poll)
{
    struct nxm_waiting *entry = head->entry;
    struct nxm_error error = { 0 };

    if (head->recording || (!head->event && !head->orphan))
        return false; /* parked, perhaps in the hands of a recorder */
    if (atomic_load(&entry->scope->closed))
        return true; /* its context is gone, and the block with it */
    if (entry->scope == poll->except || !has_passed(head))
        return false;
    bool elsewhere = poll->moment == NXM_MOMENT_CONTEXT && entry->context != poll->context;
    if (nxm_giveback(entry, elsewhere ? NXM_MOMENT_WAIT : poll->moment, &error) == NXM_EUNSUPPORTED)
        return false;
    poll->bytes += entry->bytes;
    return true;
}

/* The caller has set lane->polled: until it is cleared here, nobody else pops. */
static void poll_lane(struct lane *lane, struct poll *poll)
{
    struct head head;

    while (poll->budget > 0 && (head = head_of(lane)).entry != NULL && retire_head(&head, poll)) {
        poll->budget--;
        pop(lane, head.entry);
        nxm_waiting_free(head.entry);
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

static unsigned lane_count(void)
{
    unsigned count = 0;

    nxm_lock_acquire(&lock);
    for (struct lane *lane = lanes; lane; lane = lane->next)
        count += lane->head != NULL;
    nxm_lock_release(&lock);
    return count;
}

/* Everything that waits now, once. */
static uint64_t poll_all(enum nxm_moment moment, CUcontext context, struct nxm_scope *except)
{
    struct poll poll = { .moment = moment, .context = context, .except = except, .budget = atomic_load(&waiting_blocks) };

    if (poll.budget != 0)
        poll_lanes(lane_count(), &poll);
    nxm_giveback_drain(except);
    return poll.bytes;
}

void nxm_lane_poll(enum nxm_moment moment)
{
    struct poll poll = { .moment = moment, .budget = POLLED_ENTRIES };

    if (moment != NXM_MOMENT_ANY)
        poll_all(moment, NULL, NULL);
    else if (atomic_load_explicit(&waiting_blocks, memory_order_relaxed) != 0)
        poll_lanes(POLLED_LANES, &poll);
}

static CUcontext or_current(CUcontext context)
{
    if (!context && nxm_real.cuCtxGetCurrent)
        nxm_real.cuCtxGetCurrent(&context);
    return context;
}

void nxm_lane_poll_context(CUcontext context)
{
    poll_all(NXM_MOMENT_CONTEXT, or_current(context), NULL);
}

/* Whether everything that the context has in flight now has passed. Not asked where asking would wait. */
static bool is_idle(CUcontext context, unsigned milliseconds)
{
    const struct timespec pause = { .tv_sec = 0, .tv_nsec = 1000000 };
    CUevent event = NULL;

    if (!context || !nxm_real.cuCtxRecordEvent || nxm_event_record_on_context(context, &event) != CUDA_SUCCESS)
        return false;
    bool passed = nxm_event_passed(event);
    for (unsigned waited = 0; waited < milliseconds && !passed && !nxm_capture_open(); waited++) {
        nanosleep(&pause, NULL);
        passed = nxm_event_passed(event);
    }
    nxm_event_give(context, event);
    return passed;
}

void nxm_lane_flush(CUcontext context, unsigned milliseconds)
{
    poll_all(NXM_MOMENT_WAIT, NULL, NULL);
    if (atomic_load(&waiting_blocks) == 0)
        return;
    context = or_current(context);
    CUstreamCaptureMode mode = nxm_capture_relax();
    bool idle = is_idle(context, milliseconds);
    nxm_capture_restore(mode);
    if (idle)
        poll_all(NXM_MOMENT_CONTEXT, context, NULL);
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
        nxm_lane_flush(NULL, 0);
        if (!lane_is_empty(stream_key))
            nanosleep(&pause, NULL);
    }
    nxm_lane_flush(NULL, 0);
}

int64_t nxm_lane_reclaim(void *owner, struct nxm_allocator *allocator, NxmemDeviceId device, uint64_t bytes)
{
    (void)allocator, (void)device, (void)bytes; /* all that has passed is given back, whatever was asked */
    return (int64_t)poll_all(NXM_MOMENT_WAIT, NULL, owner);
}

void nxm_lane_amount(uint64_t *ret_blocks, uint64_t *ret_bytes)
{
    *ret_blocks = atomic_load(&waiting_blocks);
    *ret_bytes = atomic_load(&waiting_bytes);
}

/* --- captures and contexts that end ------------------------------------------------------------------------- */

static struct nxm_waiting *claim_parked(void)
{
    struct nxm_waiting *parked = NULL;

    nxm_lock_acquire(&lock);
    for (struct lane *lane = lanes; lane && !parked; lane = lane->next) {
        for (struct nxm_waiting *e = lane->head; e && !parked; e = e->next)
            parked = e->event || e->recording || atomic_load(&e->orphan) ? NULL : e;
    }
    if (parked)
        parked->recording = true;
    nxm_lock_release(&lock);
    return parked;
}

void nxm_lane_captures_closed(void)
{
    struct nxm_waiting *parked;
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
static struct nxm_waiting *take_orphans(CUcontext context)
{
    struct nxm_waiting *orphans = NULL;

    nxm_lock_acquire(&lock);
    for (struct lane *lane = lanes; lane; lane = lane->next) {
        struct nxm_waiting **link = &lane->head;
        lane->tail = NULL;
        while (*link) {
            struct nxm_waiting *entry = *link;
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

void nxm_lane_context_gone(CUcontext context, bool alive)
{
    struct nxm_waiting *orphan = take_orphans(context);

    while (orphan) {
        struct nxm_waiting *next = orphan->next;
        struct nxm_error error = { 0 };
        orphan->next = NULL;
        if (orphan->scope->context == context || /* closing the scope gives the block back */
            nxm_giveback(orphan, NXM_MOMENT_CONTEXT, &error) != NXM_EUNSUPPORTED || !nxm_lane_append(ORPHANS, orphan))
            nxm_waiting_free(orphan);
        orphan = next;
    }
    nxm_giveback_drain(NULL);
    nxm_event_context_gone(context, alive);
}
