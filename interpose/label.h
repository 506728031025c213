/* The label: which runtime function the thread is in, for the first nested driver allocation of that size.
 * Owns a slot of each thread's record (thread.h); no locks.
 */
#ifndef NXM_LABEL_H
#define NXM_LABEL_H

#include <stdbool.h>
#include <stdint.h>

#include "thread.h"

/* API numbers: the rows of cuda_api.def in order, drivers' and runtime's in one sequence. 0 is "unknown". */
enum nxm_api {
    NXM_API_UNKNOWN = 0,
#define DRIVER(symbol, like, class_) NXM_API_##symbol,
#define RUNTIME(symbol, like, class_) NXM_API_##symbol,
#include "cuda_api.def"
    NXM_API_COUNT
};

extern const char *const nxm_api_names[NXM_API_COUNT];

/* Runtime hooks bracket the real call with these; nested brackets keep the outermost name. */
struct nxm_label nxm_label_push(enum nxm_api api, uint64_t bytes); /* returns what to restore */
bool nxm_label_pop(struct nxm_label saved);        /* whether a driver hook fired inside */

/* A driver hook asks which name to record: the label's, marking it fired, else its own. An allocation names its size: one of
 * another size is the runtime's own affair (what it allocates when it starts, say) and keeps the driver's name. */
enum nxm_api nxm_label_take_there(enum nxm_api own, uint64_t bytes);
static inline enum nxm_api nxm_label_take_on(const struct nxm_thread *thread, enum nxm_api own, uint64_t bytes) /* the calling one */
{
    return __builtin_expect(thread->label.api != 0, 0) ? nxm_label_take_there(own, bytes) : own;
}
static inline enum nxm_api nxm_label_take(enum nxm_api own, uint64_t bytes)
{
    return nxm_label_take_on(&nxm_thread, own, bytes);
}

#endif
