#include "order.h"

#include "block.h"
#include "event_share.h"
#include "finding.h"
#include "flag.h"
#include "stream.h"
#include "work.h"

#include <stdlib.h>

/* --- tracks and points --------------------------------------------------------------------------------------- */

struct sim_track *sim_track_new(uint64_t stream, int device)
{
    struct sim_track *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    t->refs = 1;
    t->stream = stream;
    t->device = device;
    return t;
}

void sim_track_unref(struct sim_track *t)
{
    if (--t->refs) return;
    if (t->wait) sim_flag_wait_free(t->wait);
    free(t);
}

/* What the program knows anyway need not be remembered. */
static void forget_observed(struct sim_points *p)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < p->count; i++) {
        if (p->items[i].track->observed >= p->items[i].seq) sim_track_unref(p->items[i].track);
        else p->items[kept++] = p->items[i];
    }
    p->count = kept;
}

static void add(struct sim_points *p, struct sim_point point)
{
    struct sim_track *t = point.track;
    if (t->observed >= point.seq) return;
    if (t->wait && t->wait->over) {
        sim_points_join(p, &t->wait->behind);
        return;
    }
    for (unsigned i = 0; i < p->count; i++) {
        if (p->items[i].track != t) continue;
        if (p->items[i].seq < point.seq) p->items[i] = point;
        return;
    }
    if (p->count == p->room) forget_observed(p);
    if (p->count == p->room) {
        unsigned room = p->room ? p->room * 2 : 4;
        struct sim_point *items = realloc(p->items, room * sizeof *items);
        if (!items) abort(); /* a lost point would accuse the innocent */
        p->items = items;
        p->room = room;
    }
    t->refs++;
    p->items[p->count++] = point;
}

void sim_points_add(struct sim_points *p, struct sim_track *t, uint64_t seq)
{
    add(p, (struct sim_point){ .track = t, .seq = seq, .by.fn = SIM_FN_COUNT });
}

void sim_points_join(struct sim_points *p, const struct sim_points *more)
{
    if (sim_flag_waits) sim_flag_fold(p);
    for (unsigned i = 0; i < more->count; i++) add(p, more->items[i]);
}

void sim_points_clear(struct sim_points *p)
{
    for (unsigned i = 0; i < p->count; i++) sim_track_unref(p->items[i].track);
    free(p->items);
    *p = (struct sim_points){ 0 };
}

static uint64_t place_in(const struct sim_points *p, const struct sim_track *t)
{
    if (sim_flag_waits) return sim_flag_place(p, t);
    for (unsigned i = 0; i < p->count; i++)
        if (p->items[i].track == t) return p->items[i].seq;
    return 0;
}

/* --- what is known ----------------------------------------------------------------------------------------------- */

void sim_order_gather(struct sim_points *p, const struct sim_stream *s)
{
    sim_points_join(p, &s->known);
    sim_points_add(p, s->track, s->submitted);
}

void sim_order_follow(struct sim_stream *s, const struct sim_stream *other)
{
    /* what the other was behind came along when its latest place did */
    if (other->submitted && place_in(&s->known, other->track) < other->submitted) sim_order_gather(&s->known, other);
}

static void observe(struct sim_track *t, uint64_t seq)
{
    if (t->observed >= seq) return;
    t->observed = seq;
    if (sim_flag_waits) sim_flag_observed(t);
    if (t->wait && t->wait->over) sim_order_observe(&t->wait->behind);
}

void sim_order_observe(const struct sim_points *p)
{
    for (unsigned i = 0; i < p->count; i++) observe(p->items[i].track, p->items[i].seq);
}

void sim_order_observe_done(const struct sim_points *points)
{
    for (unsigned i = 0; i < points->count; i++) {
        const struct sim_point *p = &points->items[i];
        observe(p->track, p->seq < p->track->done ? p->seq : p->track->done);
    }
}

void sim_order_observe_stream(const struct sim_stream *s)
{
    sim_order_observe(&s->known);
    observe(s->track, s->submitted);
}

void sim_order_seen(const struct sim_stream *s, const struct sim_work *w)
{
    sim_order_observe_done(&s->known); /* the stream may be behind more by now than this piece was */
    observe(s->track, w->seq);
}

/* --- judging ------------------------------------------------------------------------------------------------------- */

/* Is everything over that a stream, or the program itself, relies on? */
struct question {
    const struct sim_stream *stream; /* NULL: the program */
    struct sim_block *block;
    bool birth, uses;                /* what must be over */
    unsigned devices;                /* whose uses, bit n: ordinal n */
    enum sim_finding kind;           /* what it is if not */
    const struct sim_work *work;     /* of the stream */
};

static bool behind(const struct sim_stream *s, const struct sim_point *p)
{
    if (p->track->observed >= p->seq) return true;
    return s && (p->track == s->track || place_in(&s->known, p->track) >= p->seq);
}

/* Calls `each` for every place that it is not behind; how many there are. */
static unsigned each_unmet(const struct question *q, void (*each)(const struct question *, const struct sim_point *))
{
    unsigned found = 0;
    if (q->birth && q->block->birth.track && !behind(q->stream, &q->block->birth)) {
        found++;
        if (each) each(q, &q->block->birth);
    }
    for (unsigned i = 0; q->uses && i < q->block->uses.count; i++) {
        const struct sim_point *p = &q->block->uses.items[i];
        if (!(q->devices >> p->track->device & 1) || behind(q->stream, p)) continue;
        found++;
        if (each) each(q, p);
    }
    return found;
}

/* One finding for a block: what goes wrong later because of it is the same fault. `other` is what it is not behind. */
static void accuse(const struct question *q, const struct sim_point *other)
{
    if (q->block->accused) return;
    if (q->stream && sim_flag_defer(&q->stream->known, q->kind, q->work, q->block, other)) return;
    q->block->accused = true;
    sim_find_unordered(q->kind, q->work, q->block, other);
}

static void judge(struct question q)
{
    if (!each_unmet(&q, NULL)) return;
    sim_event_pages_look(); /* another process may have seen it and told the program */
    each_unmet(&q, accuse);
}

static struct sim_point point_of(const struct sim_stream *s, const struct sim_work *w)
{
    return (struct sim_point){ s->track, w->seq, w->launched.fn < SIM_FN_COUNT ? w->launched : w->submitted };
}

static void use(struct sim_stream *s, const struct sim_work *w, struct sim_block *b)
{
    judge((struct question){ s, b, .birth = true, .kind = SIM_FINDING_unordered_use, .work = w });
    add(&b->uses, point_of(s, w));
}

static void make(struct sim_stream *s, const struct sim_work *w, struct sim_block *b)
{
    if (b->birth.track) sim_track_unref(b->birth.track); /* graph memory is made again and again */
    s->track->refs++;
    b->birth = point_of(s, w);
    b->accused = false;
    sim_points_clear(&b->uses);
}

void sim_order_queued(struct sim_stream *s, const struct sim_work *w)
{
    for (unsigned i = 0; i < w->touch_count; i++) use(s, w, w->touches[i]);
    if (w->effect == SIM_ALLOCATES) make(s, w, w->u.block);
    if (w->effect != SIM_RELEASES) return;
    judge((struct question){ s, w->u.block, true, true, ~0u, SIM_FINDING_unordered_free, w });
}

/* Such a call takes it that all accesses are over, and of memory that nobody has used they are. */
void sim_order_released(struct sim_block *b)
{
    judge((struct question){ NULL, b, .uses = true, .devices = ~0u, .kind = SIM_FINDING_unordered_free });
}

void sim_order_revoked(struct sim_block *b, unsigned devices)
{
    judge((struct question){ NULL, b, .uses = true, .devices = devices, .kind = SIM_FINDING_unordered_access });
}
