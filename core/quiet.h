/* An allocation and a release in place, for when all is quiet: nothing stands in the way, nobody else is there, and the plugin answers
 * plainly. They leave behind what nxm_allocator_allocate and nxm_allocator_enqueue_claimed do (allocator.h); what is not that simple
 * is answered with "no" and goes on there, from where it is. The plugin is asked by the caller, in between.
 *
 * For an allocator whose embedder wants to hear of no completion (nxm_quiet_may), who keeps it and its provider context for as long
 * as the call lasts: no pin is needed until a release stays queued. For a thread with a line of its own (spread.h), `here`. A completion that comes
 * from inside the call only says so here; it is settled when the call is over. Owns nothing; takes NXM_RANK_BLOCKS inside.
 */
#ifndef NXM_QUIET_H
#define NXM_QUIET_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "allocator_state.h"
#include "blocks_quiet.h"
#include "ids.h"
#include "nxmem_memory_abi.h"
#include "own.h"
#include "queued.h"
#include "spread.h"
#include "stores.h"

static inline bool nxm_quiet_may(const struct nxm_allocator *allocator)
{
    return allocator->options.completed == NULL && allocator->vtable.enqueue_release != NULL &&
           (allocator->capabilities & NXMEM_CAPABILITY_DEFERRED_RELEASE) != 0;
}

/* As nxm_spread_note_at, where it is known that the line is the thread's own. */
static inline void nxm_quiet_note(struct nxm_spread *spread, uint64_t here, unsigned sum, uint64_t amount)
{
    struct nxm_spread_line *line = (struct nxm_spread_line *)(void *)((char *)spread->lines + here);

#if NXM_STORES_IN_ORDER
    __asm__ volatile("addq %1, %0" : "+m"(line->sums[sum]) : "er"(amount) : "memory", "cc");
#else
    atomic_fetch_add_explicit(&line->sums[sum], amount, memory_order_release);
#endif
}

static inline void nxm_quiet_note_less(struct nxm_spread *spread, uint64_t here, unsigned sum, uint64_t amount)
{
    struct nxm_spread_line *line = (struct nxm_spread_line *)(void *)((char *)spread->lines + here);

#if NXM_STORES_IN_ORDER
    __asm__ volatile("subq %1, %0" : "+m"(line->sums[sum]) : "er"(amount) : "memory", "cc");
#else
    atomic_fetch_sub_explicit(&line->sums[sum], amount, memory_order_release);
#endif
}

/* What a thread says to a plugin, as far as it is the same each time. Only what is not is written for a call. */
struct nxm_quiet_words {
    NxmemAllocRequest request;
    NxmemAllocation allocation;
};

static inline void nxm_quiet_prepare(const struct nxm_allocator *allocator, uint64_t align, struct nxm_quiet_words *ret_words)
{
    *ret_words = (struct nxm_quiet_words){
        .request = { .struct_size = sizeof ret_words->request,
                     .mechanism_id = allocator->vtable.mechanism_id,
                     .device = allocator->device,
                     .align = align },
        .allocation = { .struct_size = sizeof ret_words->allocation,
                        .mechanism_id = allocator->vtable.mechanism_id,
                        .device = allocator->vtable.device },
    };
}

/* --- allocating --------------------------------------------------------------------------------------------------------- */

/* Returns the id. */
static inline uint64_t nxm_quiet_request(struct nxm_allocator *allocator, uint64_t bytes, struct nxm_quiet_words *words,
                                         NxmemAllocResult *ret_answer)
{
    uint64_t id = nxm_own.next_id;

    if (__builtin_expect(id % NXM_IDS_ROW == 0, 0)) /* it is used up */
        id = nxm_queued_begin_row(&allocator->queued);
    nxm_own.next_id = id + 1;
    words->request.allocation_id = id;
    words->request.bytes = bytes;
    ret_answer->struct_size = sizeof *ret_answer;
    ret_answer->reserved = 0;
    ret_answer->ptr = NULL;
    ret_answer->owned_bytes = ret_answer->mapped_bytes = 0;
    return id;
}

/* Whole, and nothing about it is unusual. That it is not NULL and ends within the address space is
 * said by the start that is noted. */
static inline bool nxm_quiet_is_plain(const NxmemAllocResult *answer, uint64_t bytes, uint64_t align)
{
    uint64_t address = (uintptr_t)answer->ptr;

    return answer->struct_size >= sizeof *answer && (address & (align - 1)) == 0 &&
           answer->owned_bytes == bytes && answer->mapped_bytes == bytes;
}

/* Where what the plugin answered with OK is to be recorded: room with its shard's lock held, the sums moved already. NULL: not
 * quietly, and nothing has changed. */
static inline struct nxm_record *nxm_quiet_room(struct nxm_allocator *allocator, const NxmemAllocResult *answer, uint64_t bytes, uint64_t align,
                                                uint64_t here, struct nxm_blocks_place *ret_place)
{
    uint64_t address = (uintptr_t)answer->ptr;
    struct nxm_blocks *table;
    struct nxm_blocks_place place;
    struct nxm_record *record;

    if (__builtin_expect(!nxm_quiet_is_plain(answer, bytes, align) || nxm_load_is_set(&allocator->quarantine.any), 0))
        return NULL;
    table = allocator->options.blocks;
    place = nxm_blocks_place_of(table, address);
    if (!nxm_blocks_enter_quietly(place))
        return NULL;
    record = nxm_blocks_easy_room(table, place, address, bytes);
    if (__builtin_expect(record == NULL || !nxm_peak_try_take_own(&table->peak, here, NXM_CLASS_DEVICE, bytes), 0)) {
        nxm_shard_release(place.shard);
        return NULL;
    }
    if (!nxm_blocks_use_room(place, record)) {
        nxm_blocks_lacks_room(table, bytes);
        nxm_shard_release(place.shard);
        return NULL;
    }
    nxm_quiet_note(allocator->tallies, here, NXM_TALLY_ALLOCATIONS, 1);
    nxm_quiet_note(&allocator->sums, here, NXM_SUM_BYTES, bytes);
    *ret_place = place;
    return record;
}

_Static_assert(offsetof(struct nxm_block, api) % 8 == 0 && offsetof(struct nxm_block, class_) == offsetof(struct nxm_block, api) + 2 &&
                   offsetof(struct nxm_block, state) == offsetof(struct nxm_block, api) + 3 &&
                   offsetof(struct nxm_block, flags) == offsetof(struct nxm_block, api) + 4, "they are one word");

/* Word by word, as they are in registers. */
static inline void nxm_quiet_write(struct nxm_record *record, const struct nxm_block *block)
{
#if NXM_STORES_IN_ORDER
    struct nxm_block *to = &record->block;

    to->address = block->address;
    to->bytes = block->bytes;
    to->align = block->align;
    to->id = block->id;
    to->allocator = block->allocator;
    to->context = block->context;
    to->owned = block->owned;
    to->mapped = block->mapped;
    to->tag = block->tag;
    to->stack = block->stack;
    to->device = block->device;
    *(nxm_block_word *)(void *)&to->api = block->api | (uint64_t)block->class_ << 16 | (uint64_t)block->state << 24 | (uint64_t)block->flags << 32;
#else
    nxm_shard_write(record, block);
#endif
}

/* Into it, and done. */
static inline void nxm_quiet_record(struct nxm_blocks_place place, struct nxm_record *record, const struct nxm_block *block)
{
    nxm_quiet_write(record, block);
    nxm_blocks_sums_enter(place.shard, NXM_CLASS_DEVICE, block->bytes);
    nxm_shard_release(place.shard);
}

/* --- releasing ---------------------------------------------------------------------------------------------------------- */

/* State and flags lie together. */
static inline bool nxm_quiet_is_live_and_plain(const struct nxm_block *block)
{
#if NXM_STORES_IN_ORDER
    uint16_t both;

    memcpy(&both, &block->state, sizeof both);
    return both == (NXM_BLOCK_LIVE | NXM_BLOCK_PLAIN << 8);
#else
    return block->state == NXM_BLOCK_LIVE && (block->flags & NXM_BLOCK_PLAIN) != 0;
#endif
}

struct nxm_quiet_release {
    struct nxm_seat *seat;
    uint64_t bytes;
};

/* Takes the live block of this allocator that starts there out of the table, and a seat for its release. It is in the plugin's hands then:
 * should it be needed again, the record that was its own knows the rest (nxm_blocks_find_gone). */
static inline bool nxm_quiet_take(struct nxm_allocator *allocator, uint64_t address, uint64_t here, struct nxm_quiet_words *words,
                                  struct nxm_quiet_release *release)
{
    struct nxm_blocks *table = allocator->options.blocks;
    struct nxm_blocks_place place = nxm_blocks_place_of(table, address);
    uint64_t bytes, id, *head;
    const struct nxm_block *block;
    struct nxm_record *record;
    struct nxm_seat *seat;

    if (!nxm_blocks_enter_quietly(place))
        return false;
    if (!nxm_blocks_easy_head(place, &head))
        goto no;
    record = nxm_link_record(*head);
    if (__builtin_expect(record == NULL || record->block.address != address, 0)) {
        if (!nxm_shard_bring_forward(head, place.hash, address))
            goto no;
        record = nxm_link_record(*head);
    }
    block = &record->block;
    bytes = block->bytes;
    id = block->id;
    if (block->allocator != allocator || !nxm_quiet_is_live_and_plain(block))
        goto no;
    seat = nxm_queued_seat(&allocator->queued, id);
    __asm__("" : "+r"(seat)); /* as in nxm_blocks_place_of */
    if (!nxm_seat_move(seat, 0, nxm_seat_quiet_word(id)))
        goto no;
    /* Without an entry, what stays could find no memory. */
    if (seat->entry == NULL || !nxm_peak_try_give_own(&table->peak, here, NXM_CLASS_DEVICE, bytes))
        goto loud;
    __atomic_store_n(&seat->releases, nxm_seat_note(address, id), __ATOMIC_RELEASE);
    words->allocation.align = block->align;
    nxm_blocks_sums_leave(place.shard, NXM_CLASS_DEVICE, bytes);
    nxm_link_set(head, record->next);
    nxm_shard_free_quietly(place.shard, record);
    nxm_shard_release(place.shard);
    release->seat = seat;
    release->bytes = bytes;
    words->allocation.allocation_id = id;
    words->allocation.ptr = (uint8_t *)(uintptr_t)address;
    words->allocation.bytes = bytes;
    nxm_quiet_note(&allocator->sums, here, NXM_SUM_QUEUED, 1); /* before the plugin is asked */
    nxm_own.asking = seat;
    return true;
loud:
    atomic_store_explicit(&seat->word, 0, memory_order_release);
no:
    nxm_shard_release(place.shard);
    return false;
}

/* In the form that it has today; another is read with more care. */
static inline bool nxm_quiet_says_complete(const NxmemReleaseOutcome *outcome)
{
#if NXM_STORES_IN_ORDER /* one comparison */
    uint64_t both;

    _Static_assert(offsetof(NxmemReleaseOutcome, struct_size) == 0 && offsetof(NxmemReleaseOutcome, state) == 4, "they are one word");
    memcpy(&both, outcome, sizeof both);
    return both == (sizeof *outcome | (uint64_t)NXMEM_RELEASE_COMPLETE << 32);
#else
    return outcome->struct_size == sizeof *outcome && outcome->state == NXMEM_RELEASE_COMPLETE;
#endif
}

/* For the completion, on the thread that asks and sits there. A whole one, of a release that is complete: that the thread asks no
 * more is all that it says. */
static inline bool nxm_quiet_hand_over(struct nxm_seat *seat, uint64_t mechanism_id, const NxmemReleaseCompletion *published)
{
    if (__builtin_expect((uintptr_t)published % _Alignof(uint64_t) != 0 || published->struct_size < sizeof *published ||
                             published->mechanism_id != mechanism_id || !nxm_quiet_says_complete(&published->outcome) ||
                             published->outcome.residual_owned_bytes != 0 ||
                             !nxm_seat_take_quiet(seat, published->allocation_id), 0))
        return false;
    nxm_own.asking = NULL;
    return true;
}

/* Of who sits there quietly. */
static inline uint64_t nxm_quiet_id(const struct nxm_quiet_release *release)
{
    return atomic_load_explicit(&release->seat->word, memory_order_relaxed) & ~(NXM_SEAT_QUIET | NXM_SEAT_BUSY);
}

static inline bool nxm_quiet_is_complete(void)
{
    return nxm_own.asking == NULL;
}

/* The call is over; `accepted`: the plugin said OK. False: that is not all, and nothing has been settled. */
static inline bool nxm_quiet_settle(struct nxm_allocator *allocator, const struct nxm_quiet_release *release, uint64_t here, bool accepted)
{
    if (__builtin_expect(!accepted || !nxm_quiet_is_complete() || !nxm_load_is(&allocator->views.count, 0), 0))
        return false;
    nxm_quiet_note_less(&allocator->sums, here, NXM_SUM_BYTES, release->bytes);
    nxm_quiet_note(allocator->tallies, here, NXM_TALLY_ALLOCATIONS, UINT64_MAX);
    nxm_quiet_note(&allocator->sums, here, NXM_SUM_QUEUED, UINT64_MAX);
    atomic_store_explicit(&release->seat->word, 0, memory_order_release);
    return true;
}

#endif
