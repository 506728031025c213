/* The set of queued releases of one allocator, found by allocation id (nxmem spec 15.1, 15.3). Owns its
 * entries. Any thread; takes NXM_RANK_ALLOCATOR inside.
 *
 * An entry is written by two parties: the thread that enqueues, and the completion, which may come inside
 * the plugin's call, from another thread while that call still runs, or much later. One of the two takes it:
 *
 *   reserve -> publish -> settle: STAYS (the completion will take and recycle it)
 *                      -> settle: WITHDRAWN (the plugin refused; the enqueuer recycles it)
 *              take -> finish -> settle: COMPLETED (release is the completion's; the enqueuer recycles it)
 *
 * Most releases are over by the end of their call. Those never see a lock: while the plugin is asked, an entry sits in a *seat*
 * chosen by its id, whose word says whose it is and who has it. Only what stays moves into the shards. A seat that is
 * taken (by another thread, or by a release inside a release) sends the newcomer to the shards at once.
 *
 * Who releases quietly (quiet.h) sits there without an entry: a completion leaves in the seat what the plugin said, and he settles it
 * when the call is over. Only if the release stays is the seat's entry filled.
 */
#ifndef NXM_QUEUED_H
#define NXM_QUEUED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator.h"
#include "blocks.h"
#include "ids.h"
#include "lock.h"
#include "nxmem_memory_abi.h"
#include "spread.h"
#include "stores.h"

#define NXM_QUEUED_SEATS (4 * NXM_SPREAD_LINES) /* four of each thread's own, for others may free what it allocates */
#define NXM_QUEUED_SHARDS 16u
#define NXM_QUEUED_FIRST_BUCKETS 16u

enum nxm_entry_phase {
    NXM_ENTRY_ENTERING, /* the plugin is being asked: the enqueuer holds the entry */
    NXM_ENTRY_QUEUED,   /* the plugin accepted: its ticket is known */
    NXM_ENTRY_TAKEN,    /* by its completion, while the enqueuer still held it */
};

struct nxm_seat;

struct nxm_entry {
    struct nxm_entry *next;
    struct nxm_seat *seat;  /* NULL: in the shards */
    struct nxm_block block; /* as it was before it was claimed */
    struct nxm_release release;
    uint64_t ticket;
    enum nxm_entry_phase phase; /* under the shard's lock, or its seat's */
    atomic_bool finished;       /* TAKEN: the completion has moved everything and forgot the entry */
};

/* All of a completion but the words of a failure, which nobody here reads. */
#define NXM_COMPLETION_READ (uint32_t)(offsetof(NxmemReleaseCompletion, outcome) + offsetof(NxmemReleaseOutcome, failure.message))

struct nxm_seat {
    /* 0 free; NXM_SEAT_BUSY: the enqueuer's; an id: to be taken; that and NXM_SEAT_BUSY: taken. With NXM_SEAT_QUIET besides an id: of one
     * who has no entry. */
    atomic_uint_fast64_t word;
    struct nxm_entry *entry; /* stays with the seat; NULL until the first use, and after a release that stayed */
    void *owner;             /* the callbacks' host_ctx */
    uint64_t releases;       /* a quiet one: nxm_seat_note of its block, so that what the last one left there is not taken for it */
    atomic_bool said;        /* a quiet one's completion came, by another thread or with something to tell; written last */
    uint64_t completion[NXM_COMPLETION_READ / sizeof(uint64_t)]; /* then: a struct NxmemReleaseCompletion, as far as it is read */
    uint64_t apart[16 - 5 - NXM_COMPLETION_READ / sizeof(uint64_t)]; /* so that two threads' seats do not share a line */
};

struct nxm_queued_shard {
    struct nxm_lock lock;
    struct nxm_entry **buckets;
    uint64_t bucket_count, count;
    struct nxm_entry *spare;
    struct nxm_entry first; /* the first spare: a release that is over by the end of its call never lacks memory */
    struct nxm_entry *first_buckets[NXM_QUEUED_FIRST_BUCKETS];
};

struct nxm_queued {
    struct nxm_seat seats[NXM_QUEUED_SEATS];
    struct nxm_queued_shard shards[NXM_QUEUED_SHARDS];
};

#define NXM_SEAT_BUSY (UINT64_C(1) << 63)
#define NXM_SEAT_QUIET (UINT64_C(1) << 62) /* neither is in any id of ours */

enum nxm_settled { NXM_SETTLED_STAYS, NXM_SETTLED_WITHDRAWN, NXM_SETTLED_COMPLETED };

void nxm_queued_init(struct nxm_queued *queued, void *owner);
void nxm_queued_clear(struct nxm_queued *queued); /* frees entries still in it */

/* The first id of a new row of the thread's, with an entry in the seat of those ids, as far as there is memory. */
uint64_t nxm_queued_begin_row(struct nxm_queued *queued);

/* Whether somebody is releasing the block at that address quietly: it is in no table meanwhile. */
bool nxm_queued_is_releasing(const struct nxm_queued *queued, uint64_t address);

/* What is being released quietly at that seat. False: nothing. */
bool nxm_queued_is_quiet_at(const struct nxm_queued *queued, unsigned seat, uint64_t *ret_address, uint64_t *ret_id);

/* For a completion: of one who sits quietly, and so it is his. False: nobody does, for that id. */
bool nxm_queued_hand_over(struct nxm_queued *queued, const NxmemReleaseCompletion *completion);

/* For one who sat there quietly, when it turns out not to be that simple: his block is in the seat's entry from here on. As
 * nxm_queued_settle; COMPLETED: what was said is in *ret_completion, which is left as it is if `complete`: it was said to his own
 * thread, and there was nothing to tell. */
enum nxm_settled nxm_queued_settle_quiet(struct nxm_queued *queued, struct nxm_seat *seat, const struct nxm_block *block, bool complete,
                                         bool accepted, uint64_t ticket, NxmemReleaseCompletion *ret_completion, struct nxm_entry **ret_entry);

/* Memory for one entry, not yet findable; NULL when there is none, which needs another release of the same shard to be
 * under way. Once published no failure is left. */
static inline struct nxm_entry *nxm_queued_reserve(struct nxm_queued *queued, const struct nxm_block *block);

/* Of one who sits there quietly. No other id has the same, whatever it is. */
static inline uint64_t nxm_seat_quiet_word(uint64_t id)
{
#if NXM_STORES_IN_ORDER /* one instruction, where the compiler fetches the bit first */
    __asm__("btcq $62, %0" : "+r"(id) : : "cc");
    return id;
#else
    return id ^ NXM_SEAT_QUIET;
#endif
}

/* The ids of a row meet in one seat, which is the thread's own as its line of counters is (ids.h): who is taken off his processor inside
 * a call of the plugin keeps no other thread from releasing what is its own. */
static inline struct nxm_seat *nxm_queued_seat(struct nxm_queued *queued, uint64_t id)
{
    return &queued->seats[id / NXM_IDS_ROW % NXM_QUEUED_SEATS];
}

/* The seat's word moves from one to another, unless it is no longer the first. */
static inline bool nxm_seat_move(struct nxm_seat *seat, uint64_t from, uint64_t to)
{
    uint_fast64_t expected = from;

    return atomic_compare_exchange_strong_explicit(&seat->word, &expected, to, memory_order_acq_rel, memory_order_acquire);
}

static inline struct nxm_entry *nxm_entry_begin(struct nxm_entry *entry, struct nxm_seat *seat, const struct nxm_block *block)
{
    entry->seat = seat;
    entry->block = *block;
    entry->phase = NXM_ENTRY_ENTERING;
    atomic_init(&entry->finished, false);
    return entry;
}

/* `seat`: the caller sits there, and found no entry; NULL: somebody else does. */
struct nxm_entry *nxm_queued_reserve_anew(struct nxm_queued *queued, struct nxm_seat *seat, const struct nxm_block *block);

static inline struct nxm_entry *nxm_queued_reserve(struct nxm_queued *queued, const struct nxm_block *block)
{
    struct nxm_seat *seat = nxm_queued_seat(queued, block->id);

    if (__builtin_expect(!nxm_seat_move(seat, 0, NXM_SEAT_BUSY), 0))
        return nxm_queued_reserve_anew(queued, NULL, block);
    /* From here on its word is the caller's until it stores another. */
    if (__builtin_expect(seat->entry == NULL, 0))
        return nxm_queued_reserve_anew(queued, seat, block);
    return nxm_entry_begin(seat->entry, seat, block);
}

void nxm_queued_publish_in_shard(struct nxm_queued *queued, struct nxm_entry *entry);
static inline void nxm_queued_publish(struct nxm_queued *queued, struct nxm_entry *entry)
{
    if (__builtin_expect(entry->seat != NULL, 1))
        atomic_store_explicit(&entry->seat->word, entry->block.id, memory_order_release);
    else
        nxm_queued_publish_in_shard(queued, entry);
}

void nxm_queued_recycle_in_shard(struct nxm_queued *queued, struct nxm_entry *entry);
static inline void nxm_queued_recycle(struct nxm_queued *queued, struct nxm_entry *entry)
{
    if (__builtin_expect(entry->seat != NULL, 1))
        atomic_store_explicit(&entry->seat->word, 0, memory_order_release); /* the entry stays with it */
    else
        nxm_queued_recycle_in_shard(queued, entry);
}

/* For the enqueuer: it is over already. */
static inline bool nxm_queued_is_over(const struct nxm_entry *entry)
{
    return atomic_load_explicit(&entry->finished, memory_order_acquire);
}

/* After the plugin's call: did it accept? A completion that came first wins over either answer. */
enum nxm_settled nxm_queued_settle(struct nxm_queued *queued, struct nxm_entry *entry, bool accepted, uint64_t ticket);

/* For a completion: the entry leaves the set, so a duplicate finds nothing. A ticket that is known must match. NULL:
 * a stranger. *ret_stayed: its enqueuer has gone. */
static inline struct nxm_entry *nxm_queued_take(struct nxm_queued *queued, uint64_t id, uint64_t ticket, bool *ret_stayed);
struct nxm_entry *nxm_queued_take_from_shard(struct nxm_queued *queued, uint64_t id, uint64_t ticket, bool *ret_stayed);

static inline uint64_t nxm_seat_note(uint64_t address, uint64_t id)
{
    return address + id;
}

/* On the thread of who sits there quietly, who is asking the plugin: it is either his still, or taken. */
static inline bool nxm_seat_take_quiet(struct nxm_seat *seat, uint64_t id)
{
    uint64_t word = nxm_seat_quiet_word(id);
#if NXM_STORES_IN_ORDER
    bool taken;

    if (!nxm_load_is(&seat->word, word))
        return false;
    __asm__ volatile("lock btsq $63, %0" : "+m"(seat->word), "=@ccc"(taken) : : "memory");
    return !taken;
#else
    return nxm_seat_move(seat, word, word | NXM_SEAT_BUSY);
#endif
}

static inline struct nxm_entry *nxm_queued_take_from_seat(struct nxm_queued *queued, uint64_t id)
{
    struct nxm_seat *seat = nxm_queued_seat(queued, id);

    /* What the plugin names may be any number, ours for "free", "busy" and "quiet" too. */
    if (id == 0 || (id & (NXM_SEAT_BUSY | NXM_SEAT_QUIET)) != 0 || atomic_load_explicit(&seat->word, memory_order_acquire) != id ||
        !nxm_seat_move(seat, id, id | NXM_SEAT_BUSY))
        return NULL;
    seat->entry->phase = NXM_ENTRY_TAKEN;
    return seat->entry;
}

static inline struct nxm_entry *nxm_queued_take(struct nxm_queued *queued, uint64_t id, uint64_t ticket, bool *ret_stayed)
{
    struct nxm_entry *entry = nxm_queued_take_from_seat(queued, id);

    *ret_stayed = false;
    return __builtin_expect(entry != NULL, 1) ? entry : nxm_queued_take_from_shard(queued, id, ticket, ret_stayed);
}

/* The completion has moved everything: hands the entry to a waiting enqueuer, or recycles it. */
static inline void nxm_queued_finish(struct nxm_queued *queued, struct nxm_entry *entry, const struct nxm_release *release)
{
    /* Nobody changes the phase of an entry that has been taken. */
    if (__builtin_expect(entry->phase == NXM_ENTRY_QUEUED, 0)) {
        nxm_queued_recycle(queued, entry);
        return;
    }
    entry->release = *release;
    atomic_store_explicit(&entry->finished, true, memory_order_release);
}

#endif
