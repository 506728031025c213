#include "stream.h"

#include "capture.h"
#include "context.h"
#include "device.h"
#include "flag.h"
#include "schedule.h"
#include "block.h"
#include "state.h"

#include <stdlib.h>

bool sim_stream_new_held;

static void destroy(struct sim_object *o)
{
    struct sim_stream *s = (struct sim_stream *)o;
    pthread_cond_destroy(&s->wake);
    free(s->capture_tail);
    if (s->track) sim_track_unref(s->track);
    sim_points_clear(&s->known);
}

/* Its first piece is behind all this. */
static bool begin_behind(struct sim_stream *s, const struct sim_deps *deps, const struct sim_points *known)
{
    sim_points_join(&s->known, known);
    if (sim_deps_passed(deps)) return true;
    struct sim_work *w = sim_work_new(SIM_FN_cuCtxWaitEvent);
    if (!w) return false;
    sim_deps_add_all(&w->deps, deps);
    sim_stream_queue(s, w);
    return true;
}

struct sim_stream *sim_stream_new(struct sim_context *c, enum sim_stream_role role, unsigned flags, int priority)
{
    struct sim_stream *s = sim_object_new(SIM_STREAM, sizeof *s, destroy);
    if (!s) return NULL;
    s->tail = &s->head;
    pthread_cond_init(&s->wake, NULL);
    if (!(s->track = sim_track_new((uint64_t)(uintptr_t)s, c->device->ordinal))) {
        sim_object_close(&s->object);
        return NULL;
    }
    s->context = c;
    s->role = role;
    s->flags = flags;
    s->priority = priority;
    s->held = sim_stream_new_held;
    s->next = c->streams;
    c->streams = s;
    if (begin_behind(s, &c->awaited, &c->awaited_known)) return s;
    sim_stream_close(s);
    return NULL;
}

static bool blocking(const struct sim_stream *s)
{
    return s->role != SIM_STREAM_LEGACY && !(s->flags & CU_STREAM_NON_BLOCKING);
}

static void leave_orphan(struct sim_stream *s, struct sim_deps *orphans, struct sim_points *known)
{
    if (sim_deps_passed(orphans)) sim_deps_clear(orphans);
    sim_deps_add(orphans, s, s->submitted);
    sim_order_gather(known, s);
}

void sim_stream_close(struct sim_stream *s)
{
    struct sim_stream **link = &s->context->streams;
    while (*link != s) link = &(*link)->next;
    *link = s->next;
    leave_orphan(s, &s->context->orphans, &s->context->orphans_known);
    if (blocking(s)) leave_orphan(s, &s->context->blocking_orphans, &s->context->blocking_orphans_known);
    s->context = NULL;
    sim_capture_abandon(s);
    sim_stream_hold(s, false);
    sim_object_close(&s->object);
}

bool sim_stream_may_run(const struct sim_stream *s)
{
    if (!s->head || s->busy || (s->held && !s->steps) || !sim_deps_passed(&s->head->deps)) return false;
    return !s->head->ready || s->head->ready(s->head);
}

static bool holds(const struct sim_block *b, uint64_t address)
{
    return address - b->range.start < b->range.size;
}

/* Did it write where the program may look without asking? What a copy only reads tells nothing. */
static bool shows_to_host(const struct sim_work *w)
{
    for (unsigned i = 0; w->run && i < w->touch_count; i++)
        if (w->touches[i]->host_sees && (w->run != sim_run_copy || holds(w->touches[i], w->u.copy.dst))) return true;
    return false;
}

static bool tells(const struct sim_work *w)
{
    return (w->calls_host && sim_settings.looks > 0) || (sim_settings.looks > 1 && shows_to_host(w));
}

/* The piece ends: others may have waited for it. */
static void end_piece(struct sim_stream *s, struct sim_work *w)
{
    s->busy = false;
    s->done = s->track->done = w->seq;
    if (tells(w)) sim_order_seen(s, w);
    sim_work_free(w);
    sim_schedule_tick();
    sim_progress();
    if (!s->object.open) pthread_cond_signal(&s->wake); /* its worker, if it has one, may be waiting to end */
}

void sim_stream_run_head(struct sim_stream *s)
{
    struct sim_work *w = s->head;
    if (s->held) s->steps--;
    s->busy = true; /* the lock may be away: what is queued meanwhile stays behind this */
    sim_work_execute(w);
    s->head = w->next;
    if (!s->head) s->tail = &s->head;
    end_piece(s, w);
}

static void *work_loop(void *arg)
{
    struct sim_stream *s = arg;
    sim_lock();
    while (s->object.open || s->head) {
        bool mine = s->head && !s->scheduled;
        if (mine && sim_stream_may_run(s)) sim_stream_run_head(s);
        else if (mine && (!s->held || s->steps) && s->head->ready) sim_wait_a_moment(); /* memory tells nobody */
        else if (mine && (!s->held || s->steps)) sim_wait_progress(); /* for another stream, or who is busy */
        else pthread_cond_wait(&s->wake, sim_state_mutex());
    }
    sim_object_unref(&s->object);
    sim_unlock();
    return NULL;
}

static void start_worker(struct sim_stream *s)
{
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sim_object_ref(&s->object);
    if (pthread_create(&thread, &attr, work_loop, s) != 0) abort(); /* a stream without a worker would hang its user */
    s->started = true;
    pthread_attr_destroy(&attr);
}

void sim_stream_employ(struct sim_stream *s)
{
    if (!s->started) start_worker(s);
    else pthread_cond_signal(&s->wake);
}

/* The legacy stream waits for every blocking stream of its context, and they for it. */
static void add_legacy_rules(struct sim_stream *s, struct sim_deps *deps)
{
    struct sim_context *c = s->context;
    if (!c) return;
    if (s->role == SIM_STREAM_LEGACY) {
        for (struct sim_stream *o = c->streams; o; o = o->next)
            if (blocking(o)) sim_deps_add(deps, o, o->submitted);
        sim_deps_add_all(deps, &c->blocking_orphans);
    } else if (blocking(s)) {
        sim_deps_add(deps, c->legacy, c->legacy->submitted);
    }
}

/* The same rules, for what is known whatever the interleaving. */
static void follow_legacy_rules(struct sim_stream *s)
{
    struct sim_context *c = s->context;
    if (!c) return;
    if (s->role == SIM_STREAM_LEGACY) {
        for (struct sim_stream *o = c->streams; o; o = o->next)
            if (blocking(o)) sim_order_follow(s, o);
        sim_points_join(&s->known, &c->blocking_orphans_known);
    } else if (blocking(s)) {
        sim_order_follow(s, c->legacy);
    }
}

/* A piece that only moves states (a record, a wait, an allocation, an empty kernel) and whose turn it is needs no
 * thread: the fastest of workers would have it done before the call returns. */
static bool done_at_once(struct sim_stream *s, struct sim_work *w)
{
    if (sim_schedule_seeded()) return false; /* only the seed says when */
    if (w->run || w->ready || s->head || s->busy || s->held || !sim_deps_passed(&w->deps)) return false;
    s->busy = true;
    sim_object_ref(&s->object);
    sim_work_execute(w);
    end_piece(s, w);
    if (s->head) pthread_cond_signal(&s->wake);
    sim_object_unref(&s->object);
    return true;
}

void sim_stream_queue(struct sim_stream *s, struct sim_work *w)
{
    add_legacy_rules(s, &w->deps);
    follow_legacy_rules(s);
    w->next = NULL;
    w->seq = ++s->submitted;
    sim_order_queued(s, w);
    if (w->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) sim_flag_queued(s, w);
    if (done_at_once(s, w)) return;
    *s->tail = w;
    s->tail = &w->next;
    if (sim_schedule_seeded()) sim_schedule_enter(s);
    else sim_stream_employ(s);
}

CUresult sim_stream_submit(struct sim_stream *s, struct sim_work *w)
{
    if (s->capture) return sim_capture_add(s, w);
    CUresult result = sim_capture_check_implicit(s);
    if (result != CUDA_SUCCESS) {
        sim_work_free(w);
        return result;
    }
    sim_stream_queue(s, w);
    return CUDA_SUCCESS;
}

void sim_stream_position(struct sim_stream *s, struct sim_deps *deps)
{
    if (s->role == SIM_STREAM_LEGACY) add_legacy_rules(s, deps);
    sim_deps_add(deps, s, s->submitted);
}

void sim_stream_wait(struct sim_stream *s)
{
    struct sim_deps deps = { 0 };
    sim_stream_position(s, &deps);
    sim_stream_observe(s);
    sim_deps_wait(&deps);
    sim_deps_clear(&deps);
}

void sim_stream_observe(struct sim_stream *s)
{
    if (s->role == SIM_STREAM_LEGACY) follow_legacy_rules(s); /* asking it asks all that its next piece would wait for */
    sim_order_observe_stream(s);
}

bool sim_stream_idle(const struct sim_stream *s)
{
    return s->done == s->submitted;
}

void sim_stream_hold(struct sim_stream *s, bool held)
{
    s->held = held;
    s->steps = 0;
    pthread_cond_signal(&s->wake);
    if (s->scheduled) sim_progress(); /* whoever waits may run it */
}

void sim_stream_step(struct sim_stream *s, uint64_t pieces)
{
    s->steps += pieces;
    pthread_cond_signal(&s->wake);
    if (s->scheduled) sim_progress();
}
