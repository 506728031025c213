#include "spread.h"

__thread uint32_t nxm_spread_place __attribute__((tls_model("initial-exec")));

/* There may be more threads than lines. */
uint32_t nxm_spread_assign(void)
{
    static atomic_uint given;

    if (nxm_spread_place == 0)
        nxm_spread_place = (atomic_fetch_add_explicit(&given, 1, memory_order_relaxed) % (NXM_SPREAD_LINES - 1) + 1) *
                           (uint32_t)sizeof(struct nxm_spread_line);
    return nxm_spread_place;
}

uint64_t nxm_spread_sum(const struct nxm_spread *spread, unsigned sum)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < NXM_SPREAD_LINES; i++)
        total += atomic_load_explicit(&spread->lines[i].sums[sum], memory_order_seq_cst);
    return total;
}
