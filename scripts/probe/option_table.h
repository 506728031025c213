/* The options as a table that scripts can read: nxrun, the manual and README.md are made from it. Owns nothing; one
 * thread. */
#ifndef NXM_PROBE_OPTION_TABLE_H
#define NXM_PROBE_OPTION_TABLE_H

/* One line per row of core/options.def, to standard output, separated by tabs: option name, environment variable,
 * type, default, accepted values, help. An empty field is "-". */
void probe_print_options(void);

#endif
