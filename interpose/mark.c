#include "mark.h"

#include <stdatomic.h>
#include <string.h>

#include "calm.h"
#include "capture.h"
#include "core/lock.h"
#include "core/mem.h"
#include "event.h"
#include "owes.h"
#include "thread.h"

#define KEPT 2 /* the oldest, so that something passes while releases go on, and the latest */

struct mark {
    struct mark *next;
    CUcontext context;
    CUevent event; /* NULL: its context is gone, and so is the work */
    uint64_t ticket;
};

/* One stream of one companion. Kept when empty, used again for another. */
struct marked {
    struct marked *next;
    struct nxm_scope *scope;
    uint64_t key;
    struct mark *first;
    unsigned count;
    bool polled; /* one thread is looking at its first mark, which stays */
};

static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_LANE);
static struct marked *streams, *next_polled;
_Atomic uint64_t nxm_marks;

/* --- adding ------------------------------------------------------------------------------------------------------ */

static struct marked *find_or_make(struct nxm_scope *scope, uint64_t key)
{
    struct marked *empty = NULL, *stream;

    for (stream = streams; stream; stream = stream->next) {
        if (stream->scope == scope && stream->key == key)
            return stream;
        if (!stream->first && !stream->polled)
            empty = stream;
    }
    stream = empty;
    if (!stream && (stream = nxm_mem_new(sizeof *stream)) != NULL) {
        stream->next = streams;
        streams = stream;
    }
    if (stream) {
        stream->scope = scope;
        stream->key = key;
    }
    return stream;
}

/* What becomes superfluous: the last mark where there are enough, or the new one, when another thread has added a later one. */
static struct mark *add(struct marked *stream, struct mark *mark)
{
    struct mark **link = &stream->first, *superfluous = NULL;

    while (*link && (*link)->next)
        link = &(*link)->next;
    if (*link && (*link)->ticket > mark->ticket)
        return mark;
    if (*link && stream->count >= KEPT) {
        superfluous = *link;
        *link = mark;
    } else {
        *(*link ? &(*link)->next : link) = mark;
        stream->count++;
        nxm_unrest_begin();
        atomic_fetch_add(&nxm_marks, 1);
        nxm_owes_say();
    }
    return superfluous;
}

static void let_go(struct mark *mark)
{
    if (mark && mark->event)
        nxm_event_give(mark->context, mark->event);
    nxm_mem_free(mark);
}

/* Without memory or an event the release goes unmarked: the next one on the stream covers it. */
void nxm_mark_behind(struct nxm_scope *scope, const struct nxm_order *order, uint64_t ticket)
{
    bool per_thread = order->cuda.flags & NXMEM_CUDA_ORDER_FLAG_PER_THREAD;
    struct mark *mark;

    if (order->cuda.stream_key == 0 || order->capturing || (mark = nxm_mem_new(sizeof *mark)) == NULL)
        return;
    mark->context = order->context;
    mark->ticket = ticket;
    if (nxm_event_record_on_stream(order->context, (CUstream)(uintptr_t)order->cuda.stream, per_thread, &mark->event) !=
        CUDA_SUCCESS) {
        nxm_mem_free(mark);
        return;
    }
    nxm_lock_acquire(&lock);
    struct marked *stream = find_or_make(scope, order->cuda.stream_key);
    struct mark *superfluous = stream ? add(stream, mark) : mark;
    nxm_lock_release(&lock);
    let_go(superfluous);
}

/* --- telling ----------------------------------------------------------------------------------------------------- */

static void tell(struct nxm_scope *scope, uint64_t key, uint64_t ticket)
{
    const NxmemCudaVtable *companion = &scope->companion.vtable;

    if (!nxm_scope_enter(scope))
        return; /* its context is gone, and the allocator with it */
    nxm_foreign_begin();
    companion->order_passed(companion->ctx, key, ticket);
    nxm_foreign_end();
    nxm_scope_leave(scope);
}

static struct marked *claim_next(const struct nxm_scope *except)
{
    struct marked *found = NULL, *start;

    nxm_lock_acquire(&lock);
    start = next_polled ? next_polled : streams;
    for (struct marked *s = start; s && !found; s = s->next)
        found = s->first && !s->polled && s->scope != except ? s : NULL;
    for (struct marked *s = streams; s && s != start && !found; s = s->next)
        found = s->first && !s->polled && s->scope != except ? s : NULL;
    if (found) {
        found->polled = true;
        next_polled = found->next;
    }
    nxm_lock_release(&lock);
    return found;
}

/* The first mark as it stands; it stays where it is until it is popped here. */
static struct mark *first_of(struct marked *stream, CUevent *ret_event)
{
    nxm_lock_acquire(&lock);
    struct mark *first = stream->first;
    if (first)
        *ret_event = first->event;
    nxm_lock_release(&lock);
    return first;
}

static void pop(struct marked *stream)
{
    nxm_lock_acquire(&lock);
    struct mark *first = stream->first;
    stream->first = first->next;
    stream->count--;
    nxm_lock_release(&lock);
    atomic_fetch_sub(&nxm_marks, 1);
    nxm_unrest_end();
    let_go(first);
}

static void poll_stream(struct marked *stream)
{
    struct mark *first;
    CUevent event = NULL;
    uint64_t passed = 0;
    bool any = false;

    while ((first = first_of(stream, &event)) != NULL && (!event || nxm_event_passed(event))) {
        passed = first->ticket;
        any = true;
        pop(stream);
    }
    struct nxm_scope *scope = stream->scope;
    uint64_t key = stream->key;
    nxm_lock_acquire(&lock);
    stream->polled = false;
    nxm_lock_release(&lock);
    if (any)
        tell(scope, key, passed);
}

static unsigned marked_streams(void)
{
    unsigned count = 0;

    nxm_lock_acquire(&lock);
    for (struct marked *stream = streams; stream; stream = stream->next)
        count += stream->first != NULL;
    nxm_lock_release(&lock);
    return count;
}

void nxm_mark_poll(unsigned most, const struct nxm_scope *except)
{
    struct marked *stream;

    if (!nxm_mark_any())
        return;
    unsigned count = marked_streams(); /* each at most once */
    CUstreamCaptureMode mode = nxm_capture_relax();
    for (count = count < most ? count : most; count > 0 && (stream = claim_next(except)) != NULL; count--)
        poll_stream(stream);
    nxm_capture_restore(mode);
}

void nxm_mark_context_gone(CUcontext context)
{
    if (!nxm_mark_any())
        return;
    nxm_lock_acquire(&lock);
    for (struct marked *stream = streams; stream; stream = stream->next) {
        for (struct mark *mark = stream->first; mark; mark = mark->next) {
            if (mark->context == context)
                mark->event = NULL;
        }
    }
    nxm_lock_release(&lock);
    nxm_mark_poll(NXM_MARK_ALL, NULL);
}
