/* Whether a plugin loads, asked before a program is started with it. Owns nothing that outlives a call; one thread. */
#ifndef NXM_PROBE_PLUGIN_H
#define NXM_PROBE_PLUGIN_H

#include <stdbool.h>

/* Loads the plugin as the shim will, negotiates, enumerates, and lets it go again. `value` is NXMEM_PLUGIN's,
 * `directory` the shim's, `mechanism` NXMEM_MECHANISM's or NULL. False: one line on standard error says why and
 * what to do. `show`: what was found goes to standard output. */
bool probe_plugin(const char *value, const char *directory, const char *mechanism, bool show);

#endif
