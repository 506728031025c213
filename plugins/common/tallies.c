#include "plugins/common/tallies.h"

#include <stdatomic.h>
#include <string.h>

#include "plugins/common/status.h"

static atomic_uint_fast64_t tallies[NXP_TALLY_COUNT];
static atomic_uint_fast64_t mechanism_ids;
static atomic_uint_fast64_t tickets;

void nxp_tally_up(enum nxp_tally tally)
{
    atomic_fetch_add_explicit(&tallies[tally], 1, memory_order_acq_rel);
}

void nxp_tally_down(enum nxp_tally tally)
{
    atomic_fetch_sub_explicit(&tallies[tally], 1, memory_order_acq_rel);
}

uint64_t nxp_next_mechanism_id(void)
{
    return atomic_fetch_add_explicit(&mechanism_ids, 1, memory_order_relaxed) + 1;
}

uint64_t nxp_next_ticket(void)
{
    return atomic_fetch_add_explicit(&tickets, 1, memory_order_relaxed) + 1;
}

NxmemStatus nxp_unload_report(NxmemUnloadReport *report)
{
    NxmemUnloadReport answer;

    if (report == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no report to write to");
    /* Some axes only would read as zeros on the others: no answer is the safer one. */
    if (report->struct_size < sizeof *report)
        return nxp_status(NXMEM_STATUS_SHORT_STRUCT, "the unload report has no room for all five counts");
    memset(&answer, 0, sizeof answer);
    answer.live_allocators = atomic_load_explicit(&tallies[NXP_TALLY_ALLOCATORS], memory_order_acquire);
    answer.live_allocations = atomic_load_explicit(&tallies[NXP_TALLY_ALLOCATIONS], memory_order_acquire);
    answer.live_views = atomic_load_explicit(&tallies[NXP_TALLY_VIEWS], memory_order_acquire);
    answer.live_capabilities = atomic_load_explicit(&tallies[NXP_TALLY_CAPABILITIES], memory_order_acquire);
    answer.queued_releases = atomic_load_explicit(&tallies[NXP_TALLY_QUEUED], memory_order_acquire);
    nxp_answer(report, &answer, sizeof answer);
    return nxp_ok();
}
