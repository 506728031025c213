/* Decisions of the routes: which answer a lookup gets. Owns the list of names that are substituted; any thread;
 * no locks of ours, and none held while the loader is asked.
 *
 * Decide first, then jump: what is not ours reaches the C library's function with the caller's return
 * address and registers, so RTLD_NEXT, RUNPATH and dlerror mean what they mean without us.
 */
#ifndef NXM_ROUTE_H
#define NXM_ROUTE_H

#include <stdbool.h>

#include "label.h"

/* For the stubs in route_stub_*.S. `substitute` NULL: jump to the real function, asking `handle`. */
struct nxm_decision {
    void *substitute;
    void *handle;
};
struct nxm_decision nxm_route_dlsym(void *handle, const char *name, const char *version, const void *caller);
int nxm_route_dlopen(const char *file, int flags); /* the flags to jump with */
void nxm_route_dlmopen(long space, const char *file); /* nothing is changed there */

/* Whether a dlopen's RTLD_DEEPBIND stays (NXMEM_KEEP_DEEPBIND=1): what is opened so is out of our sight. */
bool nxm_route_keep_deepbind(void);

/* What cuGetProcAddress should hand out where the driver answered `real` for (name, version, flags):
 * a hook, or `real` itself. */
void *nxm_route_proc(void *real, const char *name, int version, uint64_t flags);

#endif
