#include "gate.h"

#include "lock.h"
#include "prefix.h"

/* Saturating: counts that a plugin made up must not wrap round to "nothing is live". */
static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t host_total(const struct nxm_tallies *host)
{
    return add(add(host->allocators, host->allocations), add(host->queued, host->inside));
}

static uint64_t plugin_total(const NxmemUnloadReport *report)
{
    uint64_t objects = add(report->live_allocators, report->live_allocations);

    return add(add(objects, report->live_views), add(report->live_capabilities, report->queued_releases));
}

void nxm_gate_ask(NxmemQueryUnloadReadinessFn query, const struct nxm_tallies *host, struct nxm_gate *ret_gate)
{
    NxmemUnloadReport report = { .struct_size = sizeof report };
    NxmemStatus status;
    bool answered;

    nxm_lock_assert_none();
    status = query(&report);
    /* An axis that the plugin did not write is an axis it did not answer for. */
    answered = status.code == NXMEM_STATUS_OK && nxm_prefix_trim(&report, sizeof report) == sizeof report;
    *ret_gate = (struct nxm_gate){ .handle_kept = true, .host = *host };
    if (answered)
        ret_gate->plugin = report;
    if (!answered)
        ret_gate->reason = NXM_GATE_QUERY_FAILED;
    else if (host_total(host) != 0)
        ret_gate->reason = NXM_GATE_HOST;
    else if (plugin_total(&report) != 0)
        ret_gate->reason = NXM_GATE_PLUGIN;
    else
        ret_gate->reason = NXM_GATE_OPEN;
}
