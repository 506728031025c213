/* One block that the program has freed while its work may still run, and the event it waits behind. Whoever holds the
 * record owns it and its event. Any thread; no locks.
 */
#ifndef NXM_WAITING_H
#define NXM_WAITING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/blocks.h"
#include "event.h"
#include "scope.h"

struct nxm_waiting {
    struct nxm_waiting *next;
    struct nxm_scope *scope;
    uint64_t address, id, bytes;
    CUcontext context;   /* of the event */
    CUevent event;       /* NULL: parked during a capture, not recorded yet */
    uint64_t tried;      /* parked: the pass that last asked for its event */
    bool recording;      /* parked, and a thread is recording its event: nobody else touches the entry */
    _Atomic bool orphan; /* its context is gone, the event with it, or there was none; the work has passed */
};

struct nxm_waiting *nxm_waiting_new(const struct nxm_block *block); /* a plugin's block; NULL: no memory */
void nxm_waiting_free(struct nxm_waiting *entry);                   /* takes NULL; gives the event back to its pool */

#endif
