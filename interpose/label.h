/* The label: which runtime function the thread is in, for the first nested driver allocation of that size.
 * Owns one small thread-local slot (initial-exec, out of glibc's surplus: keep it tiny); no locks.
 */
#ifndef NXM_LABEL_H
#define NXM_LABEL_H

#include <stdbool.h>
#include <stdint.h>

/* API numbers: the rows of cuda_api.def in order, drivers' and runtime's in one sequence. 0 is "unknown". */
enum nxm_api {
    NXM_API_UNKNOWN = 0,
#define DRIVER(symbol, like, class_) NXM_API_##symbol,
#define RUNTIME(symbol, like, class_) NXM_API_##symbol,
#include "cuda_api.def"
    NXM_API_COUNT
};

extern const char *const nxm_api_names[NXM_API_COUNT];

struct nxm_label {
    uint16_t api;  /* enum nxm_api; 0 none */
    bool fired;    /* a driver hook took or saw it */
    uint64_t bytes; /* what the runtime function was asked for; 0: any size is its own */
};

/* Runtime hooks bracket the real call with these; nested brackets keep the outermost name. */
struct nxm_label nxm_label_push(enum nxm_api api, uint64_t bytes); /* returns what to restore */
bool nxm_label_pop(struct nxm_label saved);        /* whether a driver hook fired inside */

/* A driver hook asks which name to record: the label's, marking it fired, else its own. An allocation names its size: one of
 * another size is the runtime's own affair (what it allocates when it starts, say) and keeps the driver's name. */
enum nxm_api nxm_label_take_there(enum nxm_api own, uint64_t bytes);
extern __thread struct nxm_label nxm_label __attribute__((tls_model("initial-exec"))); /* the thread's */
static inline enum nxm_api nxm_label_take(enum nxm_api own, uint64_t bytes)
{
    return __builtin_expect(nxm_label.api != 0, 0) ? nxm_label_take_there(own, bytes) : own;
}

#endif
