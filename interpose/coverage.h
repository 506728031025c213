/* What of CUDA the process reached by name or by linking, and what of it the shim stands in front of. Owns the lists; called once,
 * when the report is made.
 */
#ifndef NXM_COVERAGE_H
#define NXM_COVERAGE_H

#include <stdbool.h>

#include "core/report.h"

/* Fills what concerns names; the lists are valid until the process ends. */
void nxm_coverage_fill(struct nxm_report *ret_report);

/* Whether NXMEM_COVERAGE=1 and there is something to list, in a process that may never have allocated. */
bool nxm_coverage_is_due(void);

#endif
