/* core/quiet.h: an allocation and a release in place, and how each goes on the general way when it is not that simple. */
#include "core/quiet.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/accounts.h"
#include "core/deferred.h"
#include "core/mem.h"
#include "core/terminal.h"
#include "support/fake.h"
#include "support/host.h"

#define ALIGN 256

static NxmemAllocResult answer;
static struct nxm_quiet_words words;

/* One shard's worth: what lies in one granule is in one chain. */
static _Alignas(4096) char memory[64 << 10];

static int open_quietly(void **state)
{
    int result = host_setup_deferred(state);

    host_close();
    host.options.completed = NULL;
    host_open();
    nxm_spread_assign();
    return result;
}

static bool record_answer(uint64_t id, uint64_t bytes)
{
    struct nxm_blocks_place place;
    struct nxm_record *record = nxm_quiet_room(host.allocator, &answer, bytes, ALIGN, nxm_spread_here(), &place);
    struct nxm_block block = {
        .address = (uintptr_t)answer.ptr,
        .bytes = bytes,
        .align = ALIGN,
        .id = id,
        .allocator = host.allocator,
        .context = 0x77,
        .owned = bytes,
        .mapped = bytes,
        .tag = 0x88,
        .stack = 5,
        .device = 3,
        .api = 9,
        .state = NXM_BLOCK_LIVE,
        .flags = NXM_BLOCK_PLAIN,
    };

    if (record != NULL)
        nxm_quiet_record(place, record, &block);
    return record != NULL;
}

/* The id; 0: not quietly. */
static uint64_t allocate_quietly(uint64_t bytes)
{
    uint64_t id;

    nxm_quiet_prepare(host.allocator, ALIGN, &words);
    id = nxm_quiet_request(host.allocator, bytes, &words, &answer);
    assert_int_equal(host.allocator->vtable.allocate(host.allocator->vtable.ctx, &words.request, &answer).code, NXMEM_STATUS_OK);
    return record_answer(id, bytes) ? id : 0;
}

/* A table that has nowhere had a block has no room that is easy to have. */
static uint64_t address_of_quiet(uint64_t bytes)
{
    uint64_t id = allocate_quietly(bytes);

    if (id == 0) {
        struct nxm_block block = { .bytes = bytes, .align = ALIGN, .id = nxm_block_next_id(), .state = NXM_BLOCK_LIVE, .allocator = host.allocator };
        NxmemStatus ok = fake_status(0);
        struct nxm_error error;

        block.id = fake.last_request.allocation_id;
        assert_int_equal(nxm_allocator_accept(host.allocator, &block, &ok, &answer, &error), NXM_OK);
    }
    return (uintptr_t)answer.ptr;
}

/* What was not recorded. */
static void give_back_last(void)
{
    struct nxm_block block = { .address = (uintptr_t)answer.ptr, .bytes = fake.last_request.bytes, .align = ALIGN, .id = fake.last_request.allocation_id };
    struct nxm_release ended;

    if (nxm_blocks_remove(host.blocks, block.address, block.id) == NXM_OK) {
        block.owned = block.mapped = block.bytes;
        nxm_accounts_count_out(host.allocator, &block);
    }
    nxm_terminal_release(&host.allocator->vtable, host.allocator->structured, &block, &ended);
}

static struct nxm_quiet_release release;
static NxmemStatus status;
static uint64_t ticket;
static struct nxm_seat *was_asking;

static void take(uint64_t address)
{
    assert_true(nxm_quiet_take(host.allocator, address, nxm_spread_here(), &words, &release));
}

static void ask(void)
{
    ticket = 0;
    status = host.allocator->vtable.enqueue_release(host.allocator->vtable.ctx, &words.allocation, &ticket);
    was_asking = nxm_own.asking;
}

static bool settled(void)
{
    return nxm_quiet_settle(host.allocator, &release, nxm_spread_here(), status.code == NXMEM_STATUS_OK);
}

/* As interpose/quiet.c does it. */
static int settle_otherwise(struct nxm_release *ret_release, struct nxm_error *ret_error)
{
    bool complete = nxm_quiet_is_complete();
    uint64_t bytes = release.bytes;
    struct nxm_block block = {
        .address = (uintptr_t)words.allocation.ptr,
        .bytes = bytes,
        .align = words.allocation.align,
        .id = nxm_quiet_id(&release),
        .allocator = host.allocator,
        .owned = bytes,
        .mapped = bytes,
        .state = NXM_BLOCK_RELEASING,
        .flags = NXM_BLOCK_PLAIN,
    };

    nxm_own.asking = NULL;
    nxm_blocks_insert_again(host.blocks, &block);
    block.state = NXM_BLOCK_LIVE;
    return nxm_deferred_settle_quiet(host.allocator, release.seat, &block, complete, &status, ticket, ret_release, ret_error);
}

/* A first release of a row makes its seat's entry, as the general way does it. */
static uint64_t block_with_seat(uint64_t bytes)
{
    uint64_t address = address_of_quiet(bytes);
    struct nxm_block block;

    assert_int_equal(nxm_blocks_find(host.blocks, address, &block), NXM_OK);
    struct nxm_seat *seat = nxm_queued_seat(&host.allocator->queued, block.id);
    if (seat->entry == NULL) {
        struct nxm_entry *entry = nxm_queued_reserve(&host.allocator->queued, &block);

        nxm_queued_recycle(&host.allocator->queued, entry);
    }
    assert_non_null(seat->entry);
    return address;
}

static void assert_nothing_is_left(void)
{
    struct nxm_class_totals totals;

    host_assert_counts(0, 0);
    nxm_blocks_totals(host.blocks, NXM_CLASS_DEVICE, &totals);
    assert_int_equal(totals.live_blocks, 0);
    assert_int_equal(totals.live_bytes, 0);
    assert_int_equal(host_totals().owned_bytes, 0);
    assert_int_equal(host_totals().mapped_bytes, 0);
    assert_false(nxm_deferred_is_outstanding(host.allocator));
    assert_null(nxm_own.asking);
    for (unsigned i = 0; i < NXM_QUEUED_SEATS; i++) {
        assert_int_equal(host.allocator->queued.seats[i].word, 0);
        assert_false(host.allocator->queued.seats[i].said);
    }
}

/* --- allocating --------------------------------------------------------------------------------------------------------- */

static void free_generally(uint64_t address)
{
    struct nxm_block block;
    struct nxm_release ended;

    assert_int_equal(nxm_blocks_find(host.blocks, address, &block), NXM_OK);
    assert_int_equal(host_release(&block, &ended), NXM_OK);
}

/* At the address there is room, and its start is noted. */
static void room_at(const void *address)
{
    uint64_t freed = block_with_seat(4096); /* and a thread that has freed has a credit in the peak */

    fake.complete_in_enqueue = true;
    take(freed);
    ask();
    assert_true(settled());
    assert_nothing_is_left();
    fake.next_address = (void *)(uintptr_t)address;
    assert_true(address_of_quiet(4096) == (uintptr_t)address);
    free_generally((uintptr_t)address);
}

static void room_for_one(void)
{
    room_at(memory);
}

static void a_quiet_allocation_is_recorded_as_any_other(void **state)
{
    struct nxm_block block;
    struct nxm_class_totals totals;

    (void)state;
    room_for_one();
    fake.next_address = memory;
    uint64_t id = allocate_quietly(4096);
    assert_int_not_equal(id, 0);
    assert_int_equal(fake.last_request.struct_size, sizeof(NxmemAllocRequest));
    assert_int_equal(fake.last_request.mechanism_id, host.allocator->vtable.mechanism_id);
    assert_int_equal(fake.last_request.allocation_id, id);
    assert_int_equal(fake.last_request.bytes, 4096);
    assert_int_equal(fake.last_request.align, ALIGN);
    assert_null(fake.last_request.committed_ranges);
    assert_int_equal(fake.last_result_seen.struct_size, sizeof(NxmemAllocResult));
    assert_null(fake.last_result_seen.ptr);
    assert_int_equal(nxm_blocks_find(host.blocks, (uintptr_t)memory, &block), NXM_OK);
    assert_int_equal(block.bytes, 4096);
    assert_int_equal(block.align, ALIGN);
    assert_int_equal(block.id, id);
    assert_ptr_equal(block.allocator, host.allocator);
    assert_int_equal(block.context, 0x77);
    assert_int_equal(block.owned, 4096);
    assert_int_equal(block.mapped, 4096);
    assert_int_equal(block.tag, 0x88);
    assert_int_equal(block.stack, 5);
    assert_int_equal(block.device, 3);
    assert_int_equal(block.api, 9);
    assert_int_equal(block.state, NXM_BLOCK_LIVE);
    host_assert_counts(1, 0);
    assert_int_equal(host_totals().owned_bytes, 4096);
    nxm_blocks_totals(host.blocks, NXM_CLASS_DEVICE, &totals);
    assert_int_equal(totals.live_blocks, 1);
    assert_int_equal(totals.live_bytes, 4096);
    assert_int_equal(totals.peak_bytes, 4096);
}

/* Refused quietly, and nothing has moved; then the general way judges. */
static void refuse(NxmemAllocResult wrong, uint64_t bytes)
{
    struct nxm_tallies before = host_tallies();
    struct nxm_class_totals totals, after;
    struct nxm_blocks_place place;

    nxm_blocks_totals(host.blocks, NXM_CLASS_DEVICE, &totals);
    struct nxm_record *room = nxm_quiet_room(host.allocator, &wrong, bytes, ALIGN, nxm_spread_here(), &place);
    if (room != NULL)
        nxm_shard_release(place.shard);
    assert_null(room);
    nxm_blocks_totals(host.blocks, NXM_CLASS_DEVICE, &after);
    assert_memory_equal(&totals, &after, sizeof totals);
    assert_int_equal(host_tallies().allocations, before.allocations);
}

static void what_is_not_plain_is_not_recorded_quietly(void **state)
{
    NxmemAllocResult right = { .struct_size = sizeof right, .ptr = (uint8_t *)memory, .owned_bytes = 1024, .mapped_bytes = 1024 }, wrong;

    (void)state;
    room_for_one();
    for (int i = 0; i < 2; i++) { /* for two */
        fake.next_address = memory + i * ALIGN;
        address_of_quiet(64);
    }
    free_generally((uintptr_t)memory);
    free_generally((uintptr_t)memory + ALIGN);
    room_at((void *)(uintptr_t)ALIGN);
    wrong = right, wrong.struct_size--;
    refuse(wrong, 1024);
    wrong = right, wrong.ptr = NULL;
    refuse(wrong, 1024);
    wrong = right, wrong.ptr += ALIGN / 2;
    refuse(wrong, 1024);
    wrong = right, wrong.ptr = (uint8_t *)(UINTPTR_MAX - 1023);
    refuse(wrong, 1024);
    wrong = right, wrong.owned_bytes++;
    refuse(wrong, 1024);
    wrong = right, wrong.mapped_bytes--;
    refuse(wrong, 1024);
    answer = right;
    assert_true(record_answer(nxm_block_next_id(), 1024)); /* nothing else was wrong with it */
    refuse(right, 1024); /* it is live */
    struct nxm_block block;
    assert_int_equal(nxm_blocks_find(host.blocks, (uintptr_t)memory, &block), NXM_OK);
    nxm_accounts_count_out(host.allocator, &block);
    assert_int_equal(nxm_blocks_remove(host.blocks, block.address, block.id), NXM_OK);
    nxm_quarantine_add(&host.allocator->quarantine, NXM_SPAN_KEPT, (uintptr_t)memory, 1);
    refuse(right, 1024);
}

/* Nobody is waited for, and what is a matter of the peak is not decided here. */
static void where_somebody_else_is_nothing_is_quiet(void **state)
{
    enum { LARGE = 2 << 20 };
    uint64_t address, large;
    struct nxm_blocks_place place;
    struct nxm_quiet_release unused;
    NxmemAllocResult right = { .struct_size = sizeof right, .ptr = (uint8_t *)memory, .owned_bytes = LARGE, .mapped_bytes = LARGE };

    (void)state;
    room_for_one();
    address = block_with_seat(4096);
    place = nxm_blocks_place_of(host.blocks, address);
    nxm_spin_acquire(&place.shard->lock, NXM_RANK_BLOCKS);
    assert_false(nxm_quiet_take(host.allocator, address, nxm_spread_here(), &words, &unused));
    nxm_spin_release(&place.shard->lock);
    place = nxm_blocks_place_of(host.blocks, (uintptr_t)memory);
    nxm_spin_acquire(&place.shard->lock, NXM_RANK_BLOCKS);
    right.owned_bytes = right.mapped_bytes = 64;
    assert_null(nxm_quiet_room(host.allocator, &right, 64, ALIGN, nxm_spread_here(), &place));
    nxm_spin_release(&place.shard->lock);
    right.owned_bytes = right.mapped_bytes = LARGE;
    fake.next_address = memory;
    large = block_with_seat(LARGE);
    assert_false(nxm_quiet_take(host.allocator, large, nxm_spread_here(), &words, &unused)); /* more than a thread may keep of the peak */
    assert_int_equal(nxm_queued_seat(&host.allocator->queued, fake.last_request.allocation_id)->word, 0);
    free_generally(large);
    uint32_t line = (uint32_t)nxm_spread_here();
    nxm_own.spread = (NXM_SPREAD_LINES - 1) * sizeof(struct nxm_spread_line); /* a thread that has given nothing back */
    refuse(right, LARGE);
    nxm_own.spread = line;
    free_generally(address);
    for (uint64_t far = 1; far < 64; far++)
        assert_false(nxm_quiet_take(host.allocator, far << 40, nxm_spread_here(), &words, &unused)); /* where nothing ever was */
}

static void what_the_last_one_in_a_seat_released_is_not_being_released(void **state)
{
    uint64_t address = block_with_seat(4096);
    struct nxm_seat *seat;

    (void)state;
    fake.complete_in_enqueue = true;
    take(address);
    seat = release.seat;
    uint64_t id = nxm_quiet_id(&release);
    assert_true(nxm_allocator_is_releasing(host.allocator, address));
    ask();
    assert_true(settled());
    atomic_store(&seat->word, nxm_seat_quiet_word(id + 1)); /* the next one has just sat down */
    assert_false(nxm_allocator_is_releasing(host.allocator, address));
    atomic_store(&seat->word, 0);
}

/* So that its releases can be quiet. */
static void a_row_of_ids_begins_with_memory_in_its_seat(void **state)
{
    (void)state;
    nxm_own.next_id = 0;
    allocate_quietly(64);
    struct nxm_seat *seat = nxm_queued_seat(&host.allocator->queued, fake.last_request.allocation_id);
    assert_non_null(seat->entry);
    assert_int_equal(seat->word, 0);
    assert_int_equal(nxm_own.next_id, fake.last_request.allocation_id + 1);
    give_back_last();
    struct nxm_entry *entry = seat->entry;
    for (unsigned row = 0; row < NXM_QUEUED_SEATS; row++) { /* once round */
        nxm_own.next_id = 0;
        allocate_quietly(64);
        give_back_last();
    }
    assert_ptr_equal(seat->entry, entry);
    atomic_store(&seat->word, NXM_SEAT_BUSY); /* somebody's: it is left to him */
    seat->entry = NULL;
    for (unsigned row = 0; row < NXM_QUEUED_SEATS; row++)
        nxm_queued_begin_row(&host.allocator->queued);
    assert_null(seat->entry);
    assert_int_equal(seat->word, NXM_SEAT_BUSY);
    atomic_store(&seat->word, 0);
    seat->entry = entry;
}

/* --- releasing ---------------------------------------------------------------------------------------------------------- */

static struct nxm_tallies inside;
static uint64_t address_inside;

static void look_inside(void)
{
    struct nxm_block block;

    inside = host_tallies();
    assert_int_equal(nxm_blocks_find(host.blocks, address_inside, &block), NXM_ENOENT);
    assert_true(nxm_allocator_is_releasing(host.allocator, address_inside));
    assert_false(nxm_allocator_is_releasing(host.allocator, address_inside + 1));
}

static void a_quiet_release_leaves_nothing_behind(void **state)
{
    uint64_t address = address_inside = block_with_seat(4096);
    struct nxm_block block, gone;

    (void)state;
    assert_int_equal(nxm_blocks_find(host.blocks, address, &block), NXM_OK);
    fake.complete_in_enqueue = true;
    fake.in_enqueue = look_inside;
    take(address);
    ask();
    assert_null(was_asking); /* the completion said so */
    assert_int_equal(fake.last_callback_status, NXMEM_STATUS_OK);
    assert_int_equal(inside.queued, 1);
    assert_int_equal(inside.allocations, 1);
    assert_int_equal(inside.inside, 0);
    assert_int_equal(fake.last_allocation.struct_size, sizeof(NxmemAllocation));
    assert_int_equal(fake.last_allocation.allocation_id, block.id);
    assert_int_equal(fake.last_allocation.bytes, 4096);
    assert_int_equal(fake.last_allocation.align, ALIGN);
    assert_ptr_equal(fake.last_allocation.ptr, (void *)(uintptr_t)address);
    assert_true(settled());
    assert_false(nxm_allocator_is_releasing(host.allocator, address));
    assert_nothing_is_left();
    assert_true(nxm_blocks_find_gone(host.blocks, address, &gone));
    assert_int_equal(gone.id, block.id);
    assert_int_equal(gone.bytes, 4096);
    assert_false(nxm_blocks_find_gone(host.blocks, address + 1, &gone));
}

static void *release_in_every_row(void *ret_quiet)
{
    for (unsigned i = 0; i < NXM_QUEUED_SEATS; i++) {
        nxm_own.next_id = 0;
        uint64_t address = address_of_quiet(4096);
        if (!nxm_quiet_take(host.allocator, address, nxm_spread_here(), &words, &release))
            return NULL;
        ask();
        *(unsigned *)ret_quiet += settled();
    }
    return NULL;
}

/* It may be off its processor for long. */
static void who_is_held_inside_a_release_is_in_nobodys_way(void **state)
{
    struct nxm_quiet_release held;
    NxmemAllocation what;
    struct nxm_seat *asking;
    unsigned quiet = 0;
    pthread_t thread;

    (void)state;
    fake.complete_in_enqueue = true;
    take(block_with_seat(4096));
    held = release;
    what = words.allocation;
    asking = nxm_own.asking;
    assert_int_equal(pthread_create(&thread, NULL, release_in_every_row, &quiet), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(quiet, NXM_QUEUED_SEATS);
    release = held;
    words.allocation = what;
    assert_ptr_equal(nxm_own.asking, asking);
    ask();
    assert_true(settled());
    assert_nothing_is_left();
}

/* Only what was freed quietly is known by its record: what went otherwise was not freed, or has a grave. */
static void what_went_the_general_way_leaves_no_grave_in_its_record(void **state)
{
    uint64_t address = block_with_seat(4096);
    struct nxm_block gone;

    (void)state;
    free_generally(address);
    assert_false(nxm_blocks_find_gone(host.blocks, address, &gone));
}

/* What the plugin says that it cost is looked at once, when it is recorded. */
static void what_costs_more_is_not_plain(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct nxm_block found, block = { .bytes = 4096, .align = ALIGN, .id = nxm_block_next_id(), .state = NXM_BLOCK_LIVE, .allocator = host.allocator };
        NxmemAllocResult said = { .struct_size = sizeof said, .ptr = (uint8_t *)memory, .owned_bytes = 4096 + (i == 1), .mapped_bytes = 4096 + (i == 2) };
        NxmemStatus ok = fake_status(0);
        struct nxm_error error;

        assert_int_equal(nxm_allocator_accept(host.allocator, &block, &ok, &said, &error), NXM_OK);
        assert_int_equal(nxm_blocks_find(host.blocks, (uintptr_t)memory, &found), NXM_OK);
        assert_int_equal(found.flags, i == 0 ? NXM_BLOCK_PLAIN : 0);
        nxm_accounts_count_out(host.allocator, &found);
        assert_int_equal(nxm_blocks_remove(host.blocks, found.address, found.id), NXM_OK);
    }
}

static bool can_take(uint64_t address)
{
    struct nxm_quiet_release unused;

    return nxm_quiet_take(host.allocator, address, nxm_spread_here(), &words, &unused);
}

static void only_a_plain_live_block_of_the_allocator_is_taken(void **state)
{
    uint64_t address = block_with_seat(4096);
    struct nxm_block block, bent;
    struct nxm_seat *seat;

    (void)state;
    assert_int_equal(nxm_blocks_find(host.blocks, address, &block), NXM_OK);
    assert_false(can_take(address + 1));
    assert_false(can_take(0));
    assert_int_equal(nxm_blocks_claim(host.blocks, address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL), NXM_OK);
    assert_false(can_take(address));
    assert_int_equal(nxm_blocks_claim(host.blocks, address, 0, NXM_BLOCK_WAITING, NXM_BLOCK_RELEASING, NULL), NXM_OK);
    assert_false(can_take(address));
    for (int i = 0; i < 2; i++) { /* over a RELEASING one another may stand */
        bent = block;
        bent.id = nxm_block_next_id();
        bent.flags = i == 0 ? 0 : NXM_BLOCK_PLAIN;
        bent.allocator = i == 1 ? NULL : host.allocator;
        assert_int_equal(nxm_blocks_insert(host.blocks, &bent), NXM_OK);
        assert_false(can_take(address));
        assert_int_equal(nxm_blocks_remove(host.blocks, address, bent.id), NXM_OK);
    }
    assert_int_equal(nxm_blocks_insert(host.blocks, &block), NXM_OK);
    seat = nxm_queued_seat(&host.allocator->queued, block.id);
    atomic_store(&seat->word, NXM_SEAT_BUSY); /* somebody else sits there */
    assert_false(can_take(address));
    assert_int_equal(seat->word, NXM_SEAT_BUSY);
    atomic_store(&seat->word, 0);
    struct nxm_entry *entry = seat->entry;
    seat->entry = NULL; /* what stays would find no memory */
    assert_false(can_take(address));
    assert_int_equal(seat->word, 0);
    seat->entry = entry;
    assert_int_equal(nxm_blocks_insert_again(host.blocks, &block), NXM_EEXIST);
    assert_int_equal(host_state(address), NXM_BLOCK_LIVE);
    host_assert_counts(1, 0);
    fake.complete_in_enqueue = true;
    take(address);
    ask();
    assert_true(settled());
    assert_false(can_take(address)); /* where one was */
    assert_nothing_is_left();
}

/* In whatever order the blocks of one chain go, the others are found. */
static void a_block_is_taken_out_of_the_middle_of_its_chain(void **state)
{
    enum { BLOCKS = 4 };
    struct nxm_block block;

    (void)state;
    fake.complete_in_enqueue = true;
    for (int first = 0; first < BLOCKS; first++) {
        for (int i = 0; i < BLOCKS; i++) {
            fake.next_address = memory + i * ALIGN;
            assert_true(block_with_seat(64) == (uintptr_t)memory + (uint64_t)i * ALIGN);
        }
        for (int gone = 0; gone < BLOCKS; gone++) {
            take((uintptr_t)memory + (uint64_t)((first + gone) % BLOCKS) * ALIGN);
            ask();
            assert_true(settled());
            for (int i = 0; i < BLOCKS; i++) {
                bool lives = (i - first + BLOCKS) % BLOCKS > gone;

                assert_int_equal(nxm_blocks_find(host.blocks, (uintptr_t)memory + (uint64_t)i * ALIGN, &block), lives ? NXM_OK : NXM_ENOENT);
            }
        }
        assert_nothing_is_left();
    }
}

static void a_release_that_stays_is_completed_later(void **state)
{
    struct nxm_class_totals totals;
    uint64_t address = block_with_seat(4096);
    struct nxm_release ended;
    struct nxm_error error;

    (void)state;
    take(address);
    ask();
    assert_non_null(was_asking);
    assert_false(settled());
    assert_int_equal(settle_otherwise(&ended, &error), NXM_OK);
    assert_int_equal(ended.outcome, NXM_RELEASE_QUEUED);
    assert_int_equal(ended.ticket, ticket);
    assert_int_equal(host_state(address), NXM_BLOCK_RELEASING);
    host_assert_counts(1, 1);
    assert_true(nxm_deferred_is_outstanding(host.allocator));
    nxm_blocks_totals(host.blocks, NXM_CLASS_DEVICE, &totals);
    assert_int_equal(totals.live_blocks, 1);
    assert_int_equal(totals.ever_blocks, 1);
    assert_int_equal(totals.ever_bytes, 4096);
    assert_int_equal(nxm_allocator_drain(host.allocator, UINT64_MAX), 1);
    assert_int_equal(fake.last_callback_status, NXMEM_STATUS_OK);
    assert_nothing_is_left();
    assert_int_equal(host_state(address), 0);
}

static void goes_quietly(uint64_t address)
{
    fake.enqueue_status = 0;
    fake.complete_in_enqueue = true;
    take(address);
    ask();
    assert_true(settled());
}

static void a_release_that_the_plugin_refuses_leaves_the_block_live(void **state)
{
    uint64_t address = block_with_seat(4096);
    struct nxm_release ended;
    struct nxm_error error;

    (void)state;
    fake.enqueue_status = NXMEM_STATUS_BUSY;
    take(address);
    ask();
    assert_false(settled());
    assert_int_equal(settle_otherwise(&ended, &error), NXM_ECALL);
    assert_int_equal(error.status, NXMEM_STATUS_BUSY);
    assert_int_equal(host_state(address), NXM_BLOCK_LIVE);
    host_assert_counts(1, 0);
    goes_quietly(address);
    assert_nothing_is_left();
}

/* The plugin hands an address out again before the release of what was there is over, which comes back meanwhile. */
static void who_comes_back_finds_out_who_stands_there(void **state)
{
    uint64_t address = (uintptr_t)memory;
    struct nxm_block first = { .address = address, .bytes = 4096, .id = nxm_block_next_id(), .state = NXM_BLOCK_RELEASING }, second = first, found;

    (void)state;
    second.id = nxm_block_next_id();
    assert_int_equal(nxm_blocks_insert(host.blocks, &first), NXM_OK); /* is newer */
    assert_int_equal(nxm_blocks_insert_again(host.blocks, &second), NXM_EEXIST);
    assert_int_equal(second.flags, 0);
    assert_int_equal(nxm_blocks_remove(host.blocks, address, first.id), NXM_OK);
    assert_int_equal(nxm_blocks_insert_again(host.blocks, &first), NXM_OK); /* came back too */
    assert_int_equal(first.flags, 0);
    assert_int_equal(nxm_blocks_insert_again(host.blocks, &second), NXM_EBUSY);
    assert_int_equal(second.flags, NXM_BLOCK_UNRECORDED);
    assert_int_equal(nxm_blocks_revive(host.blocks, &first), NXM_OK);
    assert_int_equal(nxm_blocks_find(host.blocks, address, &found), NXM_OK);
    assert_int_equal(found.flags, 0);
    assert_int_equal(nxm_blocks_revive(host.blocks, &first), NXM_ENOENT);
    assert_int_equal(nxm_blocks_revive(host.blocks, &second), NXM_EEXIST);
    second.flags = 0;
    assert_int_equal(nxm_blocks_insert_again(host.blocks, &second), NXM_EEXIST);
    assert_int_equal(second.flags, 0);
    assert_int_equal(nxm_blocks_remove(host.blocks, address, first.id), NXM_OK);
    assert_int_equal(nxm_blocks_revive(host.blocks, &second), NXM_ENOENT);
    second.address += UINT64_C(1) << 40; /* where there are no bits yet */
    nxm_mem_fail_at(1);
    assert_int_equal(nxm_blocks_insert_again(host.blocks, &second), NXM_ENOMEM);
    nxm_mem_fail_at(0);
    assert_int_equal(second.flags, NXM_BLOCK_UNRECORDED);
    assert_int_equal(nxm_blocks_revive(host.blocks, &second), NXM_OK);
    assert_int_equal(nxm_blocks_find(host.blocks, second.address, &found), NXM_OK);
    assert_int_equal(found.flags, 0);
    assert_int_equal(nxm_blocks_remove(host.blocks, second.address, second.id), NXM_OK);
}

static void who_comes_back_does_not_take_the_place_of_a_newcomer(void **state)
{
    uint64_t address = block_with_seat(4096);
    struct nxm_block newcomer = { .address = address, .bytes = 8192, .align = ALIGN, .id = nxm_block_next_id(), .class_ = NXM_CLASS_DEVICE,
                                  .state = NXM_BLOCK_RELEASING };
    struct nxm_release ended;
    struct nxm_error error;
    uint32_t refused;

    (void)state;
    take(address);
    ask();
    assert_int_equal(nxm_blocks_insert(host.blocks, &newcomer), NXM_OK);
    assert_false(settled());
    assert_int_equal(settle_otherwise(&ended, &error), NXM_OK);
    assert_int_equal(ended.outcome, NXM_RELEASE_QUEUED);
    assert_int_equal(nxm_blocks_claim(host.blocks, address, newcomer.id, NXM_BLOCK_RELEASING, NXM_BLOCK_LIVE, NULL), NXM_OK);
    assert_true(fake_complete_one(fake.last_state, &refused));
    assert_int_equal(host_state(address), NXM_BLOCK_LIVE);
    assert_int_equal(nxm_blocks_remove(host.blocks, address, newcomer.id), NXM_OK);
    assert_nothing_is_left();
}

struct flight {
    struct nxm_quiet_release release;
    struct nxm_quiet_words words;
    uint64_t ticket;
    NxmemStatus status;
};

static struct flight take_off(uint64_t address)
{
    take(address);
    ask();
    return (struct flight){ release, words, ticket, status };
}

static int land(struct flight flight, struct nxm_release *ret_ended)
{
    struct nxm_error error;

    release = flight.release;
    words = flight.words;
    ticket = flight.ticket;
    status = flight.status;
    nxm_own.asking = release.seat; /* each on a thread of its own */
    assert_false(settled());
    return settle_otherwise(ret_ended, &error);
}

/* With another row of ids, as another thread has. */
static void sit_elsewhere(const struct nxm_seat *here)
{
    do
        nxm_own.next_id = nxm_queued_begin_row(&host.allocator->queued) + 1;
    while (nxm_queued_seat(&host.allocator->queued, nxm_own.next_id) == here);
}

/* Nobody knows then which of them is the newer one, but for the plugin, that says of one that it is live. */
static void of_two_that_come_back_to_one_address_the_refused_one_is_live(void **state)
{
    uint32_t refused;

    for (int first = 0; first < 2; first++) {
        uint64_t address = block_with_seat(4096), again;
        struct flight flights[2];
        struct nxm_release ended;

        (void)state;
        fake.enqueue_status = 0;
        flights[0] = take_off(address);
        fake.next_address = (void *)(uintptr_t)address;
        sit_elsewhere(flights[0].release.seat);
        again = block_with_seat(8192);
        assert_int_equal(again, address);
        fake.enqueue_status = NXMEM_STATUS_BUSY;
        flights[1] = take_off(address);
        assert_int_equal(land(flights[first], &ended), first == 1 ? NXM_ECALL : NXM_OK);
        assert_int_equal(land(flights[1 - first], &ended), first == 1 ? NXM_OK : NXM_ECALL);
        assert_int_equal(host_state(address), NXM_BLOCK_LIVE);
        assert_true(fake_complete_one(fake.last_state, &refused));
        assert_int_equal(host_state(address), NXM_BLOCK_LIVE);
        host_assert_counts(1, 0);
        goes_quietly(address);
        fake.complete_in_enqueue = false;
        assert_nothing_is_left();
    }
}

static void what_is_being_released_is_shown_for_a_report(void **state)
{
    uint64_t address = block_with_seat(4096);
    struct nxm_class_totals totals;
    struct nxm_block block, shown;

    (void)state;
    assert_int_equal(nxm_blocks_find(host.blocks, address, &block), NXM_OK);
    nxm_allocator_show_releasing(host.allocator); /* nothing of that */
    assert_int_equal(host_state(address), NXM_BLOCK_LIVE);
    fake.complete_in_enqueue = true;
    take(address);
    release.seat->releases++; /* not said yet */
    nxm_allocator_show_releasing(host.allocator);
    assert_int_equal(host_state(address), 0);
    release.seat->releases--;
    for (int i = 0; i < 2; i++) {
        nxm_allocator_show_releasing(host.allocator);
        assert_int_equal(nxm_blocks_find(host.blocks, address, &shown), NXM_OK);
        assert_int_equal(shown.state, NXM_BLOCK_RELEASING);
        assert_int_equal(shown.id, block.id);
        nxm_blocks_totals(host.blocks, NXM_CLASS_DEVICE, &totals);
        assert_int_equal(totals.live_blocks, 1);
        assert_int_equal(totals.live_bytes, 4096);
    }
    ask();
    assert_true(settled());
    assert_int_equal(nxm_blocks_remove(host.blocks, address, block.id), NXM_OK);
    nxm_allocator_show_releasing(host.allocator); /* nothing any more */
    assert_nothing_is_left();
}

static void a_completion_with_something_to_tell_is_told(void **state)
{
    const uint32_t states[] = { NXMEM_RELEASE_FAILED, NXMEM_RELEASE_QUARANTINED };
    struct nxm_release ended;
    struct nxm_error error;

    (void)state;
    fake.complete_in_enqueue = true;
    for (int i = 0; i < 2; i++) {
        uint64_t address = block_with_seat(4096);

        fake.completion = (struct fake_answer){ .set = true, .state = states[i], .residual = i == 1 ? 4096 : 0, .keep = i == 0 };
        take(address);
        ask();
        assert_non_null(was_asking);
        assert_int_equal(fake.last_callback_status, NXMEM_STATUS_OK);
        assert_false(settled());
        assert_int_equal(settle_otherwise(&ended, &error), i == 0 ? NXM_ECALL : NXM_OK);
        assert_int_equal(host_state(address), i == 0 ? NXM_BLOCK_LIVE : 0);
        if (i == 1)
            assert_int_equal(ended.outcome, NXM_RELEASE_QUARANTINED);
        host_assert_counts(1 - (uint64_t)i, 0);
        fake.completion.set = false;
        if (i == 0) {
            take(address);
            ask();
            assert_true(settled());
        }
    }
    assert_int_equal(host_totals().quarantined_bytes, 4096);
    assert_nothing_is_left();
    fake_free_leftovers();
}

/* That the plugin says afterwards that it has failed changes nothing: the bytes are gone. */
static NxmemReleaseOutcome odd;

static void send_odd(void)
{
    NxmemReleaseCompletion completion = {
        .struct_size = sizeof completion,
        .ticket = 1,
        .mechanism_id = host.allocator->vtable.mechanism_id,
        .allocation_id = nxm_quiet_id(&release),
        .outcome = odd,
    };

    assert_int_equal(fake.last_callbacks->release_completed(fake.last_callbacks->host_ctx, &completion).code, NXMEM_STATUS_OK);
}

/* Complete, and yet something is kept; or it does not claim to have said so. */
static void a_completion_that_keeps_something_back_is_told(void **state)
{
    const NxmemReleaseOutcome outcomes[] = {
        { .struct_size = sizeof odd, .state = NXMEM_RELEASE_COMPLETE, .residual_owned_bytes = 1 },
        { .struct_size = 4, .state = NXMEM_RELEASE_COMPLETE },
    };
    struct nxm_release ended;
    struct nxm_error error;
    uint32_t refused;

    (void)state;
    fake.in_enqueue = send_odd;
    for (int i = 0; i < 2; i++) {
        fake.next_address = memory + i * 8192; /* each stays barred */
        uint64_t address = block_with_seat(4096);

        odd = outcomes[i];
        take(address);
        ask();
        assert_non_null(was_asking);
        assert_false(settled());
        assert_int_equal(settle_otherwise(&ended, &error), NXM_OK);
        assert_int_equal(ended.outcome, NXM_RELEASE_QUARANTINED);
        assert_true(fake_complete_one(fake.last_state, &refused)); /* what the plugin has still queued */
    }
    assert_nothing_is_left();
}

static void a_completion_wins_over_the_answer(void **state)
{
    uint64_t address = block_with_seat(4096);
    struct nxm_release ended;
    struct nxm_error error;

    (void)state;
    fake.complete_in_enqueue = true;
    take(address);
    ask();
    status = fake_status(NXMEM_STATUS_DEVICE_ERROR);
    assert_false(settled());
    assert_int_equal(settle_otherwise(&ended, &error), NXM_OK);
    assert_int_equal(ended.outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(ended.unmapped, 4096);
    assert_nothing_is_left();
}

static void *complete_one(void *state)
{
    uint32_t answered = 99;

    fake_complete_one(state, &answered);
    return (void *)(uintptr_t)answered;
}

static void complete_elsewhere(void)
{
    pthread_t thread;
    void *answered;

    assert_int_equal(pthread_create(&thread, NULL, complete_one, fake.last_state), 0);
    assert_int_equal(pthread_join(thread, &answered), 0);
    assert_int_equal((uintptr_t)answered, NXMEM_STATUS_OK);
}

static void a_completion_on_another_thread_is_this_ones_to_settle(void **state)
{
    uint64_t address = block_with_seat(4096);
    struct nxm_release ended;
    struct nxm_error error;

    (void)state;
    fake.in_enqueue = complete_elsewhere;
    take(address);
    ask();
    assert_non_null(was_asking);
    host_assert_counts(1, 1); /* not before the call is over */
    assert_false(settled());
    assert_int_equal(settle_otherwise(&ended, &error), NXM_OK);
    assert_int_equal(ended.outcome, NXM_RELEASE_COMPLETE);
    assert_nothing_is_left();
}

static uint32_t answers[9];

static void send_wrong_ones(void)
{
    const NxmemHostCallbacks *to = fake.last_callbacks;
    uint64_t mechanism = host.allocator->vtable.mechanism_id, id = nxm_quiet_id(&release);

    answers[0] = fake_send(to, mechanism + 1, id, 1, NXMEM_RELEASE_COMPLETE);
    answers[1] = fake_send(to, mechanism, id | NXM_SEAT_QUIET, 1, NXMEM_RELEASE_COMPLETE);
    answers[2] = fake_send(to, mechanism, id | NXM_SEAT_BUSY, 1, NXMEM_RELEASE_COMPLETE);
    answers[3] = fake_send(to, mechanism, 0, 1, NXMEM_RELEASE_COMPLETE);
    answers[4] = fake_send(to, mechanism, NXM_SEAT_QUIET, 1, NXMEM_RELEASE_COMPLETE);
    answers[5] = fake_send(to, mechanism, id + 1, 1, NXMEM_RELEASE_COMPLETE);
    answers[6] = fake_send(to, mechanism, id, 1, NXMEM_RELEASE_COMPLETE); /* the right one */
    answers[7] = fake_send(to, mechanism, id, 1, NXMEM_RELEASE_COMPLETE); /* a second time */
    answers[8] = fake_send(to, mechanism, id | NXM_SEAT_BUSY, 1, NXMEM_RELEASE_COMPLETE); /* the seat's word for it now */
}

static void wrong_completions_are_refused_as_ever(void **state)
{
    uint64_t address = block_with_seat(4096);

    (void)state;
    fake.in_enqueue = send_wrong_ones;
    take(address);
    ask();
    assert_int_equal(answers[0], NXMEM_STATUS_WRONG_MECHANISM);
    for (int i = 1; i < 6; i++)
        assert_int_equal(answers[i], NXMEM_STATUS_UNKNOWN_ALLOCATION);
    assert_int_equal(answers[6], NXMEM_STATUS_OK);
    assert_int_equal(answers[7], NXMEM_STATUS_UNKNOWN_ALLOCATION);
    assert_int_equal(answers[8], NXMEM_STATUS_UNKNOWN_ALLOCATION);
    assert_true(settled());
    uint32_t refused;
    assert_true(fake_complete_one(fake.last_state, &refused)); /* what the plugin has still queued */
    assert_int_equal(refused, NXMEM_STATUS_UNKNOWN_ALLOCATION);
    assert_nothing_is_left();
}

/* Where no struct of the ABI may lie it is refused, as ever, and the right one is still to come. */
static void send_askew(void)
{
    static _Alignas(8) char room[sizeof(NxmemReleaseCompletion) + 8];
    NxmemReleaseCompletion completion = {
        .struct_size = sizeof completion,
        .ticket = 1,
        .mechanism_id = host.allocator->vtable.mechanism_id,
        .allocation_id = nxm_quiet_id(&release),
        .outcome = { .struct_size = sizeof completion.outcome, .unmapped_bytes = 1 },
    };

    memcpy(room + 4, &completion, sizeof completion);
    answers[0] = fake.last_callbacks->release_completed(fake.last_callbacks->host_ctx, (void *)(room + 4)).code;
    completion.struct_size -= 8;
    answers[1] = fake.last_callbacks->release_completed(fake.last_callbacks->host_ctx, &completion).code;
    answers[2] = fake.last_callbacks->release_completed(fake.last_callbacks->host_ctx, NULL).code;
    answers[3] = fake.last_callbacks->release_completed(NULL, &completion).code;
}

static void a_completion_that_cannot_be_read_is_refused_as_ever(void **state)
{
    uint64_t address = block_with_seat(4096);
    struct nxm_release ended;
    struct nxm_error error;

    (void)state;
    fake.in_enqueue = send_askew;
    take(address);
    ask();
    for (int i = 0; i < 4; i++)
        assert_int_equal(answers[i], i == 1 ? NXMEM_STATUS_SHORT_STRUCT : NXMEM_STATUS_INVALID_ARGUMENT);
    assert_non_null(was_asking);
    assert_false(settled());
    assert_int_equal(settle_otherwise(&ended, &error), NXM_OK);
    assert_int_equal(ended.outcome, NXM_RELEASE_QUEUED);
    assert_int_equal(nxm_allocator_drain(host.allocator, 1), 1);
    assert_nothing_is_left();
}

static void with_views_left_a_release_is_not_settled_quietly(void **state)
{
    uint64_t address = block_with_seat(4096), serial;
    struct nxm_release ended;
    struct nxm_error error;

    (void)state;
    fake.complete_in_enqueue = true;
    take(address);
    serial = nxm_views_enter(&host.allocator->views, nxm_quiet_id(&release));
    assert_int_not_equal(serial, 0);
    nxm_views_confirm(&host.allocator->views, nxm_quiet_id(&release), serial, 1, 1);
    ask();
    assert_false(settled());
    assert_int_equal(settle_otherwise(&ended, &error), NXM_OK);
    assert_int_equal(host_totals().views, 0);
    assert_nothing_is_left();
}

static void an_embedder_who_is_told_of_completions_is_never_quiet(void **state)
{
    (void)state;
    assert_true(nxm_quiet_may(host.allocator));
    host_close();
    host.options.completed = (void (*)(void *, const struct nxm_block *, const struct nxm_release *))host_close;
    host_open();
    assert_false(nxm_quiet_may(host.allocator));
    host_close();
    host.options.completed = NULL;
    host_open();
    host.allocator->vtable.enqueue_release = NULL;
    assert_false(nxm_quiet_may(host.allocator));
    host_close();
    fake.extra_flags = 0;
    host_open();
    assert_false(nxm_quiet_may(host.allocator));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_quietly, host_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_quiet_allocation_is_recorded_as_any_other),
        TEST(what_is_not_plain_is_not_recorded_quietly),
        TEST(where_somebody_else_is_nothing_is_quiet),
        TEST(what_the_last_one_in_a_seat_released_is_not_being_released),
        TEST(a_row_of_ids_begins_with_memory_in_its_seat),
        TEST(a_quiet_release_leaves_nothing_behind),
        TEST(who_is_held_inside_a_release_is_in_nobodys_way),
        TEST(what_went_the_general_way_leaves_no_grave_in_its_record),
        TEST(what_costs_more_is_not_plain),
        TEST(only_a_plain_live_block_of_the_allocator_is_taken),
        TEST(a_block_is_taken_out_of_the_middle_of_its_chain),
        TEST(a_release_that_stays_is_completed_later),
        TEST(a_release_that_the_plugin_refuses_leaves_the_block_live),
        TEST(what_is_being_released_is_shown_for_a_report),
        TEST(who_comes_back_finds_out_who_stands_there),
        TEST(who_comes_back_does_not_take_the_place_of_a_newcomer),
        TEST(of_two_that_come_back_to_one_address_the_refused_one_is_live),
        TEST(a_completion_with_something_to_tell_is_told),
        TEST(a_completion_that_keeps_something_back_is_told),
        TEST(a_completion_wins_over_the_answer),
        TEST(a_completion_on_another_thread_is_this_ones_to_settle),
        TEST(wrong_completions_are_refused_as_ever),
        TEST(a_completion_that_cannot_be_read_is_refused_as_ever),
        TEST(with_views_left_a_release_is_not_settled_quietly),
        TEST(an_embedder_who_is_told_of_completions_is_never_quiet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
