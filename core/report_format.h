/* The two faces of a report. Own nothing; called by core/report.c alone. */
#ifndef NXM_REPORT_FORMAT_H
#define NXM_REPORT_FORMAT_H

#include "leaks.h"
#include "page.h"
#include "report.h"

void nxm_report_text(struct nxm_page *page, const struct nxm_report *report, const struct nxm_leaks *leaks);
void nxm_report_json(struct nxm_page *page, const struct nxm_report *report, const struct nxm_leaks *leaks);

const char *nxm_report_api(const struct nxm_report *report, unsigned api); /* NULL: no name */
bool nxm_report_unloaded(const struct nxm_report *report);                 /* the plugin, at X1 */

#endif
