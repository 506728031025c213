/* The operations of a random sequence. Each chooses what to call and how the plugin answers, calls the host, and holds
 * result and consequences against the model; one that has nothing to work on does nothing. A further capability is a
 * further file of operations: a row in machine.c, what it counts in model.h, what must hold after it in machine.c's
 * check of the whole.
 */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include "core/allocator.h"
#include "core/blocks.h"
#include "tests/unit/support/fake.h"

struct nxm_shared;

/* modules.c */
void operation_load(void);
void operation_load_soundly(void); /* the plugin has nothing against it */
void operation_unload(void);
void operation_unload_soundly(void); /* the plugin reports what is true */
void operation_drop(void);
void operation_query(void);

/* allocators.c */
void operation_open(void);
void operation_ref(void);
void operation_unref(void);
void operation_push_back(void);
void operation_reclaim_mistaken(void);
void allocators_close_all(void);
void allocators_give_back(unsigned index, struct nxm_shared *shared); /* one reference: a prefix's, or NULL, the caller's own */

/* allocations.c */
void operation_allocate(void);
void operation_allocate_committed(void);
void operation_allocate_again(void); /* at an address that is live, on its way out or kept back */

/* releases.c */
void operation_release(void);
void operation_release_mistaken(void);
void operation_enqueue(void);
void operation_enqueue_many(void);
void operation_enqueue_racing(void); /* its completion comes on another thread meanwhile */
void operation_drain(void);
void operation_pending(void);

/* completions.c */
void operation_complete(void);
void operation_complete_mistaken(void);
void completions_finish_all(void);
void completions_told(void *owner, const struct nxm_block *block, const struct nxm_release *release); /* the callback */
bool completions_one(unsigned allocator); /* the plugin completes one, on this thread; false: none was queued */

/* shared.c */
void operation_share(void);
void operation_unshare(void);
void operation_view(void);
void shared_drop_all(void);

/* backing.c */
void operation_commit(void);
void operation_decommit(void);
void operation_committed(void);
void operation_cost(void);

#define SPANS 3

struct spans {
    NxmemByteRange ranges[SPANS];
    uint64_t count;
    bool fit;      /* none of them leaves the block */
    uint64_t bits; /* the granules that they touch, if they fit */
};

void random_spans(struct spans *ret_spans, uint64_t bytes);
uint64_t bytes_of_granules(uint64_t bits);

/* --- for all ------------------------------------------------------------------------------------------------------------ */

struct model_block *allocate_soundly(struct model_allocator *allocator);

/* NULL when there is none. */
struct model_allocator *pick_open_allocator(void);
struct model_block *pick_block(unsigned where_mask); /* 1 << enum model_where */
unsigned index_of_allocator(const struct model_allocator *allocator);

void random_answer(struct fake_answer *ret_answer);
uint32_t random_status(void); /* failing */
uint64_t random_bytes_near(uint64_t near);

/* One of the next few requests for memory of our own fails, now and then. Feeding ends it. */
void starve(void);
void feed(void);

#endif
