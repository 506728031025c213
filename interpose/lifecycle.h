/* From load to exit: first use, the plugin, the tables, who is inside, fork. Owns the options, the block
 * tables and the module handle. Any thread; NXM_RANK_LIFECYCLE inside, never across a foreign call.
 *
 * Phases only move forward: FRESH (nothing has happened) -> STARTING (one thread loads the plugin, others
 * wait) -> SERVING (redirecting, or only observing when the plugin could not be had) -> CLOSED (exit moment
 * X1 has begun: no plugin slot is entered any more).
 */
#ifndef NXM_LIFECYCLE_H
#define NXM_LIFECYCLE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/blocks.h"
#include "core/module.h"
#include "core/options.h"
#include "core/suppressions.h"

/* How a hook must treat the call it was entered for. */
enum nxm_mode {
    NXM_MODE_SERVE,  /* the program's call, the shim at work: must be left with nxm_leave */
    NXM_MODE_NESTED, /* a plugin's own call: real function, remembered as the plugin's */
    NXM_MODE_NATIVE, /* a child after fork, or nothing has begun: the real function and nothing else */
    NXM_MODE_LATE,   /* after X1: real function, counted */
};

/* `caller`: the hook's return address. `begin`: this call may be the first use (an allocation); otherwise a
 * process in which nothing began stays so. */
enum nxm_mode nxm_enter(const void *caller, bool begin);
void nxm_leave(enum nxm_mode mode); /* takes every mode */

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
bool nxm_is_child(void);                     /* this process is a fork of the one that began */
bool nxm_began(void);                        /* first use is over, in this process */

/* X1: shuts the door and waits, within bounds, for threads inside. Returns how many still are. Idempotent. */
unsigned nxm_close_door(void);
bool nxm_door_closed(void);

/* For the one who unloads it: from now on nobody looks at the plugin. NULL when somebody still does. */
struct nxm_module *nxm_plugin_take(void);
void nxm_plugin_put_back(struct nxm_module *plugin); /* it could not be unloaded */

#endif
