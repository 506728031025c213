#include "ids.h"

#include <stdatomic.h>

#include "spread.h"

static atomic_uint_fast64_t rows; /* the last that has begun, or was left out */

uint64_t nxm_ids_bound(void)
{
    return (atomic_load_explicit(&rows, memory_order_relaxed) + 1) * NXM_IDS_ROW;
}

uint64_t nxm_ids_begin_row(void)
{
    uint64_t line = nxm_spread_assign() / sizeof(struct nxm_spread_line);
    uint_fast64_t last = atomic_load_explicit(&rows, memory_order_relaxed), row;

    do
        row = last + 1 + (line - (last + 1)) % NXM_SPREAD_LINES; /* the next of those */
    while (!atomic_compare_exchange_weak_explicit(&rows, &last, row, memory_order_relaxed, memory_order_relaxed));
    return row * NXM_IDS_ROW;
}
