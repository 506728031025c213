#include "ids.h"

#include <stdatomic.h>

#include "spread.h"

static atomic_uint_fast64_t rows; /* that have begun */

uint64_t nxm_ids_bound(void)
{
    return (atomic_load_explicit(&rows, memory_order_relaxed) + 1) * NXM_IDS_ROW;
}

uint64_t nxm_ids_begin_row(void)
{
    nxm_spread_assign();
    return (atomic_fetch_add_explicit(&rows, 1, memory_order_relaxed) + 1) * NXM_IDS_ROW;
}
