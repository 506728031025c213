/* What core keeps of each thread, in one record, so that its place is fetched once. Owns nothing but that; no locks. Each word is
 * explained where it is used. Initial-exec: no allocation on a thread's first touch, and small enough for the surplus that is kept for
 * a late dlopen.
 */
#ifndef NXM_OWN_H
#define NXM_OWN_H

#include <stdint.h>

#include "here.h"

struct nxm_seat;

struct nxm_own {
    uint32_t spread;         /* spread.h: where its line of counters is */
    uint64_t next_id;        /* ids.h */
    struct nxm_seat *asking; /* queued.h: of the release that it is asking a plugin for, quietly */
};

extern NXM_HERE __thread struct nxm_own nxm_own __attribute__((tls_model("initial-exec")));

#endif
