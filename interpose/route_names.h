/* Which entry points the process asked for by name, for the report. Owns fixed tables that only grow; any thread; no locks, and
 * nothing of libc, as for the other files of the routes. With NXMEM_COVERAGE=1 a name is kept when it is asked for; whether
 * anybody has it is found out when the report is made (coverage.h).
 */
#ifndef NXM_ROUTE_NAMES_H
#define NXM_ROUTE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/noted.h"
#include "label.h"

/* NXMEM_COVERAGE=1: every name of CUDA's is kept, not only what this build does not know and allocates by its name. */
bool nxm_route_coverage(void);

void nxm_names_hooked(enum nxm_api api);
void nxm_names_asked(const char *symbol);                        /* none of our rows */
void nxm_names_given(const void *real, const char *name, int version); /* the driver gave this, and it stays */
void nxm_names_uncovered(const char *file, bool own_namespace);  /* borrowed; its last part is kept */

/* From now on these are kept like our own, and what was noted before is in them: for a journal. Borrowed for good.
 * NULL: no more. */
void nxm_names_keep_in(struct nxm_noted_table *unknown, struct nxm_noted_table *uncovered);

/* Whether somebody holds a form of cuMemFree that this build does not know. What waits here the driver would free by it once more,
 * where natively it is gone: frees are not deferred then. */
bool nxm_names_free_unseen(void);

/* For the report. `index` from 0; false past the end. */
bool nxm_names_is_hooked(enum nxm_api api);
const char *nxm_names_passed(size_t index, bool *ret_asked); /* NULL past the end */
bool nxm_names_unknown(size_t index, struct nxm_noted *ret_noted);
bool nxm_names_uncovered_file(size_t index, struct nxm_noted *ret_noted); /* `found`: a namespace of its own */

size_t nxm_names_find_passed(const char *symbol); /* its index, or (size_t)-1 */
bool nxm_names_is_cuda(const char *symbol);       /* cuX… or cudaX… */
bool nxm_names_allocates(const char *symbol);     /* by its looks */

#endif
