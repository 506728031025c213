#include "lane.h"

#include <stdatomic.h>

#include "calm.h"
#include "capture.h"
#include "core/journal.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/nap.h"
#include "giveback.h"
#include "mark.h"
#include "owes.h"
#include "process.h"
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
    uint64_t count;
    bool polled; /* one thread is looking at its head; appending stays allowed */
};

static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_LANE);
static struct lane *lanes; /* kept when empty, used again for another key */
static struct lane *next_polled;
_Atomic uint64_t nxm_lane_blocks;
_Atomic bool nxm_owes_something = true;
static _Atomic uint64_t waiting_bytes, peak_bytes;
static _Atomic bool record_owed; /* a parked block's event could not be recorded, though no capture was open */

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

static void count_in(uint64_t bytes) /* with the lock */
{
    uint64_t now = atomic_fetch_add(&waiting_bytes, bytes) + bytes;

    nxm_unrest_begin();
    atomic_fetch_add(&nxm_lane_blocks, 1);
    if (now <= atomic_load(&peak_bytes))
        return;
    atomic_store(&peak_bytes, now);
    if (nxm_journal())
        atomic_store(&nxm_journal()->waiting_peak, now);
}

/* Without memory for one, a lane that streams share: what waits there waits longer than it has to. */
static struct lane *add_lane(uint64_t key)
{
    static struct lane shared;
    static bool is_there;
    struct lane *lane = nxm_mem_new(sizeof *lane);

    if (!lane && is_there)
        return &shared;
    if (!lane) {
        lane = &shared;
        is_there = true;
    }
    lane->key = key;
    lane->next = lanes;
    lanes = lane;
    return lane;
}

void nxm_lane_append(uint64_t key, struct nxm_waiting *entry)
{
    nxm_lock_acquire(&lock);
    struct lane *lane = find_lane(key);
    if (!lane)
        lane = add_lane(key);
    if (lane->tail)
        lane->tail->next = entry;
    else
        lane->head = entry;
    lane->tail = entry;
    lane->count++;
    count_in(entry->bytes);
    nxm_lock_release(&lock);
    nxm_owes_say();
}

static void count_out(uint64_t bytes)
{
    atomic_fetch_add(&nxm_given, 1);
    atomic_fetch_sub(&nxm_lane_blocks, 1);
    nxm_unrest_end();
    atomic_fetch_sub(&waiting_bytes, bytes);
}

static void pop(struct lane *lane, struct nxm_waiting *entry)
{
    nxm_lock_acquire(&lock);
    lane->head = entry->next;
    if (!lane->head)
        lane->tail = NULL;
    lane->count--;
    nxm_lock_release(&lock);
    count_out(entry->bytes);
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
    bool elsewhere = poll->moment == NXM_MOMENT_CONTEXT && entry->context != poll->context && !atomic_load(&entry->orphan);
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

static struct lane *lane_after(struct lane *lane) /* a lane keeps its place for ever */
{
    nxm_lock_acquire(&lock);
    struct lane *next = lane ? lane->next : lanes;
    nxm_lock_release(&lock);
    return next;
}

/* With room in the poll for what waits on this lane now. */
static bool claim(struct lane *lane, struct poll *poll)
{
    nxm_lock_acquire(&lock);
    bool free = lane->head && !lane->polled;
    if (free)
        lane->polled = true;
    poll->budget = lane->count;
    nxm_lock_release(&lock);
    return free;
}

static void poll_each_lane(struct poll *poll)
{
    CUstreamCaptureMode mode = nxm_capture_relax();

    for (struct lane *lane = lane_after(NULL); lane; lane = lane_after(lane)) {
        if (claim(lane, poll))
            poll_lane(lane, poll);
    }
    nxm_capture_restore(mode);
}

/* Everything that waits now, once. */
static uint64_t poll_all(enum nxm_moment moment, CUcontext context, struct nxm_scope *except)
{
    struct poll poll = { .moment = moment, .context = context, .except = except };

    if (atomic_load_explicit(&record_owed, memory_order_relaxed) && atomic_exchange(&record_owed, false))
        nxm_lane_captures_closed();
    nxm_mark_poll(NXM_MARK_ALL, except);
    if (atomic_load(&nxm_lane_blocks) != 0)
        poll_each_lane(&poll);
    nxm_giveback_drain(except);
    return poll.bytes;
}

void nxm_lane_poll_all(enum nxm_moment moment)
{
    struct poll poll = { .moment = moment, .budget = POLLED_ENTRIES };

    if (moment != NXM_MOMENT_ANY) {
        poll_all(moment, NULL, NULL);
        return;
    }
    nxm_mark_poll(POLLED_LANES, NULL);
    if (atomic_load_explicit(&nxm_lane_blocks, memory_order_relaxed) != 0)
        poll_lanes(POLLED_LANES, &poll);
}

/* Where one is missing its hook must be asked, which says so. */
static bool driver_has_them(void)
{
    return nxm_real.cuStreamQuery && nxm_real.cuStreamQuery_ptsz && nxm_real.cuStreamSynchronize &&
           nxm_real.cuStreamSynchronize_ptsz && nxm_real.cuCtxSynchronize;
}

void nxm_lane_look_round(void)
{
    atomic_store(&nxm_owes_something, false);
    /* A block leaves its lane after its drain is owed. */
    if (atomic_load(&nxm_lane_blocks) != 0 || nxm_mark_any() || nxm_giveback_owed() || !driver_has_them())
        nxm_owes_say();
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
    CUevent event = NULL;

    if (!context || !nxm_real.cuCtxRecordEvent || nxm_event_record_on_context(context, &event) != CUDA_SUCCESS)
        return false;
    bool passed = nxm_event_passed(event);
    for (unsigned waited = 0; waited < milliseconds && !passed && !nxm_capture_open(); waited++) {
        nxm_nap(1000000);
        passed = nxm_event_passed(event);
    }
    nxm_event_give(context, event);
    return passed;
}

/* Each gives back first, counts that second, and owes it no more third: what is not owed any more has been counted. */
bool nxm_lane_room_since(uint64_t given)
{
    return atomic_load(&nxm_lane_blocks) != 0 || nxm_mark_any() || nxm_giveback_owed() || nxm_lane_given() != given;
}

static void flush_idle(CUcontext context, unsigned milliseconds)
{
    CUstreamCaptureMode mode = nxm_capture_relax();
    bool idle = is_idle(context, milliseconds);

    nxm_capture_restore(mode);
    if (idle)
        poll_all(NXM_MOMENT_CONTEXT, context, NULL);
}

/* One context that blocks wait for after the other, in the order of their handles. */
static CUcontext next_context(CUcontext after)
{
    CUcontext next = NULL;

    nxm_lock_acquire(&lock);
    for (struct lane *lane = lanes; lane; lane = lane->next) {
        CUcontext context = lane->head && !atomic_load(&lane->head->orphan) ? lane->head->context : NULL;
        if ((uintptr_t)context > (uintptr_t)after && (!next || context < next))
            next = context;
    }
    nxm_lock_release(&lock);
    return next;
}

void nxm_lane_flush(CUcontext context, unsigned milliseconds)
{
    poll_all(NXM_MOMENT_WAIT, NULL, NULL);
    if (atomic_load(&nxm_lane_blocks) == 0)
        return;
    context = or_current(context);
    flush_idle(context, milliseconds);
    for (CUcontext other = next_context(NULL); other; other = next_context(other)) {
        if (other != context)
            flush_idle(other, 0);
    }
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

/* Looks again and again until there is enough, or it has been long, or a capture is open. */
static void wait_until(bool (*enough)(uint64_t argument), uint64_t argument, unsigned milliseconds)
{
    for (unsigned waited = 0; waited < milliseconds && !enough(argument) && !nxm_capture_open(); waited++) {
        nxm_lane_flush(NULL, 0);
        if (!enough(argument))
            nxm_nap(1000000);
    }
}

void nxm_lane_wait(uint64_t stream_key, unsigned milliseconds)
{
    wait_until(lane_is_empty, stream_key, milliseconds);
    nxm_lane_flush(NULL, 0);
}

static bool waits_at_most(uint64_t bytes)
{
    return atomic_load_explicit(&waiting_bytes, memory_order_relaxed) <= bytes;
}

void nxm_lane_keep_to(uint64_t limit)
{
    if (!waits_at_most(limit))
        wait_until(waits_at_most, limit, nxm_options()->oom_wait_ms);
}

int64_t nxm_lane_reclaim(void *owner, struct nxm_allocator *allocator, NxmemDeviceId device, uint64_t bytes)
{
    (void)allocator, (void)device, (void)bytes; /* all that has passed is given back, whatever was asked */
    return (int64_t)poll_all(NXM_MOMENT_WAIT, NULL, owner);
}

void nxm_lane_amount(uint64_t *ret_blocks, uint64_t *ret_bytes)
{
    *ret_blocks = atomic_load(&nxm_lane_blocks);
    *ret_bytes = atomic_load(&waiting_bytes);
}

uint64_t nxm_lane_peak(void)
{
    return atomic_load(&peak_bytes);
}

/* --- captures and contexts that end ------------------------------------------------------------------------- */

static bool is_parked(const struct nxm_waiting *entry)
{
    return !entry->event && !entry->recording && !atomic_load(&entry->orphan);
}

/* One that neither this pass nor a later one has asked for yet: of two passes at once, the older one gives way. */
static struct nxm_waiting *claim_parked(uint64_t pass)
{
    struct nxm_waiting *parked = NULL;

    nxm_lock_acquire(&lock);
    for (struct lane *lane = lanes; lane && !parked; lane = lane->next) {
        for (struct nxm_waiting *e = lane->head; e && !parked; e = e->next)
            parked = is_parked(e) && e->tried < pass ? e : NULL;
    }
    if (parked) {
        parked->recording = true;
        parked->tried = pass;
    }
    nxm_lock_release(&lock);
    return parked;
}

CUresult nxm_lane_captures_closed(void)
{
    static _Atomic uint64_t passes;
    uint64_t pass = atomic_fetch_add(&passes, 1) + 1;
    CUresult first = CUDA_SUCCESS;
    struct nxm_waiting *parked;

    while ((parked = claim_parked(pass)) != NULL) {
        CUevent event = NULL;
        CUresult result = nxm_event_record_on_context(parked->context, &event);
        nxm_lock_acquire(&lock);
        parked->event = event;
        parked->recording = false;
        nxm_lock_release(&lock);
        first = first == CUDA_SUCCESS ? result : first;
    }
    if (first != CUDA_SUCCESS) {
        atomic_store(&record_owed, true);
        nxm_log(NXM_LOG_INFO, "after a capture some frees still wait: the driver records no event for them (CUDA code %d)",
                (int)first);
    }
    return first;
}

/* Takes out of the lanes what hangs on the context's events: still counted. An entry that another thread has in hand only learns of it. */
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
            lane->count--;
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
        bool done = orphan->scope->context == context || /* closing the scope gives the block back */
                    nxm_giveback(orphan, NXM_MOMENT_CONTEXT, &error) != NXM_EUNSUPPORTED;
        count_out(orphan->bytes);
        if (done)
            nxm_waiting_free(orphan);
        else
            nxm_lane_append(ORPHANS, orphan);
        orphan = next;
    }
    nxm_giveback_drain(NULL);
    nxm_event_context_gone(context, alive);
}
