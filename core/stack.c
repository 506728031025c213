/* Interned stacks live in an insert-only hash table: an entry is complete before its number is published in
 * a slot and never changes after, so looking needs no lock. Equal return addresses are not enough for a
 * hit: a library may have been closed and another one mapped at its place, so the images are compared too. */
#include "stack.h"

#include <execinfo.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/auxv.h>

#include "image.h"
#include "lock.h"
#include "mem.h"
#include "pile.h"

#ifndef NXM_STACK_LIMIT
#define NXM_STACK_LIMIT 65536u /* distinct stacks */
#endif
#define SLOT_COUNT (NXM_STACK_LIMIT * 2)
#define OWN_FRAMES_MAX 24 /* of ours above the caller's */
/* musl has none: there are no stacks then, but a process that we were preloaded into lives. */
#pragma weak backtrace

#define FOREIGN_TOP_MAX 3 /* a sanitizer's own backtrace() stands above ours */
#define FRAME_PIECES 128  /* 32 MiB of frames */
#define STRING_PIECES 32  /* 8 MiB of names */

struct entry {
    const struct nxm_frame *frames;
    uint32_t count;
    uint32_t hash;
};

/* One capture before it is interned: return addresses and the images they lie in (path NULL: in none). */
struct capture {
    uint32_t count, hash;
    uint64_t pcs[NXM_STACK_DEPTH_MAX];
    struct nxm_image images[NXM_STACK_DEPTH_MAX];
};

struct table {
    atomic_uint slots[SLOT_COUNT]; /* id, 0 empty */
    struct entry entries[NXM_STACK_LIMIT];
};

static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_STACK); /* insertion */
static _Atomic(struct table *) table;
static atomic_uint entry_count;
static atomic_uint_fast64_t dropped;
static atomic_bool full; /* a bound is reached: what is new is not worth naming any more */
static struct nxm_pile frame_pile = NXM_PILE_INIT(FRAME_PIECES); /* under the lock, as the strings */
static struct nxm_strings strings = NXM_STRINGS_INIT(STRING_PIECES);

static atomic_uintptr_t own_start, own_end;
static atomic_bool is_library; /* linked into a program, our image is the program's, and only the top of a stack is ours */
static atomic_bool prepared;

/* No "once" here: whoever waited for the first thread might hold the loader's lock that it needs. */
void nxm_stack_prepare(void)
{
    struct nxm_image own;
    void *pc;

    if (backtrace)
        (void)backtrace(&pc, 1); /* loads the unwinder */
    if (nxm_image_at((uintptr_t)&nxm_stack_prepare, &own)) {
        uintptr_t program = getauxval(AT_PHDR);
        atomic_store(&own_end, own.end);
        atomic_store(&own_start, own.start);
        atomic_store(&is_library, program < own.start || program >= own.end);
    }
    atomic_store(&prepared, true);
}

/* --- capturing ---------------------------------------------------------------------------------------- */

static bool is_own(uint64_t pc)
{
    return pc >= atomic_load_explicit(&own_start, memory_order_relaxed) &&
           pc < atomic_load_explicit(&own_end, memory_order_relaxed);
}

/* A return address may be the first byte of the next function or image: the call itself is one byte before. */
static uint64_t call_of(uint64_t pc)
{
    return pc - 1;
}

static void find_images(struct capture *capture)
{
    for (uint32_t i = 0; i < capture->count; i++) {
        struct nxm_image *image = &capture->images[i];
        uint64_t call = call_of(capture->pcs[i]);

        if (i > 0 && image[-1].path != NULL && call >= image[-1].start && call < image[-1].end)
            *image = image[-1];
        else if (!nxm_image_at(call, image))
            image->path = NULL;
    }
}

static uint32_t hash_of(const struct capture *capture)
{
    uint64_t h = capture->count;

    for (uint32_t i = 0; i < capture->count; i++) {
        h = (h ^ capture->pcs[i]) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 29;
    }
    return (uint32_t)(h ^ (h >> 32));
}

/* How many frames stand above the first that is of interest. */
static int own_frames(void *const *pcs, int count)
{
    int first = 0;

    while (first < count && first <= FOREIGN_TOP_MAX && !is_own((uintptr_t)pcs[first]))
        first++;
    if (first == count || first > FOREIGN_TOP_MAX)
        return 0;
    while (first < count && is_own((uintptr_t)pcs[first]))
        first++;
    return first;
}

static void capture_now(struct capture *ret_capture, unsigned depth)
{
    void *pcs[NXM_STACK_DEPTH_MAX + OWN_FRAMES_MAX];
    int got = backtrace ? backtrace(pcs, (int)(depth + OWN_FRAMES_MAX)) : 0;

    ret_capture->count = 0;
    /* Ours also stand in the middle, where a hook of the runtime's name called the runtime: they say nothing. */
    bool skip = atomic_load_explicit(&is_library, memory_order_relaxed);
    for (int i = own_frames(pcs, got); i < got && ret_capture->count < depth; i++) {
        if (!skip || !is_own((uintptr_t)pcs[i]))
            ret_capture->pcs[ret_capture->count++] = (uintptr_t)pcs[i];
    }
    find_images(ret_capture);
    ret_capture->hash = hash_of(ret_capture);
}

/* --- interning ---------------------------------------------------------------------------------------- */

static bool same_image(const struct nxm_frame *frame, const struct nxm_image *image)
{
    if (image->path == NULL)
        return frame->module[0] == '\0';
    return frame->pc - frame->offset == image->base && strcmp(frame->module, image->path) == 0;
}

static bool same_stack(const struct entry *entry, const struct capture *capture)
{
    if (entry->hash != capture->hash || entry->count != capture->count)
        return false;
    for (uint32_t i = 0; i < capture->count; i++) {
        if (entry->frames[i].pc != capture->pcs[i] || !same_image(&entry->frames[i], &capture->images[i]))
            return false;
    }
    return true;
}

/* The id, or 0 with the empty slot where it belongs. */
static uint32_t look_up(struct table *in, const struct capture *capture, uint32_t *ret_slot)
{
    uint32_t at = capture->hash % SLOT_COUNT, id;

    while ((id = atomic_load_explicit(&in->slots[at], memory_order_acquire)) != 0) {
        if (same_stack(&in->entries[id - 1], capture))
            return id;
        at = (at + 1) % SLOT_COUNT;
    }
    *ret_slot = at;
    return 0;
}

/* Fills *ret_frames with what the images themselves hold; nothing is interned yet, and no lock is held. */
static void symbolise(const struct capture *capture, struct nxm_frame *ret_frames)
{
    for (uint32_t i = 0; i < capture->count; i++) {
        const struct nxm_image *image = &capture->images[i];
        struct nxm_frame *frame = &ret_frames[i];
        uint64_t start;

        *frame = (struct nxm_frame){ .pc = capture->pcs[i], .module = "", .offset = capture->pcs[i] };
        if (image->path == NULL)
            continue;
        frame->module = image->path;
        frame->offset = frame->pc - image->base;
        if (nxm_image_symbol(image, call_of(frame->pc), &frame->symbol, &start))
            frame->symbol_offset = frame->pc - start;
    }
}

static struct nxm_frame *keep(const struct nxm_frame *frames, uint32_t count)
{
    struct nxm_frame *kept = nxm_pile_take(&frame_pile, count * sizeof *kept);

    if (kept == NULL)
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        kept[i] = frames[i];
        kept[i].module = nxm_strings_intern(&strings, frames[i].module);
        kept[i].symbol = frames[i].symbol == NULL ? NULL : nxm_strings_intern(&strings, frames[i].symbol);
        if (kept[i].module == NULL || (frames[i].symbol != NULL && kept[i].symbol == NULL))
            return NULL;
    }
    return kept;
}

static bool bound_reached(void)
{
    return frame_pile.pieces == frame_pile.pieces_max || strings.pile.pieces == strings.pile.pieces_max;
}

static struct table *table_made(void)
{
    struct table *made = atomic_load_explicit(&table, memory_order_relaxed);

    if (made == NULL) {
        made = nxm_mem_map(sizeof *made);
        atomic_store_explicit(&table, made, memory_order_release);
    }
    return made;
}

static uint32_t insert(const struct capture *capture, const struct nxm_frame *frames)
{
    struct table *into = table_made();
    uint32_t id, slot;
    struct entry *entry;

    if (into == NULL)
        return 0;
    id = look_up(into, capture, &slot); /* another thread may have been faster */
    if (id != 0)
        return id;
    id = atomic_load_explicit(&entry_count, memory_order_relaxed) + 1;
    if (id > NXM_STACK_LIMIT) {
        atomic_store(&full, true);
        return 0;
    }
    entry = &into->entries[id - 1];
    entry->frames = keep(frames, capture->count);
    if (entry->frames == NULL) {
        atomic_store(&full, bound_reached());
        return 0;
    }
    entry->count = capture->count;
    entry->hash = capture->hash;
    atomic_store_explicit(&entry_count, id, memory_order_release);
    atomic_store_explicit(&into->slots[slot], id, memory_order_release);
    return id;
}

static uint32_t intern(const struct capture *capture)
{
    struct table *in = atomic_load_explicit(&table, memory_order_acquire);
    struct nxm_frame frames[NXM_STACK_DEPTH_MAX];
    uint32_t slot, id = in == NULL ? 0 : look_up(in, capture, &slot);

    if (id != 0 || atomic_load_explicit(&full, memory_order_relaxed))
        return id;
    symbolise(capture, frames);
    nxm_lock_acquire(&lock);
    id = insert(capture, frames);
    nxm_lock_release(&lock);
    return id;
}

uint32_t nxm_stack_capture(unsigned depth)
{
    struct capture capture;
    uint32_t id;

    if (depth == 0)
        return 0;
    if (!atomic_load_explicit(&prepared, memory_order_acquire))
        nxm_stack_prepare();
    capture_now(&capture, depth < NXM_STACK_DEPTH_MAX ? depth : NXM_STACK_DEPTH_MAX);
    if (capture.count == 0)
        return 0;
    id = intern(&capture);
    if (id == 0)
        atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
    return id;
}

size_t nxm_stack_frames(uint32_t id, struct nxm_frame *ret_frames, size_t capacity)
{
    struct table *in = atomic_load_explicit(&table, memory_order_acquire);
    const struct entry *entry;

    if (in == NULL || id == 0 || id > atomic_load_explicit(&entry_count, memory_order_acquire))
        return 0;
    entry = &in->entries[id - 1];
    if (ret_frames != NULL)
        memcpy(ret_frames, entry->frames, (capacity < entry->count ? capacity : entry->count) * sizeof *ret_frames);
    return entry->count;
}

uint64_t nxm_stack_dropped(void)
{
    return atomic_load_explicit(&dropped, memory_order_relaxed);
}
