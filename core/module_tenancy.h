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

struct nxm_tenant {
    uint64_t mechanism_id;
    struct nxm_tenant *next, **link; /* in the module's list */
};

/* One of each for the allocator itself and for its callback context. */
void nxm_module_ref(struct nxm_module *module);
void nxm_module_unref(struct nxm_module *module); /* the last one closes the library */

/* Borrowed for as long as the caller holds a reference on it (taken here); NULL: no such mechanism. Each
 * factory holds a module reference, given back with its last. */
struct nxm_factory *nxm_module_ref_factory(struct nxm_module *module, size_t mechanism);
void nxm_module_unref_factory(struct nxm_module *module, struct nxm_factory *factory);

/* Counts an allocator and lists it; NXM_EEXIST when this mechanism id is listed already. */
int nxm_module_admit(struct nxm_module *module, struct nxm_tenant *tenant, uint64_t mechanism_id);
void nxm_module_discount_allocator(struct nxm_module *module);
/* A tenant whose table leaks stays listed: its id stays taken, and the table stays reachable. */
void nxm_module_unlist(struct nxm_module *module, struct nxm_tenant *tenant);

void nxm_module_add_allocation(struct nxm_module *module);
void nxm_module_sub_allocation(struct nxm_module *module);
void nxm_module_add_queued(struct nxm_module *module);
void nxm_module_sub_queued(struct nxm_module *module);

/* Counts a table whose module reference the caller never gives back. */
void nxm_module_leak_table(struct nxm_module *module);
void nxm_module_count_reclaimed_table(void);

#endif
