#include "summary.h"

#include <limits.h>
#include <unistd.h>

#include "core/allocator.h"
#include "core/program.h"
#include "core/text.h"
#include "coverage.h"
#include "label.h"
#include "lane.h"
#include "process.h"
#include "scope.h"
#include "tally.h"
#include "usage.h"

static char program[PATH_MAX];
static char note[96];
static struct nxm_misuse misuses[NXM_MISUSES_MAX];
static struct nxm_device_memory device_memory[NXM_USAGE_DEVICES];
static struct nxm_blocks *reported[NXM_TABLE_COUNT];

static bool add_open(void *sum, const struct nxm_block *import)
{
    ((struct nxm_amount *)sum)->blocks += import->tag; /* how often it was opened; the size of an import is not told */
    return true;
}

static void fill_imports(struct nxm_report *report)
{
    if (nxm_table(NXM_TABLE_IMPORTED))
        nxm_blocks_each(nxm_table(NXM_TABLE_IMPORTED), add_open, &report->imported);
}

static void fill_note(struct nxm_report *report)
{
    struct nxm_text text;
    uint64_t captured = nxm_tally(NXM_COUNT_CAPTURED_EVENTS);

    if (captured == 0)
        return;
    nxm_text_init(&text, note, sizeof note);
    nxm_text_count(&text, captured, "question");
    nxm_text_string(&text, " about events that a capture had taken: their blocks wait for ever");
    report->note = note;
}

static void show_releasing(struct nxm_scope *scope, void *unused)
{
    (void)unused;
    nxm_allocator_show_releasing(scope->allocator);
}

void nxm_summary_fill(struct nxm_report *ret_report)
{
    struct nxm_allocator_totals totals;

    nxm_scope_each(show_releasing, NULL); /* of threads that are in the middle of a free */
    nxm_program_path(program, sizeof program);
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
    ret_report->reclaimed_by_reset = nxm_tally_amount(NXM_AMOUNT_RECLAIMED_BY_RESET);
    ret_report->freed_during_exit = nxm_tally_amount(NXM_AMOUNT_FREED_DURING_EXIT);
    ret_report->freed_out_of_sight = nxm_tally_amount(NXM_AMOUNT_OUT_OF_SIGHT);
    ret_report->unknown_frees = nxm_tally_amount(NXM_AMOUNT_UNKNOWN_FREES);
    ret_report->misuse = nxm_tally(NXM_COUNT_MISUSE);
    size_t different = nxm_misuse_list(misuses, NXM_MISUSES_MAX);
    ret_report->misuses = misuses;
    ret_report->misuse_count = different;
    nxm_scope_totals(&totals);
    ret_report->waiting_peak_bytes = nxm_lane_peak();
    ret_report->views = totals.views;
    ret_report->quarantined = (struct nxm_amount){ totals.quarantined_blocks, totals.quarantined_bytes };
    ret_report->owned_bytes = totals.owned_bytes;
    ret_report->mapped_bytes = totals.mapped_bytes;
    ret_report->device_memory = device_memory;
    ret_report->device_memory_count = nxm_usage_list(device_memory);
    fill_imports(ret_report);
    fill_note(ret_report);
    nxm_coverage_fill(ret_report);
    nxm_module_counters(&ret_report->counters);
}
