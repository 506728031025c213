/* A plugin's mechanisms in words. Owns nothing; any thread; no locks. */
#ifndef NXM_MECHANISM_LIST_H
#define NXM_MECHANISM_LIST_H

#include "module.h"
#include "text.h"

/* "direct (device 0 to 15, host 0), pool (device 0)": each name once, in the order in which the plugin has them. "none": it has none. */
void nxm_mechanism_list(const struct nxm_module *module, struct nxm_text *text);

#endif
