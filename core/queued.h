/* The set of queued releases of one allocator, found by allocation id (nxmem spec 15.1, 15.3). Owns its
 * entries. Any thread; takes NXM_RANK_ALLOCATOR inside.
 *
 * An entry is written by two parties: the thread that enqueues, and the completion, which may come inside
 * the plugin's call, from another thread while that call still runs, or much later. One of the two takes it:
 *
 *   reserve -> publish -> settle: STAYS (the completion will take and recycle it)
 *                      -> settle: WITHDRAWN (the plugin refused; the enqueuer recycles it)
 *              take -> finish -> settle: COMPLETED (release is the completion's; the enqueuer recycles it)
 */
#ifndef NXM_QUEUED_H
#define NXM_QUEUED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "allocator.h"
#include "blocks.h"
#include "lock.h"

#define NXM_QUEUED_SHARDS 16u
#define NXM_QUEUED_FIRST_BUCKETS 16u

enum nxm_entry_phase {
    NXM_ENTRY_ENTERING, /* the plugin is being asked: the enqueuer holds the entry */
    NXM_ENTRY_QUEUED,   /* the plugin accepted: its ticket is known */
    NXM_ENTRY_TAKEN,    /* by its completion, while the enqueuer still held it */
};

struct nxm_entry {
    struct nxm_entry *next;
    struct nxm_block block; /* as it was before it was claimed */
    struct nxm_release release;
    uint64_t ticket;
    enum nxm_entry_phase phase; /* under the shard's lock */
    atomic_bool finished;       /* TAKEN: the completion has moved everything and forgot the entry */
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
    struct nxm_queued_shard shards[NXM_QUEUED_SHARDS];
};

enum nxm_settled { NXM_SETTLED_STAYS, NXM_SETTLED_WITHDRAWN, NXM_SETTLED_COMPLETED };

void nxm_queued_init(struct nxm_queued *queued);
void nxm_queued_clear(struct nxm_queued *queued); /* frees entries still in it */

/* Memory for one entry, not yet findable; NULL when there is none, which needs another release of the same shard to be
 * under way. Once published no failure is left. */
struct nxm_entry *nxm_queued_reserve(struct nxm_queued *queued, const struct nxm_block *block);
void nxm_queued_publish(struct nxm_queued *queued, struct nxm_entry *entry);
void nxm_queued_recycle(struct nxm_queued *queued, struct nxm_entry *entry);

/* After the plugin's call: did it accept? A completion that came first wins over either answer. */
enum nxm_settled nxm_queued_settle(struct nxm_queued *queued, struct nxm_entry *entry, bool accepted, uint64_t ticket);

/* For a completion: the entry leaves the set, so a duplicate finds nothing. A ticket that is known must match. NULL:
 * a stranger. */
struct nxm_entry *nxm_queued_take(struct nxm_queued *queued, uint64_t id, uint64_t ticket);
/* The completion has moved everything: hands the entry to a waiting enqueuer, or recycles it. */
void nxm_queued_finish(struct nxm_queued *queued, struct nxm_entry *entry, const struct nxm_release *release);

#endif
