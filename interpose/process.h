/* What this process is to the shim: the options, the block tables, the plugin. Owns them; filled by one thread at first use
 * (lifecycle.h), then read by any; no locks.
 */
#ifndef NXM_PROCESS_H
#define NXM_PROCESS_H

#include <stdbool.h>

#include "core/blocks.h"
#include "core/module.h"
#include "core/options.h"
#include "core/suppressions.h"

/* Reads the options, makes the tables, prepares the unwinder and the fork. false, said and done for good: no memory. */
bool nxm_process_prepare(void);

/* Loads the plugin that the options name; says why when it cannot be had. Foreign code runs. */
void nxm_process_load_plugin(void);

/* One table per kind of key, because a reservation and a mapping may start at the same address. */
enum nxm_table {
    NXM_TABLE_MEMORY,     /* device, managed, pinned, graph: what a pointer means */
    NXM_TABLE_REGISTERED, /* host memory of the program that it registered */
    NXM_TABLE_ARRAYS,     /* CUarray and CUmipmappedArray handles */
    NXM_TABLE_RESERVED,   /* cuMemAddressReserve */
    NXM_TABLE_CREATED,    /* physical memory, by our own number */
    NXM_TABLE_MAPPED,     /* cuMemMap */
    NXM_TABLE_IMPORTED,   /* cuIpcOpenMemHandle */
    NXM_TABLE_COUNT
};

struct nxm_blocks *nxm_table(enum nxm_table which);

const struct nxm_options *nxm_options(void); /* valid from STARTING on */
struct nxm_module *nxm_plugin(void);         /* NULL: none, every allocation is the driver's */
const char *nxm_plugin_path(void);           /* as resolved, or NULL */
const struct nxm_suppressions *nxm_suppressions_in_force(void); /* or NULL */
bool nxm_refuse_instead(void);               /* no plugin, and NXMEM_ON_ERROR=fail */
void nxm_process_watch_forks(void); /* from the first lock of ours that a child could find taken */
bool nxm_is_child(void);                     /* a fork of the one that began (or no memory to begin): hooks pass through */
/* For the one who unloads it: from now on nobody looks at the plugin. NULL when somebody still does. */
struct nxm_module *nxm_plugin_take(void);
void nxm_plugin_put_back(struct nxm_module *plugin); /* it could not be unloaded */

#endif
