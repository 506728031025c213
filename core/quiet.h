/* An allocation and a release in place, for when all is quiet: nothing stands in the way, nobody else is there, and the plugin answers
 * plainly. They leave behind what nxm_allocator_allocate and nxm_allocator_enqueue_claimed do (allocator.h); what is not that simple
 * is answered with "no" and goes on there, from where it is. The plugin is asked by the caller, in between.
 *
 * For an allocator whose embedder wants to hear of no completion (nxm_quiet_may), who keeps it and its provider context for as long
 * as the call lasts: no pin is needed until a release stays queued. For a thread with a line of its own (spread.h). A completion that comes
 * from inside the call only says so here; it is settled when the call is over. Owns nothing; takes NXM_RANK_BLOCKS inside.
 */
#ifndef NXM_QUIET_H
#define NXM_QUIET_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator_state.h"
#include "blocks_quiet.h"
#include "graves.h"
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
static inline void nxm_quiet_note(struct nxm_spread *spread, unsigned sum, uint64_t amount)
{
    struct nxm_spread_line *line = (struct nxm_spread_line *)(void *)((char *)spread->lines + nxm_spread_here());

#if NXM_STORES_IN_ORDER
    __asm__ volatile("addq %1, %0" : "+m"(line->sums[sum]) : "er"(amount) : "memory", "cc");
#else
    atomic_fetch_add_explicit(&line->sums[sum], amount, memory_order_release);
#endif
}

/* --- allocating --------------------------------------------------------------------------------------------------------- */

/* Returns the id. */
static inline uint64_t nxm_quiet_request(const struct nxm_allocator *allocator, uint64_t bytes, uint64_t align, NxmemAllocRequest *ret_request,
                                         NxmemAllocResult *ret_answer)
{
    uint64_t id = nxm_block_next_id();

    *ret_request = (NxmemAllocRequest){
        .struct_size = sizeof *ret_request,
        .mechanism_id = allocator->vtable.mechanism_id,
        .allocation_id = id,
        .device = allocator->device,
        .bytes = bytes,
        .align = align,
    };
    *ret_answer = (NxmemAllocResult){ .struct_size = sizeof *ret_answer };
    return id;
}

/* Whole, and nothing about it is unusual. */
static inline bool nxm_quiet_is_plain(const NxmemAllocResult *answer, uint64_t bytes, uint64_t align)
{
    uint64_t address = (uintptr_t)answer->ptr;

    return answer->struct_size >= sizeof *answer && address != 0 && (address & (align - 1)) == 0 && address + bytes >= address &&
           answer->owned_bytes == bytes && answer->mapped_bytes == bytes;
}

/* Records what the plugin answered with OK. `block`: all of it but its address and what it costs. */
static inline bool nxm_quiet_accept(struct nxm_allocator *allocator, const NxmemAllocResult *answer, const struct nxm_block *block)
{
    struct nxm_blocks *table = allocator->options.blocks;
    uint64_t address = (uintptr_t)answer->ptr;
    struct nxm_blocks_place place;
    struct nxm_record *record;
    struct nxm_block whole = *block;

    if (__builtin_expect(!nxm_quiet_is_plain(answer, block->bytes, block->align) ||
                             atomic_load_explicit(&allocator->quarantine.any, memory_order_acquire), 0))
        return false;
    place = nxm_blocks_place_of(table, address);
    nxm_blocks_fetch(&place);
    if (!nxm_blocks_enter_quietly(place))
        return false;
    record = nxm_shard_first_free(place.shard);
    if (__builtin_expect(!nxm_blocks_room_is_easy(table, place, record, address, block->bytes, block->class_), 0)) {
        nxm_shard_release(place.shard);
        return false;
    }
    nxm_quiet_note(allocator->tallies, NXM_TALLY_ALLOCATIONS, 1);
    nxm_quiet_note(&allocator->sums, NXM_SUM_BYTES, block->bytes);
    whole.address = address;
    whole.owned = whole.mapped = block->bytes;
    place.shard->free = record->next;
    nxm_shard_write(record, &whole);
    nxm_blocks_put(place, record);
    nxm_shard_release(place.shard);
    return true;
}

/* --- releasing ---------------------------------------------------------------------------------------------------------- */

struct nxm_quiet_release {
    struct nxm_blocks_place place;
    struct nxm_record *record; /* a hint, once the lock is let go */
    struct nxm_seat *seat;
    uint64_t address, bytes, align, id;
};

/* Claims the live block of this allocator that starts there, and a seat for its release. */
static inline bool nxm_quiet_claim(struct nxm_allocator *allocator, uint64_t address, struct nxm_quiet_release *release)
{
    struct nxm_blocks_place place = nxm_blocks_place_of(allocator->options.blocks, address);
    struct nxm_record *record;
    struct nxm_seat *seat;

    nxm_blocks_fetch(&place);
    if (!nxm_blocks_enter_quietly(place))
        return false;
    if (!nxm_blocks_fetched(place) || place.chains == 0)
        goto no;
    record = nxm_blocks_in_chain(*place.head, address);
    if (record == NULL || record->block.allocator != allocator || record->block.state != NXM_BLOCK_LIVE ||
        record->block.owned != record->block.bytes || record->block.mapped != record->block.bytes)
        goto no;
    seat = nxm_queued_seat(&allocator->queued, record->block.id);
    if (seat->entry == NULL || !nxm_seat_move(seat, 0, record->block.id | NXM_SEAT_QUIET))
        goto no; /* else what stays could find no memory */
    __atomic_store_n(&record->block.state, (uint8_t)NXM_BLOCK_RELEASING, __ATOMIC_RELEASE);
    *release = (struct nxm_quiet_release){
        .place = place,
        .record = record,
        .seat = seat,
        .address = address,
        .bytes = record->block.bytes,
        .align = record->block.align,
        .id = record->block.id,
    };
    nxm_shard_release(place.shard);
    nxm_quiet_note(&allocator->sums, NXM_SUM_QUEUED, 1); /* before the plugin is asked */
    nxm_own.asking = seat;
    return true;
no:
    nxm_shard_release(place.shard);
    return false;
}

static inline NxmemAllocation nxm_quiet_allocation(const struct nxm_allocator *allocator, const struct nxm_quiet_release *release)
{
    NxmemAllocation allocation;

    allocation.struct_size = sizeof allocation;
    allocation.reserved = 0;
    allocation.mechanism_id = allocator->vtable.mechanism_id;
    allocation.allocation_id = release->id;
    allocation.device = allocator->vtable.device;
    allocation.ptr = (uint8_t *)(uintptr_t)release->address;
    allocation.bytes = release->bytes;
    allocation.align = release->align;
    return allocation;
}

/* For the completion, on the thread that asks and sits there. A whole one, of a release that is complete. */
static inline bool nxm_quiet_hand_over(struct nxm_seat *seat, uint64_t mechanism_id, const NxmemReleaseCompletion *published)
{
    NxmemReleaseCompletion *said = (NxmemReleaseCompletion *)(void *)seat->completion;

    if (__builtin_expect((uintptr_t)published % _Alignof(uint64_t) != 0 || published->struct_size < sizeof *published ||
                             published->mechanism_id != mechanism_id || published->outcome.struct_size < sizeof published->outcome ||
                             published->outcome.state != NXMEM_RELEASE_COMPLETE || published->outcome.residual_owned_bytes != 0, 0))
        return false;
    uint64_t word = published->allocation_id ^ NXM_SEAT_QUIET;
    if (__builtin_expect(atomic_load_explicit(&seat->word, memory_order_relaxed) != word || !nxm_seat_move(seat, word, word | NXM_SEAT_BUSY), 0))
        return false;
    said->ticket = published->ticket;
    said->outcome.unmapped_bytes = published->outcome.unmapped_bytes;
    atomic_store_explicit(&seat->said, NXM_SAID_COMPLETE, memory_order_release);
    return true;
}

/* Out of its shard, and into its grave. */
static inline bool nxm_quiet_remove(struct nxm_blocks *table, const struct nxm_quiet_release *release)
{
    struct nxm_blocks_place place = release->place;
    struct nxm_record *record = release->record;

    if (!nxm_blocks_enter_quietly(place))
        return false;
    if (__builtin_expect(!nxm_blocks_fetched(place) || nxm_link_record(*place.head) != record || record->block.id != release->id ||
                             !nxm_peak_try_give(&table->peak, record->block.class_, release->bytes), 0)) {
        nxm_shard_release(place.shard);
        return false;
    }
    nxm_blocks_sums_leave(place.shard, record->block.class_, release->bytes);
    nxm_graves_bury(&record->block, 0);
    nxm_link_set(place.head, record->next);
    nxm_shard_free(place.shard, record);
    nxm_shard_release(place.shard);
    return true;
}

/* The call is over; `accepted`: the plugin said OK. False: that is not all, and nothing has been settled. */
static inline bool nxm_quiet_settle(struct nxm_allocator *allocator, const struct nxm_quiet_release *release, bool accepted)
{
    struct nxm_blocks *table = allocator->options.blocks;
    struct nxm_seat *seat = release->seat;

    nxm_own.asking = NULL;
    if (__builtin_expect(!accepted || atomic_load_explicit(&seat->said, memory_order_acquire) != NXM_SAID_COMPLETE ||
                             atomic_load_explicit(&allocator->views.count, memory_order_acquire) != 0, 0))
        return false;
    if (__builtin_expect(!nxm_quiet_remove(table, release), 0)) {
        struct nxm_block block;

        if (nxm_blocks_find(table, release->address, &block) == NXM_OK && block.id == release->id)
            nxm_graves_bury(&block, 0);
        nxm_blocks_remove(table, release->address, release->id); /* unless it is a newcomer's by now */
    }
    nxm_quiet_note(&allocator->sums, NXM_SUM_BYTES, 0 - release->bytes);
    nxm_quiet_note(allocator->tallies, NXM_TALLY_ALLOCATIONS, UINT64_MAX);
    nxm_quiet_note(&allocator->sums, NXM_SUM_QUEUED, UINT64_MAX);
    atomic_store_explicit(&seat->said, NXM_SAID_NOTHING, memory_order_relaxed);
    atomic_store_explicit(&seat->word, 0, memory_order_release);
    return true;
}

#endif
