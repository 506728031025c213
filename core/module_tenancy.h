/* What an open allocator does to its module: it references it, is counted in it, and is listed in it by its
 * mechanism id. For core/opening.c, core/allocator.c and core/deferred.c only. Any thread; admit and
 * dismiss take NXM_RANK_MODULE inside; unref may run the plugin's and the loader's code.
 */
#ifndef NXM_MODULE_TENANCY_H
#define NXM_MODULE_TENANCY_H

#include <stddef.h>
#include <stdint.h>

#include "factories.h"
#include "module.h"
#include "spread.h"

struct nxm_tenant {
    uint64_t mechanism_id;
    const struct nxm_spread *sums;   /* enum nxm_tenant_sum, which the gate asks: what is queued may outlive the allocator */
    struct nxm_tenant *next, **link; /* in the module's list */
};

/* It holds two references (nxm_module_ref): its own and its callback context's. */

/* Borrowed for as long as the caller holds a reference on it (taken here); NULL: no such mechanism. Each
 * factory holds a module reference, given back with its last. */
struct nxm_factory *nxm_module_ref_factory(struct nxm_module *module, size_t mechanism);
void nxm_module_unref_factory(struct nxm_module *module, struct nxm_factory *factory);

/* Counts an allocator and lists it; NXM_EEXIST when this mechanism id is listed already. */
int nxm_module_admit(struct nxm_module *module, struct nxm_tenant *tenant, uint64_t mechanism_id);
void nxm_module_discount_allocator(struct nxm_module *module);
/* A tenant whose table leaks stays listed: its id stays taken, and the table stays reachable. */
void nxm_module_unlist(struct nxm_module *module, struct nxm_tenant *tenant);

/* What every block and every release moves is spread. Some of it is the module's: */
enum nxm_module_tally {
    NXM_TALLY_ALLOCATIONS,
    /* Threads inside a callback, around everything that it does, however it ends. The ABI has no word for a plugin's thread that
     * is on its way out (24.15): while it is in our hands the gate is shut; the instructions behind are the plugin's to count. */
    NXM_TALLY_INSIDE,
};
struct nxm_spread *nxm_module_tallies(struct nxm_module *module);

/* and some its tenants'. What the plugin stated as owned and as mapped is nearly always what was asked for: only how far it
 * differs is moved besides the bytes of the blocks in the table. */
enum nxm_tenant_sum {
    NXM_SUM_QUEUED, /* releases, from right before the plugin is asked to the end of their completion */
    NXM_SUM_TELLING, /* of them, over for the gate, but whoever asked for it is just being told */
    NXM_SUM_BYTES,
    NXM_SUM_OWNED_BEYOND,
    NXM_SUM_MAPPED_BEYOND,
};

/* Counts a table whose module reference the caller never gives back. */
void nxm_module_leak_table(struct nxm_module *module);
/* Gives the plugin's threads that are inside a callback some time to leave; bounded. */
void nxm_module_let_callbacks_leave(const struct nxm_module *module);
void nxm_module_count_reclaimed_table(void);

#endif
