/* The unload gate's verdict: our tallies and the plugin's own report (nxmem spec 18.1, 18.2, 18.5). Owns nothing; any
 * thread; no locks (none may be held: the plugin is asked).
 */
#ifndef NXM_GATE_H
#define NXM_GATE_H

#include "module.h"
#include "nxmem_memory_abi.h"

/* Always asks the plugin. Anything but a whole, successful report counts as "still live". */
void nxm_gate_ask(NxmemQueryUnloadReadinessFn query, const struct nxm_tallies *host, struct nxm_gate *ret_gate);

#endif
