/* Fills the report with what the tables, the allocators and the tallies say; what the gate decided is the exit's to add.
 * Owns the storage that the report borrows; one thread, at exit.
 */
#ifndef NXM_SUMMARY_H
#define NXM_SUMMARY_H

#include "core/report.h"

void nxm_summary_fill(struct nxm_report *ret_report);

#endif
