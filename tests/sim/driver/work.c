#include "work.h"

#include "block.h"
#include "context.h"
#include "device.h"
#include "flag.h"
#include "graph.h"
#include "graveyard.h"
#include "finding.h"
#include "state.h"
#include "stream.h"
#include "vmm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void sim_deps_add(struct sim_deps *d, struct sim_stream *s, uint64_t seq)
{
    if (s->done >= seq) return;
    for (unsigned i = 0; i < d->count; i++) {
        if (d->items[i].stream != s) continue;
        if (d->items[i].seq < seq) d->items[i].seq = seq;
        return;
    }
    if (d->count == d->room) {
        unsigned room = d->room ? d->room * 2 : 4;
        struct sim_position *items = realloc(d->items, room * sizeof *items);
        if (!items) abort(); /* a lost dependency would make the simulator lie */
        d->items = items;
        d->room = room;
    }
    sim_object_ref(&s->object);
    d->items[d->count++] = (struct sim_position){ s, seq };
}

void sim_deps_add_all(struct sim_deps *d, const struct sim_deps *more)
{
    for (unsigned i = 0; i < more->count; i++) sim_deps_add(d, more->items[i].stream, more->items[i].seq);
}

bool sim_deps_passed(const struct sim_deps *d)
{
    for (unsigned i = 0; i < d->count; i++)
        if (d->items[i].stream->done < d->items[i].seq) return false;
    return true;
}

/* `d` may be changed by others while the lock is away: wait on a copy of it. */
void sim_deps_wait(const struct sim_deps *d)
{
    struct sim_deps mine = { 0 };
    sim_deps_add_all(&mine, d);
    while (!sim_deps_passed(&mine)) sim_wait_progress();
    sim_deps_clear(&mine);
}

void sim_deps_clear(struct sim_deps *d)
{
    for (unsigned i = 0; i < d->count; i++) sim_object_unref(&d->items[i].stream->object);
    free(d->items);
    *d = (struct sim_deps){ 0 };
}

struct sim_work *sim_work_new(enum sim_fn fn)
{
    struct sim_work *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->fn = fn;
    w->submitted = sim_trace_of(fn);
    w->launched.fn = SIM_FN_COUNT;
    return w;
}

void sim_work_free(struct sim_work *w)
{
    if (!w) return;
    for (unsigned i = 0; i < w->touch_count; i++) sim_block_unref(w->touches[i]);
    free(w->touches);
    if (w->owned) sim_graph_memory_disown(w->owned, w->fn);
    sim_deps_clear(&w->deps);
    free(w->payload);
    free(w);
}

struct sim_work *sim_work_clone(const struct sim_work *w)
{
    struct sim_work *copy = sim_work_new(w->fn);
    if (!copy) return NULL;
    copy->submitted = w->submitted;
    copy->launched = sim_trace_of(sim_thread.call);
    copy->type = w->type;
    copy->ready = w->ready;
    copy->run = w->run;
    copy->calls_host = w->calls_host;
    copy->lingers = w->lingers;
    copy->effect = w->effect;
    copy->finish = w->finish;
    copy->u = w->u;
    copy->owned = w->owned;
    if (copy->owned) copy->owned->owners++;
    for (unsigned i = 0; i < w->touch_count; i++) sim_work_touch_block(copy, w->touches[i]);
    return copy;
}

void sim_work_touch_block(struct sim_work *w, struct sim_block *b)
{
    if (w->touch_count == w->touch_room) {
        unsigned room = w->touch_room ? w->touch_room * 2 : 2;
        struct sim_block **touches = realloc(w->touches, room * sizeof(struct sim_block *));
        if (!touches) abort(); /* an unnamed block would make the oracle lie */
        w->touches = touches;
        w->touch_room = room;
    }
    sim_block_ref(b);
    w->touches[w->touch_count++] = b;
}

/* Address space that only the simulator hands out. */
static bool is_device_space(uint64_t address)
{
    return sim_device_of_address(address) || sim_vmm_reserved(address);
}

/* Is nothing there at all? What was pinned memory may be the program's own by now, or again. */
static bool is_hole(uint64_t address)
{
    enum { PAGE = 4096 };
    unsigned char resident;
    return mincore((void *)(uintptr_t)(address & ~(uint64_t)(PAGE - 1)), 1, &resident) != 0 && errno == ENOMEM;
}

/* An address in no live block: device memory that is gone or never was, pinned memory that is gone, or the program's
 * own. */
static CUresult touch_nobodys(struct sim_work *w, uint64_t address)
{
    bool ours = is_device_space(address);
    if (!ours && !is_hole(address)) return CUDA_SUCCESS;
    if (sim_graveyard_accuse_use(address)) w->harmed = true;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_work_touch(struct sim_work *w, uint64_t address, uint64_t bytes)
{
    uint64_t end = address + bytes;
    while (address < end) {
        struct sim_block *b = sim_block_containing(address);
        if (!b) return touch_nobodys(w, address);
        sim_work_touch_block(w, b);
        address = b->range.start + b->range.size;
    }
    return CUDA_SUCCESS;
}

CUresult sim_work_touch_box(struct sim_work *w, uint64_t address, size_t width, size_t height, size_t pitch,
                            size_t depth, size_t slice)
{
    if (!width || !height || !depth) return CUDA_SUCCESS;
    return sim_work_touch(w, address, (depth - 1) * slice + (height - 1) * pitch + width);
}

/* What is wrong with touching it now; SIM_FINDING_COUNT: nothing. */
static enum sim_finding harm(const struct sim_block *b)
{
    if (b->state == SIM_UNBORN) return SIM_FINDING_use_before_alloc;
    if (b->state == SIM_GONE_BLOCK && sim_block_mapped_in(b->range.start, b->range.size) && !b->mapped)
        return SIM_FINDING_use_after_reuse;
    if (b->state == SIM_GONE_BLOCK && b->kind == SIM_BLOCK_MAP) return SIM_FINDING_use_after_unmap;
    if (b->state == SIM_GONE_BLOCK) return SIM_FINDING_use_after_free;
    if (b->kind == SIM_BLOCK_MAP && !b->flags) return SIM_FINDING_no_access;
    return SIM_FINDING_COUNT;
}

static void judge(struct sim_work *w)
{
    for (unsigned i = 0; i < w->touch_count; i++) {
        enum sim_finding what = harm(w->touches[i]);
        if (what == SIM_FINDING_COUNT) continue;
        w->harmed = true;
        if (!w->touches[i]->accused) sim_find_work(what, w, w->touches[i]);
    }
}

static void mark_running(struct sim_work *w, int step)
{
    for (unsigned i = 0; i < w->touch_count; i++) {
        w->touches[i]->running += (unsigned)step;
        if (!w->lingers) w->touches[i]->accessing += (unsigned)step;
    }
}

void sim_work_execute(struct sim_work *w)
{
    judge(w);
    if (w->run && !w->harmed) {
        mark_running(w, 1);
        sim_unlock();
        w->run(w);
        sim_lock();
        mark_running(w, -1);
    }
    if (w->finish) w->finish(w);
    sim_flag_touched(w);
}

void sim_run_copy(struct sim_work *w)
{
    const struct sim_copy *c = &w->u.copy;
    for (size_t z = 0; z < c->depth; z++) {
        uint64_t dst = c->dst + z * c->dst_slice, src = c->src + z * c->src_slice;
        for (size_t y = 0; y < c->height; y++, dst += c->dst_pitch, src += c->src_pitch)
            memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, c->width);
    }
}

/* Whole elements: a wait for a value may look at memory that is being filled. */
static void fill_row(uint64_t dst, const struct sim_fill *f)
{
    uint8_t *p = (uint8_t *)(uintptr_t)dst;
    for (size_t i = 0; i < f->width; i++) {
        switch (f->element) {
        case 1: __atomic_store_n(p + i, (uint8_t)f->value, __ATOMIC_RELAXED); break;
        case 2: __atomic_store_n((uint16_t *)(void *)p + i, (uint16_t)f->value, __ATOMIC_RELAXED); break;
        default: __atomic_store_n((uint32_t *)(void *)p + i, (uint32_t)f->value, __ATOMIC_RELAXED); break;
        }
    }
}

/* Long rows of bytes are the usual case, and nobody waits for a byte; but a race detector does not know that. */
static bool fill_bytes(uint64_t dst, const struct sim_fill *f)
{
#ifndef __SANITIZE_THREAD__
    if (f->element == 1) {
        memset((void *)(uintptr_t)dst, (int)(f->value & 0xff), f->width);
        return true;
    }
#endif
    (void)dst, (void)f;
    return false;
}

void sim_run_fill(struct sim_work *w)
{
    for (size_t y = 0; y < w->u.fill.height; y++) {
        uint64_t dst = w->u.fill.dst + y * w->u.fill.pitch;
        if (!fill_bytes(dst, &w->u.fill)) fill_row(dst, &w->u.fill);
    }
}
