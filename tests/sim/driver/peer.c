#include "peer.h"

#include "context.h"
#include "device.h"
#include "pool.h"
#include "vmm.h"

/* Access between contexts covers what cuMemAlloc and its like made, and nothing else: pools and maps have grants of their
 * own. */
bool sim_peer_reaches(const struct sim_context *c, const struct sim_block *b)
{
    const struct sim_device *d = c->device;
    unsigned peers = c->green_of ? c->green_of->peers : c->peers;
    switch (b->kind) {
    case SIM_BLOCK_MAP: /* opened to nobody: found when the work runs */
        return !b->flags || sim_vmm_access(b, d) != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    case SIM_BLOCK_ASYNC: return b->pool->access >> d->ordinal & 1;
    case SIM_BLOCK_DEVICE:
    case SIM_BLOCK_MODULE:
    case SIM_BLOCK_GRAPH:
    case SIM_BLOCK_ARRAY: return b->device == d || (peers >> b->device->ordinal & 1);
    default: return true; /* host, managed, another process's: mapped for every device */
    }
}
