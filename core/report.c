#include "report.h"

#include <unistd.h>

#include "log.h"
#include "report_format.h"
#include "result.h"

const char *nxm_report_api(const struct nxm_report *report, unsigned api)
{
    return api < report->api_count ? report->api_names[api] : NULL;
}

bool nxm_report_unloaded(const struct nxm_report *report)
{
    return report->gate_known && report->gate.reason == NXM_GATE_OPEN && !report->gate.handle_kept &&
           report->gate_extra == NULL;
}

static bool is_zero(struct nxm_amount amount)
{
    return amount.blocks == 0 && amount.bytes == 0;
}

static bool nothing_was_recorded(const struct nxm_report *report)
{
    for (size_t i = 0; i < report->table_count; i++) {
        for (int class_ = 0; class_ < NXM_CLASS_COUNT; class_++) {
            struct nxm_class_totals totals;

            nxm_blocks_totals(report->tables[i], (enum nxm_class)class_, &totals);
            if (totals.ever_blocks != 0)
                return false;
        }
    }
    return true;
}

/* A plugin that was loaded and unloaded again is nothing to report; one that stayed is. */
bool nxm_report_empty(const struct nxm_report *report)
{
    return is_zero(report->reclaimed_by_reset) && is_zero(report->freed_during_exit) && is_zero(report->quarantined) &&
           is_zero(report->imported) && is_zero(report->unknown_frees) && is_zero(report->freed_out_of_sight) &&
           report->views == 0 && report->misuse == 0 && report->owned_bytes == 0 && report->mapped_bytes == 0 &&
           report->unknown.count == 0 && report->coverage == NULL && report->counters.leaked_callback_tables == 0 && report->counters.forced_module_leaks == 0 &&
           (!report->gate_known || nxm_report_unloaded(report)) && nothing_was_recorded(report);
}

uint64_t nxm_report_leaks(const struct nxm_report *report)
{
    struct nxm_leaks leaks;
    uint64_t count;

    nxm_leaks_init(&leaks, report->tables, report->table_count, report->suppressions);
    count = leaks.leaked.blocks;
    nxm_leaks_clear(&leaks);
    return count;
}

int nxm_report_write(int fd, const struct nxm_report *report, enum nxm_report_format format)
{
    struct nxm_leaks leaks;
    struct nxm_page page;
    int result;

    nxm_leaks_init(&leaks, report->tables, report->table_count, report->suppressions);
    nxm_page_init(&page, fd);
    if (format == NXM_REPORT_JSON)
        nxm_report_json(&page, report, &leaks);
    else
        nxm_report_text(&page, report, &leaks);
    result = nxm_page_clear(&page);
    if (result != NXM_OK && fd != STDERR_FILENO)
        nxm_log(NXM_LOG_WARNING, "the report is lost or incomplete: it could not be written (is its disk full?)");
    if (result == NXM_OK && !leaks.grouped)
        result = NXM_ENOMEM;
    nxm_leaks_clear(&leaks);
    return result;
}
