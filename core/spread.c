#include "spread.h"

__thread struct nxm_own nxm_own __attribute__((tls_model("initial-exec")));

/* There may be more threads than lines. Nobody takes back the line of a thread that ends: it would have to be noticed. */
uint32_t nxm_spread_place_after(uint64_t others)
{
    uint64_t own = NXM_SPREAD_LINES - NXM_SPREAD_SHARED;
    uint64_t line = others < own ? NXM_SPREAD_SHARED + others : others % (NXM_SPREAD_SHARED - 1) + 1;

    return (uint32_t)(line * sizeof(struct nxm_spread_line));
}

uint32_t nxm_spread_assign(void)
{
    static atomic_uint_fast64_t given;

    if (nxm_own.spread == 0)
        nxm_own.spread = nxm_spread_place_after(atomic_fetch_add_explicit(&given, 1, memory_order_relaxed));
    return nxm_own.spread;
}

uint64_t nxm_spread_sum(const struct nxm_spread *spread, unsigned sum)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < NXM_SPREAD_LINES; i++)
        total += atomic_load_explicit(&spread->lines[i].sums[sum], memory_order_seq_cst);
    return total;
}
