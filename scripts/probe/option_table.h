/* The options as a table that scripts can read: nxrun, the manual and README.md are made from it. Owns nothing; one
 * thread. */
#ifndef NXM_PROBE_OPTION_TABLE_H
#define NXM_PROBE_OPTION_TABLE_H

#include <stdbool.h>

/* One line per row of core/options.def, to standard output, separated by tabs: option name, environment variable,
 * type, default, accepted values, help. An empty field is "-". */
void probe_print_options(void);

/* The option that `typed`, without its two hyphens, almost is, to standard output; false, and nothing: it is none. */
bool probe_print_almost(const char *typed);

#endif
