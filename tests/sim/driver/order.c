#include "order.h"

#include "block.h"
#include "finding.h"
#include "stream.h"
#include "work.h"

#include <stdlib.h>

/* --- tracks and points --------------------------------------------------------------------------------------- */

struct sim_track *sim_track_new(uint64_t stream)
{
    struct sim_track *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    t->refs = 1;
    t->stream = stream;
    return t;
}

void sim_track_unref(struct sim_track *t)
{
    if (--t->refs == 0) free(t);
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
    if (t->observed < seq) t->observed = seq;
}

void sim_order_observe(const struct sim_points *p)
{
    for (unsigned i = 0; i < p->count; i++) observe(p->items[i].track, p->items[i].seq);
}

void sim_order_observe_stream(const struct sim_stream *s)
{
    sim_order_observe(&s->known);
    observe(s->track, s->submitted);
}

void sim_order_seen(const struct sim_stream *s, const struct sim_work *w)
{
    /* the stream may be behind more by now than this piece was: never more than has run */
    for (unsigned i = 0; i < s->known.count; i++) {
        const struct sim_point *p = &s->known.items[i];
        observe(p->track, p->seq < p->track->done ? p->seq : p->track->done);
    }
    observe(s->track, w->seq);
}

/* --- judging ------------------------------------------------------------------------------------------------------- */

static bool behind(const struct sim_stream *s, const struct sim_point *p)
{
    return p->track == s->track || p->track->observed >= p->seq || place_in(&s->known, p->track) >= p->seq;
}

/* One finding for a block: what goes wrong later because of it is the same fault. `other` is what it is not behind. */
static void accuse(struct sim_block *b, enum sim_finding kind, const struct sim_work *w, const struct sim_point *other)
{
    if (b->accused) return;
    b->accused = true;
    sim_find_unordered(kind, w, b, other);
}

/* Host memory is released by calls that wait for the whole context. */
static bool is_host(const struct sim_block *b)
{
    return b->kind == SIM_BLOCK_HOST || b->kind == SIM_BLOCK_REGISTERED;
}

static struct sim_point point_of(const struct sim_stream *s, const struct sim_work *w)
{
    return (struct sim_point){ s->track, w->seq, w->launched.fn < SIM_FN_COUNT ? w->launched : w->submitted };
}

static void use(struct sim_stream *s, const struct sim_work *w, struct sim_block *b)
{
    if (is_host(b)) return;
    if (b->birth.track && !behind(s, &b->birth)) accuse(b, SIM_FINDING_unordered_use, w, &b->birth);
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

static void release(const struct sim_stream *s, const struct sim_work *w, struct sim_block *b)
{
    const struct sim_point *other = b->birth.track && !behind(s, &b->birth) ? &b->birth : NULL;
    for (unsigned i = 0; i < b->uses.count; i++)
        if (!behind(s, &b->uses.items[i])) other = &b->uses.items[i];
    if (other) accuse(b, SIM_FINDING_unordered_free, w, other);
}

void sim_order_queued(struct sim_stream *s, const struct sim_work *w)
{
    for (unsigned i = 0; i < w->touch_count; i++) use(s, w, w->touches[i]);
    if (w->effect == SIM_ALLOCATES) make(s, w, w->u.block);
    if (w->effect == SIM_RELEASES) release(s, w, w->u.block);
}

/* Such a call takes it that all accesses are over, and of memory that nobody has used they are. */
void sim_order_released(struct sim_block *b)
{
    const struct sim_point *other = NULL;
    for (unsigned i = 0; i < b->uses.count; i++)
        if (b->uses.items[i].track->observed < b->uses.items[i].seq) other = &b->uses.items[i];
    if (other) accuse(b, SIM_FINDING_unordered_free, NULL, other);
}
