#include "tally.h"

#include <stdatomic.h>

#include "core/log.h"

static _Atomic uint64_t counts[NXM_COUNTS];
static struct {
    _Atomic uint64_t blocks, bytes;
} amounts[NXM_AMOUNTS];
void nxm_tally_count(enum nxm_count which)
{
    atomic_fetch_add_explicit(&counts[which], 1, memory_order_relaxed);
}

void nxm_tally_add(enum nxm_amount_kind which, uint64_t bytes)
{
    atomic_fetch_add_explicit(&amounts[which].blocks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&amounts[which].bytes, bytes, memory_order_relaxed);
}

CUresult nxm_tally_misuse(const char *what, uint64_t address)
{
    nxm_tally_count(NXM_COUNT_MISUSE);
    nxm_log(NXM_LOG_INFO, "0x%llx: %s; refused as the driver would", (unsigned long long)address, what);
    return CUDA_ERROR_INVALID_VALUE;
}

uint64_t nxm_tally(enum nxm_count which)
{
    return atomic_load(&counts[which]);
}

struct nxm_amount nxm_tally_amount(enum nxm_amount_kind which)
{
    return (struct nxm_amount){ atomic_load(&amounts[which].blocks), atomic_load(&amounts[which].bytes) };
}
