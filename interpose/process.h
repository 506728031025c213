/* What this process is to the shim: the options, the block tables, the plugin. Owns them; filled by one thread at first use
 * (lifecycle.h), then read by any; no locks.
 */
#ifndef NXM_PROCESS_H
#define NXM_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/blocks.h"
#include "core/here.h"
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

extern NXM_HERE struct nxm_blocks *nxm_process_tables[NXM_TABLE_COUNT];
static inline struct nxm_blocks *nxm_table(enum nxm_table which)
{
    return nxm_process_tables[which];
}

extern NXM_HERE struct nxm_options nxm_process_options;
static inline const struct nxm_options *nxm_options(void) /* valid from STARTING on */
{
    return &nxm_process_options;
}

extern NXM_HERE struct nxm_module *_Atomic nxm_process_plugin;
static inline struct nxm_module *nxm_plugin(void) /* NULL: none, every allocation is the driver's */
{
    return atomic_load_explicit(&nxm_process_plugin, memory_order_acquire);
}

/* Whether that is code of the plugin, which the caller must keep from being unloaded meanwhile (door.h): afterwards other code
 * may lie there. */
extern NXM_HERE struct nxm_code nxm_process_plugin_code; /* written before the plugin can be seen */
static inline bool nxm_plugin_contains(const void *code)
{
    return __builtin_expect(nxm_code_contains(nxm_process_plugin_code, code), 0) && nxm_plugin();
}

const char *nxm_plugin_path(void);           /* as resolved, or NULL */
const struct nxm_suppressions *nxm_suppressions_in_force(void); /* or NULL */
bool nxm_refuse_instead(void);               /* no plugin, and NXMEM_ON_ERROR=fail */
void nxm_process_watch_forks(void); /* from the first lock of ours that a child could find taken */

/* Whose memory this is. In a child the word is 0: it lies where a fork leaves zeros behind, or the handler of the fork has put it
 * there. Also 0 when there was no memory to begin. */
enum { NXM_NOT_OURS, NXM_OURS, NXM_ASK_PID };
enum { NXM_MARK, NXM_MARK_CALM, NXM_MARK_WORDS }; /* the second: calm.h */
extern NXM_HERE _Atomic uint32_t *_Atomic nxm_process_mark;
bool nxm_process_ask_pid(void);

static inline uint32_t nxm_process_look(void)
{
    _Atomic uint32_t *at = atomic_load_explicit(&nxm_process_mark, memory_order_acquire);

    return atomic_load_explicit(at, memory_order_relaxed);
}

/* A fork of the one that began: hooks pass through. One load, no system call. */
static inline bool nxm_is_child(void)
{
    uint32_t mark = nxm_process_look();

    return __builtin_expect(mark != NXM_OURS, 0) && (mark == NXM_NOT_OURS || nxm_process_ask_pid());
}

static inline bool nxm_is_surely_ours(void) /* no child, without a question to the system */
{
    return nxm_process_look() == NXM_OURS;
}

/* For the one who unloads it: from now on nobody looks at the plugin. NULL when somebody still does. */
struct nxm_module *nxm_plugin_take(void);
void nxm_plugin_put_back(struct nxm_module *plugin); /* it could not be unloaded */

#endif
