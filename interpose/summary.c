#include "summary.h"

#include <limits.h>
#include <stdatomic.h>
#include <unistd.h>

#include "core/log.h"
#include "exit.h"
#include "label.h"
#include "lane.h"
#include "lifecycle.h"
#include "scope.h"

static _Atomic uint64_t counts[NXM_COUNTS];
static struct {
    _Atomic uint64_t blocks, bytes;
} amounts[NXM_AMOUNTS];
static char program[PATH_MAX];

void nxm_summary_count(enum nxm_count which)
{
    atomic_fetch_add_explicit(&counts[which], 1, memory_order_relaxed);
}

void nxm_summary_add(enum nxm_amount_kind which, uint64_t bytes)
{
    atomic_fetch_add_explicit(&amounts[which].blocks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&amounts[which].bytes, bytes, memory_order_relaxed);
}

CUresult nxm_summary_misuse(const char *what, uint64_t address)
{
    nxm_summary_count(NXM_COUNT_MISUSE);
    nxm_log(NXM_LOG_INFO, "0x%llx: %s; refused as the driver would", (unsigned long long)address, what);
    return CUDA_ERROR_INVALID_VALUE;
}

static struct nxm_amount amount(enum nxm_amount_kind which)
{
    struct nxm_amount a = { atomic_load(&amounts[which].blocks), atomic_load(&amounts[which].bytes) };

    return a;
}


static struct nxm_blocks *reported[NXM_TABLE_COUNT];

void nxm_summary_fill(struct nxm_report *ret_report)
{
    struct nxm_allocator_totals totals;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);

    program[length > 0 ? length : 0] = '\0';
    for (int i = 0; i < NXM_TABLE_COUNT; i++)
        reported[i] = nxm_table((enum nxm_table)i);
    ret_report->version = NXM_VERSION;
    ret_report->program = program;
    ret_report->pid = getpid();
    ret_report->plugin = nxm_plugin_path();
    ret_report->mechanism = nxm_scope_mechanism();
    ret_report->tables = reported;
    ret_report->table_count = reported[0] ? NXM_TABLE_COUNT : 0;
    ret_report->suppressions = nxm_suppressions_in_force();
    ret_report->api_names = nxm_api_names;
    ret_report->api_count = NXM_API_COUNT;
    ret_report->reclaimed_by_reset = amount(NXM_AMOUNT_RECLAIMED_BY_RESET);
    ret_report->freed_during_exit = amount(NXM_AMOUNT_FREED_DURING_EXIT);
    ret_report->freed_out_of_sight = amount(NXM_AMOUNT_OUT_OF_SIGHT);
    ret_report->misuse = atomic_load(&counts[NXM_COUNT_MISUSE]);
    nxm_scope_totals(&totals);
    ret_report->views = totals.views;
    ret_report->quarantined = (struct nxm_amount){ totals.quarantined_blocks, totals.quarantined_bytes };
    ret_report->owned_bytes = totals.owned_bytes;
    ret_report->mapped_bytes = totals.mapped_bytes;
    ret_report->gate_known = nxm_exit_gate(&ret_report->gate, &ret_report->gate_extra);
    nxm_module_counters(&ret_report->counters);
}
