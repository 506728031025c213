#include "flag.h"

#include "block.h"
#include "context.h"
#include "stream.h"
#include "work.h"

#include <stdlib.h>

enum { BUCKETS = 64, SLOT = 4 };

/* Four bytes that a stream wrote a value to, or waits for. */
struct slot {
    struct slot *next;
    uint64_t address, block; /* the block's id: a block that comes later at the address is another */
    uint32_t value;          /* after the latest of this process's work that wrote there */
    bool by_value;           /* that was a write of a value, which is behind: */
    struct sim_points by;
};

/* An accusation that is put off. */
struct doubt {
    struct doubt *next;
    enum sim_finding kind;
    struct sim_work accused;   /* its traces only */
    struct sim_block *block;   /* a reference is held, as of `other`'s track */
    struct sim_point other;
    struct sim_points waits;   /* that have not run */
    bool observed;             /* the program has come to know `other`, when `writes_before` writes were queued */
    uint64_t writes_before;
};

static struct slot *slots[BUCKETS];
static bool any_slots;
static struct doubt *doubts;
static uint64_t writes_queued, latest_write; /* the latter: the greatest number of one that has happened */
bool sim_flag_waits;

/* --- memory ---------------------------------------------------------------------------------------------------- */

static uint64_t read_value(uint64_t address, unsigned bytes)
{
    return bytes == 8 ? __atomic_load_n((uint64_t *)(uintptr_t)address, __ATOMIC_ACQUIRE)
                      : __atomic_load_n((uint32_t *)(uintptr_t)address, __ATOMIC_ACQUIRE);
}

/* A first guess of what lies there, while a fill or a copy may just be writing it: whatever writes says so when it is over
 * (sim_flag_touched), and what it wrote is read again then. */
__attribute__((no_sanitize("thread"))) static uint32_t peek(uint64_t address)
{
    return *(volatile uint32_t *)(uintptr_t)address;
}

/* Wait and write have their members in the same places. */
static uint64_t address_of(const struct sim_work *w)
{
    return w->u.value.op.waitValue.address;
}

static unsigned bytes_of(const struct sim_work *w)
{
    switch (w->u.value.op.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32: return 4;
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: return 8;
    default: return 0;
    }
}

static uint64_t value_of(const struct sim_work *w)
{
    return bytes_of(w) == 8 ? w->u.value.op.waitValue.value64 : w->u.value.op.waitValue.value;
}

static const struct sim_block *block_of(const struct sim_work *w)
{
    return w->touch_count ? w->touches[0] : NULL;
}

/* To look at memory that is not there would be the end of the simulator. */
static bool readable(const struct sim_block *b)
{
    return !b || (b->state == SIM_LIVE && (b->kind != SIM_BLOCK_MAP || b->flags));
}

/* Unlike sim_points_add it keeps what the program knows by now: it may not have known it when a doubt arose. */
static void keep(struct sim_points *p, struct sim_track *t, uint64_t seq)
{
    for (unsigned i = 0; i < p->count; i++) {
        if (p->items[i].track != t) continue;
        if (p->items[i].seq < seq) p->items[i].seq = seq;
        return;
    }
    if (p->count == p->room) {
        p->room = p->room ? p->room * 2 : 4;
        if (!(p->items = realloc(p->items, p->room * sizeof *p->items))) abort(); /* a lost point would accuse the innocent */
    }
    t->refs++;
    p->items[p->count++] = (struct sim_point){ .track = t, .seq = seq, .by.fn = SIM_FN_COUNT };
}

/* With what the waits among them, which are over, turned out to be behind. */
static void keep_all(struct sim_points *p, const struct sim_points *more)
{
    for (unsigned i = 0; i < more->count; i++) {
        struct sim_track *t = more->items[i].track;
        if (t->wait) keep_all(p, &t->wait->behind);
        else keep(p, t, more->items[i].seq);
    }
}

static void forget_writer(struct slot *s)
{
    s->by_value = false;
    sim_points_clear(&s->by);
}

/* Slots of blocks that are no longer the program's. */
static void drop_stale(struct slot **link)
{
    while (*link) {
        struct slot *s = *link;
        const struct sim_block *b = sim_block_containing(s->address);
        if (!s->block || (b && b->id == s->block)) {
            link = &s->next;
            continue;
        }
        *link = s->next;
        forget_writer(s);
        free(s);
    }
}

static struct slot *slot_at(const struct sim_block *b, uint64_t address)
{
    uint64_t id = b ? b->id : 0;
    struct slot **bucket = &slots[id % BUCKETS];
    for (struct slot *s = *bucket; s; s = s->next)
        if (s->address == address && s->block == id) return s;
    drop_stale(bucket);
    struct slot *s = calloc(1, sizeof *s);
    if (!s) abort(); /* a lost writer would make the oracle lie */
    *s = (struct slot){ .next = *bucket, .address = address, .block = id };
    if (readable(b)) s->value = peek(address);
    any_slots = true;
    return *bucket = s;
}

/* Could it have written there? Of copies and fills it is known where they write. */
static bool may_have_written(const struct sim_work *w, uint64_t address)
{
    const struct sim_copy *c = &w->u.copy;
    const struct sim_fill *f = &w->u.fill;
    uint64_t start = 0, bytes = UINT64_MAX;
    if (w->run == sim_run_copy) {
        start = c->dst;
        bytes = (c->depth - 1) * c->dst_slice + (c->height - 1) * c->dst_pitch + c->width;
    } else if (w->run == sim_run_fill) {
        start = f->dst;
        bytes = (f->height - 1) * f->pitch + f->width * f->element;
    }
    return start < address + SLOT && (bytes == UINT64_MAX || address < start + bytes);
}

void sim_flag_touched(const struct sim_work *w)
{
    if (!any_slots || !w->run || w->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) return;
    for (unsigned i = 0; i < w->touch_count; i++) {
        const struct sim_block *b = w->touches[i];
        for (struct slot *s = slots[b->id % BUCKETS]; s; s = s->next) {
            if (s->block != b->id || !may_have_written(w, s->address)) continue;
            forget_writer(s);
            if (readable(b)) s->value = (uint32_t)read_value(s->address, SLOT);
        }
    }
}

/* --- writes and waits ------------------------------------------------------------------------------------------ */

static void *make(size_t size)
{
    void *p = calloc(1, size);
    if (!p) abort(); /* a lost point would accuse the innocent */
    return p;
}

void sim_flag_queued(struct sim_stream *s, struct sim_work *w)
{
    CUstreamBatchMemOpType op = w->u.value.op.operation;
    if (op == CU_STREAM_MEM_OP_WRITE_VALUE_32 || op == CU_STREAM_MEM_OP_WRITE_VALUE_64) {
        w->u.value.number = ++writes_queued;
        w->u.value.behind = make(sizeof(struct sim_points));
        sim_order_gather(w->u.value.behind, s);
    } else if (op == CU_STREAM_MEM_OP_WAIT_VALUE_32 || op == CU_STREAM_MEM_OP_WAIT_VALUE_64) {
        struct sim_track *t = sim_track_new((uint64_t)(uintptr_t)s, 0);
        if (!t) abort();
        t->wait = make(sizeof *t->wait);
        w->u.value.token = t;
        sim_flag_waits = true;
        sim_flag_fold(&s->known);
        sim_points_add(&s->known, t, 1);
    }
    for (unsigned n = 0; n < bytes_of(w); n += SLOT) slot_at(block_of(w), address_of(w) + n);
}

void sim_flag_write(struct sim_work *w)
{
    const uint64_t value = value_of(w), address = address_of(w);
    if (!w->harmed) {
        if (bytes_of(w) == 8) __atomic_store_n((uint64_t *)(uintptr_t)address, value, __ATOMIC_RELEASE);
        else __atomic_store_n((uint32_t *)(uintptr_t)address, (uint32_t)value, __ATOMIC_RELEASE);
        for (unsigned n = 0; n < bytes_of(w); n += SLOT) {
            struct slot *s = slot_at(block_of(w), address + n);
            forget_writer(s);
            s->value = (uint32_t)(value >> (8 * n));
            s->by_value = true;
            keep_all(&s->by, w->u.value.behind);
        }
    }
    if (w->u.value.number > latest_write) latest_write = w->u.value.number;
    sim_points_clear(w->u.value.behind);
    free(w->u.value.behind);
    w->u.value.behind = NULL;
}

static bool met(const struct sim_work *w, uint64_t seen)
{
    const uint64_t value = value_of(w);
    const bool wide = bytes_of(w) == 8;
    switch (w->u.value.op.waitValue.flags & 3u) {
    case CU_STREAM_WAIT_VALUE_GEQ: return wide ? (int64_t)(seen - value) >= 0 : (int32_t)((uint32_t)seen - (uint32_t)value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return wide ? seen == value : (uint32_t)seen == (uint32_t)value;
    case CU_STREAM_WAIT_VALUE_AND: return (seen & value) != 0;
    default: return wide ? ~(seen | value) != 0 : (uint32_t)~(seen | value) != 0;
    }
}

bool sim_flag_ready(const struct sim_work *w)
{
    return !readable(block_of(w)) || met(w, read_value(address_of(w), bytes_of(w)));
}

/* --- what a wait turned out to be behind ------------------------------------------------------------------------- */

/* Nothing that has not begun can have led to what is in memory now. */
static void add_begun(struct sim_object *o, void *points)
{
    struct sim_context *c = (struct sim_context *)o;
    for (struct sim_stream *s = c->streams; s; s = s->next) keep(points, s->track, s->done + s->busy);
    for (unsigned i = 0; i < c->orphans_known.count; i++) {
        const struct sim_point *p = &c->orphans_known.items[i];
        uint64_t begun = p->track->done + 1;
        if (!p->track->wait) keep(points, p->track, p->seq < begun ? p->seq : begun);
    }
}

/* A host function, or a program that reads what a copy brings, may have written the same value again. */
static void look_for_shown(struct sim_object *o, void *found)
{
    const struct sim_stream *s = (const struct sim_stream *)o;
    const struct sim_work *w = s->busy ? s->head : NULL;
    if (!w || w->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) return;
    if (w->calls_host) *(bool *)found = true;
    for (unsigned i = 0; i < w->touch_count; i++)
        if (w->touches[i]->host_sees) *(bool *)found = true;
}

static void add_writers(const struct sim_work *w, struct sim_points *points)
{
    bool certain = !w->harmed && readable(block_of(w)), shown = false;
    sim_object_each(SIM_STREAM, look_for_shown, &shown);
    for (unsigned n = 0; n < bytes_of(w) && certain; n += SLOT) {
        struct slot *s = slot_at(block_of(w), address_of(w) + n);
        certain = !shown && s->by_value && s->value == (uint32_t)read_value(s->address, SLOT);
        if (certain) keep_all(points, &s->by);
    }
    if (!certain) sim_object_each(SIM_CONTEXT, add_begun, points);
}

static uint64_t place_in(const struct sim_points *p, const struct sim_track *t)
{
    for (unsigned i = 0; i < p->count; i++)
        if (p->items[i].track == t) return p->items[i].seq;
    return 0;
}

uint64_t sim_flag_place(const struct sim_points *known, const struct sim_track *t)
{
    uint64_t place = place_in(known, t);
    for (unsigned i = 0; i < known->count; i++) {
        const struct sim_flag_wait *wait = known->items[i].track->wait;
        uint64_t here = wait && wait->over ? place_in(&wait->behind, t) : 0;
        if (here > place) place = here;
    }
    return place;
}

void sim_flag_fold(struct sim_points *p)
{
    for (unsigned i = 0; i < p->count;) {
        struct sim_track *t = p->items[i].track;
        if (!t->wait || !t->wait->over) {
            i++;
            continue;
        }
        p->items[i] = p->items[--p->count];
        sim_points_join(p, &t->wait->behind);
        sim_track_unref(t);
        i = 0;
    }
}

void sim_flag_wait_free(struct sim_flag_wait *wait)
{
    sim_points_clear(&wait->behind);
    free(wait);
}

/* --- doubts -------------------------------------------------------------------------------------------------------- */

bool sim_flag_defer(const struct sim_points *known, enum sim_finding kind, const struct sim_work *w, struct sim_block *b,
                    const struct sim_point *other)
{
    struct sim_points waits = { 0 };
    for (unsigned i = 0; i < known->count; i++) {
        struct sim_track *t = known->items[i].track;
        if (t->wait && !t->wait->over) sim_points_add(&waits, t, 1);
    }
    if (!waits.count) return false;
    struct doubt *d = make(sizeof *d);
    *d = (struct doubt){ .next = doubts, .kind = kind, .block = b, .other = *other, .waits = waits };
    d->accused.submitted = w->submitted;
    d->accused.launched = w->launched;
    sim_block_ref(b);
    d->other.track->refs++;
    doubts = d;
    return true;
}

static void take_out(struct sim_points *p, const struct sim_track *t)
{
    for (unsigned i = 0; i < p->count; i++) {
        if (p->items[i].track != t) continue;
        sim_track_unref(p->items[i].track);
        p->items[i] = p->items[--p->count];
        return;
    }
}

void sim_flag_observed(const struct sim_track *t)
{
    for (struct doubt *d = doubts; d; d = d->next) {
        if (d->observed || d->other.track != t || t->observed < d->other.seq) continue;
        d->observed = true;
        d->writes_before = writes_queued;
    }
}

/* Could the program, knowing of it, have queued a write that led to this wait's end? */
static bool passed_on(const struct doubt *d)
{
    return d->observed && d->writes_before < latest_write;
}

/* The wait is over: does the doubt end with it, one way or the other? */
static bool decides(const struct sim_track *t, struct doubt *d)
{
    if (!place_in(&d->waits, t)) return false;
    bool innocent = d->block->accused || passed_on(d) ||
                    place_in(&t->wait->behind, d->other.track) >= d->other.seq;
    if (!innocent) take_out(&d->waits, t);
    if (!innocent && d->waits.count) return false;
    if (!innocent) {
        d->block->accused = true;
        sim_find_unordered(d->kind, &d->accused, d->block, &d->other);
    }
    return true;
}

static void settle(const struct sim_track *t)
{
    for (struct doubt **link = &doubts; *link;) {
        struct doubt *d = *link;
        if (!decides(t, d)) {
            link = &d->next;
            continue;
        }
        *link = d->next;
        sim_points_clear(&d->waits);
        sim_track_unref(d->other.track);
        sim_block_unref(d->block);
        free(d);
    }
}

void sim_flag_seen(struct sim_work *w)
{
    struct sim_track *t = w->u.value.token;
    add_writers(w, &t->wait->behind);
    t->wait->over = true;
    t->done = 1;
    if (t->observed) sim_order_observe(&t->wait->behind);
    settle(t);
    w->u.value.token = NULL;
    sim_track_unref(t);
}
