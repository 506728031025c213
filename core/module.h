/* A loaded plugin: the library, what was agreed, its mechanisms, the tallies of what is alive in it and
 * the gate that asks them before the library may be closed (nxmem spec sections 7, 8, 18).
 *
 * References: the handle returned by load, each factory, each open allocator (two: itself and its
 * callback context), leaked callback tables. dlclose runs where the last one goes. Any thread; takes
 * NXM_RANK_MODULE inside; no lock is held while the plugin or the loader runs.
 */
#ifndef NXM_MODULE_H
#define NXM_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code.h"
#include "nxmem_memory_abi.h"
#include "result.h"

struct nxm_module;

struct nxm_mechanism {
    const char *name; /* borrowed from the module, valid while it is */
    NxmemDeviceId device;
    uint64_t capabilities; /* as the factory states them */
};

/* What is alive by our own count and by the plugin's. */
struct nxm_tallies {
    uint64_t allocators, allocations, queued;
    uint64_t inside; /* threads that the plugin has inside a callback of ours: they go back into its code */
};

enum nxm_gate_reason {
    NXM_GATE_OPEN = 0,
    NXM_GATE_QUERY_FAILED, /* the plugin could not report: taken as "still live" */
    NXM_GATE_HOST,         /* our tallies are not zero */
    NXM_GATE_PLUGIN,       /* the plugin's report is not zero */
    NXM_GATE_REFERENCED,   /* something else still references the module: terminal */
};

struct nxm_gate {
    enum nxm_gate_reason reason;
    bool handle_kept; /* the caller still owns the handle and may try again */
    struct nxm_tallies host;
    NxmemUnloadReport plugin; /* zeros when the query failed */
};

/* Process-wide. */
struct nxm_module_counters {
    uint64_t leaked_callback_tables;
    uint64_t forced_module_leaks;
    uint64_t modules_unmapped;
    uint64_t reclaimed_callback_tables; /* leaked ones that a late completion freed; their module stays mapped */
};

/* `path` is opened as it is (no search). `range` NULL: 1.0 to 1.1. On success the caller owns one handle. */
int nxm_module_load(const char *path, const NxmemVersionRange *range, struct nxm_module **ret_module,
                    struct nxm_error *ret_error);

/* Turns NXMEM_PLUGIN's value into a path: a value with '/' is itself; else <dir>/nxmem/<name>.so,
 * <dir>/<name>.so and <dir>/plugins/<name>.so are tried, `directory` being the shim's own. */
int nxm_module_find_path(const char *value, const char *directory, char *ret_path, size_t capacity,
                         struct nxm_error *ret_error);

const char *nxm_module_path(const struct nxm_module *module);
uint32_t nxm_module_minor(const struct nxm_module *module);
uint64_t nxm_module_capabilities(const struct nxm_module *module); /* as negotiated */
void *nxm_module_symbol(struct nxm_module *module, const char *name); /* NULL if absent */
struct nxm_code nxm_module_code(const struct nxm_module *module);

size_t nxm_module_mechanism_count(const struct nxm_module *module);
void nxm_module_mechanism(const struct nxm_module *module, size_t index, struct nxm_mechanism *ret_mechanism);

/* name NULL or "": the first for that device. NXM_ENOMECHANISM lists what there is. */
int nxm_module_find_mechanism(const struct nxm_module *module, const char *name, NxmemDeviceId device,
                              size_t *ret_index, struct nxm_error *ret_error);

int nxm_module_find_named(const struct nxm_module *module, const char *name, size_t *ret_index,
                          struct nxm_error *ret_error); /* for whichever device */

/* The gate asked without consequences; handle_kept is true. */
void nxm_module_query_gate(struct nxm_module *module, struct nxm_gate *ret_gate);

/* Keeps the code mapped when the handle goes: what the embedder got from the plugin by other ways may still be entered. Shuts
 * no gate; an unload is refused for good (NXM_GATE_REFERENCED) while it is held, and the last unref unmaps. */
void nxm_module_ref(struct nxm_module *module);
void nxm_module_unref(struct nxm_module *module);

/* Explicit unload (18.2): 0 when unmapped. NXM_EBUSY with *ret_gate otherwise; the handle is gone only
 * when !handle_kept. */
int nxm_module_unload(struct nxm_module *module, struct nxm_gate *ret_gate);

/* Gives the handle up (18.4); a shut gate leaks one reference for ever and counts it. Takes NULL. */
void nxm_module_drop(struct nxm_module *module);

void nxm_module_counters(struct nxm_module_counters *ret_counters);

#endif
