#include "ids.h"

#include <stdatomic.h>

#include "spread.h"

static atomic_uint_fast64_t rounds; /* of all lines, that have begun: one row of each is used */

uint64_t nxm_ids_bound(void)
{
    return atomic_load_explicit(&rounds, memory_order_relaxed) * NXM_SPREAD_LINES * NXM_IDS_ROW;
}

uint64_t nxm_ids_begin_row(void)
{
    uint64_t line = nxm_spread_assign() / sizeof(struct nxm_spread_line); /* never the first */

    return (atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed) * NXM_SPREAD_LINES + line) * NXM_IDS_ROW;
}
