/* Interned stacks live in an insert-only hash table: an entry is complete before its number is published in
 * a slot and never changes after, so looking needs no lock, and neither does adding: of two threads that add the same stack one
 * wins the slot, and the other takes that one's number. Equal return addresses are not enough for a
 * hit: a library may have been closed and another one mapped at its place, so frames carry the number of their image. */
#include "stack.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "arena.h"
#include "images.h"
#include "journal.h"
#include "mem.h"
#include "pile.h"
#include "trace.h"

#ifndef NXM_STACK_LIMIT
#define NXM_STACK_LIMIT 65536u /* distinct stacks */
#endif
#define SLOT_COUNT (NXM_STACK_LIMIT * 2)
#define FRAME_PIECES 128 /* 32 MiB of frames */
#define STRING_PIECES 32 /* 8 MiB of names */

_Static_assert(NXM_STACK_DEPTH_MAX == NXM_TRACE_MAX, "a trace has room for the deepest stack");

struct entry {
    const struct nxm_frame *frames;
    const uint64_t *key; /* the trace's frames */
    uint32_t count;
    uint32_t hash;
};

struct table {
    atomic_uint slots[SLOT_COUNT]; /* id, 0 empty */
    struct entry entries[NXM_STACK_LIMIT];
};

static _Atomic(struct table *) table;
static atomic_uint entry_count; /* given out or to be; what is not complete yet has no frames */
static atomic_uint_fast64_t dropped;
static atomic_bool full; /* a bound is reached: what is new is not worth naming any more */
static struct nxm_pile frame_pile = NXM_PILE_INIT(FRAME_PIECES);
static struct nxm_strings strings = NXM_STRINGS_INIT(STRING_PIECES);

static const struct nxm_arena *adopted; /* by a reader of journals */

void nxm_stack_prepare(void)
{
    nxm_trace_prepare();
}

/* --- interning ---------------------------------------------------------------------------------------- */

static uint32_t hash_of(const struct nxm_trace *trace)
{
    const uint64_t *frames = trace->frames, mix = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t h = trace->count;
    uint32_t i = 0;

    for (; i + 4 <= trace->count; i += 4)
        h = ((((h + frames[i]) * mix + frames[i + 1]) * mix + frames[i + 2]) * mix + frames[i + 3]) * mix;
    for (; i < trace->count; i++)
        h = (h + frames[i]) * mix;
    return (uint32_t)(h >> 32);
}

static bool same_stack(const struct entry *entry, uint32_t hash, const struct nxm_trace *trace)
{
    return entry->hash == hash && entry->count == trace->count &&
           memcmp(entry->key, trace->frames, trace->count * sizeof trace->frames[0]) == 0;
}

/* The id, or 0 with the empty slot where it belongs. */
static uint32_t look_up(struct table *in, uint32_t hash, const struct nxm_trace *trace, uint32_t *ret_slot)
{
    uint32_t at = hash % SLOT_COUNT, id;

    while ((id = atomic_load_explicit(&in->slots[at], memory_order_acquire)) != 0) {
        if (same_stack(&in->entries[id - 1], hash, trace))
            return id;
        at = (at + 1) % SLOT_COUNT;
    }
    *ret_slot = at;
    return 0;
}

/* Fills *ret_frames with what the images themselves hold; nothing is interned yet. */
static void symbolise(const struct nxm_trace *trace, struct nxm_frame *ret_frames)
{
    for (uint32_t i = 0; i < trace->count; i++) {
        const struct nxm_known_image *known = nxm_images_numbered(nxm_frame_image(trace->frames[i]));
        /* A return address may be the first byte of the next function or image: the call itself is one byte before. */
        uint64_t call = nxm_frame_address(trace->frames[i]), pc = call + 1, start;
        struct nxm_frame *frame = &ret_frames[i];
        struct nxm_image image;

        *frame = (struct nxm_frame){ .pc = pc, .module = "", .offset = pc };
        if (known == NULL)
            continue;
        frame->module = known->image.path;
        frame->offset = pc - known->image.base;
        if (nxm_image_at(call, &image) && nxm_image_symbol(&image, call, &frame->symbol, &start))
            frame->symbol_offset = pc - start;
    }
}

/* The frames with names that stay, and the key behind them. */
static struct nxm_frame *keep(const struct nxm_frame *frames, const struct nxm_trace *trace)
{
    size_t key_bytes = trace->count * sizeof trace->frames[0];
    struct nxm_frame *kept = nxm_pile_take(&frame_pile, trace->count * sizeof *kept + key_bytes);

    if (kept == NULL)
        return NULL;
    for (uint32_t i = 0; i < trace->count; i++) {
        kept[i] = frames[i];
        kept[i].module = nxm_strings_intern(&strings, frames[i].module);
        kept[i].symbol = frames[i].symbol == NULL ? NULL : nxm_strings_intern(&strings, frames[i].symbol);
        if (kept[i].module == NULL || (frames[i].symbol != NULL && kept[i].symbol == NULL))
            return NULL;
    }
    memcpy(&kept[trace->count], trace->frames, key_bytes);
    return kept;
}

static bool is_used_up(const struct nxm_pile *pile)
{
    return atomic_load(&pile->used) > (uint64_t)(pile->pieces_max - 1) * NXM_PILE_PIECE;
}

static struct table *table_made(void)
{
    struct table *there = atomic_load_explicit(&table, memory_order_acquire), *made;

    if (there != NULL)
        return there;
    made = nxm_mem_map_kept(sizeof *made);
    if (made != NULL && !atomic_compare_exchange_strong(&table, &there, made)) {
        nxm_mem_unmap(made, sizeof *made);
        return there;
    }
    if (made != NULL && nxm_journal() != NULL)
        atomic_store(&nxm_journal()->stacks, made);
    return made;
}

/* Of all the memory only the numbers are taken one by one: a number more than there are entries is none. */
static struct entry *entry_made(struct table *in, uint32_t *ret_id)
{
    uint32_t count = atomic_load(&entry_count);

    do {
        if (count >= NXM_STACK_LIMIT) {
            atomic_store(&full, true);
            return NULL;
        }
    } while (!atomic_compare_exchange_weak(&entry_count, &count, count + 1));
    if (nxm_journal() != NULL)
        atomic_fetch_add(&nxm_journal()->stack_count, 1);
    *ret_id = count + 1;
    return &in->entries[count];
}

static uint32_t insert(const struct nxm_trace *trace, uint32_t hash, const struct nxm_frame *frames)
{
    struct table *into = table_made();
    uint32_t id = 0, slot, there;
    struct nxm_frame *kept;
    struct entry *entry;

    if (into == NULL)
        return 0;
    kept = keep(frames, trace);
    if (kept == NULL) {
        atomic_store(&full, is_used_up(&frame_pile) || is_used_up(&strings.pile));
        return 0;
    }
    entry = entry_made(into, &id);
    if (entry == NULL)
        return 0;
    *entry = (struct entry){ kept, (const uint64_t *)&kept[trace->count], trace->count, hash };
    do {
        there = look_up(into, hash, trace, &slot); /* another thread may be faster */
        if (there != 0)
            return there;
    } while (!atomic_compare_exchange_strong(&into->slots[slot], &there, id));
    return id;
}

static uint32_t intern(const struct nxm_trace *trace)
{
    struct table *in = atomic_load_explicit(&table, memory_order_acquire);
    struct nxm_frame frames[NXM_STACK_DEPTH_MAX];
    uint32_t hash = hash_of(trace), slot, id = in == NULL ? 0 : look_up(in, hash, trace, &slot);

    if (id != 0 || atomic_load_explicit(&full, memory_order_relaxed))
        return id;
    symbolise(trace, frames);
    return insert(trace, hash, frames);
}

uint32_t nxm_stack_capture(unsigned depth)
{
    struct nxm_registers here;
    struct nxm_trace trace;
    uint32_t id;

    if (depth == 0)
        return 0;
    if (!nxm_trace_is_prepared())
        nxm_stack_prepare();
    NXM_REGISTERS_HERE(here);
    nxm_trace_take(&here, depth, &trace);
    if (trace.count == 0)
        return 0;
    id = intern(&trace);
    if (id == 0) {
        atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
        if (nxm_journal() != NULL)
            atomic_fetch_add(&nxm_journal()->stacks_dropped, 1);
    }
    return id;
}

/* Names that lie outside the arena went with their process. */
static void keep_readable(struct nxm_frame *frame)
{
    if (!nxm_arena_holds(adopted, frame->module, 1))
        frame->module = "";
    if (frame->symbol != NULL && !nxm_arena_holds(adopted, frame->symbol, 1))
        frame->symbol = NULL;
}

size_t nxm_stack_frames(uint32_t id, struct nxm_frame *ret_frames, size_t capacity)
{
    struct table *in = atomic_load_explicit(&table, memory_order_acquire);
    const struct entry *entry;

    if (in == NULL || id == 0 || id > NXM_STACK_LIMIT || id > atomic_load_explicit(&entry_count, memory_order_acquire))
        return 0;
    entry = &in->entries[id - 1];
    if (adopted != NULL && (entry->count > NXM_STACK_DEPTH_MAX ||
                            !nxm_arena_holds(adopted, entry->frames, entry->count * sizeof *ret_frames)))
        return 0;
    if (ret_frames != NULL)
        memcpy(ret_frames, entry->frames, (capacity < entry->count ? capacity : entry->count) * sizeof *ret_frames);
    for (size_t i = 0; adopted != NULL && ret_frames != NULL && i < capacity && i < entry->count; i++)
        keep_readable(&ret_frames[i]);
    return entry->count;
}

void nxm_stack_adopt(void *stacks, uint32_t count, uint64_t lost, const struct nxm_arena *arena)
{
    if (!nxm_arena_holds(arena, stacks, sizeof(struct table)))
        return;
    adopted = arena;
    atomic_store(&table, stacks);
    atomic_store(&entry_count, count);
    atomic_store(&dropped, lost);
}

uint64_t nxm_stack_dropped(void)
{
    return atomic_load_explicit(&dropped, memory_order_relaxed);
}
